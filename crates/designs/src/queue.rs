//! The lock of all four designs in the coherence model. Waiters queue, as in the kernel's `qspinlock`.
//!
//! | half of the word | means |
//! |---|---|
//! | `locked` | 1 if a thread holds the lock |
//! | `tail` | the number, from 1, of the last thread in the queue; 0 if the queue is empty |
//!
//! Each waiter checks a place of its own. Only the first waiter of the queue checks the word. The unlocking thread need
//! not know of any waiter: it stores one half of the word. A waiter that is not the first sleeps in the model. The
//! sleep has to take no time there: the waiter's core has nothing else to do, and a loop would only cause more events.

use crate::line::OwnLine;
use crate::sync::{AtomicU16, AtomicU32, Ordering, spin_loop};
use ufutex_coherence::current;

/// The place where a thread waits. A thread waits for one lock at a time.
struct Place {
    waits: AtomicU32,
    /// The number of the next thread in the queue. `0` until there is one.
    next: AtomicU32,
}

/// The largest number of hardware threads in the model.
const PLACES_MAX: usize = 1024;

thread_local! {
    /// All virtual threads of a simulation run on one thread of the host, and other host threads may run other
    /// simulations. The memory is leaked; all simulations of this host thread use it.
    static PLACES: &'static [OwnLine<Place>] = {
        let place = |_| OwnLine(Place { waits: AtomicU32::new(0), next: AtomicU32::new(0) });
        Box::leak((0..PLACES_MAX).map(place).collect())
    };
}

/// Makes the places, before a simulation whose threads may queue.
pub fn prepare() {
    PLACES.with(|_| ());
}

/// Four bytes, as in a `spinlock_t`.
#[derive(Default)]
#[repr(C, align(4))]
pub struct Spin {
    locked: AtomicU16,
    tail: AtomicU16,
}

/// Holds the lock. Unlocks when dropped.
pub struct Held<'a>(&'a Spin);

impl Spin {
    /// Waits until the lock is free, and takes it.
    #[track_caller]
    pub fn lock(&self) -> Held<'_> {
        if self.take() {
            if self.tail.load(Ordering::Relaxed) == 0 {
                return Held(self);
            }
            // The kernel compares both halves at once, so no thread overtakes the queue.
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
