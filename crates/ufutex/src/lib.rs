//! Linux's futex subsystem and its table of POSIX timers as an embeddable library.
//!
//! A [`System`] holds what a kernel has once: a hash secret, limits, and a global hash table for each guest ([`PidNamespace`]).
//! A [`Domain`] holds what each process has: a private table, which the first wait allocates and which grows under load. An
//! embedder makes one system, and a domain for each guest process; a program without guests one of each, or a [`StaticDomain`].
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering::{Acquire, Release}};
//! use ufutex::{Domain, System};
//!
//! let domain = Domain::new(&System::new());
//! let word = AtomicU32::new(0);
//!
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         while word.load(Acquire) == 0 {
//!             let _ = domain.wait(&word, 0); // sleeps if the word is 0, until a wake
//!         }
//!     });
//!     word.store(1, Release);
//!     domain.wake(&word, 1);
//! });
//! ```
//!
//! | to | use |
//! |---|---|
//! | wait as a thread; as a task; by a scheduler of your own | [`Domain::wait`]; [`wait_async`]; [`prepare_with`] |
//! | keep a domain in a static; or have none, in an ordinary program | [`StaticDomain`]; [`wait()`](fn@wait) |
//! | name a word: an atomic, memory behind [`UserMemory`], your own | [`Target`]; for a wake a [`Key`] is enough |
//! | answer a guest's system calls by number | [`Domain::syscall`], module [`syscall`] |
//! | own locks that boost, be interrupted, leave robust lists | [`Task`], [`PidNamespace`], module [`pi`] |
//! | have the POSIX timers of a process | [`timer::Timers`], expired by the system's [`driver`](System::driver) |
//! | run WebAssembly's waits and notifies | module [`wasm`] |
//! | see what happens | [`Domain::counters`], [`Domain::who_waits`], [`DomainOptions::observer`], static probes (feature `probes`); [`observe`] |
//!
//! All kinds of waiters share the same queues.
//!
//! [`wait_async`]: Domain::wait_async
//! [`prepare_with`]: Domain::prepare_with
//!
//! # Callbacks
//!
//! Wakers, [`Scheduler`](pi::Scheduler), [`Deliver`](timer::Deliver), [`Clocks`](timer::Clocks), [`UserMemory`] and
//! [`Topology`](platform::Topology) are an embedder's code. The documentation of each says which locks are held when it is
//! called, and what it may call. Unless it says otherwise they may panic. The panic goes to the caller of the operation, and
//! the driver's own thread goes on. No lock stays held; no waiter, wake or count is lost. What is done stays done, and what the
//! operation owes other threads is done while the stack unwinds. A second panic is caught; without `std` it ends the process.
//!
//! A task's **waker** may use the engine freely ([`WaitFuture`]). That of [`Domain::prepare_with`] may not.
//!
//! # Features
//!
//! `timers`, `pi`, `std` and `probes` are on by default; `stream` and `parking` are not. Without `timers` or `pi` a guest's
//! calls for that part return `ENOSYS`. Without `std` the crate needs only `alloc`, and a [`platform`] to sleep by.

#![no_std]
// The documentation says which feature or host an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_op_in_unsafe_fn)]
// A build without one of the parts has functions that only this part calls.
#![cfg_attr(not(all(feature = "timers", feature = "pi")), allow(dead_code, unused_imports))]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod error;
mod expiry;
mod futex;
mod lock;
#[cfg(feature = "std")]
mod process;
mod signal;
mod sync;
mod sys;
pub mod syscall;
mod table;
#[cfg(feature = "timers")]
pub mod timer;
/// What drives the timeouts of tasks. With the feature `timers` also the POSIX timers of a process.
#[cfg(not(feature = "timers"))]
pub mod timer {
    pub use crate::expiry::thread::{CpuSet, Cpus, DriverThread};
    pub use crate::expiry::{Base, Clocks, CpuClock, Driver};
}
pub mod wasm;

pub use error::Error;
pub use futex::config::{DomainOptions, SystemConfig};
pub use futex::domain::Domain;
#[cfg(feature = "std")]
pub use futex::env::EnvError;
pub use futex::future::Wait;
pub use futex::interrupt::Interrupt;
pub use futex::key::{Address, At, GuestWord, Key, Target, WordValue};
pub use futex::namespace::PidNamespace;
pub use futex::numa::NodeFlags;
pub use futex::objects::SharedObject;
pub use futex::operation::{Cause, WaitFuture};
pub use futex::requeue::{Requeue, Requeued};
pub use futex::static_domain::StaticDomain;
pub use futex::system::System;
pub use futex::task::Task;
pub use futex::wait::WaitOptions;
pub use futex::wait_any::WaitAny;
pub use futex::waiter::{Queued, Waiter};
pub use futex::wake::Woken;
pub use futex::wake_op::{Compare, Modify, WakeOp};
#[cfg(feature = "std")]
pub use process::{abandon_after_fork, wait, wait_timeout, wake_all, wake_one};
pub use sys::callbacks::Callbacks;
pub use sys::clock::{Clock, Timeout};
pub use sys::flat_memory::FlatMemory;
pub use sys::mem::{Access, Fault, ObjectId, Scope, UserMemory, Width};
pub use table::size::Policy;

/// The platform that the engine runs on, and the nodes of the machine: the host's, or those that an embedder gives with
/// [`SystemConfig::platform`] and [`SystemConfig::topology`].
///
/// With the default feature `std` threads sleep by calls of the host: futex(2) on Linux, WaitOnAddress on Windows, and condition
/// variables elsewhere ([`AnyStd`](platform::AnyStd)). On Windows the suites have run under Wine; macOS, FreeBSD and NetBSD are
/// type-checked. Only Linux has CPU-time clocks, nodes, `timer::Signals` and `timer::EventFd`. For other clocks see [`timer::Base`].
///
/// Without `std` an embedder gives a [`Platform`](platform::Platform). Without one, a thread that would sleep spins, and its
/// timeouts do not end. Futures and custom waiters need none. Timers and timeouts of futures use [`SystemConfig::clocks`].
pub mod platform {
    #[doc(no_inline)]
    pub use crate::sys::clock::Clock;
    pub use crate::sys::clock::Deadline;
    #[cfg(feature = "std")]
    pub use crate::sys::host::{Host, any_std::AnyStd, nodes::HostTopology};
    pub use crate::sys::platform::Platform;
    pub use crate::sys::topology::{NodeMemory, Topology};
}

/// Locks that boost their owner to the priority of the tasks that wait for them: `FUTEX_LOCK_PI` and its family.
///
/// [`Domain::lock_pi`] is a thread's call, [`Domain::lock_pi_async`] a task's. The word holds its owner's TID and the bits that
/// this module names. A [`Scheduler`](pi::Scheduler) is told which [`Priority`](pi::Priority) each task has to run with.
pub mod pi {
    pub use crate::futex::lock_word::{OWNER_DIED, TID_MASK, WAITERS};
    #[cfg(feature = "pi")]
    pub use crate::futex::pi::{lock::LockPi, requeue::WaitRequeuePi, scheduler::Scheduler};
    pub use crate::futex::priority::Priority;
}

/// Counters, lists of waiters, and an observer: [`Domain::counters`], [`Domain::who_waits`], [`DomainOptions::observer`].
pub mod observe {
    pub use crate::futex::counters::Counters;
    pub use crate::futex::observer::{Observer, WaitEnd};
    pub use crate::futex::who_waits::{WaitedWord, WhoWaits};
}

/// Queues of parked threads, for lock implementations that decide with the queue locked, as `parking_lot_core`'s do.
#[cfg(feature = "parking")]
pub mod parking {
    pub use crate::futex::parking::{BothQueues, Filter, Filtered, Parked, ParkingLot, PlaceRef, Queue};
}

/// The examples of README.md and docs/, as tests. The packaged crate does not have those files.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    #[doc = include_str!("../README.md")]
    mod readmes {}
    #[doc = include_str!("../../../docs/EMBEDDING.md")]
    mod embedding {}
    #[doc = include_str!("../../../docs/OBSERVING.md")]
    mod observing {}
    #[cfg_attr(feature = "parking", doc = include_str!("../../../docs/PARKING.md"))]
    mod parking {}
    #[doc = include_str!("../../../docs/TIMERS.md")]
    mod timers {}
    #[doc = include_str!("../../../docs/WASM.md")]
    mod wasm {}
}
