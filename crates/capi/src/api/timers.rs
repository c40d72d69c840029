//! Functions on the POSIX timers of a process.

use core::ffi::{c_int, c_long};
use core::time::Duration;

use engine::timer::{Base, Caller, CpuClock, Driver, Expiry, Setting, TimerCall, TimerClock};
use engine::{Error, Timeout};

use super::syscall::{call_of, own_memory, read_args};
use super::timeout_of;
use crate::abi;
use crate::driver::base_of;
use crate::errno::{Errno, done, int, long};
use crate::objects::{DomainObject, SystemObject};
use crate::platform::Memory;
use crate::registry::{Held, boxed, insert, remove};
use crate::timers::{Delivery, TimersObject, kept, meant, said_expired};
use crate::types::{
    UFUTEX_TIMER_ABSTIME, ufutex_domain, ufutex_expired, ufutex_itimerspec, ufutex_memory, ufutex_notice,
    ufutex_notify, ufutex_system, ufutex_timers, ufutex_timers_options, ufutex_timespec,
};

/// Makes an empty table of POSIX timers for one process. options: NULL for all defaults: expired timers stand in a line
/// for ufutex_timers_receive().
///
/// By the host's clocks the first timer of a system starts a thread, which ends with the system and its timers. By the
/// embedder's clocks (timer_clocks of ufutex_config) timers expire in ufutex_driver_turn().
///
/// ```c
/// ufutex_timers *timers;
/// ufutex_itimerspec soon = {{0, 0}, {0, 1000000}}; // once, in 1 ms
/// ufutex_expired expired;
/// int32_t id;
/// ufutex_timers_new(system, NULL, &timers);
/// ufutex_timers_create(timers, UFUTEX_MONOTONIC, NULL, &id);
/// ufutex_timers_settime(timers, id, 0, &soon, NULL);
/// ufutex_timers_receive(timers, UFUTEX_FOREVER, 0, &expired);
/// ```
///
/// Stores the handle in *timers and returns 0. -EINVAL: an unknown delivery, max_id is not one less than a power of
/// two, expired is missing, a size that is too small; -EBADF: eventfd is not an open file; -EMFILE; -ENOMEM.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_new(
    system: *mut ufutex_system,
    options: *const ufutex_timers_options,
    timers: *mut *mut ufutex_timers,
) -> c_int {
    let driver = || Ok(Held::<SystemObject>::new(system)?.0.driver().clone());
    // SAFETY: the program guarantees it.
    unsafe { make(driver, options, timers) }
}

/// As ufutex_timers_new(), for a process of the guest that a domain belongs to. By the host's clocks each PID namespace has
/// a thread of its own for timers and timeouts, so no guest makes another guest's timers late.
///
/// Errors as for ufutex_timers_new().
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_new_beside(
    domain: *mut ufutex_domain,
    options: *const ufutex_timers_options,
    timers: *mut *mut ufutex_timers,
) -> c_int {
    let driver = || Ok(Held::<DomainObject>::new(domain)?.domain.pid_namespace().driver().clone());
    // SAFETY: the program guarantees it.
    unsafe { make(driver, options, timers) }
}

/// Makes timers that expire by a driver.
///
/// # Safety
/// `options` is null or as large as its first field says. `timers` is null, or valid for a write.
unsafe fn make(
    driver: impl FnOnce() -> Result<Driver, Errno>,
    options: *const ufutex_timers_options,
    timers: *mut *mut ufutex_timers,
) -> c_int {
    done(|| {
        abi::check_out(timers)?;
        let driver = driver()?;
        // SAFETY: the program passes null, or options that are as large as they say.
        let said = unsafe { abi::read(options)? }.unwrap_or_default();
        let object = boxed(TimersObject::new(&driver, &said)?)?;
        let called = match &object.delivery {
            Delivery::Call(called) => Some(called.clone()),
            _ => None,
        };
        let handle = insert(object)?;
        if let Some(called) = called {
            called.set_handle(handle);
        }
        // SAFETY: checked above; the program guarantees that it is valid for a write.
        unsafe { abi::store(timers, handle) }
    })
}

/// Frees timers, armed or not. When it has returned, expired is not called any more. It waits for a call in progress in
/// another thread, so do not hold a lock that expired takes. expired itself may call it.
///
/// Returns 0. -EBUSY: a thread is in another function with these timers.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_free(timers: *mut ufutex_timers) -> c_int {
    done(|| remove::<TimersObject>(timers).map(drop))
}

/// Makes a timer, which is not set yet: timer_create(2). clock: UFUTEX_REALTIME, UFUTEX_MONOTONIC, UFUTEX_BOOTTIME,
/// UFUTEX_TAI, UFUTEX_PROCESS_CPU(pid) or UFUTEX_THREAD_CPU(tid). notify: what it does when it expires; NULL: SIGALRM,
/// with the ID as the value.
///
/// Stores the ID in *id, from 0 up, and returns 0. -EAGAIN: as many timers as there may be, no free ID, no memory, or
/// no thread for the driver; -EINVAL: another clock, no such process or thread, a signal that is not from 1 to 64, an
/// unknown kind; -EOPNOTSUPP: a clock that timers cannot run by.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_create(
    timers: *mut ufutex_timers,
    clock: i32,
    notify: *const ufutex_notify,
    id: *mut i32,
) -> c_int {
    // SAFETY: the same arguments.
    done(|| unsafe { create(timers, None, clock, notify, id) })
}

/// As ufutex_timers_create(), with a given ID, as when a checkpoint is restored. IDs that are handed out later follow
/// it.
///
/// Returns 0. Errors as for ufutex_timers_create(). -EBUSY: the ID is in use; -EINVAL: it is negative or above max_id.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_create_as(
    timers: *mut ufutex_timers,
    id: i32,
    clock: i32,
    notify: *const ufutex_notify,
) -> c_int {
    let mut made = 0;
    // SAFETY: the same arguments, and a place for the ID.
    done(|| unsafe { create(timers, Some(id), clock, notify, &mut made) })
}

/// # Safety
/// As for `ufutex_timers_create`.
unsafe fn create(
    timers: *mut ufutex_timers,
    as_id: Option<i32>,
    clock: i32,
    notify: *const ufutex_notify,
    id: *mut i32,
) -> Result<(), Errno> {
    abi::check_out(id)?;
    let held = Held::<TimersObject>::new(timers)?;
    let notify = if notify.is_null() {
        None
    } else {
        check_in(notify)?;
        // SAFETY: checked above; the program guarantees that it is valid for a read.
        Some(meant(unsafe { notify.read() })?)
    };
    let clock = clock_of(clock)?;
    let made = match as_id {
        None => held.timers.create(clock, notify)?,
        Some(id) => held.timers.create_as(id, clock, notify)?,
    };
    // SAFETY: checked above; the program guarantees that it is valid for a write.
    unsafe { abi::store(id, made) }
}

/// Checks that an argument can be read at `from`.
fn check_in<T>(from: *const T) -> Result<(), Errno> {
    abi::check_out(from.cast_mut())
}

/// The clock with this number, as for timer_create(2).
fn clock_of(number: i32) -> Result<TimerClock, Errno> {
    const KIND: i32 = 7;
    const PROCESS: i32 = 2;
    const THREAD: i32 = 6;
    let owner = !(number >> 3);
    match number {
        // Clocks that can be read only, and those that wake a machine.
        4..=6 | 8 | 9 => Err(Error::UnsupportedClock.into()),
        ..0 if number & KIND == PROCESS && owner > 0 => Ok(TimerClock::Cpu(CpuClock::Process(owner))),
        ..0 if number & KIND == THREAD && owner > 0 => Ok(TimerClock::Cpu(CpuClock::Thread(owner))),
        ..0 => Err(Errno::INVALID),
        _ => base_of(number as u32).map(timer_clock),
    }
}

fn timer_clock(base: Base) -> TimerClock {
    match base {
        Base::Realtime => TimerClock::Realtime,
        Base::Monotonic => TimerClock::Monotonic,
        Base::Boottime => TimerClock::Boottime,
        Base::Tai => TimerClock::Tai,
    }
}

/// Arms a timer, or disarms it if new's value is 0: timer_settime(2). flags: UFUTEX_TIMER_ABSTIME, or 0. An expiry that
/// was not taken becomes void. old: the setting before, as by ufutex_timers_gettime(), or NULL.
///
/// Returns 0. -EINVAL: no such timer, a time that is negative or has a second of nanoseconds or more, unknown flags;
/// -ESRCH: the thread or process whose CPU time the timer counts has ended.
///
/// Calls changed of ufutex_timer_clocks.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_settime(
    timers: *mut ufutex_timers,
    id: i32,
    flags: u32,
    new: *const ufutex_itimerspec,
    old: *mut ufutex_itimerspec,
) -> c_int {
    done(|| {
        let held = Held::<TimersObject>::new(timers)?;
        check_in(new)?;
        if !old.is_null() {
            abi::check_out(old)?;
        }
        // SAFETY: checked above; the program guarantees that it is valid for a read.
        let ufutex_itimerspec { interval, value } = unsafe { new.read() };
        let (interval, value) = (duration_of(interval)?, duration_of(value)?);
        let first = match flags {
            0 => Expiry::After(value),
            UFUTEX_TIMER_ABSTIME => Expiry::At(value),
            _ => return Err(Errno::INVALID),
        };
        let before = held.timers.settime(id, first, interval)?;
        // SAFETY: checked above; the program guarantees that it is valid for a write.
        if old.is_null() { Ok(()) } else { unsafe { abi::store(old, said_setting(before)) } }
    })
}

fn duration_of(time: ufutex_timespec) -> Result<Duration, Errno> {
    let seconds = u64::try_from(time.seconds).map_err(|_| Errno::INVALID)?;
    match u32::try_from(time.nanoseconds) {
        Ok(nanoseconds) if nanoseconds < 1_000_000_000 => Ok(Duration::new(seconds, nanoseconds)),
        _ => Err(Errno::INVALID),
    }
}

fn said_setting(Setting { value, interval }: Setting) -> ufutex_itimerspec {
    let [value, interval] = [value, interval].map(|time| ufutex_timespec {
        seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: time.subsec_nanos().into(),
    });
    ufutex_itimerspec { interval, value }
}

/// Stores a timer's setting in *setting: the interval, and the time that is left until it expires, 0 if it is not
/// armed: timer_gettime(2).
///
/// Returns 0. -EINVAL: no such timer.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_gettime(
    timers: *mut ufutex_timers,
    id: i32,
    setting: *mut ufutex_itimerspec,
) -> c_int {
    done(|| {
        abi::check_out(setting)?;
        let now = Held::<TimersObject>::new(timers)?.timers.gettime(id)?;
        // SAFETY: checked above; the program guarantees that it is valid for a write.
        unsafe { abi::store(setting, said_setting(now)) }
    })
}

/// How many intervals of a timer had passed unnoticed when its last expiry was taken: timer_getoverrun(2). Takes no lock.
///
/// Returns that number, at most INT_MAX, or -1 if the clock was set back to before that expiry. -EINVAL: no such timer.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_getoverrun(timers: *mut ufutex_timers, id: i32) -> c_int {
    int(|| Ok(c_long::from(Held::<TimersObject>::new(timers)?.timers.getoverrun(id)?)))
}

/// Deletes a timer: timer_delete(2). An expiry that was not taken becomes void.
///
/// Returns 0. -EINVAL: no such timer.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_delete(timers: *mut ufutex_timers, id: i32) -> c_int {
    done(|| Ok(Held::<TimersObject>::new(timers)?.timers.delete(id)?))
}

/// Deletes all timers: exec(2). A process that fork(2) makes gets timers of its own, which are empty.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_clear(timers: *mut ufutex_timers) -> c_int {
    done(|| Held::<TimersObject>::new(timers).map(|held| held.timers.clear()))
}

/// The number of timers.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_count(timers: *mut ufutex_timers) -> c_long {
    long(|| Ok(Held::<TimersObject>::new(timers)?.timers.count()))
}

/// The memory of all timers of this process, in bytes.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_bytes(timers: *mut ufutex_timers) -> c_long {
    long(|| Ok(Held::<TimersObject>::new(timers)?.timers.bytes()))
}

/// Takes the next expired timer out of the line, and blocks the caller until there is one. timeout: UFUTEX_FOREVER,
/// UFUTEX_AFTER, UFUTEX_UNTIL_..., by the host's clocks. UFUTEX_AFTER with 0 nanoseconds does not block. An interval
/// timer stands in the line once. Its overrun is counted until it is taken, and then it is armed again. While a thread is
/// in this function, the timers are not freed: to have it return, arm a timer that it knows.
///
/// Stores the expiry in *expired and returns 0. -ETIMEDOUT; -EINVAL: the delivery is not UFUTEX_DELIVER_LINE, an
/// unknown timeout.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_receive(
    timers: *mut ufutex_timers,
    timeout: u32,
    nanoseconds: u64,
    expired: *mut ufutex_expired,
) -> c_int {
    done(|| {
        abi::check_out(expired)?;
        let held = Held::<TimersObject>::new(timers)?;
        let Delivery::Line(line) = &held.delivery else { return Err(Errno::INVALID) };
        let next = match timeout_of(timeout, nanoseconds)? {
            None => line.recv(),
            Some(Timeout::After(Duration::ZERO)) => line.try_recv().ok_or(Errno::TIMED_OUT)?,
            Some(timeout) => line.recv_timeout(timeout).ok_or(Errno::TIMED_OUT)?,
        };
        // SAFETY: checked above; the program guarantees that it is valid for a write.
        unsafe { abi::store(expired, said_expired(next)) }
    })
}

/// Takes a notice that expired was called with, when its signal is delivered. Only now is the overrun known, and an
/// interval timer is armed again. Any numbers may be passed as a notice.
///
/// Stores the expiry in *taken and returns 1. Returns 0 if the notice is void, because the timer was set again or
/// deleted, or it has been taken: nothing is to be delivered. -EINVAL: an unknown kind.
///
/// Calls changed of ufutex_timer_clocks.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_take(
    timers: *mut ufutex_timers,
    notice: *const ufutex_notice,
    taken: *mut ufutex_expired,
) -> c_int {
    int(|| {
        let held = Held::<TimersObject>::new(timers)?;
        check_in(notice)?;
        abi::check_out(taken)?;
        // SAFETY: checked above; the program guarantees that it is valid for a read.
        let notice = kept(unsafe { &*notice })?;
        let Some(expired) = notice.and_then(|notice| held.timers.take(notice)) else { return Ok(0) };
        // SAFETY: checked above; the program guarantees that it is valid for a write.
        unsafe { abi::store(taken, said_expired(expired))? };
        Ok(1)
    })
}

/// Makes a system call on timers for a guest, by its number. number: that on x86-64, or that of another architecture
/// with UFUTEX_GENERIC_NUMBER, UFUTEX_I386_NUMBER, UFUTEX_ARM_NUMBER or UFUTEX_RISCV32_NUMBER added: timer_create,
/// timer_settime, timer_settime64, timer_gettime, timer_gettime64, timer_getoverrun, timer_delete, and prctl for
/// PR_TIMER_CREATE_RESTORE_IDS. process, thread: the caller's PID and TID. args: its six arguments. memory: the memory
/// that they point to; NULL for this program's own. No call blocks.
///
/// Returns the kernel's result, from 0 up or -errno, with the kernel's order of errors. This function adds the errors
/// that follow. -ENOSYS: another number; -EINVAL: a function is missing from memory.
///
/// Calls changed of ufutex_timer_clocks.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_timers_syscall(
    timers: *mut ufutex_timers,
    process: i32,
    thread: i32,
    memory: *const ufutex_memory,
    number: u64,
    args: *const u64,
) -> c_long {
    long(|| {
        let held = Held::<TimersObject>::new(timers)?;
        let tables = [TimerCall::x86_64, TimerCall::generic, TimerCall::i386, TimerCall::arm, TimerCall::riscv32];
        // SAFETY: the program passes a memory that is as large as it says, and six arguments.
        let (memory, call, args) = unsafe { (own_memory(memory)?, call_of(number, tables)?, read_args(args)?) };
        let memory = memory.unwrap_or(Memory::OWN);
        Ok(held.timers.syscall(Caller { process, thread }, &memory, call, args) as c_long)
    })
}
