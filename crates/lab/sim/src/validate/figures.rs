//! Computes modelled figures, each once, on all CPUs of the host.

use super::model::Model;
use lab_measure::interrupt;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The figures of each model, by the seed of the run. Runs end in any order, and the average must not depend on it.
#[derive(Default)]
pub struct Figures {
    known: HashMap<Model, BTreeMap<u64, f64>>,
}

/// The most simulations at a time. Each may have a thousand stacks.
const WORKERS_MAX: usize = 16;

/// One simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// The model.
    pub model: Model,
    /// The seed of all random choices, from 1 to the number of runs of the figure.
    pub seed: u64,
}

/// The runs that these models need, each once.
pub fn runs(models: impl IntoIterator<Item = Model>) -> Vec<Run> {
    let mut seen = HashSet::new();
    let models = models.into_iter().map(Model::of_its_runs).filter(|model| seen.insert(*model));
    models.flat_map(|model| (1..=model.runs()).map(move |seed| Run { model, seed })).collect()
}

impl Figures {
    /// Runs all simulations for these models and calls `step` after each. After Ctrl-C, returns what is complete.
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
            // This thread is a worker too. If no other thread can be started, it does all the work.
            let workers = thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX).min(runs.len());
            for _ in 1..workers {
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The average of a model's runs. `None` if not all of them were made.
    pub fn get(&self, model: &Model) -> Option<f64> {
        let runs = self.known.get(model).filter(|runs| runs.len() as u64 == model.runs())?;
        Some(runs.values().sum::<f64>() / runs.len() as f64)
    }
}

/// Adds the result of a run. Returns whether to continue.
fn add(found: &mut Result<Figures, String>, seed: u64, run: Result<Vec<(Model, f64)>, String>) -> bool {
    match (&mut *found, run) {
        (Ok(figures), Ok(run)) => {
            for (model, figure) in run {
                figures.known.entry(model).or_default().insert(seed, figure);
            }
        }
        // The run was cut short. The figures before it are valid.
        (Ok(_), Err(_)) if interrupt::requested() => {}
        (Ok(_), Err(trouble)) => *found = Err(trouble),
        (Err(_), _) => {}
    }
    found.is_ok() && !interrupt::requested()
}
