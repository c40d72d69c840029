//! System calls by number, with the kernel's arguments, results and order of errors. A user-mode kernel passes its
//! guest's registers to this module.
//!
//! The files here only decode: they turn numbers into operations of `futex` and `timer`, and results into numbers.

mod arguments;
mod compat;
mod futex;
mod futex2;
mod number;
#[cfg(feature = "pi")]
mod pi;
mod requeue;
mod restart;
mod robust;
#[cfg(feature = "timers")]
mod timer;

use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use alloc::vec::Vec;

use crate::error::Error;
use crate::expiry::sleep::Timeouts;
use crate::futex::domain::Domain;
use crate::futex::future::WaitOperation;
use crate::futex::operation::block_on;
use crate::futex::operation::{Cause, Operation, PollReceiver, end_if_over};
#[cfg(feature = "pi")]
use crate::futex::pi::lock::LockOperation;
#[cfg(all(feature = "pi", feature = "requeue"))]
use crate::futex::pi::requeue::WaitRequeueOperation;
use crate::futex::task::Task;
use crate::futex::timeout_watch::TimeoutWatch;
use crate::futex::wait_any::WaitAnyOperation;
use crate::futex::word::Word;
use crate::sys::clock::{Clock, Timeout};
use crate::sys::mem::UserMemory;
use arguments::Timespec;

pub use crate::futex::robust::Pointers;
#[cfg(all(feature = "std", target_os = "linux"))]
#[doc(hidden)] // only for `ufutex run`
pub use crate::sys::syscall::OWN_CALL;
pub use number::{Compat, Number};
pub(crate) use restart::Restart;
pub use restart::{ERESTART_RESTARTBLOCK, ERESTARTNOINTR, ERESTARTSYS, RestartBlock, Resume, resume};

impl Domain {
    /// Makes a system call of `task` on the calling thread. Returns a result of at least 0, or `-errno`, exactly as the
    /// kernel does. Blocks if the call does.
    ///
    /// If the task's interrupt ends the call, the result is one of the kernel's internal codes, -512, -513 or -516.
    /// [`resume`] says what to do then.
    ///
    /// ```
    /// use ufutex::{Domain, System, syscall::Number};
    /// # use ufutex::{Access, Fault, UserMemory, Width};
    /// # struct Memory;
    /// # impl UserMemory for Memory {
    /// #     fn load(&self, _: u64, _: Width) -> Result<u64, Fault> { Ok(0) }
    /// #     fn compare_exchange(&self, _: u64, _: Width, _: u64, _: u64) -> Result<Result<u64, u64>, Fault> { Err(Fault) }
    /// #     fn fault_in(&self, _: u64, _: Access) -> Result<(), Fault> { Err(Fault) }
    /// # }
    /// # let memory = Memory; // reads as zeroes
    /// let domain = Domain::new(&System::new());
    /// let task = domain.task(100)?;
    /// const FUTEX_WAIT_PRIVATE: u64 = 128;
    /// let number = Number::x86_64(202).expect("futex(2)");
    /// // The guest waits at 0x1000 for a 7 to change, which is a 0: EAGAIN.
    /// assert_eq!(domain.syscall(&task, &memory, number, [0x1000, FUTEX_WAIT_PRIVATE, 7, 0, 0, 0]), -11);
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    #[inline]
    pub fn syscall<M: UserMemory + ?Sized>(&self, task: &Task, memory: &M, number: Number, args: [u64; 6]) -> isize {
        if let Some(result) = self.syscall_at_once(memory, number, &args) {
            return result;
        }
        self.syscall_and_wait(task, memory, number, args)
    }

    /// A call that may wait. It is a separate function, so that a call that ends at once has no part in its stack frame.
    #[inline(never)]
    fn syscall_and_wait<M: UserMemory + ?Sized>(
        &self,
        task: &Task,
        memory: &M,
        number: Number,
        args: [u64; 6],
    ) -> isize {
        let call = core::pin::pin!(self.syscall_async(task, memory, number, args));
        let deadline = call.timeout().map(|timeout| self.begin(timeout));
        if let Calling::Done(result, _) = call.calling {
            return result;
        }
        as_number(block_on(call, self.platform(), &task.interrupt().sleeper, deadline.as_ref()))
    }

    /// As [`syscall`](Self::syscall), as a future: for guest threads that are not threads of the host. An operation
    /// that does not block is done by this call itself.
    ///
    /// The namespace's [`driver`](crate::PidNamespace::driver) watches the call's timeout, unless the embedder does so:
    /// [`Syscall::take_timeout`].
    pub fn syscall_async<'d, 't, 'm, M: UserMemory + ?Sized>(
        &'d self,
        task: &'t Task,
        memory: &'m M,
        number: Number,
        args: [u64; 6],
    ) -> Syscall<'d, 't, 'm, M> {
        let caller = GuestCall { domain: self, task, memory, times: Timespec::Wide };
        let started = match number {
            Number::Compat(call) => caller.compat(call, args),
            Number::Futex => caller.futex(args),
            Number::FutexWaitv => caller.futex_waitv(args),
            Number::FutexWake => caller.futex_wake(args).map(Started::done),
            Number::FutexWait => caller.futex_wait(args),
            Number::FutexRequeue => caller.futex_requeue(args).map(Started::done),
            Number::SetRobustList => caller.set_robust_list(Pointers::Wide, args).map(Started::done),
            Number::GetRobustList => caller.get_robust_list(Pointers::Wide, args).map(Started::done),
            Number::SetTidAddress => Ok(Started::done(caller.set_tid_address(args))),
            Number::RestartSyscall => caller.restart(),
        };
        let started = started.unwrap_or_else(|error| Started::done(-(error.errno() as isize)));
        let Started { calling, timeout, relative, on_interrupt } = started;
        Syscall { domain: self, task, timeout, watch: TimeoutWatch::new(), relative, on_interrupt, calling }
    }
}

/// The task that makes a system call, with its domain and its memory.
struct GuestCall<'d, 't, 'm, M: ?Sized> {
    domain: &'d Domain,
    task: &'t Task,
    memory: &'m M,
    /// The layout of the caller's timespecs.
    times: Timespec,
}

/// A system call that has begun: the future of [`Domain::syscall_async`].
#[must_use = "futures do nothing unless polled"]
pub struct Syscall<'d, 't, 'm, M: UserMemory + ?Sized> {
    domain: &'d Domain,
    task: &'t Task,
    timeout: Option<Timeout>,
    watch: TimeoutWatch<'d>,
    relative: Option<Duration>,
    on_interrupt: Restart,
    calling: Calling<'d, 't, 'm, M>,
}

type Words<'m, M> = Vec<(Word<'m, M>, u64)>;

enum Calling<'d, 't, 'm, M: UserMemory + ?Sized> {
    /// It has this result. Without `pi` no other variant borrows the task.
    Done(isize, PhantomData<&'t Task>),
    Wait(WaitOperation<'d, Word<'m, M>>),
    WaitAny(WaitAnyOperation<'d, Word<'m, M>, Words<'m, M>>),
    #[cfg(feature = "pi")]
    LockPi(LockOperation<'d, 't, Word<'m, M>>),
    #[cfg(all(feature = "pi", feature = "requeue"))]
    WaitRequeuePi(WaitRequeueOperation<'d, 't, Word<'m, M>, Word<'m, M>>),
}

/// A decoded call.
struct Started<'d, 't, 'm, M: UserMemory + ?Sized> {
    calling: Calling<'d, 't, 'm, M>,
    timeout: Option<Timeout>,
    /// The timeout that the program gave, if it is a length of time.
    relative: Option<Duration>,
    on_interrupt: Restart,
}

impl<M: UserMemory + ?Sized> Started<'_, '_, '_, M> {
    fn done(result: isize) -> Self {
        let calling = Calling::Done(result, PhantomData);
        Self { calling, timeout: None, relative: None, on_interrupt: Restart::Always }
    }
}

impl<M: UserMemory + ?Sized> Syscall<'_, '_, '_, M> {
    /// The timeout of the call, unless it has been [taken](Self::take_timeout).
    #[must_use]
    pub fn timeout(&self) -> Option<Timeout> {
        self.timeout
    }

    /// Leaves the timeout to the caller, which has to [`end`](Self::end) the call with [`Cause::TimedOut`] when the
    /// time is up. Call this before the first poll.
    #[must_use = "nobody else watches it"]
    pub fn take_timeout(&mut self) -> Option<Timeout> {
        self.timeout.take()
    }

    /// If the program gave its timeout as a length of time, has the timeout run from `now` on, which is the time that
    /// the embedder's own monotonic clock shows. Without this call it runs by the host's clock, if there is one. Other
    /// timeouts are points in time, and stay as they are.
    ///
    /// Call this before the first poll, and before [`take_timeout`](Self::take_timeout).
    pub fn begin_at(&mut self, now: Duration) {
        let Some(length) = self.relative else { return };
        let timeout = Timeout::At(Clock::Monotonic, now.saturating_add(length));
        self.timeout = Some(timeout);
        if let Restart::Continue(wait) = &mut self.on_interrupt {
            wait.timeout = timeout;
        }
    }

    /// Ends the call now, if it has not ended. Returns its result, also if called again.
    pub fn end(self: Pin<&mut Self>, cause: Cause) -> isize {
        as_number(self.end_by(cause))
    }
}

impl<M: UserMemory + ?Sized> core::future::Future for Syscall<'_, '_, '_, M> {
    type Output = isize;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<isize> {
        let mut result = self.as_mut().poll_for(PollReceiver::Task(context.waker()));
        if result.is_pending() {
            // SAFETY: only `watch` is changed, which need not stay in place.
            let this = unsafe { self.as_mut().get_unchecked_mut() };
            let is_over = this.watch.is_over(Operation::timeout(this), context.waker());
            result = end_if_over(self, is_over);
        }
        result.map(as_number)
    }
}

impl<'d, M: UserMemory + ?Sized> Operation<'d> for Syscall<'d, '_, '_, M> {
    type Output = isize;

    fn timeout(&self) -> Option<(Timeout, Timeouts<'d>)> {
        self.timeout.map(|timeout| (timeout, self.domain.timeouts()))
    }

    fn poll_for(self: Pin<&mut Self>, receiver: PollReceiver<'_>) -> Poll<Result<isize, Error>> {
        // SAFETY: the pinned futures are not moved out of `calling`, and are reached only through pins.
        unsafe {
            let this = self.get_unchecked_mut();
            let result = match &mut this.calling {
                Calling::Done(result, _) => Poll::Ready(Ok(*result)),
                Calling::Wait(wait) => Pin::new_unchecked(wait).poll_for(receiver).map_ok(|()| 0),
                Calling::WaitAny(wait) => Pin::new_unchecked(wait).poll_for(receiver).map_ok(|index| index as isize),
                #[cfg(feature = "pi")]
                Calling::LockPi(lock) => Pin::new_unchecked(lock).poll_for(receiver).map_ok(|()| 0),
                #[cfg(all(feature = "pi", feature = "requeue"))]
                Calling::WaitRequeuePi(wait) => Pin::new_unchecked(wait).poll_for(receiver).map_ok(|()| 0),
            };
            this.remember(&result);
            result
        }
    }

    fn end_by(self: Pin<&mut Self>, cause: Cause) -> Result<isize, Error> {
        // SAFETY: as in `poll_for`.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as in `poll_for`.
        let result = unsafe {
            match &mut this.calling {
                Calling::Done(result, _) => Ok(*result),
                Calling::Wait(wait) => Pin::new_unchecked(wait).end_by(cause).map(|()| 0),
                Calling::WaitAny(wait) => Pin::new_unchecked(wait).end_by(cause).map(|index| index as isize),
                #[cfg(feature = "pi")]
                Calling::LockPi(lock) => Pin::new_unchecked(lock).end_by(cause).map(|()| 0),
                #[cfg(all(feature = "pi", feature = "requeue"))]
                Calling::WaitRequeuePi(wait) => Pin::new_unchecked(wait).end_by(cause).map(|()| 0),
            }
        };
        let result = match result {
            Err(Error::Interrupted) => Ok(this.on_interrupt.leave(this.task)),
            result => result,
        };
        this.remember(&Poll::Ready(result));
        result
    }
}

impl<M: UserMemory + ?Sized> Syscall<'_, '_, '_, M> {
    /// Keeps the result of a call that has ended, because the call may be asked again: an embedder's timer may fire too
    /// late.
    fn remember(&mut self, result: &Poll<Result<isize, Error>>) {
        if let Poll::Ready(result) = result {
            self.calling = Calling::Done(as_number(*result), PhantomData);
        }
    }
}

#[inline(always)]
fn as_number(result: Result<isize, Error>) -> isize {
    result.unwrap_or_else(|error| -(error.errno() as isize))
}
