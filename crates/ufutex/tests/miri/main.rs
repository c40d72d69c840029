//! Two threads that use one object, in every combination that safe code allows. The tests are small enough for Miri,
//! which checks them for undefined behaviour: `.ci/miri` runs them under both borrowing models with several seeds.
//! Without Miri they only have to terminate.
//!
//! Miri does not support the driver's own thread (timerfd), restartable sequences, membarrier(2), the host's nodes and
//! programs under `ufutex run`. Tests with thousands of waiters or random programs would take minutes under Miri.

#[path = "../common/futures.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod polls;
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
