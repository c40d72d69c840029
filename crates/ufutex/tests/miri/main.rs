//! Two threads at one object, in every combination that safe code allows, small enough for Miri: `.ci/miri` runs them under
//! both models of borrowing with several seeds. What they look for is undefined behaviour; natively they only have to end.
//!
//! Not here, since Miri cannot run it: the driver's own thread (timerfd), restartable sequences, membarrier(2), the host's
//! nodes, programs under `ufutex run`. And not here since it would take minutes: crowds of thousands, random programs.

#[path = "../common/waker.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod waker;

mod clocks;
mod custom;
mod futures;
mod locks;
mod several;
mod threads;
mod timeouts;
mod timers;
