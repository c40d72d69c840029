//! What code on a virtual core can ask and do. Outside of a simulation these functions do nothing and cost nothing.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr::null;
use std::sync::atomic::Ordering;

use crate::atomic::AtomicU32;
use crate::coroutine::suspend;
use crate::machine::{self, Access, LINE, Machine, Next, Time};

thread_local! {
    /// The machine, while one of its threads runs; otherwise null.
    static MACHINE: Cell<*const RefCell<Machine>> = const { Cell::new(null()) };
    /// The machine itself is at work: its own allocations and accesses are not those of a virtual thread.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// How [`sleep_while`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slept {
    /// The word held another value.
    Differs,
    /// The thread was woken.
    Woken,
    /// The deadline came.
    TimedOut,
}

/// Sets `IS_BUSY`, and restores it when dropped.
struct Busy(bool);

impl Busy {
    fn new() -> Self {
        Self(IS_BUSY.replace(true))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        IS_BUSY.set(self.0);
    }
}

/// Runs work that does not count as accesses of the running virtual thread.
pub(crate) fn uncounted<R>(work: impl FnOnce() -> R) -> R {
    let _busy = Busy::new();
    work()
}

/// Runs `thread`, a thread of `machine`, until it waits.
pub(crate) fn run<R>(machine: &RefCell<Machine>, thread: impl FnOnce() -> R) -> R {
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            MACHINE.set(null());
        }
    }
    MACHINE.set(machine);
    let _back = Back;
    thread()
}

/// Runs one step on the machine of the running virtual thread. `None` outside of a simulation.
#[inline]
pub(crate) fn with<R>(step: impl FnOnce(&mut Machine) -> R) -> Option<R> {
    let machine = MACHINE.get();
    if machine.is_null() || IS_BUSY.get() {
        return None;
    }
    let _busy = Busy::new();
    // SAFETY: it is set while `run` borrows the machine, and no other borrow exists meanwhile: the loop that resumes
    // threads waits for `run`, and a step neither waits nor begins another step.
    Some(step(&mut unsafe { &*machine }.borrow_mut()))
}

/// Does `step`, and waits if it returns `Wait`. Returns `false` outside of a simulation.
#[inline]
fn wait_for(step: impl FnOnce(&mut Machine) -> Next) -> bool {
    match with(step) {
        None => return false,
        Some(Next::Go) => {}
        Some(Next::Wait) => suspend(),
    }
    true
}

/// Makes an access to `bytes` bytes at `address`.
#[inline]
pub(crate) fn access(access: Access, address: usize, bytes: usize, site: &'static Location<'static>) {
    if bytes == 0 {
        return;
    }
    for line in address / LINE..=(address + bytes - 1) / LINE {
        if !wait_for(Machine::turn) {
            return;
        }
        if access == Access::Locked {
            wait_for(Machine::drain);
        }
        let here = address.max(line * LINE);
        wait_for(|machine| machine.access(access, here, site));
        with(|machine| machine.pay(access));
    }
}

/// Passes a full barrier.
pub(crate) fn barrier() {
    if wait_for(Machine::turn) {
        wait_for(Machine::drain);
        with(Machine::pay_barrier);
    }
}

/// Waits for one turn of a loop that spins.
pub(crate) fn pause() {
    wait_for(Machine::pause);
}

/// Whether the caller is a virtual thread's own code, and not the machine that works for it.
pub(crate) fn is_counted() -> bool {
    is_simulated() && !IS_BUSY.get()
}

/// Whether the caller runs on a virtual core.
#[must_use]
pub fn is_simulated() -> bool {
    !MACHINE.get().is_null()
}

/// The running core's clock, in nanoseconds; 0 outside of a simulation.
#[must_use]
pub fn now_ns() -> u64 {
    with(|machine| machine.clock() / 1000).unwrap_or(0)
}

/// The number of the running virtual thread; 0 outside of a simulation.
#[must_use]
pub fn thread() -> usize {
    with(|machine| machine.running).unwrap_or(0)
}

/// The number of the hardware thread that the thread runs on; 0 outside of a simulation.
#[must_use]
pub fn cpu() -> usize {
    with(|machine| machine.cpu()).unwrap_or(0)
}

/// The number of hardware threads of the machine; 1 outside of a simulation.
#[must_use]
pub fn cpus() -> usize {
    with(|machine| machine.topology.cpus()).unwrap_or(1)
}

/// A random number below `bound`, which is not 0, by the simulation's seed; 0 outside of a simulation.
#[must_use]
pub fn below(bound: u64) -> u64 {
    with(|machine| machine.below(bound)).unwrap_or(0)
}

/// Computes for `ns` nanoseconds without touching shared memory.
pub fn compute(ns: f64) {
    with(|machine| machine.advance((ns * 1000.0) as Time));
}

/// Notes that this many operations are done. Figures per operation refer to these.
pub fn done(operations: u64) {
    with(|machine| machine.done(operations));
}

/// Whether the measured part of the simulation is over.
#[must_use]
pub fn is_over() -> bool {
    with(|machine| machine.is_over()).unwrap_or(true)
}

/// Waits for all other threads that have not ended. Then all clocks are nearly equal, and warming up begins.
pub fn rendezvous() {
    if with(Machine::rendezvous).is_some() {
        suspend();
    }
}

/// Sleeps while `word` is `expected`, until a wake or until `until_ns`.
#[track_caller]
pub fn sleep_while(word: &AtomicU32, expected: u32, until_ns: Option<u64>) -> Slept {
    with(Machine::syscall);
    if word.load(Ordering::SeqCst) != expected {
        return Slept::Differs;
    }
    let address = word.as_ptr().addr();
    if with(|machine| machine.sleep(address, until_ns.map(|ns| ns.saturating_mul(1000)))).is_none() {
        return Slept::Differs;
    }
    suspend();
    match with(|machine| machine.slept()) {
        Some(machine::Slept::TimedOut) => Slept::TimedOut,
        _ => Slept::Woken,
    }
}

/// Wakes at most `count` threads that sleep at `address`, and returns how many. The word need not exist any more.
pub fn wake(address: usize, count: usize) -> usize {
    wait_for(Machine::turn);
    with(|machine| machine.wake(address, count)).unwrap_or(0)
}

/// Sleeps for `ns` nanoseconds, off its core.
pub fn nap(ns: u64) {
    let nobody_wakes_here = 0;
    if with(|machine| machine.sleep(nobody_wakes_here, Some(machine.clock() + ns * 1000))).is_some() {
        suspend();
    }
}

/// Lets other threads of this core run first.
pub fn yield_now() {
    let yields = |machine: &mut Machine| {
        machine.syscall();
        let thread = machine.running;
        if machine.yield_cpu(thread) { Next::Wait } else { machine.turn() }
    };
    wait_for(yields);
}

/// When this returns, every core has passed a full barrier. The cost for the other cores is not modelled.
pub fn membarrier() {
    with(Machine::membarrier);
}
