//! The output for people.

use crate::account::Account;
use crate::report::{self, Line};
use crate::word;
use std::collections::HashSet;
use std::fmt::{self, Write};

/// Words that took less than this share of the time are left out, and only counted.
const SHARE_SHOWN: f64 = 0.001;
/// Most words.
const MOST_WORDS: usize = 10;
/// Most places and threads of each word.
const MOST_EACH: usize = 3;
/// Most frames of a place.
const MOST_FRAMES: usize = 12;

/// The title of the locks.
pub const LOCKS: &str = "Locks, for which threads waited until another gave them up";
/// The title of all else.
pub const EVENTS: &str = "Events for which threads waited: work, a condition";
/// What stands in place of both.
pub const NOTHING: &str = "No thread has slept in a wait for a futex. Waits of child processes are seen with -f.";

/// The whole table.
pub fn text(command: &str, missing: &[String], account: &Account, lines: &[Line]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text, command, missing, account, lines);
    text
}

fn write(to: &mut String, command: &str, missing: &[String], account: &Account, lines: &[Line]) -> fmt::Result {
    writeln!(to, "\n {}: {}\n", heading(command, account), summary(account, lines))?;
    missing.iter().try_for_each(|sentence| writeln!(to, " Careful: {sentence}\n"))?;
    if lines.is_empty() {
        return writeln!(to, " {NOTHING}\n");
    }
    let (locks, events): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| line.is_lock);
    section(to, LOCKS, &locks)?;
    section(to, EVENTS, &events)?;
    for line in locks.iter().chain(&events).take(MOST_EACH) {
        details(to, line)?;
    }
    writeln!(to)
}

/// What the output is about.
pub fn heading(command: &str, account: &Account) -> String {
    // A process that executes another program counts in the account as a new one.
    let pids: HashSet<i32> = account.processes.values().map(|process| process.pid).collect();
    match pids.len() + account.dropped.processes {
        0 | 1 => format!("Locks of '{command}'"),
        number => format!("Locks of '{command}' in {number} processes"),
    }
}

/// All waits in a sentence.
pub fn summary(account: &Account, lines: &[Line]) -> String {
    let all = word::sum(lines.iter().map(|line| line.total_ns));
    let waits: u64 = lines.iter().map(|line| line.waits).sum();
    let ran = account.processes.values().map(|process| process.last_ns.saturating_sub(process.first_ns)).max();
    let (waits, words) = (counted(waits, "wait"), counted(lines.len() as u64, "word"));
    format!("{waits}, {} in all, for {words}, in {}", time(all), time(ran.unwrap_or(0)))
}

/// `1 wait`, `2 waits`.
fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// A line for each word, those with the most time first.
fn section(to: &mut String, title: &str, lines: &[&Line]) -> fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(to, " {title}:\n")?;
    writeln!(to, "{:>10} {:>9} {:>9} {:>9} {:>9} {:>7}", "waited", "waits", "mean", "p99", "longest", "waiters")?;
    let all = word::sum(lines.iter().map(|line| line.total_ns));
    let is_shown = |line: &&&Line| line.total_ns as f64 >= SHARE_SHOWN * all as f64;
    let shown = lines.iter().filter(is_shown).take(MOST_WORDS).count();
    // A line that says that there is one more takes as much room as that one.
    let shown = if shown + 1 == lines.len() { lines.len() } else { shown };
    for line in &lines[..shown] {
        writeln!(
            to,
            "{:>10} {:>9} {:>9} {:>9} {:>9} {:>7}  {}",
            time(line.total_ns),
            line.waits,
            time(line.mean_ns),
            time(line.p99_ns),
            time(line.longest_ns),
            line.waiters_most,
            name(line),
        )?;
    }
    if shown < lines.len() {
        writeln!(to, "{:>10} {} more words", "", lines.len() - shown)?;
    }
    writeln!(to)
}

fn details(to: &mut String, line: &Line) -> fmt::Result {
    match line.address {
        0 => writeln!(to, "\n {}", name(line)),
        address => writeln!(to, "\n {}, {address:#x}", name(line)),
    }?;
    for site in line.sites.iter().take(MOST_EACH) {
        writeln!(to, "\n   {} in {} at", time(site.total_ns), counted(site.waits, "wait"))?;
        frames(to, &site.stack)?;
        for waker in site.wakers.iter().take(MOST_EACH) {
            let place = waker.caller.as_ref().map(|frame| format!(", in {frame}")).unwrap_or_default();
            let waits = counted(waker.waits, "wait");
            writeln!(to, "     {waits}, {} in all, ended by {}{place}", time(waker.total_ns), waker.thread)?;
        }
        more(to, "     ", site.wakers.len(), "waker")?;
    }
    let owners = if line.is_lock { &line.owners[..] } else { &[] };
    // Often a thread takes it where others wait for it.
    let mut shown: HashSet<Vec<String>> =
        line.sites.iter().take(MOST_EACH).map(|site| report::texts(&site.stack)).collect();
    for owner in owners.iter().take(MOST_EACH) {
        writeln!(to, "\n   held by {} for {} while others waited", owner.thread, time(owner.held_ns))?;
        match &owner.taken_at {
            Some(stack) if shown.insert(stack.to_vec()) => {
                writeln!(to, "     taken after a wait at")?;
                frames(to, stack)?;
            }
            Some(_) => writeln!(to, "     taken after a wait at a place above")?,
            None => {}
        }
    }
    more(to, "   ", owners.len(), "owner")
}

/// Says how many are left out.
fn more(to: &mut String, indent: &str, number: usize, thing: &str) -> fmt::Result {
    match number.saturating_sub(MOST_EACH) {
        0 => Ok(()),
        left => writeln!(to, "{indent}and {} more (--json names ten)", counted(left as u64, thing)),
    }
}

/// The word's name, with its kind if the name does not say it, and the place of a variable.
pub fn name(line: &Line) -> String {
    let kind = line.kind.name;
    let place = line.defined_at.as_ref().map(|place| format!(" at {place}")).unwrap_or_default();
    if line.name.starts_with(kind) { line.name.clone() } else { format!("{} ({kind}){place}", line.name) }
}

fn frames(to: &mut String, frames: &[impl fmt::Display]) -> fmt::Result {
    frames.iter().take(MOST_FRAMES).try_for_each(|frame| writeln!(to, "       {frame}"))?;
    if frames.len() > MOST_FRAMES { writeln!(to, "       and {} more", frames.len() - MOST_FRAMES) } else { Ok(()) }
}

/// A time with three digits and its unit.
pub fn time(ns: u64) -> String {
    let ns = ns as f64;
    let (number, unit) = match ns {
        long if long >= 1e9 => (long / 1e9, "s"),
        some if some >= 1e6 => (some / 1e6, "ms"),
        short if short >= 1e3 => (short / 1e3, "us"),
        _ => (ns, "ns"),
    };
    let digits = if number >= 100.0 || unit == "ns" {
        0
    } else if number >= 10.0 {
        1
    } else {
        2
    };
    format!("{number:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_three_digits_and_a_unit() {
        let times = [0, 999, 1000, 12_345, 999_900, 1_500_000, 250_000_000, 1_234_000_000, 100_000_000_000].map(time);
        assert_eq!(times, ["0 ns", "999 ns", "1.00 us", "12.3 us", "1000 us", "1.50 ms", "250 ms", "1.23 s", "100 s"]);
    }
}
