//! WebAssembly's `memory.atomic.wait32`, `memory.atomic.wait64` and `memory.atomic.notify`, as its threads specification
//! defines them. A runtime calls this module from its implementation of the three instructions.
//!
//! A runtime implements [`LinearMemory`], and [`Atomics`] the three instructions on it, with their results and traps. Waiters,
//! which are threads or futures, are woken in the order in which they came, and never without a notify.
//!
//! # One system for a runtime, one domain for each shared memory
//!
//! Keep a [`Domain`] beside each shared memory, in the structure that the memory's instances share. It allocates no table
//! before the first wait, sizes the table by the load of this memory alone, limits the memory's waiters
//! ([`DomainOptions::max_waiters`](crate::DomainOptions::max_waiters)), and is freed with the memory.
//!
//! If several memories have one domain, or several domains one memory, give each memory an [`id`](LinearMemory::id). Then its
//! waiters are queued in a table of fixed size that all domains of the namespace share, or of the system if the id is that of a
//! [`SharedObject`](crate::SharedObject).
//!
//! # Memories that grow, memories that move
//!
//! Addresses are offsets, and each instruction asks for the memory's length, so a memory may grow at any time. It may move
//! while threads wait: meanwhile its loads return [`Fault`](crate::Fault), and [`fault_in`](LinearMemory::fault_in) blocks.
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
//! use ufutex::wasm::{Atomics, LinearMemory, Trap, Waited};
//! use ufutex::{Domain, Fault, System};
//!
//! /// One page, in words of eight bytes; little-endian, as guests expect it.
//! struct Page(Vec<AtomicU64>);
//!
//! impl LinearMemory for Page {
//!     fn bytes(&self) -> u64 {
//!         self.0.len() as u64 * 8
//!     }
//!     fn load32(&self, address: u64) -> Result<u32, Fault> {
//!         Ok((self.load64(address & !7)? >> (address % 8 * 8)) as u32)
//!     }
//!     fn load64(&self, address: u64) -> Result<u64, Fault> {
//!         self.0.get(address as usize / 8).map(|word| word.load(SeqCst)).ok_or(Fault)
//!     }
//! }
//!
//! let memory = Page((0..8192).map(|_| AtomicU64::new(0)).collect());
//! let domain = Domain::new(&System::new());
//! let atomics = Atomics::new(&domain, &memory);
//!
//! assert_eq!(atomics.wait32(8, 1, -1), Ok(Waited::NotEqual));
//! assert_eq!(atomics.wait32(8, 0, 1_000), Ok(Waited::TimedOut)); // after a microsecond
//! assert_eq!(atomics.wait64(4, 0, -1), Err(Trap::Unaligned));
//! assert_eq!(atomics.wait32(65536, 0, -1), Err(Trap::OutOfBounds));
//! std::thread::scope(|scope| {
//!     scope.spawn(|| assert_eq!(atomics.wait32(8, 0, -1), Ok(Waited::Ok)));
//!     while atomics.notify(8, 1) == Ok(0) {}
//! });
//! ```

mod memory;

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::future::Wait;
use crate::futex::interrupt::Interrupt;
use crate::futex::key::WordValue;
use crate::futex::operation::Cause;
use crate::futex::wait::WaitOptions;
use crate::sys::clock::Timeout;

pub use memory::LinearMemory;

use memory::MemoryWord;

/// The three instructions on one linear memory: a handle, made where it is needed.
pub struct Atomics<'a, M: ?Sized> {
    domain: &'a Domain,
    memory: &'a M,
    interrupt: Option<&'a Interrupt>,
}

impl<M: ?Sized> Clone for Atomics<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: ?Sized> Copy for Atomics<'_, M> {}

impl<'a, M: LinearMemory + ?Sized> Atomics<'a, M> {
    /// The instructions on `memory`, whose waiters queue in `domain`.
    #[inline(always)]
    pub const fn new(domain: &'a Domain, memory: &'a M) -> Self {
        Self { domain, memory, interrupt: None }
    }

    /// `memory.atomic.notify`: wakes up to `count` waiters at `address`, whatever the width of their waits. Returns how many
    /// it woke: 0 in a memory that is not shared, where nothing can wait.
    ///
    /// # Errors
    /// [`Trap::Unaligned`] if `address` is not a multiple of 4, [`Trap::OutOfBounds`].
    #[inline(always)]
    pub fn notify(self, address: u64, count: u32) -> Result<u32, Trap> {
        self.check(address, 4)?;
        if !self.memory.is_shared() {
            return Ok(0);
        }
        let woken = self.domain.wake(MemoryWord::<M, u32>::new(self.memory, address), count as usize);
        Ok(woken as u32) // no more than `count`
    }

    /// `memory.atomic.wait32`, as a future. This call checks address and memory, the first poll compares the word. `timeout` is
    /// in nanoseconds, or negative for none. See [`MemoryWait::timeout`].
    ///
    /// ```
    /// # use ufutex::wasm::{Atomics, LinearMemory, Waited};
    /// # use ufutex::{Domain, Fault, System};
    /// # struct Zeroes;
    /// # impl LinearMemory for Zeroes {
    /// #     fn bytes(&self) -> u64 { 65536 }
    /// #     fn load32(&self, _: u64) -> Result<u32, Fault> { Ok(0) }
    /// #     fn load64(&self, _: u64) -> Result<u64, Fault> { Ok(0) }
    /// # }
    /// # let memory = Zeroes;
    /// use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    ///
    /// let domain = Domain::new(&System::new());
    /// let atomics = Atomics::new(&domain, &memory);
    /// let mut wait = pin!(atomics.wait32_async(16, 0, -1)?);
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending);
    /// assert_eq!(atomics.notify(16, 1), Ok(1));
    /// assert_eq!(wait.as_mut().poll(&mut context), Poll::Ready(Ok(Waited::Ok)));
    /// # Ok::<(), ufutex::wasm::Trap>(())
    /// ```
    ///
    /// # Errors
    /// [`Trap::NotShared`], [`Trap::Unaligned`], [`Trap::OutOfBounds`].
    pub fn wait32_async(self, address: u64, expected: u32, timeout: i64) -> Result<MemoryWait<'a, M, u32>, Trap> {
        self.wait_async(address, expected, timeout)
    }

    /// As [`wait32_async`](Self::wait32_async), for `memory.atomic.wait64`.
    ///
    /// # Errors
    /// As for `wait32_async`.
    pub fn wait64_async(self, address: u64, expected: u64, timeout: i64) -> Result<MemoryWait<'a, M, u64>, Trap> {
        self.wait_async(address, expected, timeout)
    }

    fn wait_async<V: WordValue>(self, address: u64, expected: V, timeout: i64) -> Result<MemoryWait<'a, M, V>, Trap> {
        let word = self.word_to_wait_on(address)?;
        let timeout = limit(timeout);
        let wait = self.domain.wait_async(word, expected, &WaitOptions::new().maybe_timeout(timeout));
        Ok(MemoryWait { timeout, wait })
    }

    #[inline(always)]
    fn word_to_wait_on<V: WordValue>(self, address: u64) -> Result<MemoryWord<'a, M, V>, Trap> {
        if !self.memory.is_shared() {
            return Err(Trap::NotShared);
        }
        self.check(address, size_of::<V>() as u64)?;
        Ok(MemoryWord::new(self.memory, address))
    }

    #[inline(always)]
    fn check(self, address: u64, width: u64) -> Result<(), Trap> {
        if !address.is_multiple_of(width) {
            return Err(Trap::Unaligned);
        }
        // The width is not added to the address, because the sum could overflow.
        let fits = self.memory.bytes().checked_sub(width).is_some_and(|last| address <= last);
        if fits { Ok(()) } else { Err(Trap::OutOfBounds) }
    }

    /// The same instructions, but waits of threads end with [`Trap::Interrupted`] when `interrupt` is raised. A runtime has one
    /// for each thread that it can stop, perhaps that of a [`Task`](crate::Task): [`Domain::interrupt_all`] raises those of all
    /// tasks.
    #[must_use]
    pub const fn interrupted_by(mut self, interrupt: &'a Interrupt) -> Self {
        self.interrupt = Some(interrupt);
        self
    }

    /// `memory.atomic.wait32`: blocks the calling thread while the word at `address`, the operand plus the instruction's
    /// offset, holds `expected`, until a notify comes, for at most `timeout` nanoseconds (negative: without limit).
    ///
    /// # Errors
    /// [`Trap::NotShared`]; [`Trap::Unaligned`] if `address` is not a multiple of the width; [`Trap::OutOfBounds`];
    /// [`Trap::Interrupted`]; [`Trap::Refused`].
    #[inline(always)]
    pub fn wait32(self, address: u64, expected: u32, timeout: i64) -> Result<Waited, Trap> {
        self.wait(address, expected, timeout)
    }

    /// As [`wait32`](Self::wait32), on eight bytes: `memory.atomic.wait64`.
    ///
    /// # Errors
    /// As for `wait32`.
    #[inline(always)]
    pub fn wait64(self, address: u64, expected: u64, timeout: i64) -> Result<Waited, Trap> {
        self.wait(address, expected, timeout)
    }

    #[inline(always)]
    fn wait<V: WordValue>(self, address: u64, expected: V, timeout: i64) -> Result<Waited, Trap> {
        let word = self.word_to_wait_on(address)?;
        if self.interrupt.is_none() && timeout < 0 {
            return outcome(self.domain.wait(word, expected));
        }
        outcome(self.wait_with(word, expected, timeout))
    }

    /// Separate, so that a runtime's fast path has neither clocks nor interrupts in it.
    #[inline(never)]
    fn wait_with<V: WordValue>(self, word: MemoryWord<'a, M, V>, expected: V, timeout: i64) -> Result<(), Error> {
        let options = WaitOptions::new().maybe_timeout(limit(timeout));
        match self.interrupt {
            None => self.domain.wait_with(word, expected, &options),
            Some(interrupt) => self.domain.wait_interruptible(word, expected, &options, interrupt),
        }
    }
}

fn limit(timeout: i64) -> Option<Timeout> {
    u64::try_from(timeout).ok().map(|nanoseconds| Timeout::After(Duration::from_nanos(nanoseconds)))
}

impl<M: ?Sized> fmt::Debug for Atomics<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Atomics").field("domain", self.domain).finish_non_exhaustive()
    }
}

/// A wait that has begun: the future of [`Atomics::wait32_async`] and [`wait64_async`](Atomics::wait64_async). Dropping it
/// cancels the wait. A notify that it has not reported goes to the next waiter.
#[must_use = "futures do nothing unless polled"]
pub struct MemoryWait<'a, M: LinearMemory + ?Sized, V: WordValue> {
    timeout: Option<Timeout>,
    wait: Wait<'a, MemoryWord<'a, M, V>>,
}

impl<'a, M: LinearMemory + ?Sized, V: WordValue> MemoryWait<'a, M, V> {
    /// The timeout of the wait. The namespace's [`driver`](crate::PidNamespace::driver) watches it, unless
    /// [`take_timeout`](Self::take_timeout) leaves it to the caller.
    #[must_use]
    pub fn timeout(&self) -> Option<Timeout> {
        self.timeout
    }

    /// Leaves the timeout to the caller, which has to [`end`](Self::end) the wait with [`Cause::TimedOut`] when the time is up.
    /// Call this before the first poll, and `end` after it.
    #[must_use = "nobody else watches it"]
    pub fn take_timeout(&mut self) -> Option<Timeout> {
        if let Some(wait) = &mut self.wait.operation {
            wait.forget_timeout();
        }
        self.timeout
    }

    /// Ends the wait now. If a notify has come, that is the result. The future must not be polled afterwards.
    ///
    /// # Errors
    /// [`Trap::Interrupted`] for [`Cause::Interrupted`].
    ///
    /// # Panics
    /// If it has ended already.
    pub fn end(self: Pin<&mut Self>, cause: Cause) -> Result<Waited, Trap> {
        outcome(self.wait().end(cause))
    }

    fn wait(self: Pin<&mut Self>) -> Pin<&mut Wait<'a, MemoryWord<'a, M, V>>> {
        // SAFETY: pinned as `self` is: nothing moves it, and `MemoryWait` has no `Drop` and is `Unpin` only if it is.
        unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
    }
}

impl<M: LinearMemory + ?Sized, V: WordValue> Future for MemoryWait<'_, M, V> {
    type Output = Result<Waited, Trap>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.wait().poll(context).map(outcome)
    }
}

/// The result of `memory.atomic.wait32` and `wait64`. `as i32` gives the number that the instruction pushes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i32)]
pub enum Waited {
    /// "ok": the thread waited, and a notify has come.
    Ok = 0,
    /// "not-equal": the word held another value.
    NotEqual = 1,
    /// "timed-out": no notify came in time.
    TimedOut = 2,
}

/// Why an instruction traps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Trap {
    /// The address is not a multiple of the width. For a notify the width is 4.
    Unaligned,
    /// The word is not entirely within the memory.
    OutOfBounds,
    /// A wait in a memory that is not shared.
    NotShared,
    /// The runtime has stopped the thread.
    Interrupted,
    /// A failure that the specification does not have: [`Error::NoMemory`] if the domain has
    /// [`DomainOptions::max_waiters`](crate::DomainOptions::max_waiters) waiters, [`Error::Busy`] if another thread waits with
    /// the same interrupt, [`Error::Fault`] if the word can never be read.
    Refused(Error),
}

impl fmt::Display for Trap {
    /// With the texts of the specification's tests, where they have one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unaligned => f.write_str("unaligned atomic"),
            Self::OutOfBounds => f.write_str("out of bounds memory access"),
            Self::NotShared => f.write_str("expected shared memory"),
            Self::Interrupted => f.write_str("the wait was interrupted"),
            Self::Refused(error) => write!(f, "the wait was refused: {error}"),
        }
    }
}

impl core::error::Error for Trap {}

#[inline(always)]
fn outcome(result: Result<(), Error>) -> Result<Waited, Trap> {
    match result {
        Ok(()) => Ok(Waited::Ok),
        Err(Error::Again) => Ok(Waited::NotEqual),
        Err(Error::TimedOut) => Ok(Waited::TimedOut),
        Err(Error::Interrupted) => Err(Trap::Interrupted),
        Err(refusal) => Err(Trap::Refused(refusal)),
    }
}
