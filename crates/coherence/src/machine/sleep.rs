//! Sleeping by address, as with futex(2): a thread that sleeps is off its core until it is woken.

use std::collections::{HashMap, VecDeque};

use super::hasher::LineHasher;
use super::{Event, Machine, Time};

/// How a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slept {
    /// The thread was woken.
    Woken,
    /// The deadline came.
    TimedOut,
}

/// The threads that sleep at each address, in order of arrival.
pub type Sleepers = HashMap<usize, VecDeque<usize>, LineHasher>;

impl Machine {
    /// Puts the running thread to sleep at `address`, whose word it has compared. Its core is free for other threads.
    pub fn sleep(&mut self, address: usize, until: Option<Time>) {
        let thread = self.running;
        self.advance(self.costs.sleep);
        let this = &mut self.threads[thread];
        this.sleeps += 1;
        this.sleeps_on = Some(address);
        let (number, clock) = (this.sleeps, this.clock);
        self.sleepers.entry(address).or_default().push_back(thread);
        if let Some(until) = until {
            self.at(until.max(clock), Event::Deadline(thread, number));
        }
        self.leave_cpu(thread);
    }

    /// How the running thread's last sleep ended.
    pub fn slept(&self) -> Slept {
        self.threads[self.running].slept
    }

    /// Wakes up to `count` threads that sleep at `address`, in order of arrival. Returns the number of threads woken.
    pub fn wake(&mut self, address: usize, count: usize) -> usize {
        self.advance(self.costs.syscall);
        let mut woken = 0;
        while woken < count {
            let Some(thread) = self.sleepers.get_mut(&address).and_then(VecDeque::pop_front) else {
                break;
            };
            self.advance(self.costs.wake);
            let now = self.clock() + self.costs.wakeup;
            self.end_sleep(thread, Slept::Woken, now);
            woken += 1;
        }
        if self.sleepers.get(&address).is_some_and(VecDeque::is_empty) {
            self.sleepers.remove(&address);
        }
        woken
    }

    pub(super) fn deadline(&mut self, thread: usize, sleep: u64, now: Time) {
        let this = &self.threads[thread];
        let (true, Some(address)) = (this.sleeps == sleep, this.sleeps_on) else {
            return;
        };
        if let Some(sleepers) = self.sleepers.get_mut(&address) {
            sleepers.retain(|sleeper| *sleeper != thread);
        }
        let now = now + self.costs.wakeup;
        self.end_sleep(thread, Slept::TimedOut, now);
    }

    fn end_sleep(&mut self, thread: usize, slept: Slept, at: Time) {
        let this = &mut self.threads[thread];
        this.sleeps_on = None;
        this.slept = slept;
        self.make_ready(thread, at);
    }
}
