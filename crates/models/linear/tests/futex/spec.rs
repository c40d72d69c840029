//! The model of the differential tests as a model for histories.

use ufutex_linear::{Call, Progress, Spec};

use crate::common::libc;
use crate::layout::Layout;
use crate::model::Model;
use crate::model::concurrent::State;
use crate::model::key::Key;
use crate::ops::{DROPPED, Made, Op};
use crate::program::{Arg, Cmd, Number, PRIVATE, Step, Time, WORKERS};

/// A wake that has taken a waiter which may be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Taken {
    key: Key,
    /// The bitset with which the wake is passed on; `None` if it was a wake of all waiters.
    passed_on: Option<u32>,
    /// The threads that were in the queue when the wake came, and are still there.
    there: [bool; WORKERS],
}

#[derive(Clone)]
pub struct Futexes {
    model: Model,
    tids: [u32; WORKERS],
    /// What the call of each thread returns, if that is decided.
    results: [Option<i64>; WORKERS],
    taken: [Option<Taken>; WORKERS],
}

/// The value of `FUTEX_WAKE_OP` that sets a word and compares what it held before.
pub fn wake_op(value: u32, old: u32) -> u64 {
    u64::from((value & 0xfff) << 12 | old & 0xfff)
}

/// The bitset with which a dropped future passes on a wake of up to `count` waiters.
fn passed_on(count: i32, bitset: u32) -> Option<u32> {
    (count < i32::MAX).then_some(bitset)
}

impl Futexes {
    pub fn new(layout: Layout, tids: [u32; WORKERS], priorities: [u8; WORKERS]) -> Self {
        let model = Model::new(layout, tids, priorities);
        Self { model, tids, results: [None; WORKERS], taken: [None; WORKERS] }
    }

    fn step(&mut self, step: &Step) {
        self.model.step(step).expect("its effect depends on this program alone");
    }

    fn store(&mut self, word: usize, value: Arg) {
        self.step(&Step::Store(word, value));
    }

    /// Makes a system call. The waiters that it wakes pass the wake on with `passed_on`, if they are dropped.
    fn call(&mut self, thread: usize, op: &Op) {
        let keys = self.keys();
        let (args, pass) = arguments(op);
        self.step(&Step::Call(thread, Number::Futex, args));
        self.note(keys, pass);
    }

    /// The futex that each thread waits for.
    fn keys(&self) -> [Option<Key>; WORKERS] {
        std::array::from_fn(|thread| self.model.waits_for(thread))
    }

    /// Notes which calls have returned. `keys` are the futexes that threads waited for before.
    fn note(&mut self, keys: [Option<Key>; WORKERS], passed_on: Option<u32>) {
        for taken in self.taken.iter_mut().flatten() {
            for (thread, is_there) in taken.there.iter_mut().enumerate() {
                *is_there &= self.model.waits_for(thread) == Some(taken.key);
            }
        }
        let now = self.keys();
        for (thread, result) in self.model.returned().into_iter().enumerate() {
            if result.is_some() {
                self.results[thread] = result;
                let taken = |key| Taken { key, passed_on, there: now.map(|other| other == Some(key)) };
                self.taken[thread] = keys[thread].map(taken);
            }
        }
    }

    /// A wait leaves its queue by itself.
    fn give_up(&mut self, thread: usize, result: i64) {
        let keys = self.keys();
        self.model.give_up(thread, result);
        self.note(keys, None);
    }

    /// Drops the future of a wait: it leaves the queue, or passes on the wake that it has not reported. The wake is for
    /// those that were queued when it came. One that has come since may get it, if there is none of these.
    fn drop_wait(&self, thread: usize) -> Vec<Self> {
        let mut this = self.clone();
        let Some(taken) = this.taken[thread].take() else {
            this.give_up(thread, DROPPED);
            return vec![this];
        };
        this.results[thread] = Some(DROPPED);
        let Some(bitset) = taken.passed_on else { return vec![this] };
        let to = |waiters| {
            let (mut next, keys) = (this.clone(), this.keys());
            next.model.wake_one_of(taken.key, bitset, waiters);
            next.note(keys, taken.passed_on);
            next
        };
        vec![to(taken.there), to([true; WORKERS])]
    }
}

/// The arguments of futex(2), and how a dropped future passes on a wake of this call.
fn arguments(op: &Op) -> ([Arg; 6], Option<u32>) {
    let word = |word: usize| Arg::Word(word);
    let number = |number: i32| Arg::Num(number as u64);
    // Timeouts are far away for the model. `go_on` ends a call by its timeout.
    let time = |timeout: Option<u32>| timeout.map_or(Arg::Num(0), |_| Arg::Time(Time::Far));
    let zero = || Arg::Num(0);
    let call = |cmd, args: [Arg; 5]| {
        let [first, value, time, second, value3] = args;
        [first, Arg::Op(cmd, PRIVATE), value, time, second, value3]
    };
    match *op {
        Op::Wait { word: of, expected, bitset, timeout, .. } => {
            let args = [word(of), Arg::Num(expected.into()), time(timeout), zero(), Arg::Num(bitset.into())];
            (call(Cmd::WaitBitset, args), None)
        }
        Op::Wake { word: of, count, bitset } => {
            let args = [word(of), number(count), zero(), zero(), Arg::Num(bitset.into())];
            (call(Cmd::WakeBitset, args), passed_on(count, bitset))
        }
        Op::WakeOp { words, counts, value, old } => {
            let encoded = Arg::Num(wake_op(value, old));
            let args = [word(words[0]), number(counts[0]), number(counts[1]), word(words[1]), encoded];
            (call(Cmd::WakeOp, args), passed_on(counts[0].max(counts[1]), u32::MAX))
        }
        Op::Requeue { from, to, expected, wake, requeue } => {
            let cmd = if expected.is_some() { Cmd::CmpRequeue } else { Cmd::Requeue };
            let expected = Arg::Num(expected.unwrap_or(0).into());
            (call(cmd, [word(from), number(wake), number(requeue), word(to), expected]), passed_on(wake, u32::MAX))
        }
        Op::Lock { word: of, timeout } => (call(Cmd::LockPi2, [word(of), zero(), time(timeout), zero(), zero()]), None),
        Op::TryLock(of) => (call(Cmd::TrylockPi, [word(of), zero(), zero(), zero(), zero()]), None),
        Op::Unlock(of) => (call(Cmd::UnlockPi, [word(of), zero(), zero(), zero(), zero()]), None),
        Op::Load(_) | Op::Swap(..) | Op::Store(..) | Op::LockFast(_) | Op::UnlockFast(_) => {
            unreachable!("{op:?} is no system call")
        }
    }
}

impl Spec for Futexes {
    type Op = Made;
    type Key = (State, [Option<Taken>; WORKERS]);

    fn key(&self) -> Self::Key {
        (self.model.all_state(), self.taken)
    }

    fn begin(&mut self, thread: usize, call: &Call<Made>) -> bool {
        (self.results[thread], self.taken[thread]) = (None, None);
        let value = |word| i64::from(self.model.value(word));
        let own = || Arg::Tid(thread, 0);
        match call.op.op {
            Op::Load(word) => self.results[thread] = Some(value(word)),
            Op::Swap(word, new) => {
                self.results[thread] = Some(value(word));
                self.store(word, Arg::Num(new.into()));
            }
            Op::Store(word, new) => {
                self.results[thread] = Some(0);
                self.store(word, Arg::Num(new.into()));
            }
            Op::LockFast(word) => {
                self.results[thread] = Some(value(word));
                if value(word) == 0 {
                    self.store(word, own());
                }
            }
            Op::UnlockFast(word) => {
                self.results[thread] = Some(value(word));
                if value(word) == i64::from(self.tids[thread]) {
                    self.store(word, Arg::Num(0));
                }
            }
            ref call => self.call(thread, call),
        }
        true
    }

    fn go_on(&self, thread: usize, call: &Call<Made>) -> Vec<Self> {
        let result = call.op.result;
        if result == DROPPED {
            return self.drop_wait(thread);
        }
        if result != -i64::from(libc::ETIMEDOUT) && result != -i64::from(libc::EINTR) {
            return Vec::new();
        }
        let mut next = self.clone();
        next.give_up(thread, result);
        vec![next]
    }

    fn progress(&self, thread: usize, call: &Call<Made>) -> Progress {
        match self.results[thread] {
            None => Progress::Open,
            Some(result) if result == call.op.result => Progress::Over,
            // A wake has taken it, and its future has not reported that.
            Some(0) if call.op.result == DROPPED && self.taken[thread].is_some() => Progress::Open,
            Some(_) => Progress::Wrong,
        }
    }
}
