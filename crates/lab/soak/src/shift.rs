//! A shift: eight threads that work on the words, locks, futures and timers of one guest. Each shift has a domain for
//! plain words and one for locks, so that the engine's own counts of the first can be compared with ours.

use crate::heart::{Doing, Heart};
use crate::land::Land;
use crate::random::Random;
use crate::word::{Cell, Word, cells};
use crate::work;
use crate::world::World;
use anyhow::{Context, Result};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use ufutex::{Domain, DomainOptions, Interrupt, Key, PidNamespace, Requeue, Task};

/// Private words of a shift's crowd. Every second one has a node.
const WORDS: usize = 512;
/// Words by which two threads pass a ball: see [`work::pass`].
pub const COURT: usize = 4;
/// Threads of a shift that lock.
const LOCKERS: usize = 2;
const BITSETS: [u32; 4] = [1, 2, 3, u32::MAX];

/// See the top of this file.
pub struct Shift {
    pub world: Arc<World>,
    pub number: usize,
    /// For all words but those of locks.
    pub plain: Domain,
    /// For locks, in a namespace of its own.
    pub guest: Domain,
    cells: Vec<Cell>,
    pub court: Vec<Cell>,
    /// How many throws of balls have returned.
    pub thrown: AtomicU64,
    /// The interrupt of the thread that catches.
    pub catcher: Interrupt,
    pub land: Land,
    /// The interrupts of the crowd's threads.
    pub interrupts: Vec<Interrupt>,
    /// The tasks that lock now.
    tasks: [Mutex<Option<Arc<Task>>>; LOCKERS],
    next_tid: AtomicU32,
    /// Futures that wait at a time.
    pub futures: usize,
    /// Timers at a time.
    pub timers: usize,
}

/// What a thread has of its own.
pub struct Seat {
    pub heart: Arc<Heart>,
    /// Its number among the threads of the shift that do the same.
    pub index: usize,
    pub random: Random,
}

/// A thread's name, its number among the threads of that name, and its work.
type Role = (&'static str, usize, fn(&Shift, Seat));

/// The role of each thread of a shift. Threads beyond these join the crowd.
const ROLES: [Role; crate::settings::SHIFT] = [
    ("thrower", 0, work::pass::throw),
    ("catcher", 0, work::pass::catch),
    ("crowd", 0, work::crowd::run),
    ("crowd", 1, work::crowd::run),
    ("locker", 0, work::locks::run),
    ("locker", 1, work::locks::run),
    ("executor", 0, work::futures::run),
    ("timers", 0, work::timers::run),
];

/// The role of thread `number` of a shift.
pub fn role(number: usize) -> Role {
    ROLES.get(number).copied().unwrap_or(("crowd", (number + 2).saturating_sub(ROLES.len()), work::crowd::run))
}

impl Shift {
    pub fn new(world: &Arc<World>, number: usize, threads: usize, futures: usize, timers: usize) -> Result<Self> {
        let namespace = PidNamespace::new(&world.system).context("cannot make a PID namespace")?;
        let options = DomainOptions::new().counters(true);
        Ok(Self {
            world: world.clone(),
            number,
            plain: Domain::with_options(&world.system, options.spin(Duration::from_micros(200))),
            guest: Domain::in_namespace(&namespace, options),
            cells: cells(WORDS),
            court: cells(COURT),
            thrown: AtomicU64::new(0),
            catcher: Interrupt::new(),
            land: Land::new(LOCKERS),
            interrupts: (0..threads).map(|_| Interrupt::new()).collect(),
            tasks: Default::default(),
            next_tid: AtomicU32::new(0),
            futures,
            timers,
        })
    }

    pub fn domains(&self) -> [&Domain; 2] {
        [&self.plain, &self.guest]
    }

    /// A word of the crowd.
    pub fn word(&self, random: &mut Random) -> Word<'_> {
        let index = random.below(self.cells.len());
        match random.below(8) {
            0 => {
                let (object, cells) = &self.world.object;
                let index = random.below(cells.len());
                cells[index].in_object(object, index)
            }
            _ if index % 2 == 1 => self.cells[index].on_node(),
            _ => self.cells[index].private(),
        }
    }

    /// A cell whose node may change.
    pub fn cell_with_node(&self, random: &mut Random) -> &Cell {
        &self.cells[random.below(self.cells.len()) | 1]
    }

    /// Wakes waiters of the crowd, and counts them.
    pub fn wake(&self, heart: &Heart, word: Word<'_>, count: usize, bitset: u32) {
        let bitset = NonZeroU32::new(bitset).unwrap_or(NonZeroU32::MAX);
        let woken = heart.during(Doing::Wake, word.address(), || self.plain.wake_bitset(word, count, bitset));
        self.world.counts.woken.add(woken);
        self.check_count("a wake wakes no more waiters than asked for", count, woken);
    }

    /// Requeues waiters of the crowd, and counts them.
    pub fn requeue(&self, heart: &Heart, random: &mut Random) {
        let (from, mut to) = (self.word(random), self.word(random));
        // A requeue of a word to itself would count waiters that it does not move.
        while !from.may_move_to(&to) || from.address() == to.address() {
            to = self.word(random);
        }
        let most = Requeue { wake: random.below(3), requeue: random.of(&[0, 1, 2, 10, usize::MAX]) };
        let is_compared = random.one_in(2);
        let done = heart.during(Doing::Requeue, from.address(), || match is_compared {
            true => self.plain.cmp_requeue(from, from.value(), to, most),
            false => self.plain.requeue(from, to, most),
        });
        match done {
            Ok(done) => {
                self.world.counts.woken.add(done.woken);
                self.world.counts.requeued.add(done.requeued);
                self.check_count("a requeue wakes no more waiters than asked for", most.wake, done.woken);
                self.check_count("a requeue moves no more waiters than asked for", most.requeue, done.requeued);
            }
            Err(ufutex::Error::Again) if is_compared => {}
            Err(error) => self.world.unexpected("a requeue", error),
        }
    }

    fn check_count(&self, law: &str, most: usize, found: usize) {
        if found > most {
            self.world.findings.add(format_args!("{}: {law}", self.world.name), format_args!("at most {most}"), found);
        }
    }

    /// A TID that none of the shift's last 2^29 tasks has had.
    pub fn next_tid(&self) -> u32 {
        1 + self.next_tid.fetch_add(1, Ordering::Relaxed) % (1 << 29)
    }

    /// The task of a locking thread, which others may interrupt.
    pub fn task(&self, locker: usize) -> MutexGuard<'_, Option<Arc<Task>>> {
        self.tasks[locker].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Interrupts one waiter.
    pub fn interrupt(&self, random: &mut Random) {
        self.world.counts.interrupts.add(1);
        if random.one_in(8) {
            if let Some(task) = &*self.task(random.below(LOCKERS)) {
                task.interrupt().raise();
            }
        } else {
            self.interrupts[random.below(self.interrupts.len())].raise();
        }
    }
}

/// A bitset of a wait or wake.
pub fn bitset(random: &mut Random) -> u32 {
    random.of(&BITSETS)
}
