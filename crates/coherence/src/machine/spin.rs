//! Loops that look at a line again and again until somebody else writes to it.
//!
//! They queue. All of them looking at once would ask for the line together after each write, and what locks cost would be
//! drowned by test-and-set convoys: fair locks, and hardware with backoff, let one go first. So a turn of such a loop ends
//! when the line has been written to, for the first in the queue; or after a while, since what the loop waits for may
//! lie elsewhere, or have come before it began to wait.

use std::collections::VecDeque;

use super::access::Next;
use super::{Event, Machine, Time};

/// How long a turn lasts at most, as many pauses.
const PAUSES_MAX: Time = 100;

/// What a thread knows of its spinning.
#[derive(Default)]
pub struct Spinner {
    /// The line of its last load.
    looked_at: usize,
    /// The line in whose queue it is, and for the how manieth time it queues.
    waits_at: Option<usize>,
    turns: u64,
    /// It came first in this line's queue, and its look was in vain if it comes back.
    was_first_at: Option<usize>,
}

/// Who spins on a line, the first in front.
pub type Spinners = VecDeque<usize>;

impl Machine {
    /// The running thread has looked at `line`.
    pub(super) fn note_look(&mut self, line: usize) {
        self.threads[self.running].spinner.looked_at = line;
    }

    /// A turn of a loop that spins.
    pub fn pause(&mut self) -> Next {
        let thread = self.running;
        let line = self.threads[thread].spinner.looked_at;
        if !self.has_line(line, self.cpu() as u16, super::Access::Load) || !self.is_alone(thread) {
            self.advance(self.costs.pause);
            return self.turn();
        }
        let spinner = &mut self.threads[thread].spinner;
        spinner.waits_at = Some(line);
        self.threads[thread].is_stalled = true;
        let spinner = &mut self.threads[thread].spinner;
        spinner.turns += 1;
        let (turn, was_first) = (spinner.turns, spinner.was_first_at.take() == Some(line));
        let spinners = &mut self.lines.entry(line).or_default().spinners;
        if was_first {
            spinners.push_front(thread)
        } else {
            spinners.push_back(thread)
        }
        let until = self.clock() + PAUSES_MAX * self.costs.pause;
        self.at(until, Event::Spun(thread, turn));
        Next::Wait
    }

    /// Somebody has `line` to write to it, from `now` on: the first who spins on it looks again.
    pub(super) fn let_first_look(&mut self, line: usize, now: Time) {
        let Some(first) = self.lines.get_mut(&line).and_then(|at| at.spinners.pop_front()) else {
            return;
        };
        let spinner = &mut self.threads[first].spinner;
        (spinner.waits_at, spinner.was_first_at) = (None, Some(line));
        // It comes in the middle of a pause.
        let next = now.max(self.threads[first].clock) + self.costs.pause / 2;
        self.at(next, Event::Resume(first));
    }

    /// The turn of a thread has lasted long enough.
    pub(super) fn spun(&mut self, thread: usize, turn: u64, now: Time) {
        let spinner = &mut self.threads[thread].spinner;
        if spinner.turns != turn {
            return;
        }
        let Some(line) = spinner.waits_at.take() else {
            return;
        };
        if let Some(at) = self.lines.get_mut(&line) {
            at.spinners.retain(|spinner| *spinner != thread);
        }
        self.at(now, Event::Resume(thread));
    }
}
