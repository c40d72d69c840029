//! Interrupt handlers that wake. They may interrupt any thread, but not one that holds a bucket: `Platform::enter`
//! keeps them out until it has unlocked. Otherwise the handler would wait for a lock whose holder waits for the
//! handler.
//!
//! - A device interrupts its CPU when its register is loaded. The engine loads a word that is waited for with the
//!   bucket locked. So the interrupt comes at the worst moment for the bucket.
//! - The device interrupts a waiter that is about to sleep, which is the worst moment for `Platform::park`.
//! - Ticks interrupt threads on all CPUs that do nothing but lock and unlock a bucket, and wake a waiter that is there.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::SeqCst;

use ufutex::{DomainOptions, System};

use crate::cpu::{self, CPUS};
use crate::guest::{DOORBELL, EAGAIN, PAGES, Process};
use crate::lock::Lock;
use crate::{interrupts, say, scheduler};

/// The device's process, for its handler.
static DEVICE: Lock<Option<Arc<Process>>> = Lock::new(None);
/// The process that each tick wakes.
static TICKS: Lock<Option<Arc<Process>>> = Lock::new(None);

/// When the device interrupts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The engine has loaded the register.
    Look,
    /// The thread with this TID is about to sleep.
    Sleep(u32),
}

static MOMENT: Lock<Moment> = Lock::new(Moment::Look);

/// How often it does. The register of the device counts it.
const RINGS: u32 = 100;
/// Whether a tick has come since the waiter has looked.
const TICKED: u64 = PAGES;
const TICKS_TO_SEE: u32 = 40;

/// Interrupts this CPU for the device, if `now` is the moment to do so. The interrupt comes at once, unless the caller
/// keeps its CPU: then it comes when the caller no longer does.
pub fn ring(now: Moment) {
    if *MOMENT.lock() == now {
        cpu::section(|| interrupts::send(cpu::index(), interrupts::DEVICE));
    }
}

/// The device's handler.
pub fn on_device() {
    let device = DEVICE.lock().clone();
    if let Some(process) = device {
        process.memory.count_doorbell();
        assert_eq!(process.wake(DOORBELL), 1, "interrupt: the waiter was queued when the interrupt came");
    }
}

/// What ticks do besides.
pub fn on_tick() {
    let ticks = TICKS.lock().clone();
    if let Some(process) = ticks
        && process.set_if_there(TICKED)
    {
        process.wake(TICKED);
    }
}

pub fn check(system: &System) {
    // Without the look at the word before the bucket is locked, which would ring too early.
    let process = Process::new(system, DomainOptions::new().early_return(false));
    *DEVICE.lock() = Some(process.clone());
    let driver = process.clone();
    let waiter = process.spawn(10, move |thread| {
        for ring in 0..2 * RINGS {
            if ring == RINGS {
                *MOMENT.lock() = Moment::Sleep(scheduler::me().0);
            }
            assert_eq!(thread.wait(DOORBELL, ring), 0, "interrupt: its wake has come");
            assert_eq!(driver.memory.doorbell(), ring + 1);
        }
    });
    waiter.join();
    *DEVICE.lock() = None;
    ticks_meet_lockers(&process);
    say!("interrupt: woken {RINGS} times from under the lock, {RINGS} on the way to sleep, {TICKS_TO_SEE} by ticks");
}

fn ticks_meet_lockers(process: &Arc<Process>) {
    let is_over = Arc::new(AtomicBool::new(false));
    let start = |_| {
        let is_over = is_over.clone();
        process.spawn(0, move |thread| {
            while !is_over.load(SeqCst) {
                assert_eq!(thread.wait(TICKED, 2), EAGAIN); // locks the bucket, and finds another value
            }
        })
    };
    let lockers: Vec<_> = (0..CPUS).map(start).collect();
    let waiter = process.spawn(10, |thread| {
        for _ in 0..TICKS_TO_SEE {
            thread.store(TICKED, 0);
            while thread.load(TICKED) == 0 {
                thread.wait(TICKED, 0);
            }
        }
    });
    *TICKS.lock() = Some(process.clone());
    waiter.join();
    *TICKS.lock() = None;
    is_over.store(true, SeqCst);
    lockers.into_iter().for_each(|child| child.join());
}
