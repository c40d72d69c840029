//! What a program did with futexes, for people in the manner of `perf stat`, or as one line of JSON.
//!
//! Plain data: whoever ends the process fills it in.

pub mod place;
mod text;

use core::time::Duration;
use std::borrow::ToOwned;
use std::string::String;
use std::vec::Vec;

use serde::{Serialize, Serializer};
use ufutex::Counters;
use ufutex_program::settings::Format;

use crate::hot::Word;
use crate::raw;

/// What a program did with futexes.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The program and its arguments, with spaces between.
    pub command: String,
    /// The process.
    pub pid: i32,
    /// The scheme of its table.
    pub scheme: &'static str,
    /// The layout of its table.
    pub layout: &'static str,
    /// Whether calls were taken as instructions, too.
    pub trap: bool,
    /// The slots of its table: 0 before the first wait, and for the global one.
    pub slots: usize,
    /// The memory of its tables.
    pub table_bytes: usize,
    /// From the start of the process to the report.
    #[serde(rename = "elapsed_ns", serialize_with = "nanoseconds")]
    pub elapsed: Duration,
    /// The processor's time, all threads together, in the program and in the kernel for it.
    #[serde(flatten)]
    pub cpu: Cpu,
    /// Calls that the engine got, by operation; those without any may be left out.
    #[serde(serialize_with = "map")]
    pub calls: Vec<(&'static str, u64)>,
    /// Calls that were left to the kernel, as far as they were seen.
    pub kernel_calls: u64,
    /// Of those: of words that processes may share.
    pub shared_calls: u64,
    /// The most threads at a time, as pthread_create(3) made them.
    pub threads_most: u64,
    /// The most threads that slept in a wait at a time.
    pub waiting_most: u64,
    /// Words that calls named; no fewer than this …
    pub words: u64,
    /// … and no more, if it is exact.
    pub words_exact: bool,
    /// What the engine counted.
    #[serde(serialize_with = "counters")]
    pub counters: Counters,
    /// The words that most calls named.
    pub hottest: Vec<HotWord>,
    /// What timers did, where they were the engine's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timers: Option<Timers>,
}

/// What the timers of a process did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Timers {
    /// By timer_create(2).
    pub made: u64,
    /// By timer_settime(2).
    pub settings: u64,
    /// Expiries that somebody was to be told of.
    pub expiries: u64,
    /// Signals that were delivered, threads that were started.
    pub signals: u64,
    /// Expiries that passed meanwhile: those of timer_getoverrun(2), added up.
    pub overruns: u64,
}

/// The processor's time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cpu {
    /// In the program.
    #[serde(rename = "cpu_user_ns", serialize_with = "nanoseconds")]
    pub user: Duration,
    /// In the kernel.
    #[serde(rename = "cpu_system_ns", serialize_with = "nanoseconds")]
    pub system: Duration,
}

/// A word that many calls named.
#[derive(Debug, Serialize)]
pub struct HotWord {
    /// Its address: as text, since numbers of JSON end at 2^53 for many readers.
    #[serde(serialize_with = "hexadecimal")]
    pub address: u64,
    /// What lies there: a file and the place in it from where it was loaded, `[heap]`, `[stack]`; `None` for other memory.
    pub place: Option<String>,
    /// No fewer calls than there were.
    pub calls_at_most: u64,
    /// So many calls for certain.
    pub calls_at_least: u64,
}

impl HotWord {
    /// Says where the words lie in the calling process.
    pub fn of_this_process(words: &[Word]) -> Vec<Self> {
        let maps = if words.is_empty() { Vec::new() } else { std::fs::read("/proc/self/maps").unwrap_or_default() };
        let maps = String::from_utf8_lossy(&maps);
        let word = |&Word { address, calls_at_most, calls_at_least }| Self {
            address,
            place: place::find(&maps, address),
            calls_at_most,
            calls_at_least,
        };
        words.iter().map(word).collect()
    }
}

impl Report {
    /// What is written.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Text => text::render(self),
            // There is no map with keys that are not text, and no type of ours that fails.
            Format::Json => serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned()) + "\n",
        }
    }
}

/// Writes what was rendered, in one piece if the file takes that. A reader that has gone is no reason to end the program by
/// SIGPIPE.
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

fn hexadecimal<S: Serializer>(address: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&std::format_args!("{address:#x}"))
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
