//! The calls of one thread, recorded.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use ufutex_linear::Call;

use crate::generate::Theme;
use crate::ops::{Made, Op};
use crate::program::WORKERS;
use crate::run::{Outcome, Run};

/// The calls of a thread.
pub struct Log<'r> {
    run: &'r Run<'r>,
    thread: usize,
    calls: Vec<Call<Made>>,
    /// The locks that the thread has.
    held: Vec<usize>,
}

impl<'r> Log<'r> {
    pub fn new(run: &'r Run<'r>, thread: usize) -> Self {
        Self { run, thread, calls: Vec::with_capacity(64), held: Vec::new() }
    }

    pub fn into_calls(self) -> Vec<Call<Made>> {
        self.calls
    }

    pub fn make(&mut self, op: Op) -> i64 {
        let Run { target, words, watch, .. } = *self.run;
        self.run.begun[self.thread].store(self.calls.len() + 1, Relaxed);
        // Nothing is between a plain store and the wake behind it.
        let begin = self.stored().map_or_else(|| watch.before(), |store| store.begin);
        let outcome = match op {
            Op::Load(word) => i64::from(words.word(word).load(SeqCst)).into(),
            Op::Swap(word, value) => i64::from(words.word(word).swap(value, SeqCst)).into(),
            Op::Store(word, value) => {
                words.word(word).store(value, Relaxed);
                self.calls.push(Call::between(begin, u64::MAX, Made { op, result: 0 }));
                return 0;
            }
            Op::LockFast(word) => self.exchange(word, 0, self.tid()).into(),
            Op::UnlockFast(word) => self.exchange(word, self.tid(), 0).into(),
            _ => target.call(self.thread, &op, words, watch),
        };
        let end = watch.after();
        if let Some(store) = self.stored() {
            (store.begun, store.end) = (end, end);
        }
        let Outcome { result, queued, gives_up } = outcome;
        let goes_on = gives_up.unwrap_or(begin + op.timeout().unwrap_or(0));
        self.calls.push(Call { begin, begun: queued.unwrap_or(end), goes_on, end, op: Made { op, result } });
        self.note(op, result);
        result
    }

    /// Whether the program forbids to wait for this lock now.
    pub fn is_out_of_order(&self, op: Op) -> bool {
        let is_ordered = self.run.program.theme == Theme::OrderedLocks;
        is_ordered && matches!(op, Op::Lock { word, .. } if self.held.iter().any(|held| *held > word))
    }

    fn tid(&self) -> u32 {
        self.run.tids[self.thread].load(Relaxed) as u32
    }

    /// The plain store that is the last call. It is visible at the end of the wake that comes next.
    fn stored(&mut self) -> Option<&mut Call<Made>> {
        self.calls.last_mut().filter(|call| matches!(call.op.op, Op::Store(..)))
    }

    fn exchange(&self, word: usize, current: u32, new: u32) -> i64 {
        match self.run.words.word(word).compare_exchange(current, new, SeqCst, SeqCst) {
            Ok(value) | Err(value) => value.into(),
        }
    }

    fn note(&mut self, op: Op, result: i64) {
        match op {
            Op::Lock { word, .. } | Op::TryLock(word) | Op::LockFast(word) if result == 0 => self.held.push(word),
            Op::Unlock(word) if result == 0 => self.held.retain(|held| *held != word),
            Op::UnlockFast(word) if result == i64::from(self.tid()) => self.held.retain(|held| *held != word),
            _ => {}
        }
    }

    pub fn unlock_all(&mut self) {
        while let Some(&word) = self.held.last() {
            let result = self.make(Op::Unlock(word));
            if result != 0 {
                self.held.pop(); // the history is wrong, and the check says so
            }
        }
    }

    /// Wakes waiters until all threads have made their calls.
    pub fn wake_those_left(&mut self) {
        let mut vain = 0;
        while self.run.done.load(SeqCst) < WORKERS {
            std::thread::sleep(Duration::from_micros(30));
            for &word in &self.run.program.words {
                let count = self.make(Op::Wake { word, count: i32::MAX, bitset: u32::MAX });
                // A wake that finds no waiter changes nothing: it may be left out.
                if count == 0 && vain > 3 {
                    self.calls.pop();
                }
                vain += usize::from(count == 0);
            }
        }
    }
}
