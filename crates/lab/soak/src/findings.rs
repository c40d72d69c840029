//! What was found wrong.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many findings are kept. The others are counted.
const KEPT: usize = 32;

/// A time on a clock or a length of time, as findings have it: to the nanosecond, because that may be all by which a wait has
/// ended too early.
pub fn exactly(time: Duration) -> String {
    format!("{}.{:09} s", time.as_secs(), time.subsec_nanos())
}

/// One broken law.
#[derive(Clone)]
pub struct Finding {
    /// The law, as a sentence.
    pub law: String,
    pub expected: String,
    pub found: String,
}

#[derive(Default)]
struct Inner {
    kept: Vec<Finding>,
    count: u64,
}

/// All findings of a run.
#[derive(Default)]
pub struct Findings(Mutex<Inner>);

impl Findings {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, law: impl Display, expected: impl Display, found: impl Display) {
        let mut inner = self.lock();
        inner.count += 1;
        if inner.kept.len() < KEPT {
            let [law, expected, found] = [law.to_string(), expected.to_string(), found.to_string()];
            inner.kept.push(Finding { law, expected, found });
        }
    }

    pub fn count(&self) -> u64 {
        self.lock().count
    }

    pub fn kept(&self) -> Vec<Finding> {
        self.lock().kept.clone()
    }
}
