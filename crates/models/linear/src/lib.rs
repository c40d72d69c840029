//! Checks histories of concurrent calls against a sequential model.
//!
//! A [`History`] says when each call began and ended, and what it returned. It is linearizable if each call can be
//! given one point between its begin and its end, such that the model, which makes the calls in the order of their
//! points, returns the same results. A call that blocks has two points or more: a wait compares the word and queues
//! at one of them, and leaves the queue at another, by a wake of another thread or by itself. [`check`] searches for
//! such points, and remembers which states it has seen, as Lowe's refinement of Wing and Gong's algorithm does
//! ([linearizability]).
//!
//! The suites in `tests` run random programs on real threads and check their histories:
//!
//! - `futex`: waits, wakes, requeues, timeouts, dropped futures, locks with priority inheritance, and resizes, on each
//!   scheme and layout of the engine. The model is that of the differential tests. Each program that the host's kernel
//!   can run runs there too, because a model that refuses the kernel's histories is wrong.
//! - `timers`: timers are made, set, read, deleted and expired. The model is that of the timers' random programs.
//!
//! `cargo test -p ufutex-linear` runs a few thousand programs in less than twenty seconds. `UFUTEX_LINEAR_SECONDS` sets
//! the length of each test, one test after the other, with a line of progress now and then:
//!
//! ```text
//! UFUTEX_LINEAR_SECONDS=60 cargo test --release -p ufutex-linear -- --nocapture --test-threads 1
//! ```
//!
//! A failure prints the history, and the seed and the number of its program. `UFUTEX_LINEAR_SEED=S
//! UFUTEX_LINEAR_PROGRAM=N` runs this program alone, again and again, because its threads meet differently each time.

mod checker;
mod history;
mod rounds;

pub use checker::{Progress, Spec, Violation, check};
pub use history::{Call, History, Stopwatch};
pub use rounds::{Rounds, number};
