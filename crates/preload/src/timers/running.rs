//! Chooses the thread of the program that gets a signal of the process.
//!
//! The kernel sends a timer's signal from a clock's interrupt. It prefers the thread that the interrupt has stopped, if
//! that is a thread of the process, and the process's first thread otherwise. This library cannot know which thread an
//! interrupt has stopped. But a thread that was running then is still running, or about to run, when the timers' thread
//! checks. The kernel shows each thread's state in a file. If several threads run, they are chosen in turn. These files
//! are read only in programs with several threads.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::io::Write;

use crate::{file, raw};

/// Whether the program has made threads.
static THREADED: AtomicBool = AtomicBool::new(false);
/// The thread that was chosen last, or the first one that was not checked. A hint.
static LAST: AtomicI32 = AtomicI32::new(0);
/// How many threads are checked each time.
const CHECKS: usize = 8;

/// Notes that the program makes a thread.
pub fn note_thread() {
    THREADED.store(true, Ordering::Relaxed);
}

/// A running thread of the program, if one is found. Called by the thread that waits for the clocks.
pub fn thread() -> Option<i32> {
    if !THREADED.load(Ordering::Relaxed) {
        return None;
    }
    let mut names = [0u8; 4096];
    let mut threads = [0; 128];
    let count = list(&mut names, &mut threads);
    let threads = &threads[..count];
    let ours = raw::tid();
    let last = LAST.load(Ordering::Relaxed);
    let from = threads.iter().position(|thread| *thread > last).unwrap_or(0);
    let in_turn = threads[from..].iter().chain(&threads[..from]).filter(|thread| **thread != ours);
    let found = in_turn.take(CHECKS).copied().find(|thread| runs(*thread));
    // The next search begins with the first thread that was not checked this time.
    let reached = found.unwrap_or_else(|| threads[(from + CHECKS.min(count.saturating_sub(1))) % count.max(1)]);
    LAST.store(if count == 0 { 0 } else { reached }, Ordering::Relaxed);
    found
}

/// Fills `threads` with threads of the process, oldest first. Returns how many.
fn list(names: &mut [u8], threads: &mut [i32]) -> usize {
    let mut count = 0;
    file::each_entry(b"/proc/self/task\0", names, |name| {
        if let (Some(number), Some(place)) = (file::number(name), threads.get_mut(count)) {
            *place = number;
            count += 1;
        }
        count < threads.len()
    });
    count
}

/// Whether a thread runs, or is ready to run.
fn runs(thread: i32) -> bool {
    state(thread) == Some(b'R')
}

/// Whether the process's first thread has ended. The kernel lists it as long as there is another one.
pub fn has_first_ended() -> bool {
    state(raw::pid()) == Some(b'Z')
}

/// A thread's state: a letter of proc_pid_stat(5).
fn state(thread: i32) -> Option<u8> {
    let mut path = [0u8; 40];
    write!(&mut path[..], "/proc/self/task/{thread}/stat\0").ok()?;
    // The state stands behind the name, which is short and in parentheses.
    let mut text = [0u8; 64];
    let text = file::read(&path, &mut text)?;
    let after_name = text.iter().rposition(|byte| *byte == b')').map_or(0, |at| at + 2);
    text.get(after_name).copied()
}
