//! Throughput by number of threads, for every target.

use super::Effort;
use super::hammer::{self, Measured, Spec};
use crate::Lab;
use anyhow::Result;
use lab_targets::Policy;
use lab_targets::{Name, Operation};

const SECONDS: f64 = 20.0;
/// No real program hammers a table with more threads than this.
const THREADS_MAX: usize = 256;
/// Buckets of the tables that do not size themselves. With `THREADS_MAX` threads `live` asks for no more.
const BUCKETS: usize = 1024;

/// Results.
pub struct Scaling {
    /// The thread counts: the x axis.
    pub threads: Vec<usize>,
    /// Waits and wakes.
    pub measured: Vec<Measured>,
    /// Notes on what was left out and on disturbed samples.
    pub notes: Vec<String>,
}

/// Powers of two up to twice the CPUs, and at least up to 8. With more threads than CPUs, threads share CPUs.
fn threads(cpus: usize) -> Vec<usize> {
    let most = (2 * cpus).clamp(8, THREADS_MAX);
    let mut all: Vec<_> =
        std::iter::successors(Some(1), |threads| Some(threads * 2)).take_while(|t| *t <= most).collect();
    if !all.contains(&cpus) && cpus <= most {
        all.push(cpus);
        all.sort_unstable();
    }
    all
}

/// Measures waits, then wakes.
pub fn run(lab: &Lab<'_>, effort: Effort) -> Result<Scaling> {
    let mut threads = threads(lab.cpus.len());
    threads.truncate(if effort.is_quick() { 2 } else { threads.len() });
    let mut all = Scaling { threads: threads.clone(), measured: Vec::new(), notes: Vec::new() };
    for (operation, share) in [(Operation::WaitDiffers, 0.65), (Operation::WakeNoWaiter, 0.35)] {
        let specs: Vec<_> = threads.iter().flat_map(|threads| line_up(*threads, operation)).collect();
        let stage = match operation {
            Operation::WaitDiffers => "scaling: waits",
            Operation::WakeNoWaiter => "scaling: wakes",
        };
        let (measured, notes) = hammer::run(lab, stage, &specs, effort, SECONDS * share)?;
        all.measured.extend(measured);
        all.notes.extend(notes);
    }
    all.notes.dedup();
    Ok(all)
}

fn line_up(threads: usize, operation: Operation) -> Vec<Spec> {
    use Name::{Atomic, Fixed, Global, Kernel, Live, ParkingLot, PerCpu};
    let policy = |name| if name == Live { Policy::Load } else { Policy::Fixed(BUCKETS) };
    let names = [Live, Fixed, PerCpu, Global, ParkingLot, Atomic, Kernel];
    names.into_iter().map(|name| Spec { operation, ..Spec::waits(name, policy(name), threads) }).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn threads_are_powers_of_two_and_the_cpus() {
        assert_eq!(super::threads(1), [1, 2, 4, 8]);
        assert_eq!(super::threads(6), [1, 2, 4, 6, 8]);
        assert_eq!(super::threads(200), [1, 2, 4, 8, 16, 32, 64, 128, 200, 256]);
    }
}
