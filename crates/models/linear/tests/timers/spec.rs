//! The model of the timers' random programs as a model for histories.

use std::collections::BTreeMap;

use ufutex::timer::{Notify, TimerClock};
use ufutex_linear::{Call, Progress, Spec};

use crate::common::libc;
use crate::model::{self, Due, Model, World};
use crate::ops::{Made, Setting};

/// A timer that was due when a turn began.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owed {
    id: i32,
    deadline: i128,
    /// The end of the call that armed it.
    armed: u64,
}

#[derive(Clone)]
pub struct TimerTable {
    world: World,
    model: Model,
    /// The model's number of each notice, by its number in the history.
    notices: Vec<u64>,
    /// For each timer the end of the call that armed it.
    armed: BTreeMap<i32, u64>,
    /// What the turn that is going on has to expire.
    turn: Option<Vec<Owed>>,
    /// The timer that each thread has locked: it has read the old setting, and has not set the new one.
    locked: [Option<i32>; THREADS_MAX],
    most: usize,
    /// The threads in the middle of a creation or a deletion. The limit counts the timer, although its ID is not there yet,
    /// or not any more.
    changing: [bool; THREADS_MAX],
    /// Threads whose call is over.
    is_over: [bool; THREADS_MAX],
}

const THREADS_MAX: usize = 8;

/// What every timer of the programs does.
pub const NOTIFY: Notify = Notify::Signal { signal: 10, value: 7 };

fn plain((value, interval): Setting) -> model::Setting {
    model::Setting { value: value.into(), interval: interval.into() }
}

fn setting(of: model::Setting) -> Setting {
    (of.value as u64, of.interval as u64)
}

impl TimerTable {
    pub fn new(now: u64, max_timers: usize) -> Self {
        Self {
            world: World { now: [now.into(); 4], cpu: Vec::new() },
            model: Model::new(usize::MAX, i32::MAX),
            notices: Vec::new(),
            armed: BTreeMap::new(),
            turn: None,
            locked: [None; THREADS_MAX],
            most: max_timers,
            changing: [false; THREADS_MAX],
            is_over: [false; THREADS_MAX],
        }
    }

    fn due(&self) -> Vec<Owed> {
        let owed = |Due { id, deadline, .. }| Owed { id, deadline, armed: self.armed[&id] };
        self.model.due(&self.world).into_iter().map(owed).collect()
    }

    /// What of the turn's debts is left.
    fn owes(&self) -> Vec<Owed> {
        let due = self.due();
        self.turn.iter().flatten().filter(|owed| due.contains(owed)).copied().collect()
    }

    /// Whether the limit allows no more timers.
    fn is_full(&self) -> bool {
        self.model.count() + self.changing.iter().filter(|changing| **changing).count() >= self.most
    }

    /// Puts the thread between the two steps of a creation or a deletion, or ends the call.
    fn change(&mut self, thread: usize, begins: bool) {
        (self.changing[thread], self.is_over[thread]) = (begins, !begins);
    }

    /// IDs need not be handed out in order: threads have blocks of their own. But no two timers have one.
    fn create(&mut self, result: Result<i32, i32>) -> bool {
        let requested = result.ok();
        self.model.create(&self.world, requested, TimerClock::Monotonic, Some(NOTIFY)) == result
    }

    fn get(&mut self, id: i32) -> Result<Setting, i32> {
        self.model.get(&self.world, id).map(setting)
    }

    /// The second step of timer_settime(2), which reads the clock anew. In between the timer is locked.
    fn set(&mut self, thread: usize, call: &Call<Made>, id: i32, is_absolute: bool, new: Setting) {
        let _old = self.model.set(&self.world, id, is_absolute, plain(new));
        self.armed.insert(id, call.end);
        (self.locked[thread], self.is_over[thread]) = (None, true);
    }

    /// Whether another call has locked the timer of this one.
    fn waits(&self, call: &Made) -> bool {
        let (Made::Set(id, ..) | Made::Get(id, _) | Made::Delete(id, _) | Made::Take(_, id, _) | Made::Expire(_, id)) =
            call
        else {
            return false;
        };
        self.locked.contains(&Some(*id))
    }

    fn take(&mut self, call: &Call<Made>, notice: usize, id: i32) -> Option<i32> {
        let overrun = self.model.take(&self.world, id, self.notices[notice]);
        if overrun.is_some() {
            self.armed.insert(id, call.end);
        }
        overrun
    }

    /// A turn delivers a timer: one that is due, and no other that it owed is due earlier.
    fn expire(&mut self, id: i32) -> bool {
        let Some(expired) = self.due().into_iter().find(|due| due.id == id) else { return false };
        if self.turn.is_none() || self.owes().iter().any(|owed| owed.deadline < expired.deadline) {
            return false;
        }
        self.notices.push(self.model.expire(id));
        true
    }
}

impl Spec for TimerTable {
    type Op = Made;
    type Key = (
        Model,
        i128,
        Vec<u64>,
        BTreeMap<i32, u64>,
        Option<Vec<Owed>>,
        [Option<i32>; THREADS_MAX],
        [[bool; THREADS_MAX]; 2],
    );

    fn key(&self) -> Self::Key {
        let Self { world, model, notices, armed, turn, locked, most: _, changing, is_over } = self;
        (model.clone(), world.now[0], notices.clone(), armed.clone(), turn.clone(), *locked, [*changing, *is_over])
    }

    fn begin(&mut self, thread: usize, call: &Call<Made>) -> bool {
        self.is_over[thread] = true;
        if self.waits(&call.op) {
            return false;
        }
        match call.op {
            Made::Create(Err(libc::EAGAIN)) => self.is_full(),
            Made::Create(result) => {
                let has_room = !self.is_full();
                self.change(thread, true);
                has_room && result.is_ok()
            }
            Made::Set(id, .., old) => {
                if old.is_ok() {
                    (self.locked[thread], self.is_over[thread]) = (Some(id), false);
                }
                self.get(id) == old
            }
            Made::Get(id, found) => self.get(id) == found,
            Made::Overrun(id, found) => self.model.overrun(id) == found,
            Made::Delete(id, found) => {
                self.change(thread, found.is_ok());
                self.model.delete(id) == found
            }
            Made::Take(notice, id, found) => self.take(call, notice, id) == found,
            Made::Advance(by) => {
                self.world.now.iter_mut().for_each(|now| *now += i128::from(by));
                true
            }
            Made::Turn => {
                self.is_over[thread] = false;
                // A call that arms a timer and overlaps with the turn may leave it to the next turn.
                self.turn = Some(self.due().into_iter().filter(|due| due.armed < call.begin).collect());
                true
            }
            Made::Expire(notice, id) => self.notices.len() == notice && self.expire(id),
        }
    }

    fn go_on(&self, thread: usize, call: &Call<Made>) -> Vec<Self> {
        let mut next = self.clone();
        if let Made::Set(id, is_absolute, new, _) = call.op {
            next.set(thread, call, id, is_absolute, new);
            return vec![next];
        }
        if let Made::Create(_) | Made::Delete(..) = call.op {
            next.change(thread, false);
            let is_there = if let Made::Create(result) = call.op { next.create(result) } else { true };
            return if is_there { vec![next] } else { Vec::new() };
        }
        // The end of a turn: nothing is left of what it owed.
        if !self.owes().is_empty() {
            return Vec::new();
        }
        (next.turn, next.is_over[thread]) = (None, true);
        vec![next]
    }

    fn progress(&self, thread: usize, _: &Call<Made>) -> Progress {
        if self.is_over[thread] { Progress::Over } else { Progress::Open }
    }
}
