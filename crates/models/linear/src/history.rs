//! Histories: who called what, when, and what it returned.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::checker::Violation;

/// A call of a thread. Times are nanoseconds since the history began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call<O> {
    /// A time before the call.
    pub begin: u64,
    /// A time after the call's first step, such as the one in which a wait joins its queue. `end` if it is not known
    /// better.
    pub begun: u64,
    /// A time before the first step that the call takes by itself after it has begun: before a timeout has passed, or
    /// before a future is dropped.
    pub goes_on: u64,
    /// A time after the call's last step.
    pub end: u64,
    /// The call, its arguments and its result.
    pub op: O,
}

/// The calls of each thread, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History<O> {
    /// By thread.
    pub threads: Vec<Vec<Call<O>>>,
}

impl<O> Call<O> {
    /// A call of whose steps is known only that they are between these times.
    pub const fn between(begin: u64, end: u64, op: O) -> Self {
        Self { begin, begun: end, goes_on: begin, end, op }
    }
}

impl<O: fmt::Display> History<O> {
    /// The history with the calls that the search could not order marked, for a failure.
    pub fn explain(&self, violation: &Violation) -> String {
        self.show(|thread, index| index >= violation.longest[thread])
    }

    /// A line for each call, in the order of their begins.
    fn show(&self, is_left: impl Fn(usize, usize) -> bool) -> String {
        let calls = self.threads.iter().enumerate();
        let mut lines: Vec<_> = calls
            .flat_map(|(thread, calls)| calls.iter().enumerate().map(move |(index, call)| (thread, index, call)))
            .collect();
        lines.sort_by_key(|(_, _, call)| call.begin);
        let mut text = String::from("  begin       end  thread\n");
        for (thread, index, call) in lines {
            let mark = if is_left(thread, index) { '?' } else { ' ' };
            let column = " ".repeat(2 * thread);
            text += &format!("{:>7} {:>9}  {mark} {column}{thread}: {}\n", call.begin, call.end, call.op);
        }
        text
    }
}

impl<O: fmt::Display> fmt::Display for History<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show(|_, _| false))
    }
}

/// The clock of a history.
#[derive(Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts a history.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// A time before whatever the calling thread does from now on.
    ///
    /// On x86-64 it does not wait until earlier stores of the thread are visible. If it did, it would stand in for a
    /// barrier that the engine lacks. Other processors have no such fence, so there histories find less.
    #[must_use]
    pub fn before(self) -> u64 {
        let now = self.0.elapsed().as_nanos() as u64;
        loads_stay_behind();
        now
    }

    /// A time after all loads and locked instructions that the calling thread has made. A plain store may become
    /// visible later.
    #[must_use]
    pub fn after(self) -> u64 {
        loads_stay_behind();
        self.0.elapsed().as_nanos() as u64
    }
}

/// Keeps later loads, and readings of the clock, from being made before earlier ones.
fn loads_stay_behind() {
    #[cfg(target_arch = "x86_64")]
    {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        // SAFETY: every x86-64 has it.
        unsafe { std::arch::x86_64::_mm_lfence() };
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(Ordering::SeqCst);
}
