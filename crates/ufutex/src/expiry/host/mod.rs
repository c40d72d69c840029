//! The driver's thread on the host, which waits by the host's clocks.

#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "for its own tests"))]
mod any_std;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
use any_std as chosen;
#[cfg(target_os = "linux")]
use linux as chosen;

use core::ptr::NonNull;
use std::sync::OnceLock;

use super::thread::DriverThread;
use super::{Base, Driver, DriverInner};
use crate::error::Error;
use crate::lock::Lock;
use crate::sys::counted::{Counted, Inner};
use crate::sys::platform::PlatformRef;
use crate::sys::unwind::Otherwise;
use chosen::Alarm;
pub(super) use chosen::{cpu_time, cpus, now};

/// What the thread and the driver share.
struct Shared {
    alarm: Alarm,
    /// The process that has the thread.
    process: u32,
    /// The driver's memory, or `None` once it is about to be freed. This is no handle, which would keep the driver for ever.
    driver: Lock<Option<DriverMemory>>,
    settings: DriverThread,
}

#[derive(Clone, Copy)]
struct DriverMemory(NonNull<Inner<DriverInner>>);

// SAFETY: a driver can be used from all threads.
unsafe impl Send for DriverMemory {}

/// The host's side of a driver.
pub(super) struct HostDriver {
    /// Empty until the thread has been started.
    shared: OnceLock<Counted<Shared>>,
    /// Held while the thread is being started, so that only one is. Contenders sleep.
    starting: Lock<()>,
    pub thread: DriverThread,
}

/// The name of the driver's thread.
const NAME: &core::ffi::CStr = c"ufutex-timers";
/// The size of its stack, in bytes. It is small, because the thread only calls deliveries and wakers.
const STACK: usize = 256 << 10;

impl HostDriver {
    pub fn new(thread: DriverThread) -> Self {
        Self { shared: OnceLock::new(), starting: Lock::new(PlatformRef::HOST, ()), thread }
    }

    /// What this process's thread shares. In a child of fork(2) the lock may be held for ever, and the files are its parent's.
    fn shared(&self) -> Option<&Shared> {
        self.shared.get().map(|shared| &**shared).filter(|shared| shared.process == std::process::id())
    }

    /// Starts the thread, if it has not been started.
    pub fn start(&self, driver: &Driver) -> Result<(), Error> {
        if self.shared.get().is_some() { Ok(()) } else { self.start_slowly(driver) }
    }

    #[cold]
    fn start_slowly(&self, driver: &Driver) -> Result<(), Error> {
        let _starting = self.starting.lock();
        if self.shared.get().is_some() {
            return Ok(());
        }
        let address = Lock::new(PlatformRef::HOST, Some(DriverMemory(driver.inner.memory())));
        let (alarm, settings) = (Alarm::new()?, self.thread.clone());
        let process = std::process::id();
        let shared = Counted::new(|_| Shared { alarm, process, driver: address, settings })?;
        let signals = block_signals();
        let spawned = chosen::spawn(shared.clone());
        drop(signals);
        spawned?;
        // Sets it: it was not set before, and this thread holds `starting`.
        self.shared.get_or_init(|| shared);
        Ok(())
    }

    /// Makes the thread turn at time `at` of `base`; at once if `at` is 0.
    pub fn program(&self, base: Base, at: u64) {
        if let Some(shared) = self.shared() {
            shared.alarm.set(base, at);
        }
    }
}

impl Drop for HostDriver {
    fn drop(&mut self) {
        if let Some(shared) = self.shared() {
            shared.driver.lock().with(Option::take);
            shared.alarm.set(Base::Monotonic, 0);
            // The thread is not waited for: it may be the thread that drops the driver.
        }
    }
}

/// Blocks the calling thread's signals until the result is dropped. The driver's thread, which is made meanwhile, inherits
/// that, and runs no handlers of the program.
#[cfg(unix)]
fn block_signals() -> Otherwise<impl FnOnce()> {
    // SAFETY: `all` is a set of bits, which `sigfillset` sets; `before` is written by the call.
    let before = unsafe {
        let (mut all, mut before) = (core::mem::zeroed(), core::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    // SAFETY: restores the mask from before.
    Otherwise::new(move || unsafe {
        _ = libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut())
    })
}

#[cfg(not(unix))]
fn block_signals() -> Otherwise<impl FnOnce()> {
    Otherwise::new(|| ())
}

impl Shared {
    /// What the thread does. It ends with the driver.
    fn run(&self) {
        // The thread must not keep the scheduling of the thread that started it.
        self.settings.apply();
        while let Some(driver) = self.driver() {
            // If a waker or a delivery panics, the panic hook has reported it, and the thread goes on. The payload is leaked,
            // because its drop may panic. Dropping the last handle of the driver may panic too.
            core::mem::forget(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| driver.turn())));
            core::mem::forget(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(driver))));
            self.alarm.wait();
        }
    }

    /// A handle of the driver; `None` if it has been freed, or is about to be.
    fn driver(&self) -> Option<Driver> {
        self.driver.lock().with(|driver| {
            // SAFETY: the thread that drops the last handle takes the address out, under this lock, before the memory is freed.
            let inner = unsafe { Counted::upgrade((*driver)?.0) }?;
            Some(Driver { inner, group: None })
        })
    }
}
