//! The scheduling policy, nice value and CPUs that the driver's own thread gives itself.
//!
//! Otherwise it would inherit all three from the thread that arms the first timer, although it works for all others.

use core::fmt;

use crate::error::Error;
use crate::sys::counted::Counted;
use crate::sys::setters::{default_is_new, setters};

/// Scheduling of the thread that expires timers and timeouts by the host's clocks. When it begins, it applies to itself what
/// the host permits of these settings (see [`Driver::start`](super::Driver::start)). Hosts other than Linux ignore them.
///
/// ```
/// use ufutex::timer::{Cpus, DriverThread};
/// use ufutex::{SystemConfig, System};
///
/// let thread = DriverThread::new().nice(-5).cpus(Cpus::Only([0].into()));
/// let system = System::with_config(SystemConfig::new().driver_thread(thread))?;
/// # Ok::<(), ufutex::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriverThread {
    /// From 1; 0 means `SCHED_OTHER`.
    pub(super) realtime: u8,
    pub(super) nice: i8,
    pub(super) cpus: Cpus,
}

/// The CPUs that a thread may run on, as far as its cpuset contains them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cpus {
    /// The CPUs of the process's main thread, which taskset(1) and service managers set.
    Process,
    /// The CPUs of the thread that starts it.
    Starter,
    /// The CPUs with these numbers.
    Only(CpuSet),
}

/// A set of CPUs. Its clones refer to one set.
#[derive(Clone)]
pub struct CpuSet(pub(super) Counted<Mask>);

pub(super) type Mask = [usize; MAX_CPUS / BITS];
const BITS: usize = usize::BITS as usize;

/// In CPUs. The kernel sets no fixed limit; no kernel is built for more than this.
const MAX_CPUS: usize = 8192;

pub(super) const NO_CPUS: Mask = [0; MAX_CPUS / BITS];

impl CpuSet {
    /// Makes a set of the CPUs with these numbers. Numbers above 8191 are left out.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn try_new(cpus: impl IntoIterator<Item = u32>) -> Result<Self, Error> {
        let mut mask = NO_CPUS;
        for cpu in cpus {
            let cpu = cpu as usize;
            if let Some(word) = mask.get_mut(cpu / BITS) {
                *word |= 1 << (cpu % BITS);
            }
        }
        Counted::new(|_| mask).map(Self)
    }

    /// Parses the kernel's format: `0,2-5`. `None` also if there is no memory.
    #[cfg(feature = "std")]
    pub(crate) fn parse(list: &str) -> Option<Self> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|&cpu| (cpu as usize) < MAX_CPUS);
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(first..=last)
        };
        if list.split(',').any(|part| range(part).is_none()) {
            return None;
        }
        Self::try_new(list.split(',').filter_map(range).flatten()).ok()
    }
}

/// As [`CpuSet::try_new`]. If there is no memory, it ends the program.
impl<const N: usize> From<[u32; N]> for CpuSet {
    fn from(cpus: [u32; N]) -> Self {
        let no_memory = |_| alloc::alloc::handle_alloc_error(alloc::alloc::Layout::new::<Mask>());
        Self::try_new(cpus).unwrap_or_else(no_memory)
    }
}

impl PartialEq for CpuSet {
    fn eq(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

impl Eq for CpuSet {}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = |cpu: &usize| self.0[cpu / BITS] >> (cpu % BITS) & 1 != 0;
        f.debug_set().entries((0..MAX_CPUS).filter(has)).finish()
    }
}

default_is_new!(DriverThread);

impl DriverThread {
    /// Makes the default settings: `SCHED_OTHER`, nice 0, on the CPUs of the process.
    #[must_use]
    pub const fn new() -> Self {
        Self { realtime: 0, nice: 0, cpus: Cpus::Process }
    }

    setters! {
        /// Sets the policy to `SCHED_FIFO` with this priority, 99 at most; 0 means `SCHED_OTHER`.
        realtime: u8 => if realtime > 99 { 99 } else { realtime };

        /// Sets the nice value under `SCHED_OTHER`, clamped to -20 to 19.
        nice: i8 => match nice { ..-20 => -20, 20.. => 19, nice => nice };
    }

    /// Sets the CPUs that the thread may run on.
    #[must_use]
    pub fn cpus(mut self, cpus: Cpus) -> Self {
        self.cpus = cpus;
        self
    }
}
