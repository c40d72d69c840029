//! Guest threads that lock, wait and die. A task takes locks with priority inheritance, several at once, and robust locks of
//! the program's own. Now and then it dies while it holds locks, or while it waits. What a lock guards is changed in two
//! steps, so two tasks that are inside together lose a change.

use crate::heart::Doing;
use crate::land::{Kind, LOCKS, Land, Lock};
use crate::limit::Limit;
use crate::random::Random;
use crate::shift::{Seat, Shift};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use ufutex::pi::{OWNER_DIED, Priority, TID_MASK, WAITERS};
use ufutex::syscall::Pointers;
use ufutex::{Error, Task, WaitOptions};

/// Longest timeout of a wait for a lock.
const LONGEST: Duration = Duration::from_millis(5);

/// A guest thread.
struct Locker<'a> {
    shift: &'a Shift,
    seat: Seat,
    task: Arc<Task>,
    /// The locks that it holds, in the order in which it took them.
    held: Vec<Lock>,
}

/// How an attempt to lock has ended.
#[derive(PartialEq, Eq)]
enum Attempt {
    Locked,
    /// It was given up.
    Failed,
    /// The task was interrupted, which kills it.
    Killed,
}

/// Makes one task after another until the run is stopped.
pub fn run(shift: &Shift, mut seat: Seat) {
    while shift.world.is_running() {
        let Some(task) = birth(shift, &seat) else { return };
        let mut locker = Locker { shift, seat, task, held: Vec::new() };
        locker.live();
        locker.die();
        seat = locker.seat;
    }
}

fn birth(shift: &Shift, seat: &Seat) -> Option<Arc<Task>> {
    let task = shift.guest.task(shift.next_tid()).inspect_err(|error| shift.world.unexpected("a new task", *error));
    let task = Arc::new(task.ok()?);
    let set = task.set_robust_list(Pointers::Wide, shift.land.head(seat.index), Pointers::Wide.head_bytes());
    set.unwrap_or_else(|error| shift.world.unexpected("set_robust_list", error));
    *shift.task(seat.index) = Some(task.clone());
    Some(task)
}

impl Locker<'_> {
    /// Locks and unlocks until the task is killed, or has had enough.
    fn live(&mut self) {
        let sections = 1 + self.seat.random.below(200);
        self.task.set_priority(priority(&mut self.seat.random));
        for _ in 0..sections {
            let is_killed = if self.seat.random.one_in(2) { self.pi() } else { self.robust() } == Attempt::Killed;
            if is_killed {
                self.shift.world.counts.killed_waiters.add(1);
                return;
            }
            if !self.shift.world.is_running() || !self.held.is_empty() && self.seat.random.one_in(100) {
                return;
            }
            while let Some(lock) = self.held.pop() {
                self.unlock(lock);
            }
        }
    }

    /// Ends the task. The engine walks its robust list, and hands its locks on.
    fn die(&mut self) {
        let (shift, counts) = (self.shift, &self.shift.world.counts);
        counts.deaths.add(1);
        counts.locks_orphaned.add(self.held.len());
        for lock in self.held.drain(..) {
            shift.land.guarded(lock).inside.store(0, Ordering::Relaxed);
        }
        let ended = self.seat.heart.during(Doing::Exit, 0, || shift.guest.exit(&self.task, &shift.land));
        ended.unwrap_or_else(|error| shift.world.unexpected("the end of a task", error));
        *shift.task(self.seat.index) = None;
        shift.land.list(self.seat.index, &[]);
    }

    /// Takes one lock with priority inheritance, or two in any order, which may be a deadlock.
    fn pi(&mut self) -> Attempt {
        let first = self.seat.random.below(LOCKS);
        let more = if self.seat.random.one_in(4) {
            Some((first + 1 + self.seat.random.below(LOCKS - 1)) % LOCKS)
        } else {
            None
        };
        for index in [Some(first), more].into_iter().flatten() {
            let lock = Lock { kind: Kind::Pi, index };
            match self.lock_pi(lock) {
                Attempt::Locked => self.enter(lock),
                ended => return ended,
            }
        }
        Attempt::Locked
    }

    fn lock_pi(&mut self, lock: Lock) -> Attempt {
        let (shift, random) = (self.shift, &mut self.seat.random);
        let (domain, word, at) = (&shift.guest, shift.land.pi_word(lock), shift.land.address(lock));
        let limit = if random.one_in(2) { Limit::none() } else { Limit::within(LONGEST, &shift.world, random) };
        let ended = match random.below(8) {
            0 => self.dropped(lock),
            1 => domain.try_lock_pi(word, &self.task),
            _ => self.seat.heart.during(Doing::LockPi, at, || {
                domain.lock_pi_with(word, &self.task, &WaitOptions::new().maybe_timeout(limit.timeout()))
            }),
        };
        match ended {
            Ok(()) => Attempt::Locked,
            Err(Error::Interrupted) => Attempt::Killed,
            Err(Error::Again) => Attempt::Failed,
            Err(Error::TimedOut) => {
                limit.check_passed(&shift.world, &shift.world.findings);
                Attempt::Failed
            }
            Err(Error::Deadlock) => {
                shift.world.counts.deadlocks.add(1);
                Attempt::Failed
            }
            Err(error) => {
                shift.world.unexpected("lock_pi", error);
                Attempt::Failed
            }
        }
    }

    /// Waits for a lock as a future that is dropped in the middle.
    fn dropped(&self, lock: Lock) -> Result<(), Error> {
        let mut wait =
            pin!(self.shift.guest.lock_pi_async(self.shift.land.pi_word(lock), &self.task, &WaitOptions::new()));
        match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => ended,
            Poll::Pending => Err(Error::Again),
        }
    }

    /// Takes a robust lock as glibc does: the word is 0, or the owner's TID with a bit for waiters.
    fn robust(&mut self) -> Attempt {
        let (shift, tid) = (self.shift, self.task.tid());
        let lock = Lock { kind: Kind::Robust, index: self.seat.random.below(LOCKS) };
        // A waiter that was woken does not know whether more of them wait.
        let mut waiters = 0;
        loop {
            let value = shift.land.value(lock);
            if value & TID_MASK == 0 {
                let taken = tid | value & WAITERS | waiters;
                // OWNER_DIED stays until the lock has been entered.
                if shift.land.exchange(lock, value, taken | value & OWNER_DIED) {
                    self.enter(lock);
                    return Attempt::Locked;
                }
                continue;
            }
            if value & WAITERS == 0 && !shift.land.exchange(lock, value, value | WAITERS) {
                continue;
            }
            let (expected, options) = (u64::from(value | WAITERS), WaitOptions::new());
            let interrupt = self.task.interrupt();
            let ended = self.seat.heart.during(Doing::Robust, shift.land.address(lock), || {
                shift.guest.wait_interruptible(shift.land.robust_word(lock), expected, &options, interrupt)
            });
            match ended {
                Ok(()) => waiters = WAITERS,
                Err(Error::Again) => {}
                Err(Error::Interrupted) => return Attempt::Killed,
                Err(error) => shift.world.unexpected("a wait for a robust lock", error),
            }
        }
    }

    /// Does what the lock guards.
    fn enter(&mut self, lock: Lock) {
        let (shift, counts) = (self.shift, &self.shift.world.counts);
        self.held.push(lock);
        shift.land.list(self.seat.index, &self.held);
        loop {
            let value = shift.land.value(lock);
            if value & OWNER_DIED == 0 {
                break;
            }
            if shift.land.exchange(lock, value, value & !OWNER_DIED) {
                counts.locks_recovered.add(1);
                break;
            }
        }
        let (guarded, tid) = (shift.land.guarded(lock), u64::from(self.task.tid()));
        let other = guarded.inside.swap(tid, Ordering::Relaxed);
        let sections = guarded.sections.load(Ordering::Relaxed);
        if self.seat.random.one_in(16) {
            std::thread::yield_now();
        }
        guarded.sections.store(sections + 1, Ordering::Relaxed);
        let still = guarded.inside.load(Ordering::Relaxed);
        if (other, still) != (0, tid) {
            shift.world.findings.add(
                format_args!("{}: the holder of a lock is alone", shift.world.name),
                format_args!("task {tid} inside"),
                format_args!("task {other} before it, task {still} after it, {lock}"),
            );
        }
        match lock.kind {
            Kind::Pi => counts.pi_sections.add(1),
            Kind::Robust => counts.robust_sections.add(1),
        }
    }

    /// Unlocks a lock that `held` does not name any more.
    fn unlock(&mut self, lock: Lock) {
        let shift = self.shift;
        shift.land.guarded(lock).inside.store(0, Ordering::Relaxed);
        shift.land.list(self.seat.index, &self.held);
        let at = shift.land.address(lock);
        match lock.kind {
            Kind::Pi => {
                let word = shift.land.pi_word(lock);
                let ended = self.seat.heart.during(Doing::Unlock, at, || {
                    loop {
                        // The word has changed meanwhile: once more, as the kernel's callers do.
                        match shift.guest.unlock_pi(word, &self.task) {
                            Err(Error::Again) => {}
                            ended => return ended,
                        }
                    }
                });
                ended.unwrap_or_else(|error| shift.world.unexpected("unlock_pi", error));
            }
            Kind::Robust => {
                let mut value = shift.land.value(lock);
                while !shift.land.exchange(lock, value, 0) {
                    value = shift.land.value(lock);
                }
                if value & WAITERS != 0 {
                    self.seat.heart.during(Doing::Wake, at, || shift.guest.wake(shift.land.robust_word(lock), 1));
                }
            }
        }
    }
}

fn priority(random: &mut Random) -> Priority {
    match random.below(4) {
        0 => Priority::realtime(1 + random.below(99) as u8),
        _ => Priority::NORMAL,
    }
}

/// The locks that nobody has taken over after their owner's death. Called when all tasks have ended.
pub fn orphans(land: &Land) -> u64 {
    Land::locks().filter(|lock| land.value(*lock) & OWNER_DIED != 0).count() as u64
}

/// The locks that are held.
pub fn held(land: &Land) -> u64 {
    Land::locks().filter(|lock| land.value(*lock) & TID_MASK != 0).count() as u64
}
