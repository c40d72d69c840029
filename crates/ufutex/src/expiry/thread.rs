//! How the driver's own thread is scheduled.
//!
//! A thread inherits the scheduling policy, the nice value and the CPUs of the thread that makes it. Whichever thread
//! arms the first timer makes the driver's thread, which then works for all others. So the driver's thread gives itself
//! a policy, a nice value and CPUs that do not depend on its maker.

use alloc::sync::Arc;
#[cfg(feature = "std")]
use alloc::vec::Vec;

/// Scheduling of the driver's thread, which expires timers and timeouts by the host's clocks. The thread applies these
/// settings to itself when it begins. If the host does not permit one of them (see
/// [`Driver::start`](super::Driver::start)), the thread goes on without it: that is no error.
///
/// ```
/// use ufutex::timer::{Cpus, DriverThread};
/// use ufutex::{Config, System};
///
/// let thread = DriverThread::new().nice(-5).cpus(Cpus::Only([0].into()));
/// let system = System::with_config(Config::new().driver_thread(thread))?;
/// # Ok::<(), ufutex::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriverThread {
    /// The `SCHED_FIFO` priority, from 1; 0 means `SCHED_OTHER`.
    realtime: u8,
    nice: i8,
    cpus: Cpus,
}

/// The CPUs that a thread may run on, as far as its cpuset contains them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cpus {
    /// The CPUs of the process's main thread, which taskset(1) and service managers set.
    Process,
    /// The CPUs of the thread that starts it.
    Starter,
    /// The CPUs with these numbers.
    Only(Arc<[u32]>),
}

/// Length of the CPU masks here, in CPUs. The kernel sets no fixed limit; no kernel is built for more than this.
#[cfg(feature = "std")]
const MAX_CPUS: usize = 8192;

impl Cpus {
    /// Parses a list of CPUs in the kernel's format: `0,2-5`.
    #[cfg(feature = "std")]
    pub(crate) fn parse(list: &str) -> Option<Arc<[u32]>> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|&cpu| (cpu as usize) < MAX_CPUS);
        let mut cpus = Vec::new();
        for part in list.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(cpus.into())
    }
}

impl Default for DriverThread {
    fn default() -> Self {
        Self::new()
    }
}

impl DriverThread {
    /// Makes the default settings: `SCHED_OTHER`, nice 0, on the CPUs of the process.
    #[must_use]
    pub const fn new() -> Self {
        Self { realtime: 0, nice: 0, cpus: Cpus::Process }
    }

    /// Sets the policy to `SCHED_FIFO` with this priority, 99 at most; 0 means `SCHED_OTHER`.
    #[must_use]
    pub const fn realtime(mut self, priority: u8) -> Self {
        self.realtime = if priority > 99 { 99 } else { priority };
        self
    }

    /// Sets the nice value under `SCHED_OTHER`, from -20 to 19. Values beyond are clamped.
    #[must_use]
    pub const fn nice(mut self, nice: i8) -> Self {
        self.nice = match nice {
            ..-20 => -20,
            20.. => 19,
            nice => nice,
        };
        self
    }

    /// Sets the CPUs that the thread may run on.
    #[must_use]
    pub fn cpus(mut self, cpus: Cpus) -> Self {
        self.cpus = cpus;
        self
    }
}

#[cfg(feature = "_host")]
impl DriverThread {
    /// Applies the settings to the calling thread, as far as the host permits them.
    pub(super) fn apply(&self) {
        self.apply_cpus();
        let priority = i32::from(self.realtime);
        let policy = if priority == 0 { libc::SCHED_OTHER } else { libc::SCHED_FIFO };
        // SAFETY: changes how this thread is scheduled, and reads a `sched_param`, which begins with the priority. It
        // is called by its number, because some libcs do not implement the function.
        let is_set = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) } == 0;
        if !is_set && policy == libc::SCHED_FIFO {
            // At least the inherited policy is replaced, which may be `SCHED_IDLE`.
            let none = 0i32;
            // SAFETY: as for the call before.
            unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_OTHER, &raw const none) };
        }
        // SAFETY: sets the nice value of this thread, which 0 means on Linux.
        unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, i32::from(self.nice)) };
    }

    fn apply_cpus(&self) {
        let mut mask = [0u8; MAX_CPUS / 8];
        match &self.cpus {
            Cpus::Starter => return,
            Cpus::Process => {
                // SAFETY: `getpid` has no conditions. The main thread's TID is the process's PID.
                let main = unsafe { libc::getpid() };
                // SAFETY: `mask` has room for `mask.len()` bytes.
                let read = unsafe { libc::syscall(libc::SYS_sched_getaffinity, main, mask.len(), mask.as_mut_ptr()) };
                if read <= 0 {
                    return;
                }
            }
            Cpus::Only(cpus) => {
                for &cpu in cpus.iter().filter(|&&cpu| (cpu as usize) < MAX_CPUS) {
                    set_bit(&mut mask, cpu as usize);
                }
            }
        }
        // SAFETY: reads `mask.len()` bytes, and changes where this thread runs.
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, mask.len(), mask.as_ptr()) };
    }
}

/// Sets the bit of `cpu` in a CPU mask of the kernel, which is an array of `long`.
#[cfg(feature = "_host")]
fn set_bit(mask: &mut [u8; MAX_CPUS / 8], cpu: usize) {
    const LONG: usize = size_of::<libc::c_long>();
    let byte =
        if cfg!(target_endian = "little") { cpu / 8 } else { cpu / 8 / LONG * LONG + (LONG - 1 - cpu / 8 % LONG) };
    mask[byte] |= 1 << (cpu % 8);
}
