//! Operations that may have to wait, however they are driven: by an embedder's thread that parks (`block_on`), or as a
//! waiter object.

use core::ffi::c_long;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

use engine::{
    Cause, Clock, Timeout, Wait, WaitAny,
    pi::{LockPi, WaitRequeuePi},
    syscall::Syscall,
};

use crate::bell::{Handle, Sound};
use crate::errno::{Errno, long};
use crate::objects::{DomainObject, Interruptible, TaskObject};
use crate::park::{self, Sleep};
use crate::platform::{Deadline, Memory, Time, clock_number};
use crate::types::UFUTEX_NO_DEADLINE;
use crate::word::Word;

/// The words of a wait for one of several words, with their expected values.
pub(crate) type Words<'a> = Vec<(Word<'a>, u64)>;

/// See the top of this file.
pub(crate) enum Operation<'a> {
    Wait(Wait<'a, Word<'a>>),
    WaitAny(WaitAny<'a, Word<'a>, Words<'a>>),
    LockPi(LockPi<'a, 'a, Word<'a>>),
    WaitRequeuePi(WaitRequeuePi<'a, 'a, Word<'a>, Word<'a>>),
    Syscall(Syscall<'a, 'a, 'a, Memory>),
}

fn number<T: TryInto<c_long>>(result: Result<T, engine::Error>) -> c_long {
    long(|| result.map_err(Errno::from))
}

impl Operation<'_> {
    /// Begins or continues the operation. Returns its result if it has ended.
    pub fn poll(self: Pin<&mut Self>, waker: &Waker) -> Option<c_long> {
        let mut context = Context::from_waker(waker);
        // SAFETY: the futures are not moved, and are accessed only through pins.
        let result = unsafe {
            match self.get_unchecked_mut() {
                Self::Wait(wait) => Pin::new_unchecked(wait).poll(&mut context).map(|r| number(r.map(|()| 0))),
                Self::WaitAny(wait) => Pin::new_unchecked(wait).poll(&mut context).map(number),
                Self::LockPi(lock) => Pin::new_unchecked(lock).poll(&mut context).map(|r| number(r.map(|()| 0))),
                Self::WaitRequeuePi(wait) => Pin::new_unchecked(wait).poll(&mut context).map(|r| number(r.map(|()| 0))),
                Self::Syscall(call) => Pin::new_unchecked(call).poll(&mut context).map(|result| result as c_long),
            }
        };
        match result {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    /// Ends a pending operation. If it has completed meanwhile, its own result is returned, and otherwise that of
    /// `cause`.
    pub fn end(self: Pin<&mut Self>, cause: Cause) -> c_long {
        // SAFETY: as in `poll`.
        unsafe {
            match self.get_unchecked_mut() {
                Self::Wait(wait) => number(Pin::new_unchecked(wait).end(cause).map(|()| 0)),
                Self::WaitAny(wait) => number(Pin::new_unchecked(wait).end(cause)),
                Self::LockPi(lock) => number(Pin::new_unchecked(lock).end(cause).map(|()| 0)),
                Self::WaitRequeuePi(wait) => number(Pin::new_unchecked(wait).end(cause).map(|()| 0)),
                Self::Syscall(call) => Pin::new_unchecked(call).end(cause) as c_long,
            }
        }
    }
}

/// Why a sleep has ended.
enum Slept {
    Perhaps,
    Ended(Cause),
}

/// The place where an embedder's thread, or a thread of the host, sleeps.
struct Bed<'a> {
    domain: &'a DomainObject,
    /// The embedder's thread. Null for a thread of the host.
    thread: *mut core::ffi::c_void,
}

impl Bed<'_> {
    fn new(domain: &DomainObject) -> Bed<'_> {
        // SAFETY: a function of the program, with the context that was given with it.
        let thread = domain.parker.map_or(core::ptr::null_mut(), |p| unsafe { (p.current)(p.context) });
        Bed { domain, thread }
    }

    fn sound(&self) -> Sound {
        match self.domain.parker {
            Some(p) if !self.thread.is_null() => {
                Sound::Unpark { function: p.unpark, context: p.context, thread: self.thread }
            }
            _ => Sound::Thread,
        }
    }

    /// Sleeps until the bell rings.
    fn sleep(&self, bell: &Handle, deadline: Option<Deadline>) -> Slept {
        match self.domain.parker {
            Some(p) if !self.thread.is_null() => {
                let (clock, ns) = match deadline {
                    Some(Deadline { clock, ns }) => (clock, ns),
                    None => (Clock::Monotonic, UFUTEX_NO_DEADLINE),
                };
                // SAFETY: a function of the program, with the context that was given with it, on the thread that
                // `current` returned.
                match unsafe { (p.park)(p.context, self.thread, clock_number(clock), ns) } {
                    result if result == -libc::ETIMEDOUT => Slept::Ended(Cause::TimedOut),
                    result if result == -libc::EINTR => Slept::Ended(Cause::Interrupted),
                    _ => Slept::Perhaps,
                }
            }
            _ => {
                park::sleep(&bell.rung, self.sleep_length(deadline));
                Slept::Perhaps
            }
        }
    }

    fn sleep_length(&self, deadline: Option<Deadline>) -> Sleep {
        let time = &self.domain.time;
        match deadline {
            None => Sleep::Forever,
            Some(Deadline { clock, ns }) if time.is_native() => Sleep::Until(clock, ns),
            Some(Deadline { clock, ns }) => Sleep::For(ns.saturating_sub(time.now(clock)).max(1)),
        }
    }
}

/// Whether the deadline has passed. `false` without a deadline.
pub(crate) fn has_passed(time: &Time, deadline: Option<Deadline>) -> bool {
    deadline.is_some_and(|deadline| time.now(deadline.clock) >= deadline.ns)
}

/// Runs an operation for the calling thread, which sleeps with the domain's parker.
pub(crate) fn block_on(
    domain: &DomainObject,
    task: Option<&TaskObject>,
    operation: Operation<'_>,
    timeout: Option<Timeout>,
) -> Result<c_long, Errno> {
    let deadline = timeout.map(|timeout| domain.time.begin(timeout));
    let bed = Bed::new(domain);
    // In this order: the bell is dropped last, because the other values use it.
    let bell = Handle::new(bed.sound())?;
    let waker = bell.waker();
    let interruptible = task.map(|task| Interruptible::new(task, &bell)).transpose()?;
    let mut operation = pin!(operation);
    if let Some(answer) = operation.as_mut().poll(&waker) {
        return Ok(answer);
    }
    loop {
        let cause = if interruptible.as_ref().is_some_and(Interruptible::is_interrupted) {
            Some(Cause::Interrupted)
        } else if has_passed(&domain.time, deadline) {
            Some(Cause::TimedOut)
        } else {
            None
        };
        let slept = match cause {
            Some(cause) => Slept::Ended(cause),
            None => bed.sleep(&bell, deadline),
        };
        if bell.take_ring()
            && let Some(answer) = operation.as_mut().poll(&waker)
        {
            return Ok(answer);
        }
        if let Slept::Ended(cause) = slept {
            return Ok(operation.as_mut().end(cause));
        }
    }
}
