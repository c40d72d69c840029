//! What the engine needs of this kernel: its platform, and its scheduler's priorities.

use core::sync::atomic::AtomicU32;
use core::time::Duration;

use alloc::sync::Arc;

use ufutex::platform::{Clock, Deadline, Platform};
use ufutex::{
    DomainOptions, Error, StaticDomain, System, SystemConfig,
    pi::{Priority, Scheduler},
};

use crate::checks::interrupt::{self, Moment};
use crate::{clock, cpu, scheduler};

pub struct Kernel;

/// The realtime clock at boot: there is no driver for a clock that knows better.
const BOOT: Duration = Duration::from_secs(1_800_000_000);

impl Platform for Kernel {
    const KEEPS_CPU: bool = true;

    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        let since_boot = |deadline: Deadline| match deadline.clock {
            Clock::Monotonic => deadline.at,
            Clock::Realtime => deadline.at.saturating_sub(BOOT),
        };
        interrupt::ring(Moment::Sleep(scheduler::me().0));
        scheduler::park(word, expected, deadline.map(since_boot));
    }

    fn unpark(word: *const AtomicU32, count: usize) -> usize {
        scheduler::unpark(word.addr(), count)
    }

    fn now(clock: Clock) -> Duration {
        match clock {
            Clock::Monotonic => clock::uptime(),
            Clock::Realtime => BOOT + clock::uptime(),
        }
    }

    fn yield_now() {
        scheduler::reschedule();
    }

    fn enter() {
        cpu::enter();
    }

    fn leave() {
        cpu::leave();
    }
}

/// Lets the kernel's threads run with the priorities that waiters lend them. Tasks have their threads' TIDs.
struct Priorities;

impl Scheduler for Priorities {
    fn set_priority(&self, tid: u32, priority: Priority) {
        // The thread may have ended meanwhile. Its TID names no other, so the call does nothing then.
        scheduler::set_priority(tid, priority);
    }
}

const CONFIG: SystemConfig = SystemConfig::new().cpus(cpu::CPUS).hash_seed(0x5eed).platform::<Kernel>();

/// The engine's system, for all processes.
pub fn system() -> Result<System, Error> {
    System::with_scheduler(CONFIG, Arc::new(Priorities))
}

/// The kernel's own futexes.
pub static FUTEXES: StaticDomain = StaticDomain::with(CONFIG, DomainOptions::new());
