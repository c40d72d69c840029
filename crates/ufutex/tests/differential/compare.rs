//! Runs a program on the model and on a target, and compares what can be observed after each step.

use std::fmt;
use std::sync::Arc;

use crate::layout::WORDS;
use crate::memory::Memory;
use crate::model::{Done, Model, Seen};
use crate::program::{Program, Step, WORKERS};
use crate::workers::{Target, Workers};

/// The first step after which the model and the target differ.
pub struct Difference {
    pub step: usize,
    pub model: Seen,
    pub target: Seen,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, model, target } = self;
        writeln!(f, "after step {step} (counted from 0):")?;
        for worker in 0..WORKERS {
            let show = |seen: &Seen| match (seen.returned[worker], seen.blocked[worker]) {
                (Some(result), _) => format!("returned {result}"),
                (None, true) => String::from("blocked"),
                (None, false) => String::from("idle"),
            };
            if show(model) != show(target) {
                writeln!(f, "  worker {worker}: {} by the model, {} by the target", show(model), show(target))?;
            }
        }
        for word in 0..WORDS.len() {
            let (by_model, by_target) = (model.words[word], target.words[word]);
            if by_model != by_target {
                writeln!(f, "  word {word}: {by_model:#x?} by the model, {by_target:#x?} by the target")?;
            }
        }
        Ok(())
    }
}

/// The memory and the threads on which programs run.
pub struct Bench {
    pub memory: Arc<Memory>,
    pub workers: Workers,
}

impl Bench {
    /// Runs a program on the model and on the target that `make` returns. Succeeds if `make` returns `None`.
    pub fn compare(
        &mut self,
        program: &Program,
        make: impl FnOnce(&Self) -> Option<Arc<dyn Target>>,
    ) -> Result<(), Box<Difference>> {
        let by_model = Model::run(self.memory.layout, self.workers.tids(), program);
        make(self).map_or(Ok(()), |target| self.run(program, &by_model, &target))
    }

    /// Runs those steps of the program that the model has run. No worker is blocked afterwards.
    fn run(&mut self, program: &Program, by_model: &[Done], target: &Arc<dyn Target>) -> Result<(), Box<Difference>> {
        self.memory.reset();
        self.workers.set_priorities(program.priorities);
        let result = program.steps.iter().zip(by_model).enumerate().try_for_each(|(index, (step, done))| {
            let seen = self.step(step, done, target);
            if seen == done.seen {
                return Ok(());
            }
            Err(Box::new(Difference { step: index, model: done.seen.clone(), target: seen }))
        });
        self.workers.abandon_all(target);
        self.workers.replace_the_dead();
        result
    }

    fn step(&mut self, step: &Step, done: &Done, target: &Arc<dyn Target>) -> Seen {
        let was_busy: [bool; WORKERS] = std::array::from_fn(|worker| self.workers.is_busy(worker));
        let mut called = None;
        match step {
            Step::Call(worker, ..) => {
                if let Some(raw) = &done.raw {
                    called = Some(*worker);
                    self.memory.prepare(*worker, raw);
                    self.workers.call(*worker, target, raw.clone());
                }
            }
            Step::Exit(worker, ..) => {
                if let Some(robust) = &done.robust {
                    self.memory.prepare_robust(robust);
                    self.workers.exit(*worker, target, robust.clone());
                }
            }
            Step::Signal(worker, _) if !self.workers.lives(*worker) => {}
            Step::Signal(worker, sa_restart) => {
                target.signal(*worker, *sa_restart);
                self.workers.rest();
            }
            Step::Store(word, _) => self.memory.store(*word, done.value),
            Step::Protect(page, rights) => self.memory.protect(*page, *rights),
            Step::Resize(slots) => {
                target.resize(*slots);
                self.workers.rest();
            }
        }
        for worker in 0..WORKERS {
            // The call's timer may not have fired yet, so wait for it.
            if done.seen.returned[worker].is_some() {
                self.workers.returns(worker);
            }
        }
        let blocked = std::array::from_fn(|worker| self.workers.is_busy(worker));
        let has_returned = |worker| (was_busy[worker] || called == Some(worker)) && !blocked[worker];
        Seen {
            returned: std::array::from_fn(|worker| has_returned(worker).then(|| self.workers.result(worker))),
            blocked,
            words: std::array::from_fn(|word| self.memory.value(word)),
        }
    }
}
