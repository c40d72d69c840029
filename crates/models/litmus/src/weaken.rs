//! Weakens the labelled orderings of a test, one at a time.

use std::fmt;

use crate::program::{Action, Change, MODES, Mode, Statement, Test};
use crate::{MODELS, Model};

/// What a weaker ordering of one statement leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weakened {
    /// The statement's label.
    pub label: String,
    /// What stands there instead: a mode, or "none" for a fence that is left out.
    pub to: &'static str,
    /// For each of [`MODELS`], whether it then allows the outcome.
    pub allowed: [bool; MODELS.len()],
}

impl fmt::Display for Weakened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}:", self.label, self.to)?;
        let verdict = |allowed: bool| if allowed { "allowed" } else { "forbidden" };
        MODELS
            .iter()
            .zip(self.allowed)
            .try_for_each(|(model, allowed)| write!(f, " {} {}", model.name, verdict(allowed)))
    }
}

/// The verdicts of all models.
pub fn verdicts(test: &Test) -> [bool; MODELS.len()] {
    MODELS.map(|model: Model| model.allows(test))
}

/// Every weaker mode of every labelled statement, with the verdicts.
pub fn weakenings(test: &Test) -> Vec<Weakened> {
    let mut all = Vec::new();
    for (thread, statements) in test.threads.iter().enumerate() {
        for (place, statement) in statements.iter().enumerate() {
            let Some(label) = &statement.label else { continue };
            for (to, weaker) in weaker(test, thread, place) {
                all.push(Weakened { label: label.clone(), to, allowed: verdicts(&weaker) });
            }
        }
    }
    all
}

fn weaker(test: &Test, thread: usize, place: usize) -> Vec<(&'static str, Test)> {
    let statement = &test.threads[thread][place];
    let changed = |change: &dyn Fn(&mut Vec<Statement>)| {
        let mut test = test.clone();
        change(&mut test.threads[thread]);
        test
    };
    let left_out = || vec![("none", changed(&|all| _ = all.remove(place)))];
    match statement.action {
        // Without it, the compiler may exchange the two statements around it.
        Action::CompilerFence => vec![("none", changed(&|all| all.swap(place - 1, place + 1)))],
        Action::Membarrier => left_out(),
        _ => {
            let to_mode = |mode: Mode| (MODES[mode as usize], changed(&|all| all[place].mode = mode));
            let mut all: Vec<_> =
                weaker_modes(&statement.action, statement.mode).iter().map(|&mode| to_mode(mode)).collect();
            if statement.action == Action::Fence {
                all.extend(left_out());
            }
            if matches!(
                &statement.action,
                Action::Change { change: Change::Compare { or_load: Some(Mode::SeqCst), .. }, .. }
            ) {
                all.push(("rlx when it fails", changed(&|all| weaken_failure(&mut all[place].action))));
            }
            all
        }
    }
}

fn weaken_failure(action: &mut Action) {
    if let Action::Change { change: Change::Compare { or_load, .. }, .. } = action {
        *or_load = Some(Mode::Relaxed);
    }
}

/// The modes that a statement may have below its own, strongest first.
fn weaker_modes(action: &Action, mode: Mode) -> &'static [Mode] {
    use Mode::{AcqRel, Acquire, Plain, Relaxed, Release, SeqCst};
    match (action, mode) {
        (Action::Load { .. }, SeqCst) => &[Acquire, Relaxed],
        (Action::Store { .. }, SeqCst) => &[Release, Relaxed],
        (Action::Fence, SeqCst) => &[AcqRel, Acquire, Release],
        (Action::Fence, AcqRel) => &[Acquire, Release],
        (Action::Fence, _) | (_, Relaxed | Plain) => &[],
        (_, SeqCst) => &[AcqRel, Acquire, Release, Relaxed],
        (_, AcqRel) => &[Acquire, Release, Relaxed],
        (_, Acquire | Release) => &[Relaxed],
    }
}
