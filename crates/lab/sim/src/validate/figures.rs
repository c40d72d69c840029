//! Figures that have been modelled: each once, and on all of the host's CPUs at a time.

use super::model::Model;
use lab_measure::interrupt;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// What is known: what each run made of it, by its seed. Runs end in any order, and the average must not depend on it.
#[derive(Default)]
pub struct Figures {
    known: HashMap<Model, BTreeMap<u64, f64>>,
}

/// Simulations at a time: each has up to a thousand stacks.
const WORKERS_MAX: usize = 16;

/// One simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Of what.
    pub model: Model,
    /// Chance comes from this: from 1 to as many as are one figure.
    pub seed: u64,
}

/// What must be run for these, each once.
pub fn runs(models: impl IntoIterator<Item = Model>) -> Vec<Run> {
    let mut seen = HashSet::new();
    let models = models.into_iter().map(Model::of_its_runs).filter(|model| seen.insert(*model));
    models.flat_map(|model| (1..=model.runs()).map(move |seed| Run { model, seed })).collect()
}

impl Figures {
    /// Has all of these run, with `step` after each run. After Ctrl-C there is what was known until then.
    pub fn of(models: impl IntoIterator<Item = Model>, step: impl Fn() + Sync) -> Result<Figures, String> {
        let runs = runs(models);
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Ok(Figures::default())));
        let work = || {
            while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let figures =
                    run.model.run(run.seed).map_err(|trouble| format!("{:?}, seed {}: {trouble}", run.model, run.seed));
                if !add(&mut found.lock().unwrap_or_else(PoisonError::into_inner), run.seed, figures) {
                    return;
                }
                step();
            }
        };
        thread::scope(|scope| {
            // This thread is one of them; where no other can be had, it does all of it.
            let workers = thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX).min(runs.len());
            for _ in 1..workers {
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of those that were asked for, the average of its runs; none if not all of them were reached.
    pub fn get(&self, model: &Model) -> Option<f64> {
        let runs = self.known.get(model).filter(|runs| runs.len() as u64 == model.runs())?;
        Some(runs.values().sum::<f64>() / runs.len() as f64)
    }
}

/// Whether it is worth going on.
fn add(found: &mut Result<Figures, String>, seed: u64, run: Result<Vec<(Model, f64)>, String>) -> bool {
    match (&mut *found, run) {
        (Ok(figures), Ok(run)) => {
            for (model, figure) in run {
                figures.known.entry(model).or_default().insert(seed, figure);
            }
        }
        // In the middle of it: what there was until then stands.
        (Ok(_), Err(_)) if interrupt::asked() => {}
        (Ok(_), Err(trouble)) => *found = Err(trouble),
        (Err(_), _) => {}
    }
    found.is_ok() && !interrupt::asked()
}
