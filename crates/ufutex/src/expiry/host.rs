//! The host's clocks, and the thread that waits for them in timerfds.

use alloc::sync::Arc;
use core::ptr::NonNull;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use super::clocks::LAST;
use super::thread::DriverThread;
use super::{Base, CpuClock, Driver, Inner, NEVER};
use crate::error::Error;
use crate::lock::Lock;
use crate::sys::counted::Counted;
use crate::sys::platform::PlatformRef;

/// The files that the thread waits for: one timerfd for each clock, and an eventfd as a bell.
struct Files {
    timers: [OwnedFd; 4],
    bell: OwnedFd,
    /// The process that opened the files. After fork(2) the child has the files too, and setting them would affect its
    /// parent.
    process: libc::pid_t,
    /// The driver, or `None` once its memory is about to be freed. This is no handle, which would keep the driver for
    /// ever.
    driver: Lock<Option<Address>>,
}

/// The host's side of a driver.
pub(super) struct Host {
    /// Empty until the thread has been started. `OnceLock` guarantees that a thread that finds it set sees the files as
    /// they were opened.
    files: OnceLock<Arc<Files>>,
    /// Held while the thread is being started, so that only one is. Contenders sleep.
    starting: Lock<()>,
    thread: DriverThread,
}

/// The name of the driver's thread. Its stack is small, because it only calls deliveries and wakers.
const NAME: &str = "ufutex-timers";

impl Host {
    pub fn new(thread: DriverThread) -> Self {
        Self { files: OnceLock::new(), starting: Lock::new(PlatformRef::HOST, ()), thread }
    }

    fn files(&self) -> Option<&Files> {
        self.files.get().map(|files| &**files)
    }

    /// The files, unless they were inherited from a parent process.
    fn own_files(&self) -> Option<&Files> {
        // SAFETY: has no conditions.
        self.files().filter(|files| files.process == unsafe { libc::getpid() })
    }

    /// Starts the thread, if it has not been started.
    ///
    /// # Errors
    /// [`Error::NoMemory`] if the host refuses a file or the thread.
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
        let signals = SignalsBlocked::new(); // inherited by the thread, so that it runs no handlers of the program
        let spawned = thread.spawn(move || {
            // Nor must the thread inherit the scheduling of the thread that starts it.
            settings.apply();
            theirs.run();
        });
        drop(signals);
        spawned.map_err(|_| Error::NoMemory)?;
        // Sets the files: they were not set before, and this thread holds `starting`.
        self.files.get_or_init(|| files);
        Ok(())
    }

    /// Makes the thread turn at time `at` of `base`.
    pub fn program(&self, base: Base, at: u64) {
        let Some(files) = self.own_files() else { return };
        // There are no timerfds of CLOCK_TAI. It is set together with CLOCK_REALTIME, so the difference of the two is
        // constant.
        let at = match base {
            Base::Tai if at != NEVER => at.saturating_sub(now(Base::Tai).saturating_sub(now(Base::Realtime))),
            _ => at,
        };
        files.set(base, if at == NEVER { 0 } else { at.clamp(1, LAST) });
    }

    /// Makes the thread turn now.
    pub fn wake(&self) {
        if let Some(files) = self.own_files() {
            files.wake_thread();
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(files) = self.files() {
            files.driver.lock().with(Option::take);
            self.wake();
            // The thread is not waited for: it may be the thread that drops the driver.
        }
    }
}

/// The address of a driver.
#[derive(Clone, Copy)]
struct Address(NonNull<Inner>);

// SAFETY: a driver can be used from all threads.
unsafe impl Send for Address {}

impl Files {
    fn open(driver: Address) -> Result<Self, Error> {
        let timer = |base| {
            // SAFETY: opens a file or fails.
            owned(unsafe { libc::timerfd_create(waited_on(base), libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) })
        };
        let [monotonic, realtime, boottime, tai] = Base::ALL.map(timer);
        // SAFETY: opens a file or fails.
        let bell = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: has no conditions.
        let process = unsafe { libc::getpid() };
        Ok(Self {
            timers: [monotonic?, realtime?, boottime?, tai?],
            bell,
            process,
            driver: Lock::new(PlatformRef::HOST, Some(driver)),
        })
    }

    /// Sets the timer of `base` to ring at `at`; 0 means never.
    fn set(&self, base: Base, at: u64) {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
        let setting = libc::itimerspec { it_interval: none, it_value: value };
        let fd = self.timers[base as usize].as_raw_fd();
        // An absolute time: if the clock is set, the timerfd rings when it shows that time, so setting it needs no
        // action here.
        // SAFETY: `setting` outlives the call. It cannot fail: the file is a timer and the time is valid.
        unsafe { libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &raw const setting, core::ptr::null_mut()) };
    }

    fn wake_thread(&self) {
        let one = 1u64;
        // SAFETY: an eventfd takes eight bytes. If it is full, it rings already.
        unsafe { libc::write(self.bell.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// The thread's loop. It ends with the driver.
    fn run(&self) {
        while let Some(driver) = self.driver() {
            // If a waker or a delivery panics, the panic hook has reported it, and the thread goes on serving the other
            // timers. The payload is leaked, because its drop may panic. Dropping the last handle of the driver may
            // panic too.
            core::mem::forget(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| driver.turn())));
            core::mem::forget(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(driver))));
            self.wait();
        }
    }

    /// A handle of the driver; `None` if it has been freed, or is about to be.
    fn driver(&self) -> Option<Driver> {
        self.driver.lock().with(|driver| {
            // SAFETY: the thread that drops the last handle takes the address out, under this lock, before the memory
            // is freed.
            let inner = unsafe { Counted::upgrade((*driver)?.0) }?;
            Some(Driver { inner })
        })
    }

    /// Sleeps until a file rings.
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

/// Reads a file that rings, which stops it.
fn silence(fd: RawFd) {
    let mut count = 0u64;
    // SAFETY: there is room for eight bytes, which is what reading a timerfd or an eventfd returns.
    unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
}

fn owned(fd: RawFd) -> Result<OwnedFd, Error> {
    // SAFETY: just opened, and not owned by anything else.
    if fd < 0 { Err(Error::NoMemory) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}

/// The number of CPUs. It must not allocate: a system can be made when there is no memory left.
pub(super) fn cpus() -> u64 {
    // SAFETY: returns a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1).max(1)
}

/// The time on `base`, in nanoseconds.
pub(super) fn now(base: Base) -> u64 {
    read(shown_by(base)).unwrap_or(0)
}

/// The CPU time that `of` has used, in nanoseconds.
pub(super) fn cpu_time(of: CpuClock) -> Option<u64> {
    // The clock IDs are built as clock_getcpuclockid(3) and pthread_getcpuclockid(3) build them.
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

/// Blocks the calling thread's signals until it is dropped.
struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    fn new() -> Self {
        // SAFETY: `all` is a set of bits, which `sigfillset` sets; `before` is written by the call.
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
        // SAFETY: restores the mask from before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, core::ptr::null_mut()) };
    }
}
