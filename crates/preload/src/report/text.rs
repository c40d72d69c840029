//! The report for people: a count, what it counts, and its meaning behind `#`. Counts of zero are left out.

use core::fmt::{self, Write};
use core::time::Duration;
use std::format;
use std::string::{String, ToString};

use super::{HotWord, Report, Timers};

/// The longest command line that is shown.
const COMMAND_CHARS: usize = 120;
/// Words with a smaller share of the calls are left out.
const SHARE_SHOWN: f64 = 0.01;

/// Renders a whole report.
pub fn render(report: &Report) -> String {
    let mut text = Text(String::new());
    // Writing to a string does not fail.
    let _ = text.report(report);
    text.0
}

struct Text(String);

impl Text {
    fn report(&mut self, report: &Report) -> fmt::Result {
        let command = shown(&report.command);
        writeln!(self.0, "\n Futexes of '{command}' (process {}):\n", report.pid)?;
        let calls = report.calls.iter().map(|(_, calls)| calls).sum();
        if calls == 0 {
            self.nothing(report)?;
        } else {
            self.calls(report, calls)?;
            self.operations(report)?;
            self.table(report)?;
            self.hottest(&report.hottest, calls)?;
        }
        if let Some(timers) = &report.timers {
            self.timers(timers)?;
        }
        self.times(report)
    }

    /// Writes a line: a count, what it counts, and a remark. Nothing if the count is 0.
    fn count(&mut self, count: u64, what: &str, remark: &str) -> fmt::Result {
        if count == 0 {
            return Ok(());
        }
        let line = format!("{:>18}      {what:<26}", grouped(count));
        match remark {
            "" => writeln!(self.0, "{}", line.trim_end()),
            remark => writeln!(self.0, "{line} #  {remark}"),
        }
    }

    fn nothing(&mut self, report: &Report) -> fmt::Result {
        let taken = if report.trap {
            "that are taken"
        } else {
            "by libc's syscall(); with --trap those inside glibc are taken, too"
        };
        writeln!(self.0, "{:>18}      {:<26} #  {taken}", 0, "calls")?;
        self.count(report.kernel_calls, "kernel calls", KERNEL)
    }

    fn calls(&mut self, report: &Report, calls: u64) -> fmt::Result {
        self.count(calls, "calls", &rate(calls, report.elapsed))?;
        for &(operation, count) in &report.calls {
            self.count(count, &format!("  {operation}"), &format!("{} of all calls", share(count, calls)))?;
        }
        self.count(report.kernel_calls, "kernel calls", KERNEL)?;
        let least = if report.words_exact { "" } else { "at least" };
        self.count(report.words, "words", least)
    }

    fn operations(&mut self, report: &Report) -> fmt::Result {
        let counted = &report.counters;
        let all_waits = counted.waits + counted.mismatches;
        let all_wakes = counted.wakes + counted.empty_wakes;
        self.0.push('\n');
        self.count(counted.waits, "waits", "found the value they were to wait for")?;
        self.count(report.waiting_most, "most waiters", &format!("at a time, of {} threads", report.threads_most))?;
        let remark = format!("{} of all waits: found another value (EAGAIN)", share(counted.mismatches, all_waits));
        self.count(counted.mismatches, "mismatches", &remark)?;
        self.count(counted.wakes, "wakes", "woke somebody")?;
        self.count(counted.woken, "woken", "by wakes and requeues")?;
        let remark = format!("{} of all wakes: nobody waited", share(counted.empty_wakes, all_wakes));
        self.count(counted.empty_wakes, "empty wakes", &remark)?;
        self.count(counted.requeues, "requeues", "woke or moved somebody")?;
        self.count(counted.requeued, "requeued", "moved to another word")?;
        self.count(counted.refused_waiters, "refused waiters", "there were too many (ENOMEM)")?;
        self.count(counted.refused_waitv, "refused waits", "for too many words (EINVAL)")?;
        self.count(counted.refused_slots, "refused slots", "PR_FUTEX_HASH with too many (ENOMEM)")?;
        self.count(counted.refused_tables, "refused tables", "they would have taken too much memory")
    }

    fn table(&mut self, report: &Report) -> fmt::Result {
        let counted = &report.counters;
        if report.slots == 0 && report.table_bytes == 0 && counted.contended_locks == 0 {
            // No thread has waited, so there is no table.
            return Ok(());
        }
        self.0.push('\n');
        match report.slots {
            0 => writeln!(self.0, "{:>18}      table", "global")?,
            slots => {
                self.count(slots as u64, "slots", &format!("{} in all", bytes(report.table_bytes)))?;
            }
        }
        self.count(counted.resizes, "resizes", "")?;
        self.count(counted.contended_locks, "contended locks", "found their bucket locked")?;
        // A chain of one word is the normal case, and is left out.
        let longest = if counted.longest_chain > 1 { counted.longest_chain } else { 0 };
        self.count(longest, "longest chain", "words that stood in one bucket")
    }

    fn hottest(&mut self, words: &[HotWord], calls: u64) -> fmt::Result {
        let all_waited: u64 = words.iter().map(|HotWord { word, .. }| word.waited_ns).sum();
        let has_share = |part: u64, all: u64| part as f64 >= SHARE_SHOWN * all.max(1) as f64;
        let is_shown = |HotWord { word, .. }: &&HotWord| {
            has_share(word.calls_at_least, calls) || has_share(word.waited_ns, all_waited)
        };
        let mut doubt = false;
        for (i, HotWord { word, place }) in words.iter().filter(is_shown).enumerate() {
            if i == 0 {
                self.0.push('\n');
            }
            let is_exact = word.calls_at_least == word.calls_at_most;
            doubt |= !is_exact;
            let count = format!("{}{}", if is_exact { "" } else { "~" }, grouped(word.calls_at_least));
            let place = shown(place.as_deref().unwrap_or("anonymous memory"));
            let address = format!("{:#x}", word.address);
            let share = share(word.calls_at_least, calls);
            writeln!(self.0, "{count:>18}      {address:<26} #  {share} of all calls, in {place}")?;
            if let Some(mean) = word.waited_ns.checked_div(word.waits) {
                let [all, mean, p99, longest] = [word.waited_ns, mean, word.p99_ns, word.longest_ns]
                    .map(|ns| format!("{:.1?}", Duration::from_nanos(ns)));
                let (waits, most, waiters) = (grouped(word.waits), word.waiters_most, word.waiters_mean);
                let of = format!("of {most} threads at most, {waiters:.2} on average");
                writeln!(self.0, "{:<50} #  slept {all} in {waits} waits {of}", "")?;
                writeln!(self.0, "{:<50} #  {mean} each, p99 {p99}, {longest} at most", "")?;
                let (woken, moved) = (grouped(word.wakes), grouped(word.requeues));
                writeln!(self.0, "{:<50} #  {woken} woken, {moved} moved to another word", "")?;
            }
        }
        if doubt {
            writeln!(self.0, "{:>18}      at least: more words were used than are counted one by one", "~")?;
        }
        Ok(())
    }

    fn timers(&mut self, timers: &Timers) -> fmt::Result {
        self.0.push('\n');
        if timers.made == 0 {
            return writeln!(self.0, "{:>18}      timers", 0);
        }
        self.count(timers.made, "timers made", "")?;
        self.count(timers.settings, "settings", "")?;
        self.count(timers.expiries, "expiries", "with a notification")?;
        self.count(timers.signals, "signals", "delivered, or threads started")?;
        self.count(timers.overruns, "overruns", "expiries that passed before a signal was delivered")
    }

    fn times(&mut self, report: &Report) -> fmt::Result {
        writeln!(self.0, "\n{:>18.9} seconds time elapsed\n", report.elapsed.as_secs_f64())?;
        writeln!(self.0, "{:>18.9} seconds user", report.cpu.user.as_secs_f64())?;
        writeln!(self.0, "{:>18.9} seconds sys\n", report.cpu.system.as_secs_f64())
    }
}

const KERNEL: &str = "shared futexes, PI locks, robust lists: left to the kernel";

/// The number with separators: 1234567 as 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn share(part: u64, all: u64) -> String {
    format!("{:6.2} %", 100.0 * part as f64 / all.max(1) as f64)
}

fn rate(calls: u64, elapsed: Duration) -> String {
    let per_second = calls as f64 / elapsed.as_secs_f64().max(1e-9);
    let (number, unit) = match per_second {
        many if many >= 1e6 => (many / 1e6, "M/sec"),
        some if some >= 1e3 => (some / 1e3, "K/sec"),
        few => (few, "/sec"),
    };
    format!("{number:6.2} {unit}")
}

fn bytes(bytes: usize) -> String {
    match bytes {
        many if many >= 1 << 20 => format!("{:.1} MiB", many as f64 / f64::from(1 << 20)),
        some if some >= 1 << 10 => format!("{:.1} KiB", some as f64 / f64::from(1 << 10)),
        few => format!("{few} bytes"),
    }
}

/// The text in one line, with control characters escaped, and shortened if it is too long.
fn shown(command: &str) -> String {
    let mut text = String::new();
    for (i, c) in command.chars().enumerate() {
        if i == COMMAND_CHARS {
            text.push_str("...");
            break;
        }
        if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
    }
    text
}
