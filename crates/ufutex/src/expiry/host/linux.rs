//! Linux: the driver's thread waits for timerfds, which ring by the kernel's own clocks.

use core::ptr::NonNull;
use core::time::Duration;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::super::clocks::LAST;
use super::super::thread::{Cpus, DriverThread, Mask, NO_CPUS};
use super::super::{Base, CpuClock, NEVER};
use super::{NAME, STACK, Shared};
use crate::error::Error;
use crate::sys::counted::Counted;
use crate::sys::host::{sleep, timespec};

/// Longest sleep of the thread while a timer of `CLOCK_TAI` is armed, in nanoseconds: see [`Alarm::set`].
const TAI_CHECK: u64 = 1_000_000_000;

pub struct Alarm {
    timers: [OwnedFd; 4],
    /// An epoll(7) instance: unlike poll(2), it works if `RLIMIT_NOFILE` has been lowered below four since.
    all: OwnedFd,
}

impl Alarm {
    /// If the process may open no more files, tries again for a second: see `Driver::start`.
    pub fn new() -> Result<Self, Error> {
        for _ in 0..1000 {
            match Self::open() {
                Err(error) if error.raw_os_error() == Some(libc::EMFILE) => sleep_a_moment(),
                opened => return opened.map_err(|_| Error::NoMemory),
            }
        }
        Err(Error::NoMemory)
    }

    fn open() -> std::io::Result<Self> {
        let timer = |base| {
            let clock = if base == Base::Tai { libc::CLOCK_REALTIME } else { shown_by(base) };
            // SAFETY: opens a file or fails.
            owned(unsafe { libc::timerfd_create(clock, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) })
        };
        let [monotonic, realtime, boottime, tai] = Base::ALL.map(timer);
        let timers = [monotonic?, realtime?, boottime?, tai?];
        // SAFETY: opens a file or fails.
        let all = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        for (i, file) in timers.iter().enumerate() {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: i as u64 };
            // SAFETY: `event` outlives the call.
            if unsafe { libc::epoll_ctl(all.as_raw_fd(), libc::EPOLL_CTL_ADD, file.as_raw_fd(), &raw mut event) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(Self { timers, all })
    }

    /// Makes [`wait`](Self::wait) return at time `at` of `base`; at once if `at` is 0. For `CLOCK_TAI` it may return earlier.
    pub fn set(&self, base: Base, at: u64) {
        // There are no timerfds of CLOCK_TAI, and Linux does not report when adjtimex(2) or a leap second changes its
        // difference to CLOCK_REALTIME. So the thread wakes each second and reads the clock.
        let at = match base {
            Base::Tai if at != NEVER => {
                let left = at.saturating_sub(now(Base::Tai)).min(TAI_CHECK);
                now(Base::Realtime).saturating_add(left)
            }
            _ => at,
        };
        // To a timerfd 0 means never.
        let at = if at == NEVER { 0 } else { at.clamp(1, LAST) };
        let (none, value) = (timespec(Duration::ZERO), timespec(Duration::from_nanos(at)));
        let setting = libc::itimerspec { it_interval: none, it_value: value };
        let fd = self.timers[base as usize].as_raw_fd();
        // SAFETY: `setting` outlives the call. It cannot fail: the file is a timer and the time is valid.
        unsafe { libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &raw const setting, core::ptr::null_mut()) };
    }

    pub fn wait(&self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: `events` has room for `events.len()` structs.
        let count = unsafe { libc::epoll_wait(self.all.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, -1) };
        let Ok(count) = usize::try_from(count) else {
            // Interrupted, or the program has closed all its files: then the thread must not keep a CPU busy.
            sleep_a_moment();
            return;
        };
        for event in &events[..count] {
            // A program that closes all its files may have put another epoll(7) in the place of this one.
            let Some(file) = self.timers.get(event.u64 as usize) else {
                sleep_a_moment();
                continue;
            };
            let mut count = 0u64;
            // SAFETY: there is room for the eight bytes that reading a timerfd returns. Then it rings no more.
            unsafe { libc::read(file.as_raw_fd(), (&raw mut count).cast(), 8) };
        }
    }
}

fn sleep_a_moment() {
    sleep(Duration::from_millis(1));
}

fn owned(fd: libc::c_int) -> std::io::Result<OwnedFd> {
    // SAFETY: just opened, and not owned by anything else.
    if fd < 0 { Err(std::io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}

/// Must not allocate: a system can be made when there is no memory left.
pub fn cpus() -> u64 {
    // SAFETY: returns a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1).max(1)
}

pub fn now(base: Base) -> u64 {
    read(shown_by(base)).unwrap_or(0)
}

pub fn cpu_time(of: CpuClock) -> Option<u64> {
    // As clock_getcpuclockid(3) and pthread_getcpuclockid(3) build the IDs.
    read(match of {
        CpuClock::Process(process) => !process << 3 | 2,
        CpuClock::Thread(thread) => !thread << 3 | 6,
    })
}

fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn shown_by(base: Base) -> libc::clockid_t {
    match base {
        Base::Monotonic => libc::CLOCK_MONOTONIC,
        Base::Realtime => libc::CLOCK_REALTIME,
        Base::Boottime => libc::CLOCK_BOOTTIME,
        Base::Tai => libc::CLOCK_TAI,
    }
}

/// Starts the driver's thread. The standard library would end the program if there is no memory.
pub fn spawn(shared: Counted<Shared>) -> Result<(), Error> {
    // A stack smaller than the program's thread-local variables is invalid.
    let result = match create(&shared, Some(STACK)) {
        libc::EINVAL => create(&shared, None),
        result => result,
    };
    if result != 0 {
        return Err(Error::NoMemory);
    }
    core::mem::forget(shared); // the thread has this handle
    Ok(())
}

/// Makes a thread that adopts the handle `shared`, with a stack of this size or the default one. Returns 0 or an errno.
fn create(shared: &Shared, stack: Option<usize>) -> libc::c_int {
    let argument = core::ptr::from_ref(shared).cast_mut().cast();
    // SAFETY: `attributes` is initialised by the first call and freed by the last. The thread's handle keeps `shared`.
    unsafe {
        let mut attributes = core::mem::zeroed();
        if let error @ 1.. = libc::pthread_attr_init(&raw mut attributes) {
            return error;
        }
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let refused = stack.map_or(0, |stack| libc::pthread_attr_setstacksize(&raw mut attributes, stack));
        let mut thread = core::mem::zeroed();
        let result = match refused {
            0 => libc::pthread_create(&raw mut thread, &raw const attributes, run, argument),
            error => error,
        };
        libc::pthread_attr_destroy(&raw mut attributes);
        result
    }
}

/// Panics do not leave `Shared::run`.
extern "C" fn run(shared: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `spawn` has forgotten this handle, or is about to, for this thread alone.
    let shared = unsafe { Counted::adopt(NonNull::new_unchecked(shared.cast::<Shared>())) };
    // SAFETY: names this thread; the name outlives the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, NAME.as_ptr()) };
    shared.run();
    core::ptr::null_mut()
}

impl DriverThread {
    /// Applies the settings to the calling thread, as far as the host permits them.
    pub fn apply(&self) {
        self.apply_cpus();
        let priority = i32::from(self.realtime);
        let policy = if priority == 0 { libc::SCHED_OTHER } else { libc::SCHED_FIFO };
        // SAFETY: sets this thread's scheduling; a `sched_param` begins with the priority. Some libcs lack the function.
        let is_set = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) } == 0;
        if !is_set && policy == libc::SCHED_FIFO {
            // Replace at least the inherited policy, which may be `SCHED_IDLE`.
            let none = 0i32;
            // SAFETY: as above.
            unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_OTHER, &raw const none) };
        }
        // SAFETY: sets the nice value of this thread, which 0 means on Linux.
        unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, i32::from(self.nice)) };
    }

    fn apply_cpus(&self) {
        let mask = match &self.cpus {
            Cpus::Starter => return,
            Cpus::Only(cpus) => *cpus.0,
            Cpus::Process => {
                let mut mask = NO_CPUS;
                // SAFETY: `mask` has room for its size. The main thread's TID is the process's PID.
                let read = unsafe {
                    libc::syscall(libc::SYS_sched_getaffinity, libc::getpid(), size_of::<Mask>(), mask.as_mut_ptr())
                };
                if read <= 0 {
                    return;
                }
                mask
            }
        };
        // SAFETY: reads the mask, and changes where this thread runs.
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of::<Mask>(), mask.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const HOUR: u64 = 3_600_000 * MS;

    fn rings_after(alarm: &Alarm, base: Base) -> u64 {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let mut setting = libc::itimerspec { it_interval: none, it_value: none };
        // SAFETY: `setting` is valid for the write.
        assert_eq!(0, unsafe { libc::timerfd_gettime(alarm.timers[base as usize].as_raw_fd(), &raw mut setting) });
        setting.it_value.tv_sec as u64 * 1_000_000_000 + setting.it_value.tv_nsec as u64
    }

    #[test]
    fn an_alarm_of_tai_rings_now_and_then() {
        let alarm = Alarm::new().expect("the host has files");
        for base in Base::ALL {
            let began = now(Base::Monotonic);
            alarm.set(base, now(base) + HOUR);
            let after = rings_after(&alarm, base);
            let passed = now(Base::Monotonic) - began;
            let rings = if base == Base::Tai { TAI_CHECK } else { HOUR };
            assert!(after <= rings && after + passed >= rings, "{base:?} rings {after} ns after {passed} ns");
            alarm.set(base, now(base) + 500 * MS);
            assert!(rings_after(&alarm, base) <= 500 * MS);
            alarm.set(base, NEVER);
            assert_eq!(rings_after(&alarm, base), 0, "it does not ring");
        }
    }
}
