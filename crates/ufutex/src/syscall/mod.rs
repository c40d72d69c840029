//! System calls by number, with the kernel's arguments, results and order of errors. A user-mode kernel passes its
//! guest's registers to this module.

mod arguments;
mod futex;
mod futex2;
mod number;
mod restart;
#[cfg(feature = "timers")]
mod timer;

use core::marker::PhantomData;
use core::num::NonZeroU32;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use alloc::vec::Vec;

use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::future::WaitOperation;
use crate::futex::operation::{Cause, Operation, PollReceiver, TimeoutWatch, block_on, end_if_over};
#[cfg(feature = "pi")]
use crate::futex::pi::{lock::LockOperation, requeue::WaitRequeueOperation};
use crate::futex::spin::MaySpin;
use crate::futex::task::Task;
use crate::futex::wait::WaitOptions;
use crate::futex::wait_any::WaitAnyOperation;
use crate::futex::word::{self, Word};
use crate::sys::clock::{Clock, Deadline, Timeout};
use crate::sys::mem::{Access, UserMemory};
use arguments::Timespec;
use restart::Restart;

pub use crate::futex::robust::Pointers;
#[cfg(all(feature = "std", target_os = "linux"))]
#[doc(hidden)] // only for `ufutex run`
pub use crate::sys::host::OWN_CALL;
pub use number::{Compat, Number};
pub use restart::{ERESTART_RESTARTBLOCK, ERESTARTNOINTR, ERESTARTSYS, RestartBlock, Resume, resume};

impl Domain {
    /// Makes a system call of `task` on the calling thread, which blocks if the call does. Returns a result of at least 0, or
    /// `-errno`, exactly as the kernel does; or after the task's interrupt an internal code of the kernel, -512, -513 or -516:
    /// see [`resume`].
    ///
    /// ```
    /// use std::sync::atomic::AtomicU32;
    /// use ufutex::{Domain, FlatMemory, System, syscall::Number};
    ///
    /// let domain = Domain::new(&System::new());
    /// let (task, word) = (domain.task(100)?, AtomicU32::new(0));
    /// // SAFETY: the call below names only `word`.
    /// let memory = unsafe { FlatMemory::of_this_program() };
    /// const FUTEX_WAIT_PRIVATE: u64 = 128;
    /// let number = Number::x86_64(202).expect("futex(2)");
    /// // The program waits for a 7 to change, which is a 0: EAGAIN.
    /// let args = [word.as_ptr() as u64, FUTEX_WAIT_PRIVATE, 7, 0, 0, 0];
    /// assert_eq!(domain.syscall(&task, &memory, number, args), -11);
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    #[inline]
    pub fn syscall<M: UserMemory + ?Sized>(&self, task: &Task, memory: &M, number: Number, args: [u64; 6]) -> isize {
        if let Some(result) = self.syscall_at_once(memory, number, &args) {
            return result;
        }
        self.syscall_and_wait(task, memory, number, args)
    }

    /// A separate function, so that a call that ends at once has no part in its stack frame.
    #[inline(never)]
    fn syscall_and_wait<M: UserMemory + ?Sized>(
        &self,
        task: &Task,
        memory: &M,
        number: Number,
        args: [u64; 6],
    ) -> isize {
        let call = core::pin::pin!(self.decode(task, memory, number, args));
        if let Calling::Done(result, _) = call.calling {
            return result;
        }
        as_number(block_on(call, self.platform(), &task.interrupt().sleeper))
    }

    /// As [`syscall`](Self::syscall), as a future: for guest threads that are not threads of the host. If the operation does
    /// not block, this call does it.
    ///
    /// The namespace's [`driver`](crate::PidNamespace::driver) watches the call's timeout by its own clocks, unless the
    /// embedder does so: [`Syscall::take_timeout`]. To end it by a signal, call [`Syscall::end`]: the task's
    /// [`interrupt`](Task::interrupt) ends waits of threads alone.
    pub fn syscall_async<'d, 't, 'm, M: UserMemory + ?Sized>(
        &'d self,
        task: &'t Task,
        memory: &'m M,
        number: Number,
        args: [u64; 6],
    ) -> Syscall<'d, 't, 'm, M> {
        let mut call = self.decode(task, memory, number, args);
        let driver = &self.namespace().driver;
        if call.relative.is_some() && driver.has_given_clocks() {
            call.begin_at(Duration::from_nanos(driver.inner.now(Clock::Monotonic.into())));
        }
        call
    }

    fn decode<'d, 't, 'm, M: UserMemory + ?Sized>(
        &'d self,
        task: &'t Task,
        memory: &'m M,
        number: Number,
        args: [u64; 6],
    ) -> Syscall<'d, 't, 'm, M> {
        let (times, pointers, args) = match number {
            Number::Compat(Compat::FutexTime32) => (Timespec::Narrow, Pointers::Narrow, args.map(lower_half)),
            Number::Compat(_) => (Timespec::Padded, Pointers::Narrow, args.map(lower_half)),
            _ => (Timespec::Wide, Pointers::Wide, args),
        };
        let mut call = Syscall {
            domain: self,
            task,
            memory,
            times,
            timeout: None,
            watch: TimeoutWatch::new(),
            relative: None,
            on_interrupt: Restart::IfAsked,
            calling: Calling::done(0),
        };
        let calling = match number {
            Number::Futex | Number::Compat(Compat::FutexTime32 | Compat::FutexTime64) => call.futex(args),
            Number::FutexWaitv | Number::Compat(Compat::FutexWaitv) => call.futex_waitv(args),
            Number::FutexWake | Number::Compat(Compat::FutexWake) => call.futex_wake(args).map(Calling::done),
            Number::FutexWait | Number::Compat(Compat::FutexWait) => call.futex_wait(args),
            Number::FutexRequeue | Number::Compat(Compat::FutexRequeue) => call.futex_requeue(args).map(Calling::done),
            Number::SetRobustList | Number::Compat(Compat::SetRobustList) => {
                task.set_robust_list(pointers, args[0], args[1]).map(|()| Calling::done(0))
            }
            Number::GetRobustList | Number::Compat(Compat::GetRobustList) => {
                call.get_robust_list(pointers, args).map(Calling::done)
            }
            Number::SetTidAddress | Number::Compat(Compat::SetTidAddress) => {
                task.set_clear_child_tid(args[0]);
                Ok(Calling::done(task.tid() as isize))
            }
            Number::RestartSyscall => call.restart(),
        };
        call.calling = calling.unwrap_or_else(|error| {
            (call.timeout, call.relative) = (None, None);
            Calling::done(as_number(Err(error)))
        });
        call
    }
}

fn lower_half(register: u64) -> u64 {
    (register as u32).into()
}

/// A system call that has begun: the future of [`Domain::syscall_async`].
#[must_use = "futures do nothing unless polled"]
pub struct Syscall<'d, 't, 'm, M: UserMemory + ?Sized> {
    domain: &'d Domain,
    task: &'t Task,
    memory: &'m M,
    times: Timespec,
    timeout: Option<Timeout>,
    watch: TimeoutWatch<'d>,
    /// The timeout that the program gave as a length of time.
    relative: Option<Duration>,
    on_interrupt: Restart,
    calling: Calling<'d, 't, 'm, M>,
}

type Words<'m, M> = Vec<(Word<'m, M>, u64)>;

enum Calling<'d, 't, 'm, M: UserMemory + ?Sized> {
    /// Kept because an embedder's timer that is late asks again. Without `pi` no other variant borrows the task.
    Done(isize, PhantomData<&'t Task>),
    Wait(WaitOperation<'d, Word<'m, M>>),
    WaitAny(WaitAnyOperation<'d, Word<'m, M>, Words<'m, M>>),
    #[cfg(feature = "pi")]
    LockPi(LockOperation<'d, 't, Word<'m, M>>),
    #[cfg(feature = "pi")]
    WaitRequeuePi(WaitRequeueOperation<'d, 't, Word<'m, M>, Word<'m, M>>),
}

impl<M: UserMemory + ?Sized> Calling<'_, '_, '_, M> {
    fn done(result: isize) -> Self {
        Self::Done(result, PhantomData)
    }
}

impl<'d, 'm, M: UserMemory + ?Sized> Syscall<'d, '_, 'm, M> {
    /// The timeout of the call, unless it has been [taken](Self::take_timeout).
    #[must_use]
    pub fn timeout(&self) -> Option<Timeout> {
        self.timeout
    }

    /// Leaves the timeout to the caller, which has to [`end`](Self::end) the call with [`Cause::TimedOut`] when the time is up.
    /// Call this before the first poll.
    #[must_use = "nobody else watches it"]
    pub fn take_timeout(&mut self) -> Option<Timeout> {
        self.timeout.take()
    }

    /// Has a timeout that the program gave as a length of time run from `now` on, the time that the embedder's own monotonic
    /// clock shows. Other timeouts stay as they are. Only who [takes](Self::take_timeout) timeouts needs this call: without it
    /// they run by [`SystemConfig::clocks`](crate::SystemConfig::clocks), or else by the host's clock.
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

    /// A thread that polls the call itself calls this when a poll was pending. It calls `sleep`, which is to sleep until the waker
    /// is called, and returns its result: `Ok` if the waker was. Before that, with [`DomainOptions::spin`](crate::DomainOptions::spin),
    /// the thread may spin until `is_woken` returns `true` or the `deadline` passes. `sleep` is called in any case, and should
    /// return at once if the waker has been called. [`Domain::syscall`] does all that itself. A task with a real-time priority does
    /// not spin.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::sync::{Arc, atomic::{AtomicBool, AtomicU32, Ordering}};
    /// use std::task::{Context, Wake, Waker};
    /// use std::{convert::Infallible, thread, time::Duration};
    /// use ufutex::{Domain, DomainOptions, FlatMemory, System, syscall::Number};
    ///
    /// /// How a thread of the embedder sleeps: whether it is woken, and the thread.
    /// struct Sleeper(AtomicBool, thread::Thread);
    ///
    /// impl Wake for Sleeper {
    ///     fn wake(self: Arc<Self>) {
    ///         self.0.store(true, Ordering::Release);
    ///         self.1.unpark();
    ///     }
    /// }
    ///
    /// let domain = Domain::with_options(&System::new(), DomainOptions::new().spin(Duration::from_micros(200)));
    /// let (task, word) = (domain.task(100)?, AtomicU32::new(0));
    /// // SAFETY: the call below names only `word`.
    /// let memory = unsafe { FlatMemory::of_this_program() };
    /// const FUTEX_WAIT_PRIVATE: u64 = 128;
    /// let number = Number::x86_64(202).expect("futex(2)");
    /// thread::scope(|scope| {
    ///     scope.spawn(|| while domain.wake(&word, 1) == 0 {});
    ///     let sleeper = Arc::new(Sleeper(AtomicBool::new(false), thread::current()));
    ///     let waker = Waker::from(sleeper.clone());
    ///     let args = [word.as_ptr() as u64, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0];
    ///     let mut call = pin!(domain.syscall_async(&task, &memory, number, args));
    ///     while call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
    ///         let sleep = || {
    ///             while !sleeper.0.swap(false, Ordering::Acquire) {
    ///                 thread::park();
    ///             }
    ///             Ok::<(), Infallible>(())
    ///         };
    ///         let Ok(()) = call.as_mut().sleep(None, || sleeper.0.load(Ordering::Acquire), sleep);
    ///     }
    /// });
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `sleep`.
    pub fn sleep<E>(
        self: Pin<&mut Self>,
        deadline: Option<&Deadline>,
        is_woken: impl Fn() -> bool,
        sleep: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let on = self.domain.platform();
        MaySpin::sleep(self.may_spin(), |ns| on.watch(ns, deadline, &is_woken), sleep)
    }

    /// Ends the call now, if it has not ended. Returns its result, also if called again.
    pub fn end(self: Pin<&mut Self>, cause: Cause) -> isize {
        as_number(self.end_by(cause))
    }

    fn word(&self, address: u64, is_private: bool, access: Access) -> Result<Word<'m, M>, Error> {
        if is_private { word::private(self.memory, address) } else { word::shared(self.memory, address, access) }
    }

    fn options(&self) -> WaitOptions {
        WaitOptions::new().realtime_priority(self.task.own_priority().as_realtime())
    }

    fn wait_for<'t>(&self, word: Word<'m, M>, expected: u32, bitset: NonZeroU32) -> Calling<'d, 't, 'm, M> {
        Calling::Wait(WaitOperation::new(self.domain, word, expected.into(), &self.options().bitset(bitset)))
    }

    fn get_robust_list(&self, pointers: Pointers, [pid, head_ptr, len_ptr, ..]: [u64; 6]) -> Result<isize, Error> {
        let pid = pid as u32;
        let head =
            if pid == 0 { self.task.robust_list(pointers) } else { self.domain.robust_list_of(pid, pointers)? };
        let bytes = pointers.bytes() as usize;
        arguments::write(self.memory, len_ptr, &pointers.head_bytes().to_le_bytes()[..bytes])?;
        arguments::write(self.memory, head_ptr, &head.to_le_bytes()[..bytes])?;
        Ok(0)
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

    fn timeout(&self) -> Option<(Timeout, &'d Domain)> {
        self.timeout.map(|timeout| (timeout, self.domain))
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
                #[cfg(feature = "pi")]
                Calling::WaitRequeuePi(wait) => Pin::new_unchecked(wait).poll_for(receiver).map_ok(|()| 0),
            };
            if let Poll::Ready(result) = result {
                this.calling = Calling::done(as_number(result));
            }
            result
        }
    }

    fn may_spin(self: Pin<&mut Self>) -> Option<MaySpin<'_>> {
        if self.task.own_priority().as_realtime() != 0 {
            return None;
        }
        // SAFETY: as in `poll_for`.
        unsafe {
            match &mut self.get_unchecked_mut().calling {
                Calling::Wait(wait) => Pin::new_unchecked(wait).may_spin(),
                Calling::WaitAny(wait) => Pin::new_unchecked(wait).may_spin(),
                #[cfg(feature = "pi")]
                Calling::LockPi(lock) => Pin::new_unchecked(lock).may_spin(),
                _ => None,
            }
        }
    }

    fn end_by(self: Pin<&mut Self>, cause: Cause) -> Result<isize, Error> {
        // SAFETY: as in `poll_for`.
        unsafe {
            let this = self.get_unchecked_mut();
            let result = match &mut this.calling {
                Calling::Done(result, _) => Ok(*result),
                Calling::Wait(wait) => Pin::new_unchecked(wait).end_by(cause).map(|()| 0),
                Calling::WaitAny(wait) => Pin::new_unchecked(wait).end_by(cause).map(|index| index as isize),
                #[cfg(feature = "pi")]
                Calling::LockPi(lock) => Pin::new_unchecked(lock).end_by(cause).map(|()| 0),
                #[cfg(feature = "pi")]
                Calling::WaitRequeuePi(wait) => Pin::new_unchecked(wait).end_by(cause).map(|()| 0),
            };
            let result = match result {
                Err(Error::Interrupted) => Ok(this.on_interrupt.leave(this.task)),
                result => result,
            };
            this.calling = Calling::done(as_number(result));
            result
        }
    }
}

#[inline(always)]
fn as_number(result: Result<isize, Error>) -> isize {
    result.unwrap_or_else(|error| -(error.errno() as isize))
}
