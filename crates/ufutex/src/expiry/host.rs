//! The host's clocks, and the thread that waits for them in timerfds.

use alloc::sync::Arc;
use core::ptr::NonNull;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use super::clocks::LAST;
use super::thread::DriverThread;
use super::{Base, CpuClock, Driver, Inner, NEVER};
use crate::error::Error;
use crate::sys::counted::Counted;
use crate::table::lock::Lock;

/// What the thread waits with: one timerfd for each clock, and a bell.
struct Files {
    timers: [OwnedFd; 4],
    bell: OwnedFd,
    /// Who made them. After fork(2) the child has them too, and what it programmed would be its parent's.
    process: libc::pid_t,
    /// Whose thread it is, as long as its memory is there: not a handle, which would keep it for ever.
    driver: Lock<Option<Address>>,
}

/// The host's side of a driver.
pub(super) struct Host {
    /// Empty until the thread has been started. A thread that finds it full also sees the files as they were made,
    /// which `OnceLock` guarantees.
    files: OnceLock<Arc<Files>>,
    /// Held while the thread is being started, so that only one is. A contender sleeps.
    starting: Lock<()>,
    thread: DriverThread,
}

/// The thread needs little: what it calls are deliveries and wakers.
const NAME: &str = "ufutex-timers";

impl Host {
    pub fn new(thread: DriverThread) -> Self {
        Self { files: OnceLock::new(), starting: Lock::new(()), thread }
    }

    fn files(&self) -> Option<&Files> {
        self.files.get().map(|files| &**files)
    }

    /// The files, unless they are a parent's.
    fn own_files(&self) -> Option<&Files> {
        // SAFETY: has no conditions.
        self.files().filter(|files| files.process == unsafe { libc::getpid() })
    }

    /// Starts the thread, if there is none.
    ///
    /// # Errors
    /// [`Error::NoMemory`] when the host refuses a file or the thread.
    pub fn start(&self, driver: &Driver) -> Result<(), Error> {
        if self.files().is_some() { Ok(()) } else { self.start_slowly(driver) }
    }

    #[cold]
    fn start_slowly(&self, driver: &Driver) -> Result<(), Error> {
        let _starting = self.starting.lock();
        if self.files().is_some() { Ok(()) } else { self.start_now(driver) }
    }

    fn start_now(&self, driver: &Driver) -> Result<(), Error> {
        let files = Arc::new(Files::open(Address(NonNull::from(&*driver.inner)))?);
        let (theirs, settings) = (files.clone(), self.thread.clone());
        let thread = std::thread::Builder::new().name(NAME.into()).stack_size(256 << 10);
        let signals = SignalsBlocked::new(); // the thread inherits that: handlers are the program's
        let spawned = thread.spawn(move || {
            // Another thing that the thread must not inherit: the scheduling of the thread that starts it.
            settings.apply();
            theirs.run();
        });
        drop(signals);
        spawned.map_err(|_| Error::NoMemory)?;
        // Sets the files: they were not set before, and `starting` is held.
        self.files.get_or_init(|| files);
        Ok(())
    }

    /// Makes the thread turn at `at`, by `base`.
    pub fn program(&self, base: Base, at: u64) {
        let Some(files) = self.own_files() else { return };
        // There are no timerfds of CLOCK_TAI. It is set together with CLOCK_REALTIME, and so stays as far from it.
        let at = match base {
            Base::Tai if at != NEVER => at.saturating_sub(now(Base::Tai).saturating_sub(now(Base::Realtime))),
            _ => at,
        };
        files.set(base, if at == NEVER { 0 } else { at.clamp(1, LAST) });
    }

    /// Makes the thread turn now.
    pub fn wake(&self) {
        if let Some(files) = self.own_files() {
            files.ring();
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(files) = self.files() {
            files.driver.lock().with(Option::take);
            self.wake();
            // The thread is not waited for: it may be the one that drops the driver.
        }
    }
}

/// Where a driver is.
#[derive(Clone, Copy)]
struct Address(NonNull<Inner>);

// SAFETY: a driver can be used by all threads.
unsafe impl Send for Address {}

impl Files {
    fn open(driver: Address) -> Result<Self, Error> {
        let timer = |base| {
            // SAFETY: makes a file, or says that it cannot.
            owned(unsafe { libc::timerfd_create(waited_on(base), libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) })
        };
        let [monotonic, realtime, boottime, tai] = Base::ALL.map(timer);
        // SAFETY: as above.
        let bell = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: has no conditions.
        let process = unsafe { libc::getpid() };
        Ok(Self { timers: [monotonic?, realtime?, boottime?, tai?], bell, process, driver: Lock::new(Some(driver)) })
    }

    /// Lets the timer of `base` ring at `at`; 0: never.
    fn set(&self, base: Base, at: u64) {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
        let setting = libc::itimerspec { it_interval: none, it_value: value };
        let fd = self.timers[base as usize].as_raw_fd();
        // Points in time: when the clock is set, the file rings when it shows that time, and no news of it is needed.
        // SAFETY: `setting` outlives the call. It cannot fail: the file is a timer and the time is valid.
        unsafe { libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &raw const setting, core::ptr::null_mut()) };
    }

    fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight bytes, as an eventfd takes them. If it is full, it rings already.
        unsafe { libc::write(self.bell.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// What the thread does until the driver goes.
    fn run(&self) {
        while let Some(driver) = self.driver() {
            // If a waker or a delivery panics, the panic hook has reported it, and the thread goes on serving the other
            // timers. The payload is leaked, since its drop may panic. Dropping the last handle of the driver may panic
            // too.
            core::mem::forget(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| driver.turn())));
            core::mem::forget(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(driver))));
            self.wait();
        }
    }

    /// The driver, kept; `None` when it is gone, or going.
    fn driver(&self) -> Option<Driver> {
        self.driver.lock().with(|driver| {
            // SAFETY: the thread that drops the last handle takes the address away, with this lock, before the memory
            // is freed.
            let inner = unsafe { Counted::upgrade((*driver)?.0) }?;
            Some(Driver { inner })
        })
    }

    /// Sleeps until something rings.
    fn wait(&self) {
        let fds =
            [&self.timers[0], &self.timers[1], &self.timers[2], &self.timers[3], &self.bell].map(AsRawFd::as_raw_fd);
        let mut polled = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        // SAFETY: `polled` has `polled.len()` structs.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
        for fd in polled.iter().filter(|polled| polled.revents != 0).map(|polled| polled.fd) {
            silence(fd);
        }
    }
}

/// Takes what rings: expirations, rings of the bell.
fn silence(fd: RawFd) {
    let mut count = 0u64;
    // SAFETY: room for eight bytes, which is what both kinds of files give.
    unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
}

fn owned(fd: RawFd) -> Result<OwnedFd, Error> {
    // SAFETY: just made, and nobody else's.
    if fd < 0 { Err(Error::NoMemory) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}

/// How many CPUs there are. By no way that allocates: a system can be made without memory to spare.
pub(super) fn cpus() -> u64 {
    // SAFETY: asks for a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1).max(1)
}

/// What `base` shows.
pub(super) fn now(base: Base) -> u64 {
    read(shown_by(base)).unwrap_or(0)
}

/// The CPU time that `of` has had.
pub(super) fn cpu_time(of: CpuClock) -> Option<u64> {
    // As clock_getcpuclockid(3) and pthread_getcpuclockid(3) make them.
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

fn waited_on(base: Base) -> libc::clockid_t {
    if base == Base::Tai { libc::CLOCK_REALTIME } else { shown_by(base) }
}

/// The calling thread's signals, blocked until this is dropped.
struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    fn new() -> Self {
        // SAFETY: a set of bits, which `sigfillset` sets; `before` is written by the call.
        unsafe {
            let (mut all, mut before) = (core::mem::zeroed(), core::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: as it was before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, core::ptr::null_mut()) };
    }
}
