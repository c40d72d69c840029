//! Random programs.

use crate::common::random::Random;
use crate::ops::{How, Op};
use crate::program::WORKERS;
use crate::words::COUNT;

/// The thread that makes no call that blocks. At the end it wakes the waiters that are left.
pub const LAST: usize = WORKERS - 1;

/// What a program mostly does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Theme {
    /// Waits, wakes and requeues.
    Waits,
    /// These, and futures that are dropped.
    Futures,
    /// These, with real-time priorities, and without futures.
    Priorities,
    /// Locks with priority inheritance.
    Locks,
    /// These, but no thread waits for a lock that comes before one that it has. Then no two threads wait for each other.
    ///
    /// If two waits close a circle at the same time, the kernel may refuse both of them.
    OrderedLocks,
}

/// An operation, and what the thread waits for before it.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// A thread, and the number of calls that it is to have begun.
    pub after: Option<(usize, usize)>,
    /// A number of turns of a loop.
    pub pause: u32,
    pub op: Op,
}

#[derive(Clone, Debug)]
pub struct Program {
    pub theme: Theme,
    pub priorities: [u8; WORKERS],
    /// The words that are no locks.
    pub words: Vec<usize>,
    pub threads: [Vec<Item>; WORKERS],
    /// What the domain's table is changed to, one size after the other. The scheme may refuse it.
    pub slots: Vec<usize>,
}

impl Program {
    /// A program without resizes and priorities.
    pub fn of(theme: Theme, words: &[usize], threads: [&[(u32, Op)]; WORKERS]) -> Self {
        let items = |items: &[(u32, Op)]| items.iter().map(|&(pause, op)| Item { after: None, pause, op }).collect();
        Self { theme, priorities: [0; WORKERS], words: words.to_vec(), threads: threads.map(items), slots: Vec::new() }
    }
}

struct Generator {
    rng: Random,
    theme: Theme,
    /// The words that are waited for.
    words: Vec<usize>,
    /// The words that are locks.
    locks: Vec<usize>,
}

pub fn program(rng: Random, theme: Theme) -> Program {
    let mut this = Generator { rng, theme, words: Vec::new(), locks: Vec::new() };
    let all: Vec<usize> = (0..COUNT).collect();
    let words = match theme {
        Theme::Locks | Theme::OrderedLocks => this.rng.below(2),
        _ => this.rng.weighted(&[(2, 1), (2, 2), (1, COUNT)]),
    };
    this.locks = if matches!(theme, Theme::Locks | Theme::OrderedLocks) { all[words..].to_vec() } else { Vec::new() };
    this.words = all[..words].to_vec();
    let threads = 1 + this.rng.below(LAST);
    let length = 3 + this.rng.below(5);
    let slots = if this.rng.percent(50) { this.sizes() } else { Vec::new() };
    let priorities =
        std::array::from_fn(
            |thread| {
                if theme == Theme::Priorities && thread < LAST { this.rng.of(&[0, 0, 1, 2]) } else { 0 }
            },
        );
    let threads = std::array::from_fn(|thread| match thread {
        LAST => this.items(length, false),
        _ if thread < threads => this.items(length, true),
        _ => Vec::new(),
    });
    Program { theme, priorities, words: this.words, threads, slots }
}

impl Generator {
    fn sizes(&mut self) -> Vec<usize> {
        (0..1 + self.rng.below(6)).map(|_| self.rng.of(&[2, 4, 64, 256, 0])).collect()
    }

    fn items(&mut self, length: usize, may_block: bool) -> Vec<Item> {
        let mut items = Vec::new();
        while items.len() < length {
            let pause = self.rng.of(&[0, 0, 0, 1, 10, 100, 1000]);
            // Another thread that is about as far.
            let after = self.rng.percent(40).then(|| (self.rng.below(WORKERS), items.len() + self.rng.below(2)));
            let op = self.op(may_block);
            items.push(Item { after, pause, op });
            if let Op::Store(word, _) = op {
                items.push(Item { after: None, pause: 0, op: self.wake(word) });
            }
        }
        items
    }

    fn op(&mut self, may_block: bool) -> Op {
        if self.words.is_empty() || !self.locks.is_empty() && self.rng.percent(80) {
            return self.lock(may_block);
        }
        let word = self.rng.of(&self.words);
        match self.rng.below(100) {
            0..40 if may_block => self.wait(word),
            0..20 => Op::Store(word, self.value()),
            20..40 => self.wake(word),
            40..55 => Op::Store(word, self.value()),
            55..70 => self.wake(word),
            70..75 => Op::Load(word),
            75..80 => Op::Swap(word, self.value()),
            80..85 => self.wake_op(),
            _ => self.requeue(),
        }
    }

    /// Mostly what words hold at first, which most waits expect.
    fn value(&mut self) -> u32 {
        self.rng.weighted(&[(3, 0), (1, 1)])
    }

    fn timeout(&mut self) -> Option<u32> {
        self.rng.percent(25).then(|| self.rng.of(&[0, 1, 10, 50]))
    }

    fn wait(&mut self, word: usize) -> Op {
        let how = match self.theme {
            Theme::Futures => {
                let turns = self.rng.of(&[0, 10, 100, 1000, 3000]);
                let (future, dropped, ended) = (How::Future(turns), How::Dropped(turns), How::Ended(turns));
                self.rng.weighted(&[(1, How::Thread), (2, How::Prepared), (2, future), (4, dropped), (2, ended)])
            }
            _ => self.rng.of(&[How::Thread, How::Prepared]),
        };
        let timeout = if matches!(how, How::Thread | How::Prepared | How::Future(_)) { self.timeout() } else { None };
        let bitset = self.rng.weighted(&[(4, u32::MAX), (1, 1), (1, 2)]);
        let expected = self.rng.weighted(&[(3, 0), (1, 1)]);
        Op::Wait { word, expected, bitset, timeout, how }
    }

    fn wake(&mut self, word: usize) -> Op {
        let count = self.rng.weighted(&[(4, 1), (1, 2), (1, i32::MAX)]);
        Op::Wake { word, count, bitset: self.rng.weighted(&[(4, u32::MAX), (1, 1), (1, 2), (1, 3)]) }
    }

    fn wake_op(&mut self) -> Op {
        let words = [self.rng.of(&self.words), self.rng.of(&self.words)];
        let counts = self.rng.of(&[[1, 1], [1, 2], [2, 1], [i32::MAX, i32::MAX]]);
        Op::WakeOp { words, counts, value: self.value(), old: self.value() }
    }

    fn requeue(&mut self) -> Op {
        let [from, to] = [self.rng.of(&self.words), self.rng.of(&self.words)];
        let expected = if self.rng.percent(50) { Some(self.value()) } else { None };
        Op::Requeue { from, to, expected, wake: self.rng.of(&[0, 1, 1, 2]), requeue: self.rng.of(&[0, 1, 2, i32::MAX]) }
    }

    fn lock(&mut self, may_block: bool) -> Op {
        let word = self.rng.of(&self.locks);
        match self.rng.below(100) {
            0..40 if may_block => Op::Lock { word, timeout: self.timeout() },
            0..40 => Op::TryLock(word),
            40..50 => Op::LockFast(word),
            50..60 => Op::TryLock(word),
            60..85 => Op::Unlock(word),
            85..92 => Op::UnlockFast(word),
            _ => Op::Load(word),
        }
    }
}
