//! The driver's thread on the host, which waits by the host's clocks.

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "any_std.rs")]
mod chosen;

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

struct Shared {
    alarm: Alarm,
    /// The process that has the thread.
    process: u32,
    /// `None` once the driver is about to be freed. No handle, which would keep the driver for ever.
    driver: Lock<Option<DriverMemory>>,
    settings: DriverThread,
}

#[derive(Clone, Copy)]
struct DriverMemory(NonNull<Inner<DriverInner>>);

// SAFETY: a driver can be used from all threads.
unsafe impl Send for DriverMemory {}

pub(super) struct HostDriver {
    shared: OnceLock<Counted<Shared>>,
    starting: Lock<()>,
}

const NAME: &core::ffi::CStr = c"ufutex-timers";
/// In bytes. The thread only calls deliveries and wakers.
const STACK: usize = 256 << 10;

impl HostDriver {
    pub fn new() -> Self {
        Self { shared: OnceLock::new(), starting: Lock::new(PlatformRef::HOST, ()) }
    }

    /// `None` also in a child of fork(2), where the lock may be held for ever, and the files are its parent's.
    fn shared(&self) -> Option<&Shared> {
        self.shared.get().map(|shared| &**shared).filter(|shared| shared.process == std::process::id())
    }

    #[cold]
    fn start_slowly(&self, driver: &Driver) -> Result<(), Error> {
        let _starting = self.starting.lock();
        if self.shared.get().is_some() {
            return Ok(());
        }
        let address = Lock::new(PlatformRef::HOST, Some(DriverMemory(driver.inner.memory())));
        let (alarm, settings) = (Alarm::new()?, driver.inner.thread.clone());
        let process = std::process::id();
        let shared = Counted::new(|_| Shared { alarm, process, driver: address, settings })?;
        let signals = block_signals();
        let spawned = chosen::spawn(shared.clone());
        drop(signals);
        spawned?;
        // Sets it: this thread holds `starting`.
        self.shared.get_or_init(|| shared);
        Ok(())
    }
}

pub(super) fn start(driver: &Driver) -> Result<(), Error> {
    let host = &driver.inner.host;
    if host.shared.get().is_some() { Ok(()) } else { host.start_slowly(driver) }
}

/// Makes the thread turn at time `at` of `base`; at once if `at` is 0.
pub(super) fn program(driver: &DriverInner, base: Base, at: u64) {
    if let Some(shared) = driver.host.shared() {
        shared.alarm.set(base, at);
    }
}

impl Drop for HostDriver {
    fn drop(&mut self) {
        if let Some(shared) = self.shared() {
            shared.driver.lock().with(Option::take);
            shared.alarm.set(Base::Monotonic, 0);
            // Does not wait for the thread, which may be the one that drops the driver.
        }
    }
}

/// Blocks the thread's signals until the result is dropped: the driver's thread inherits that, and runs no handlers.
#[cfg(unix)]
fn block_signals() -> Otherwise<impl FnOnce()> {
    // SAFETY: `sigfillset` sets `all`; the call writes `before`.
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
    fn run(&self) {
        // Not the scheduling of the thread that started this one.
        self.settings.apply();
        while let Some(driver) = self.driver() {
            // The panic hook has reported a panic of a waker or a delivery. Its payload's drop may panic too: leak it.
            core::mem::forget(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| driver.turn())));
            core::mem::forget(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(driver))));
            self.alarm.wait();
        }
    }

    fn driver(&self) -> Option<Driver> {
        self.driver.lock().with(|driver| {
            // SAFETY: the thread that drops the last handle takes this out, under the lock, before the memory is freed.
            let inner = unsafe { Counted::upgrade((*driver)?.0) }?;
            Some(Driver { inner, group: None })
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
#[expect(dead_code, reason = "for its own tests")]
mod any_std;
