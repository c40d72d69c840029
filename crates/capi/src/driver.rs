//! The embedder's clocks for timers, and how the driver's thread is scheduled.

use core::ffi::{c_int, c_void};
use core::time::Duration;

use engine::Callbacks;
use engine::timer::{Base, Clocks, CpuClock, CpuSet, Cpus, DriverThread};

use crate::abi;
use crate::errno::Errno;
use crate::types::{
    UFUTEX_BOOTTIME, UFUTEX_MONOTONIC, UFUTEX_REALTIME, UFUTEX_STARTERS_CPUS, UFUTEX_TAI, ufutex_driver_thread,
    ufutex_timer_clocks,
};

/// A program's `struct ufutex_timer_clocks`.
pub(crate) struct TimerClocks {
    context: *mut c_void,
    now: unsafe extern "C" fn(*mut c_void, u32) -> u64,
    cpu_time: Option<unsafe extern "C" fn(*mut c_void, c_int, i32, *mut u64) -> c_int>,
    changed: Option<unsafe extern "C" fn(*mut c_void)>,
    cpus: u32,
}

// SAFETY: the program promises that any thread may call its functions.
unsafe impl Send for TimerClocks {}
// SAFETY: as above.
unsafe impl Sync for TimerClocks {}

impl TimerClocks {
    /// Reads a program's struct. `None` for a null pointer.
    ///
    /// # Safety
    /// As for [`abi::read`], and the functions do what `ufutex.h` requires.
    pub unsafe fn read(from: *const ufutex_timer_clocks) -> Result<Option<Callbacks<Self>>, Errno> {
        // SAFETY: the caller guarantees it.
        let Some(said) = (unsafe { abi::read(from)? }) else { return Ok(None) };
        let ufutex_timer_clocks { context, cpu_time, changed, cpus, .. } = said;
        let now = said.now.filter(|_| said.reserved == 0).ok_or(Errno::INVALID)?;
        Ok(Some(Callbacks::try_new(Self { context, now, cpu_time, changed, cpus })?))
    }
}

/// The number of a clock that timers run by.
fn number_of(base: Base) -> u32 {
    match base {
        Base::Realtime => UFUTEX_REALTIME,
        Base::Monotonic => UFUTEX_MONOTONIC,
        Base::Boottime => UFUTEX_BOOTTIME,
        Base::Tai => UFUTEX_TAI,
    }
}

/// The clock with this number.
pub(crate) fn base_of(clock: u32) -> Result<Base, Errno> {
    match clock {
        UFUTEX_REALTIME => Ok(Base::Realtime),
        UFUTEX_MONOTONIC => Ok(Base::Monotonic),
        UFUTEX_BOOTTIME => Ok(Base::Boottime),
        UFUTEX_TAI => Ok(Base::Tai),
        _ => Err(Errno::INVALID),
    }
}

// Each call below passes to a function of the program the arguments of its type, with the context that was given with
// it.
impl Clocks for TimerClocks {
    fn now(&self, base: Base) -> Duration {
        // SAFETY: see above.
        Duration::from_nanos(unsafe { (self.now)(self.context, number_of(base)) })
    }

    fn cpu_time(&self, of: CpuClock) -> Option<Duration> {
        let (is_thread, number) = match of {
            CpuClock::Process(process) => (0, process),
            CpuClock::Thread(thread) => (1, thread),
        };
        let mut ns = 0;
        // SAFETY: see above.
        let result = unsafe { self.cpu_time?(self.context, is_thread, number, &mut ns) };
        (result == 0).then(|| Duration::from_nanos(ns))
    }

    fn cpus(&self) -> usize {
        self.cpus.max(1) as usize
    }

    fn changed(&self) {
        if let Some(changed) = self.changed {
            // SAFETY: see above.
            unsafe { changed(self.context) };
        }
    }
}

/// CPUs have lower numbers.
const MAX_CPUS: u32 = 8192;

/// Reads a program's settings of the driver's thread. `None` for a null pointer.
///
/// # Safety
/// As for [`abi::read`]. `cpus` is null, misaligned, or valid for reading `cpu_count` numbers.
pub(crate) unsafe fn read_thread(from: *const ufutex_driver_thread) -> Result<Option<DriverThread>, Errno> {
    // SAFETY: the caller guarantees it.
    let Some(said) = (unsafe { abi::read(from)? }) else { return Ok(None) };
    let ufutex_driver_thread { flags, realtime, nice, reserved, cpus, cpu_count, .. } = said;
    if flags & !UFUTEX_STARTERS_CPUS != 0 || realtime > 99 || !(-20..=19).contains(&nice) || reserved != 0 {
        return Err(Errno::INVALID);
    }
    let thread = DriverThread::new().realtime(realtime as u8).nice(nice as i8);
    if cpus.is_null() {
        return match (cpu_count, flags) {
            (0, 0) => Ok(Some(thread)),
            (0, _) => Ok(Some(thread.cpus(Cpus::Starter))),
            _ => Err(Errno::INVALID),
        };
    }
    if flags != 0 || !cpus.is_aligned() || !(1..=MAX_CPUS as usize).contains(&cpu_count) {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller guarantees it.
    let numbers = unsafe { core::slice::from_raw_parts(cpus, cpu_count) };
    if numbers.iter().any(|&cpu| cpu >= MAX_CPUS) {
        return Err(Errno::INVALID);
    }
    Ok(Some(thread.cpus(Cpus::Only(CpuSet::try_new(numbers.iter().copied())?))))
}
