//! The lock of all four designs in the coherence model: who waits queues, as at the kernel's `qspinlock`.
//!
//! | half of the word | means |
//! |---|---|
//! | `locked` | somebody has it |
//! | `tail` | the last one in the queue, by its thread's number from 1; 0 for none |
//!
//! Each waiter looks at a place of its own. Only the first in the queue looks at the word, and whoever unlocks need not
//! know of any of them: it stores one half. A waiter that is not the first sleeps in the model, which must take no time there: its core has
//! nothing else to do, and a loop would only be more events.

use crate::line::OwnLine;
use crate::sync::{AtomicU16, AtomicU32, Ordering, spin_loop};
use ufutex_coherence::current;

/// Where a thread waits. It waits for one lock at a time.
struct Place {
    waits: AtomicU32,
    /// The number of the next thread in the queue. `0` until there is one.
    next: AtomicU32,
}

/// As many as the model has hardware threads.
const PLACES_MAX: usize = 1024;

thread_local! {
    /// All virtual threads of a simulation run on one thread of the host, and another one may have another simulation. What is
    /// leaked is used by all simulations of that thread.
    static PLACES: &'static [OwnLine<Place>] = {
        let place = |_| OwnLine(Place { waits: AtomicU32::new(0), next: AtomicU32::new(0) });
        Box::leak((0..PLACES_MAX).map(place).collect())
    };
}

/// Makes the places before a simulation that may queue at them.
pub fn prepare() {
    PLACES.with(|_| ());
}

/// Four bytes, as a `spinlock_t`.
#[derive(Default)]
#[repr(C, align(4))]
pub struct Spin {
    locked: AtomicU16,
    tail: AtomicU16,
}

/// Unlocks at its end.
pub struct Held<'a>(&'a Spin);

impl Spin {
    /// Waits until the lock is free, and takes it.
    #[track_caller]
    pub fn lock(&self) -> Held<'_> {
        if self.take() {
            if self.tail.load(Ordering::Relaxed) == 0 {
                return Held(self);
            }
            // The kernel compares both halves at once: nobody passes those who queue.
            self.locked.store(0, Ordering::Relaxed);
        }
        self.queue();
        Held(self)
    }

    #[track_caller]
    fn queue(&self) {
        let number = current::thread() as u16 + 1;
        let me = place(number);
        me.next.store(0, Ordering::Relaxed);
        me.waits.store(1, Ordering::Relaxed);
        let before = self.tail.swap(number, Ordering::AcqRel);
        if before != 0 {
            place(before).next.store(u32::from(number), Ordering::Release);
            while me.waits.load(Ordering::Acquire) != 0 {
                current::sleep_while(&me.waits, 1, None);
            }
        }
        while self.locked.load(Ordering::Relaxed) != 0 || !self.take() {
            spin_loop();
        }
        if self.tail.compare_exchange(number, 0, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            let_next_look(me);
        }
    }

    #[track_caller]
    fn take(&self) -> bool {
        self.locked.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

fn place(number: u16) -> &'static Place {
    &PLACES.with(|places| *places)[usize::from(number) - 1].0
}

fn let_next_look(me: &Place) {
    let mut next = me.next.load(Ordering::Acquire);
    while next == 0 {
        spin_loop();
        next = me.next.load(Ordering::Acquire);
    }
    let next = place(next as u16);
    next.waits.store(0, Ordering::Release);
    current::wake(next.waits.as_ptr().addr(), 1);
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.locked.store(0, Ordering::Release);
    }
}
