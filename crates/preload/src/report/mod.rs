//! The report on a program's use of futexes: for people, in the manner of `perf stat`, or as one line of JSON.
//!
//! Plain data, which `exit.rs` fills in.

pub mod place;
mod text;

use core::time::Duration;
use std::borrow::ToOwned;
use std::string::String;
use std::vec::Vec;

use serde::{Serialize, Serializer};
use ufutex::observe::Counters;
use ufutex_program::settings::Format;

use crate::hot::Word;
use crate::raw;

/// A program's use of futexes.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The program and its arguments, separated by spaces.
    pub command: String,
    /// The process's PID.
    pub pid: i32,
    /// Whether calls made by an instruction were trapped, too.
    pub trap: bool,
    /// The slots of its table. 0 before the first wait, and for the global table.
    pub slots: usize,
    /// The memory of its tables, in bytes.
    pub table_bytes: usize,
    /// The time from the start of the process to the report.
    #[serde(rename = "elapsed_ns", serialize_with = "nanoseconds")]
    pub elapsed: Duration,
    /// The CPU time of all threads together, in the program and in the kernel.
    #[serde(flatten)]
    pub cpu: Cpu,
    /// Calls that the engine made, by operation. Operations without calls may be left out.
    #[serde(serialize_with = "map")]
    pub calls: Vec<(&'static str, u64)>,
    /// Calls that were left to the kernel, as far as this library saw them.
    pub kernel_calls: u64,
    /// How many of those were on words that processes may share.
    pub shared_calls: u64,
    /// The greatest number of threads at a time, as far as pthread_create(3) made them.
    pub threads_most: u64,
    /// The greatest number of threads that slept in a wait at a time.
    pub waiting_most: u64,
    /// The number of words that calls named. It may be greater, unless `words_exact`.
    pub words: u64,
    /// Whether `words` is exact.
    pub words_exact: bool,
    /// Calls that named the word with the most calls, which need not be among `hottest`. A lower bound.
    pub most_calls: u64,
    /// The engine's counters.
    #[serde(serialize_with = "counters")]
    pub counters: Counters,
    /// The words for which threads slept longest, then those that most calls named.
    pub hottest: Vec<HotWord>,
    /// Counts of the timers, if the engine had them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timers: Option<Timers>,
}

/// Counts of the timers of a process.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Timers {
    /// Timers made by timer_create(2).
    pub made: u64,
    /// Successful calls of timer_settime(2).
    pub settings: u64,
    /// Expiries of timers that notify the program.
    pub expiries: u64,
    /// Signals delivered, and threads started.
    pub signals: u64,
    /// Expiries that passed before the signal was delivered: the sum of all overruns, as in timer_getoverrun(2).
    pub overruns: u64,
}

/// CPU time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cpu {
    /// In the program.
    #[serde(rename = "cpu_user_ns", serialize_with = "nanoseconds")]
    pub user: Duration,
    /// In the kernel.
    #[serde(rename = "cpu_system_ns", serialize_with = "nanoseconds")]
    pub system: Duration,
}

/// A word that many calls named, or for which threads slept.
#[derive(Debug, Serialize)]
pub struct HotWord {
    #[serde(flatten)]
    pub word: Word,
    /// The kind of memory at its address: a file and the offset from where it was loaded, `[heap]`, `[stack]`. `None`
    /// for other memory.
    pub place: Option<String>,
}

impl HotWord {
    /// Adds the words' places in the calling process.
    pub fn of_this_process(words: &[Word]) -> Vec<Self> {
        let maps =
            if words.is_empty() { Vec::new() } else { std::fs::read("/proc/thread-self/maps").unwrap_or_default() };
        let maps = String::from_utf8_lossy(&maps);
        words.iter().map(|word| Self { word: *word, place: place::find(&maps, word.address) }).collect()
    }
}

impl Report {
    /// The text of the report.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Text => text::render(self),
            // Serialising to a string does not fail: all keys are text, and no type here returns an error.
            Format::Json => serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned()) + "\n",
        }
    }
}

/// Writes a rendered report, in one piece if the file permits. If the reader is gone, SIGPIPE does not end the program.
pub fn write(fd: i32, text: &str) {
    without_sigpipe(|| raw::write_all(fd, text.as_bytes()));
}

/// SIGPIPE as a set of signals.
const PIPE: u64 = 1 << (libc::SIGPIPE - 1);

fn without_sigpipe(write: impl FnOnce()) {
    let (mut mask, mut pending) = (0u64, 0u64);
    let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let address = |set: &u64| core::ptr::from_ref(set) as u64;
    // SAFETY: sets of signals that live until the end of this function.
    unsafe {
        raw::own(libc::SYS_rt_sigprocmask, [libc::SIG_BLOCK as u64, address(&PIPE), (&raw mut mask) as u64, 8]);
        raw::own(libc::SYS_rt_sigpending, [(&raw mut pending) as u64, 8]);
    }
    write();
    // SAFETY: as above, and a time.
    unsafe {
        if pending & PIPE == 0 {
            raw::own(libc::SYS_rt_sigtimedwait, [address(&PIPE), 0, (&raw const no_time) as u64, 8]);
        }
        raw::own(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as u64, address(&mask), 0, 8]);
    }
}

fn nanoseconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn map<S: Serializer>(calls: &[(&'static str, u64)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(calls.iter().copied())
}

fn counters<S: Serializer>(counted: &Counters, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map([
        ("waits", counted.waits),
        ("mismatches", counted.mismatches),
        ("wakes", counted.wakes),
        ("woken", counted.woken),
        ("empty_wakes", counted.empty_wakes),
        ("requeues", counted.requeues),
        ("requeued", counted.requeued),
        ("resizes", counted.resizes),
        ("contended_locks", counted.contended_locks),
        ("longest_chain", counted.longest_chain),
        ("refused_waiters", counted.refused_waiters),
        ("refused_slots", counted.refused_slots),
        ("refused_tables", counted.refused_tables),
        ("refused_waitv", counted.refused_waitv),
    ])
}
