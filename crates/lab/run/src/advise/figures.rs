//! Figures of a watched program, from which the advice follows.

use lab_waits::Lock;
use serde::{Deserialize, Serialize};

/// Nanoseconds of a futex(2) call that finds nothing to do, on the machine of the README's figures. It only estimates a
/// program's share of a CPU, for which an order of magnitude is enough.
const CALL_NS: f64 = 160.0;
/// Slots of the kernel's smallest private table.
pub const KERNEL_MIN: u64 = 16;
/// Buckets of the kernel's global table for each CPU.
const GLOBAL_EACH: u64 = 256;
/// The most slots that PR_FUTEX_HASH accepts.
const SLOTS_MAX: u64 = 1 << 20;

/// The fields of `ufutex run --json` that are used here.
#[derive(Deserialize, Clone, Debug)]
pub struct Report {
    /// The program and its arguments.
    pub command: String,
    /// The process ID.
    pub pid: u32,
    slots: u64,
    elapsed_ns: u64,
    calls: std::collections::BTreeMap<String, u64>,
    kernel_calls: u64,
    shared_calls: u64,
    threads_most: u64,
    waiting_most: u64,
    words: u64,
    words_exact: bool,
    most_calls: u64,
    counters: Counters,
}

#[derive(Deserialize, Clone, Debug)]
struct Counters {
    contended_locks: u64,
    longest_chain: u64,
    resizes: u64,
}

/// The figures. `ufutex advise --help` describes them.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct Figures {
    pub seconds: f64,
    pub calls: u64,
    pub calls_per_second: f64,
    pub share_of_a_cpu: f64,
    pub shared_calls: u64,
    pub other_kernel_calls: u64,
    pub threads: u64,
    pub cpus: u64,
    pub waiters: u64,
    pub words: u64,
    pub words_exact: bool,
    pub contended: u64,
    pub contended_share: f64,
    pub longest_chain: u64,
    pub hottest_share: f64,
    pub slots: u64,
    pub resizes: u64,
    pub kernel_slots: u64,
    pub wanted_slots: u64,
    /// The lock for which threads waited longest.
    pub lock: Option<Lock>,
}

impl Figures {
    /// Computes the figures from a report, for a machine with `cpus` CPUs.
    pub fn new(report: &Report, lock: Option<Lock>, cpus: u64) -> Figures {
        let calls: u64 = report.calls.values().sum();
        let seconds = report.elapsed_ns as f64 / 1e9;
        let calls_per_second = calls as f64 / seconds.max(1e-9);
        let share = |part: u64| if calls == 0 { 0.0 } else { part as f64 / calls as f64 };
        // Waiters of one word share a bucket, however many buckets there are.
        let spread = report.waiting_most.min(report.words);
        Figures {
            seconds,
            calls,
            calls_per_second,
            share_of_a_cpu: calls_per_second * CALL_NS / 1e9,
            shared_calls: report.shared_calls,
            other_kernel_calls: report.kernel_calls.saturating_sub(report.shared_calls),
            threads: report.threads_most,
            cpus,
            waiters: report.waiting_most,
            words: report.words,
            words_exact: report.words_exact,
            contended: report.counters.contended_locks,
            contended_share: share(report.counters.contended_locks),
            longest_chain: report.counters.longest_chain,
            hottest_share: share(report.most_calls),
            slots: report.slots,
            resizes: report.counters.resizes,
            kernel_slots: kernel_slots(report.threads_most, cpus),
            wanted_slots: report.slots.max(spread.next_power_of_two()).clamp(KERNEL_MIN, SLOTS_MAX),
            lock,
        }
    }
}

impl Figures {
    /// Calls that are not on private words.
    pub fn others(&self) -> u64 {
        self.shared_calls + self.other_kernel_calls
    }
}

/// Slots that the kernel chooses for a process with this many threads.
fn kernel_slots(threads: u64, cpus: u64) -> u64 {
    let global = (GLOBAL_EACH * cpus).next_power_of_two();
    (4 * threads.min(cpus).max(1)).next_power_of_two().clamp(KERNEL_MIN, global)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A report in the library's format, with the fields of `change` replaced.
    pub fn report(change: serde_json::Value) -> Report {
        let mut report = serde_json::json!({
            "command": "x", "pid": 1, "slots": 16, "elapsed_ns": 2_000_000_000u64,
            "calls": {"FUTEX_WAIT": 600, "FUTEX_WAKE": 400}, "kernel_calls": 0, "shared_calls": 0,
            "threads_most": 2, "waiting_most": 1, "words": 4, "words_exact": true,
            "counters": {"contended_locks": 0, "longest_chain": 1, "resizes": 0},
            "most_calls": 250,
        });
        for (name, value) in change.as_object().expect("an object") {
            report[name] = value.clone();
        }
        serde_json::from_value(report).expect("a report")
    }

    #[test]
    fn rates_and_shares_are_of_the_private_calls() {
        let figures = Figures::new(&report(serde_json::json!({"kernel_calls": 9, "shared_calls": 6})), None, 8);
        assert_eq!((figures.calls, figures.calls_per_second, figures.hottest_share), (1000, 500.0, 0.25));
        assert_eq!((figures.shared_calls, figures.other_kernel_calls), (6, 3));
        assert!((figures.share_of_a_cpu - 500.0 * 160e-9).abs() < 1e-12);
        let none = Figures::new(&report(serde_json::json!({"calls": {}})), None, 8);
        assert_eq!((none.calls, none.contended_share, none.hottest_share), (0, 0.0, 0.0));
    }

    #[test]
    fn the_kernels_choice_is_four_slots_a_thread_up_to_the_cpus() {
        for (threads, cpus, slots) in [(1, 8, 16), (4, 8, 16), (5, 8, 32), (100, 8, 32), (100, 176, 512), (9, 2, 16)] {
            assert_eq!(kernel_slots(threads, cpus), slots, "{threads} threads, {cpus} CPUs");
        }
    }

    #[test]
    fn as_many_slots_are_wanted_as_waiters_stand_on_words_or_as_load_made() {
        let wanted = |waiting: u64, words: u64, slots: u64| {
            let change = serde_json::json!({"waiting_most": waiting, "words": words, "slots": slots});
            Figures::new(&report(change), None, 8).wanted_slots
        };
        assert_eq!(wanted(1, 4, 0), 16);
        assert_eq!(wanted(300, 1000, 16), 512);
        assert_eq!(wanted(300, 2, 16), 16, "more slots do not separate waiters of one word");
        assert_eq!(wanted(3, 1000, 4096), 4096);
    }
}
