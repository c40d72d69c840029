//! Random programs of calls on timers, on threads that run at the same time. One thread turns the driver; the clock is
//! one that the threads advance.

#[path = "../../../../ufutex/tests/common/mod.rs"]
mod common;
#[path = "../../../../ufutex/tests/timers/fuzz/model.rs"]
#[allow(dead_code, reason = "of the timers' random programs")]
mod model;

mod corrupted;
mod ops;
mod run;
mod spec;

/// What the model needs of the other suite.
mod clock {
    /// The process's only thread that timers may notify. No program has such a timer.
    pub const THREAD: i32 = 100;
}
