//! `--timers`: timer_create(2) and its family on the engine.
//!
//! A process has none of this before its first call, and a forked child has nothing of its parent's: everything is in
//! the mapping of `process.rs`. A child that shares its parent's memory (vfork) gets the kernel's timers, if it makes
//! any.

mod alarm;
mod callers;
pub mod credentials;
mod functions;
mod mail;
pub mod running;
mod schedule;
pub mod wait;

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::boxed::Box;
use std::sync::Arc;

use ufutex::timer::{Caller, Driver, TimerCall, TimerOptions, Timers};

use crate::memory::{self, Native};
use crate::process::{self, Process, process};
use crate::{gate, raw, settings, stack};

pub use alarm::{Host, now};
pub use callers::{Event, create as create_calling};
pub use mail::arrive;

/// The operation of prctl(2).
pub const PR_TIMER_CREATE_RESTORE_IDS: u64 = 77;

/// The system calls of timers, whose numbers are consecutive.
pub const TIMERS: [i64; 5] = [
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_delete,
];
const _: () = assert!(TIMERS[0] == 222 && TIMERS[4] == 226);

/// Whether the engine has the timers. Read by the assembly of `entry.rs`.
pub static ON: AtomicBool = AtomicBool::new(false);
/// Whether the functions of sigwait(3)'s family are replaced. With `--trap` they are not, because their system calls
/// trap.
pub static WAITS: AtomicBool = AtomicBool::new(false);
/// Whether the engine has the timers, and the program's `timer_t` is a timer's ID. With `--trap`, libc makes the timers, and
/// before 2.33 its `timer_t` is a pointer.
static BY_ID: AtomicBool = AtomicBool::new(false);
/// Whether libc lets signals in before it calls a function for SIGEV_THREAD, as it did before 2.32.
static UNBLOCKS: AtomicBool = AtomicBool::new(false);
/// Whether a process that borrows its parent's memory has made timers there. From then on each call has to check which
/// process owns the memory.
static BORROWED: AtomicBool = AtomicBool::new(false);

/// Reads the settings, before the program begins.
pub fn begin() {
    alarm::begin();
    let settings = settings::get();
    ON.store(settings.timers, Ordering::Relaxed);
    WAITS.store(settings.timers && !settings.trap, Ordering::Relaxed);
    BY_ID.store(settings.timers && !(settings.trap && libc_is_before("2.33")), Ordering::Relaxed);
    UNBLOCKS.store(libc_is_before("2.32"), Ordering::Relaxed);
}

/// Whether libc is older than this version of two numbers, of which the second has two digits.
fn libc_is_before(version: &str) -> bool {
    // SAFETY: a string of libc's.
    unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_bytes() < version.as_bytes()
}

/// Whether the engine has the timers.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The timers of the process.
pub struct Timing {
    timers: Timers,
    driver: Driver,
    alarm: alarm::Alarm,
    mail: mail::Mail,
    callers: callers::Callers,
}

/// Counts for the report.
#[derive(Clone, Copy)]
pub enum Count {
    Made,
    Set,
    Expired,
    Delivered,
    Overruns,
}

/// The number of counts.
pub const COUNTS: usize = 5;

fn count(what: Count, by: u64) {
    if settings::get().stats.is_some()
        && let Some(process) = process()
    {
        process.timer_counts[what as usize].fetch_add(by, Ordering::Relaxed);
    }
}

/// The process's timers. `None` before its first call.
fn timing() -> Option<&'static Timing> {
    // [Pa]: Acquire pairs with the Release of `make`.
    // SAFETY: null or a leaked box.
    unsafe { process()?.timing.load(Ordering::Acquire).as_ref() }
}

fn timing_or_make(process: &'static Process) -> Option<&'static Timing> {
    timing().or_else(|| make(process))
}

#[cold]
fn make(process: &'static Process) -> Option<&'static Timing> {
    let _locked = process.making.lock();
    let mut made = process.timing.load(Ordering::Relaxed);
    if made.is_null() {
        stack::run(|| made = Timing::new().map_or(ptr::null_mut(), |timing| Box::into_raw(Box::new(timing))));
        process.timing.store(made, Ordering::Release); // [Pa]
    }
    // SAFETY: a leaked box.
    unsafe { made.as_ref() }
}

impl Timing {
    fn new() -> Result<Self, ufutex::Error> {
        let driver = Driver::with_clocks(Arc::new(Host))?;
        // No limit: no other process uses these timers' driver.
        let options = TimerOptions::new().max_timers(usize::MAX);
        let timers = Timers::with_options(&driver, Arc::new(mail::Post), options)?;
        Ok(Self {
            timers,
            driver,
            alarm: alarm::Alarm::new(),
            mail: mail::Mail::new(),
            callers: callers::Callers::new(),
        })
    }
}

/// The number of threads that wait for the clocks, 0 or 1. The program did not make them.
pub fn own_threads() -> usize {
    timing().map_or(0, |timing| timing.alarm.has_thread().into())
}

/// Called by a thread that is about to end by exit(2). If the program has no other, the process ends with it, and so must
/// the thread that waits for the clocks.
pub fn before_exit_of_thread() {
    if !is_on() || timing().is_none() {
        return;
    }
    let others = usize::from(running::has_first_ended()) + own_threads();
    if process::threads() != Some(1 + others) {
        return;
    }
    let Some(process) = process().filter(|process| !process.is_borrowed()) else { return };
    let mask = gate::block_all();
    credentials::hold(process);
    gate::set_mask(mask);
}

/// Makes one of the program's calls, and returns its result. Call with signals blocked or deferred.
pub fn call(number: i64, mut args: [u64; 6]) -> isize {
    let mut copy;
    if number == libc::SYS_timer_create
        && let Ok(event) = memory::read::<Event>(args[1])
    {
        // The engine reads the copy, which no other thread can change after this check. To the engine this thread means
        // SIGEV_THREAD. To the kernel it is a thread that does not exist: `EINVAL`. Thread 0 does not exist either.
        copy = event;
        if copy.names_caller() {
            copy.name_no_thread();
        }
        args[1] = (&raw const copy) as u64;
    }
    call_with(number, args)
}

/// Makes one of the calls, by the program or by `callers.rs`.
fn call_with(number: i64, args: [u64; 6]) -> isize {
    let (Some(call), Some(process)) = (TimerCall::x86_64(number.cast_unsigned()), process()) else {
        return -(libc::ENOSYS as isize);
    };
    let makes = call == TimerCall::Create;
    if (makes || BORROWED.load(Ordering::Relaxed)) && process.is_borrowed() {
        // The timers in this memory belong to the parent.
        BORROWED.store(true, Ordering::Relaxed);
        return kernel(number, args);
    }
    let Some(timing) = timing_or_make(process) else { return -(libc::EAGAIN as isize) };
    if (makes || call == TimerCall::Settime) && !timing.alarm.start(process, timing) {
        return -(libc::EAGAIN as isize);
    }
    if call == TimerCall::Getoverrun {
        timing.mail.check_bell_of(timing, args[0] as i32);
    }
    let caller = caller(makes && matches!(args[0] as i32, ..0 | 2 | 3));
    let result = timing.timers.syscall(caller, &Native, call, args);
    match call {
        TimerCall::Create if result == 0 => count(Count::Made, 1),
        TimerCall::Settime => {
            count(Count::Set, (result == 0).into());
            timing.mail.withdraw(timing, args[0] as i32);
        }
        TimerCall::Delete => {
            timing.mail.withdraw(timing, args[0] as i32);
            timing.callers.forget(args[0] as i32);
        }
        _ => {}
    }
    result
}

/// The calling process and thread, if `matters` is set: only clocks of CPU time need them.
fn caller(matters: bool) -> Caller {
    if matters { Caller { process: raw::pid(), thread: raw::tid() } } else { Caller { process: 0, thread: 0 } }
}

/// The event of libc's `timer_create` if the program passes none: SIGALRM, with the value 0. The kernel would send the
/// timer's ID as the value, which is not known yet.
pub static ALARM: [u64; 8] = [0, libc::SIGALRM as u64, 0, 0, 0, 0, 0, 0];

/// Makes the call in the kernel.
pub fn kernel(number: i64, mut args: [u64; 6]) -> isize {
    args[5] = raw::COOKIE;
    // SAFETY: the program's own call.
    unsafe { raw::syscall6(number, args) }
}
