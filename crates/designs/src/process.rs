//! The common part of the four designs: an emulated process, around the design's own index of timers.
//!
//! As in the kernel, every timer is linked into its process's list under a lock of the process (`siglock`). A look-up
//! takes no lock of the index, locks the timer, and checks it again. Three things are left out, to the designs'
//! advantage: counting the pending signals of each user, references to threads, and the way into the kernel and back.
//! The coherence model has the first (`charge`). The mail [timer-hash] (docs/REFERENCES.md) says that it limits its
//! fourth and fifth tests, and only many cores show it.

use crate::spin::Spin;
use crate::sync::AtomicU32;
#[cfg(feature = "sim")]
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Relaxed, Release};
use crate::timer::{FreeTimers, INVALID, List, Memory, Timer};
use crate::{Bytes, Errno, Notify, OwnLine, Process};
use std::sync::Arc;

/// A design's way to find timers.
pub trait Index: Send + Sync + 'static {
    /// Inserts a reserved timer. `false` if the process already has a timer with that ID.
    fn insert(&self, owner: usize, id: i32, timer: &Timer) -> bool;
    /// Reserves a timer under the process's next ID and inserts it. `None` if that ID is taken.
    #[inline]
    fn insert_next(&self, owner: usize, next: &AtomicU32, timer: &Timer) -> Option<i32> {
        let id = to_id(next.fetch_add(1, Relaxed));
        timer.reserve(owner, id);
        self.insert(owner, id, timer).then_some(id)
    }
    /// Finds a valid timer. It may be deleted at any time.
    fn find(&self, owner: usize, id: i32) -> Option<&Timer>;
    /// Removes a timer that is in the index.
    fn remove(&self, owner: usize, id: i32, timer: &Timer);
    /// The memory of the index in bytes, without the timers.
    fn bytes(&self) -> usize;
    /// Names the index's memory for the coherence model.
    #[cfg(feature = "sim")]
    fn name(&self);
}

/// Converts a counter to an ID, which is not negative.
#[inline]
pub(super) fn to_id(number: u32) -> i32 {
    (number & i32::MAX as u32) as i32
}

/// One emulated process.
pub struct Emulated<I> {
    index: Arc<I>,
    memory: Arc<Memory>,
    signals: Box<Signals>,
    #[cfg(feature = "sim")]
    user: User,
    /// The process's number in the index. An address would make results depend on the placement of memory.
    #[cfg(feature = "sim")]
    number: usize,
}

/// The number of signals that all processes of a user have pending or reserved.
#[cfg(feature = "sim")]
type User = Arc<OwnLine<AtomicU64>>;

#[cfg(feature = "sim")]
const FIRST_OWNER: usize = 0x7F00_0000_0000;
/// The distance at which the kernel's allocator places its structures for processes.
#[cfg(feature = "sim")]
const OWNERS_APART: usize = 1536;

/// The fields of the kernel's `signal_struct` and `sighand_struct`. Its address identifies the process.
#[derive(Default)]
struct Signals {
    siglock: OwnLine<Spin>,
    own: OwnLine<Own>,
}

/// The fields are side by side, as in the kernel.
#[derive(Default)]
struct Own {
    next_id: AtomicU32,
    timers: List,
}

impl<I: Index> Emulated<I> {
    /// Makes processes that share an index.
    pub fn sharing(index: I, processes: usize) -> Vec<Emulated<I>> {
        let (index, memory) = (Arc::new(index), Arc::new(Memory::default()));
        #[cfg(feature = "sim")]
        crate::spin::prepare();
        #[cfg(feature = "sim")]
        let user = User::default();
        let process = |_number| Emulated {
            index: index.clone(),
            memory: memory.clone(),
            signals: Box::default(),
            #[cfg(feature = "sim")]
            user: user.clone(),
            #[cfg(feature = "sim")]
            number: FIRST_OWNER + OWNERS_APART * _number,
        };
        let processes: Vec<_> = (0..processes).map(process).collect();
        #[cfg(feature = "sim")]
        processes.iter().for_each(Emulated::name);
        processes
    }

    /// Makes processes with an index each.
    pub fn apart(index: impl Fn() -> I, processes: usize) -> Vec<Emulated<I>> {
        let processes: Vec<_> = (0..processes).flat_map(|_| Self::sharing(index(), 1)).collect();
        #[cfg(feature = "sim")]
        let processes = Self::of_one_user(processes);
        processes
    }

    /// The number of timers in its list.
    #[cfg(test)]
    pub fn listed(&self) -> usize {
        let _held = self.signals.siglock.0.lock();
        self.signals.own.0.timers.count()
    }

    /// Identifies the process in the index: the address of its signals.
    #[cfg(not(feature = "sim"))]
    pub(super) fn owner(&self) -> usize {
        std::ptr::from_ref(&*self.signals).addr()
    }

    #[cfg(feature = "sim")]
    pub(super) fn owner(&self) -> usize {
        self.number
    }

    #[cfg(feature = "sim")]
    fn of_one_user(mut processes: Vec<Emulated<I>>) -> Vec<Emulated<I>> {
        let user = User::default();
        for (number, process) in processes.iter_mut().enumerate() {
            (process.user, process.number) = (user.clone(), FIRST_OWNER + OWNERS_APART * number);
        }
        processes.iter().for_each(Emulated::name);
        processes
    }

    #[cfg(feature = "sim")]
    fn name(&self) {
        use std::slice::from_ref;
        crate::names::name("siglock", from_ref(&self.signals.siglock));
        crate::names::name("signal_struct", from_ref(&self.signals.own));
        crate::names::name("user", from_ref(&*self.user));
        self.index.name();
    }

    /// Adds to the user's count of pending signals.
    #[inline]
    fn charge(&self, _timers: u64) {
        #[cfg(feature = "sim")]
        self.user.0.fetch_add(_timers, Relaxed);
    }

    fn enter(&self, timer: &Timer, id: i32) -> bool {
        timer.reserve(self.owner(), id);
        self.index.insert(self.owner(), id, timer)
    }

    /// The second step of making a timer: the timer becomes valid.
    fn publish(&self, timer: &Timer, notify: Notify) {
        timer.fill(libc::CLOCK_MONOTONIC, notify);
        let _held = self.signals.siglock.0.lock();
        self.signals.own.0.timers.push(timer);
        timer.owner.store(self.owner(), Release);
    }

    /// Finds the timer, locks it, checks it again, and only then calls `act`.
    #[inline]
    fn with<R>(&self, id: i32, act: impl FnOnce(&Timer) -> R) -> Option<R> {
        let timer = self.index.find(self.owner(), id)?;
        let _held = timer.lock();
        timer.is(self.owner(), id).then(|| act(timer))
    }
}

impl<I: Index> Process for Emulated<I> {
    type Thread = FreeTimers;

    fn thread(&self) -> FreeTimers {
        FreeTimers::default()
    }

    #[inline]
    fn create(&self, free: &mut FreeTimers, notify: Notify) -> Result<i32, Errno> {
        let timer = free.take(&self.memory);
        self.charge(1);
        for _ in 0..=i32::MAX {
            if let Some(id) = self.index.insert_next(self.owner(), &self.signals.own.0.next_id, timer) {
                self.publish(timer, notify);
                return Ok(id);
            }
        }
        self.charge(u64::MAX);
        free.put(timer);
        Err(libc::EAGAIN)
    }

    fn create_as(&self, free: &mut FreeTimers, id: i32, notify: Notify) -> Result<(), Errno> {
        let timer = free.take(&self.memory);
        self.charge(1);
        if !self.enter(timer, id) {
            self.charge(u64::MAX);
            free.put(timer);
            return Err(libc::EBUSY);
        }
        self.publish(timer, notify);
        self.signals.own.0.next_id.store((id as u32).wrapping_add(1), Relaxed);
        Ok(())
    }

    #[inline]
    fn getoverrun(&self, id: i32) -> Result<i32, Errno> {
        self.with(id, Timer::overrun).ok_or(libc::EINVAL)
    }

    #[inline]
    fn delete(&self, free: &mut FreeTimers, id: i32) -> Result<(), Errno> {
        let invalidate = |timer: &Timer| {
            let _held = self.signals.siglock.0.lock();
            self.signals.own.0.timers.remove(timer);
            timer.owner.store(self.owner() | INVALID, Relaxed);
            timer.address()
        };
        let address = self.with(id, invalidate).ok_or(libc::EINVAL)?;
        // SAFETY: the memory belongs to this process. Only the thread that made the timer invalid takes it out.
        let timer = unsafe { Timer::at(address) };
        self.index.remove(self.owner(), id, timer);
        self.charge(u64::MAX);
        free.put(timer);
        Ok(())
    }

    fn bytes(processes: &[Self], timers: usize) -> Option<Bytes> {
        let shared = |one: &Self, two: &Self| Arc::ptr_eq(&one.index, &two.index);
        let first = |number: &usize| processes[..*number].iter().all(|one| !shared(one, &processes[*number]));
        let table = (0..processes.len()).filter(first).map(|number| processes[number].index.bytes()).sum();
        Some(Bytes { table, all: table + timers * size_of::<Timer>() })
    }
}
