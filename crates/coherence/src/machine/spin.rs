//! Loops that read a line again and again until another thread writes to it.
//!
//! The threads that spin on a line queue. If all of them read at once, they would all ask for the line after each
//! write, and these test-and-set convoys would hide what locks cost. Fair locks, and hardware with backoff, let one
//! thread go first. So, for the first thread in the queue, a turn of such a loop ends when the line has been written
//! to. For every thread it ends after a while, because what the loop waits for may be on another line, or may have
//! happened before the loop began to wait.

use std::collections::VecDeque;

use super::access::Next;
use super::{Event, Machine, Time};

/// The longest time that a turn lasts, in pauses.
const PAUSES_MAX: Time = 100;

/// The spinning of one thread.
#[derive(Default)]
pub struct Spinner {
    /// The line that the thread has loaded last.
    looked_at: usize,
    /// The line in whose queue the thread is. `turns` counts how many times it has queued.
    waits_at: Option<usize>,
    turns: u64,
    /// The line in whose queue the thread was first in its last turn. If it spins on that line again, it looked in
    /// vain, and is first again.
    was_first_at: Option<usize>,
}

/// The threads that spin on a line, the first in front.
pub type Spinners = VecDeque<usize>;

impl Machine {
    /// Notes that the running thread has loaded from `line`.
    pub(super) fn note_look(&mut self, line: usize) {
        self.threads[self.running].spinner.looked_at = line;
    }

    /// Begins a turn of a loop that spins.
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

    /// A core has `line` for writing from `now` on: the first thread that spins on the line reads it again.
    pub(super) fn let_first_look(&mut self, line: usize, now: Time) {
        let Some(first) = self.lines.get_mut(&line).and_then(|at| at.spinners.pop_front()) else {
            return;
        };
        let spinner = &mut self.threads[first].spinner;
        (spinner.waits_at, spinner.was_first_at) = (None, Some(line));
        // On average the thread is in the middle of a pause.
        let next = now.max(self.threads[first].clock) + self.costs.pause / 2;
        self.at(next, Event::Resume(first));
    }

    /// Ends the turn of a thread, because it has lasted long enough.
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
