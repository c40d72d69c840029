//! The timers of a process, and where they go when they have expired: a function, a queue, signals or an eventfd.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{Acquire, Release, SeqCst},
};

use engine::timer::{
    Deliver, Driver, EventFd, Expired, Expiries, Notice, Notify, Signals, TimerOptions, Timers as Engine,
};
use engine::{Callbacks, Error};

use crate::bell::Calls;
use crate::errno::Errno;
use crate::types::{
    UFUTEX_DELIVER_CALL, UFUTEX_DELIVER_EVENTFD, UFUTEX_DELIVER_LINE, UFUTEX_DELIVER_SIGNALS, UFUTEX_HOST_PIDS,
    UFUTEX_NOTIFY_NONE, UFUTEX_NOTIFY_SIGNAL, UFUTEX_NOTIFY_THREAD, ufutex_expired, ufutex_notice, ufutex_notify,
    ufutex_timers, ufutex_timers_options,
};

/// What a `ufutex_timers` refers to.
pub(crate) struct TimersObject {
    pub timers: Engine,
    pub delivery: Delivery,
}

/// Where expired timers go.
pub(crate) enum Delivery {
    Line(Expiries),
    Call(Callbacks<Called>),
    Elsewhere,
}

impl TimersObject {
    pub fn new(driver: &Driver, said: &ufutex_timers_options) -> Result<Self, Errno> {
        let options = limits(said)?;
        let with = |deliver: Callbacks<dyn Deliver>| Engine::with_options(driver, deliver, options);
        let (timers, delivery) = match said.delivery {
            UFUTEX_DELIVER_LINE => {
                let (timers, line) = Engine::channel(driver, options)?;
                (timers, Delivery::Line(line))
            }
            UFUTEX_DELIVER_CALL => {
                let called = Callbacks::try_new(Called::new(said)?)?;
                (with(called.clone().into())?, Delivery::Call(called))
            }
            UFUTEX_DELIVER_EVENTFD => {
                let file = Callbacks::try_new(EventFd::new(duplicate(said.eventfd)?))?;
                (with(file.into())?, Delivery::Elsewhere)
            }
            UFUTEX_DELIVER_SIGNALS => (with(Callbacks::try_new(Signals)?.into())?, Delivery::Elsewhere),
            _ => return Err(Errno::INVALID),
        };
        Ok(Self { timers, delivery })
    }
}

impl Drop for TimersObject {
    fn drop(&mut self) {
        if let Delivery::Call(called) = &self.delivery {
            called.end();
        }
    }
}

fn limits(said: &ufutex_timers_options) -> Result<TimerOptions, Errno> {
    if said.flags & !UFUTEX_HOST_PIDS != 0 {
        return Err(Errno::INVALID);
    }
    let mut options = TimerOptions::new().host_pids(said.flags & UFUTEX_HOST_PIDS != 0);
    if said.max_timers != 0 {
        options = options.max_timers(said.max_timers);
    }
    if said.max_id != 0 {
        options = options.max_id(said.max_id);
    }
    Ok(options)
}

fn duplicate(file: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: fcntl(2) accesses no memory here.
    let copy = unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EBADF)));
    }
    // SAFETY: it was just made, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Calls the program's functions.
pub(crate) struct Called {
    context: *mut c_void,
    expired: unsafe extern "C" fn(*mut c_void, *mut ufutex_timers, *const ufutex_notice),
    reserve: Option<unsafe extern "C" fn(*mut c_void, usize) -> c_int>,
    has_thread: Option<unsafe extern "C" fn(*mut c_void, i32) -> c_int>,
    handle: AtomicPtr<ufutex_timers>,
    /// 1 when the timers have been freed.
    ended: AtomicU32,
    calls: Calls,
}

// SAFETY: the program promises that any thread may call its functions; the other fields are atomics.
unsafe impl Send for Called {}
// SAFETY: as above.
unsafe impl Sync for Called {}

impl Called {
    fn new(said: &ufutex_timers_options) -> Result<Self, Errno> {
        let &ufutex_timers_options { context, reserve, has_thread, .. } = said;
        let expired = said.expired.ok_or(Errno::INVALID)?;
        let handle = AtomicPtr::new(ptr::null_mut());
        Ok(Self { context, expired, reserve, has_thread, handle, ended: AtomicU32::new(0), calls: Calls::default() })
    }

    /// Notes the handle that the program gets. Before that it has no timers that could expire.
    pub fn set_handle(&self, handle: *mut ufutex_timers) {
        self.handle.store(handle, Release); // [Cg]
    }

    /// On return `expired` is not called any more, and no call is in progress in another thread.
    fn end(&self) {
        self.ended.store(1, SeqCst); // [Cb]
        self.calls.wait_for_others();
    }
}

impl Deliver for Called {
    fn expired(&self, _: &Engine, notice: Notice) {
        // [Cb]: either `end` sees this call, or this call sees that the timers have been freed.
        let look = || (self.ended.load(SeqCst) == 0).then_some(());
        let (timer, number) = notice.ticket();
        let ticket = [timer as u64, number.into()];
        let notice = ufutex_notice { id: notice.id(), reserved: 0, notify: said(notice.notify()), ticket };
        // SAFETY: a function of the program, with the context that was given with it. The notice outlives the call.
        // [Cg]: the handle that `set_handle` has noted.
        self.calls.run_with(look, |()| unsafe { (self.expired)(self.context, self.handle.load(Acquire), &notice) });
    }

    fn reserve(&self, timers: usize) -> Result<(), Error> {
        // SAFETY: as above.
        let has_room = self.reserve.is_none_or(|reserve| unsafe { reserve(self.context, timers) == 0 });
        if has_room { Ok(()) } else { Err(Error::NoMemory) }
    }

    fn has_thread(&self, thread: i32) -> bool {
        // SAFETY: as above.
        self.has_thread.is_none_or(|has_thread| unsafe { has_thread(self.context, thread) != 0 })
    }
}

/// A notification in the program's form.
fn said(notify: Notify) -> ufutex_notify {
    let (kind, signal, value, thread) = match notify {
        Notify::None => (UFUTEX_NOTIFY_NONE, 0, 0, 0),
        Notify::Signal { signal, value } => (UFUTEX_NOTIFY_SIGNAL, signal, value, 0),
        Notify::Thread { signal, value, thread } => (UFUTEX_NOTIFY_THREAD, signal, value, thread),
    };
    ufutex_notify { kind, signal, value, thread, reserved: 0 }
}

/// A notification that a program has given.
pub(crate) fn meant(said: ufutex_notify) -> Result<Notify, Errno> {
    let ufutex_notify { kind, signal, value, thread, reserved } = said;
    match kind {
        _ if reserved != 0 => Err(Errno::INVALID),
        UFUTEX_NOTIFY_NONE => Ok(Notify::None),
        UFUTEX_NOTIFY_SIGNAL => Ok(Notify::Signal { signal, value }),
        UFUTEX_NOTIFY_THREAD => Ok(Notify::Thread { signal, value, thread }),
        _ => Err(Errno::INVALID),
    }
}

/// The notice that a program has kept. `None` if its numbers are of none.
pub(crate) fn kept(said: &ufutex_notice) -> Result<Option<Notice>, Errno> {
    let notify = meant(said.notify)?;
    let [timer, number] = said.ticket;
    let ticket = usize::try_from(timer).ok().zip(u32::try_from(number).ok());
    Ok(ticket.map(|ticket| Notice::from_parts(said.id, notify, ticket)))
}

/// An expiry in the program's form.
pub(crate) fn said_expired(expired: Expired) -> ufutex_expired {
    ufutex_expired { id: expired.id, overrun: expired.overrun, notify: said(expired.notify) }
}
