//! Measures a comparison on this machine, with this command's own `bench` in a child process.

use super::hash::{Layout, Scheme};
use super::model::{Measure, Model};
use serde_json::Value;
use std::collections::HashMap;
use std::process::{Command, Stdio};

/// Seconds of measuring for each figure.
const SECONDS: &str = "0.4";

/// Number of schbench's workers. With `-M auto` the message thread has a CPU of its own, and they have the others.
const WORKERS: usize = 16;

/// Finds a figure in a row.
type Read = fn(&Value, Measure) -> Option<f64>;

/// Measured figures, by command line and measure.
#[derive(Default)]
pub struct Here {
    known: HashMap<Vec<String>, Option<f64>>,
}

impl Here {
    /// The measured ratio of `other` to `base`. `None` if this machine cannot measure it.
    pub fn ratio(&mut self, base: &Model, other: &Model) -> Option<f64> {
        Some(self.get(other)? / self.get(base)?)
    }

    /// The measured figure, with at most two threads: operations of a thread in a second, or nanoseconds.
    pub fn get(&mut self, model: &Model) -> Option<f64> {
        let (arguments, read): (Vec<String>, Read) = match model {
            Model::Hash(case) | Model::Kernel(case) if case.processes == 1 && case.scheme != Scheme::Stalled => {
                let (scheme, buckets) = match (case.scheme, case.buckets) {
                    (_, 0) => ("global", 16),
                    (Scheme::Atomic, buckets) => ("atomic", buckets),
                    (Scheme::PerCpu, buckets) => ("percpu", buckets),
                    (_, buckets) => ("fixed", buckets),
                };
                let layout = match case.layout {
                    Layout::Lean => "lean",
                    Layout::Packed => "packed",
                    Layout::Split => "split",
                };
                let line = format!(
                    "hash -t {} --targets {scheme} --layout {layout} -b {buckets} --stride 64",
                    case.threads.min(2)
                );
                (words(&line), |row, _| Some(1e9 / row["ns_per_op"]["median"].as_f64()?))
            }
            Model::Timers { design, threads, apart, timers, measure } => {
                let test = if *measure == Measure::CreateDelete { "create-delete" } else { "create-getoverrun" };
                let (threads, processes) = if *apart { (1, *threads.min(&2)) } else { (*threads.min(&2), 1) };
                let line = format!("timers -t {threads} -p {processes} --targets {design} --tests {test} -n {timers}");
                (words(&line), |row, measure| {
                    let field = match measure {
                        Measure::Create => "create_ns",
                        Measure::Getoverrun => "getoverrun_ns",
                        Measure::CreateDelete => "create_delete_ns",
                    };
                    row[field].as_f64()
                })
            }
            Model::Schbench { scheme, buckets, .. } => {
                let (scheme, buckets) = match (scheme, *buckets) {
                    (_, 0) => ("global", 16),
                    (Scheme::Atomic, buckets) => ("atomic", buckets),
                    (_, buckets) => ("fixed", buckets),
                };
                let line = format!(
                    "schbench -L -m 1 -M auto -t {WORKERS} -n 0 -s 0 --targets {scheme} -b {buckets} --repeat 3"
                );
                (words(&line), |row, _| row["rps"].as_f64())
            }
            _ => return None,
        };
        let measure = if let Model::Timers { measure, .. } = model { *measure } else { Measure::Create };
        let mut key = arguments.clone();
        key.push(measure.to_string());
        *self.known.entry(key).or_insert_with(|| bench(&arguments).and_then(|row| read(&row, measure)))
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_string).collect()
}

/// Runs `bench` and returns its last row.
fn bench(arguments: &[String]) -> Option<Value> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.arg("bench").args(arguments).args(["-r", SECONDS, "--json", "--silent"]);
    let output = command.stderr(Stdio::null()).stdin(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()?.lines().rev().find_map(|line| serde_json::from_str(line).ok())
}

#[cfg(test)]
mod tests {
    use super::super::hash::Case;
    use super::*;

    impl Here {
        /// Makes a cache with the results of these command lines of `bench`. Tests request no others.
        pub fn knowing(known: &[(&str, &str, f64)]) -> Here {
            let entry = |(line, measure, figure): &(&str, &str, f64)| {
                let mut key = words(line);
                key.push(measure.to_string());
                (key, Some(*figure))
            };
            Here { known: known.iter().map(entry).collect() }
        }
    }

    #[test]
    fn tables_are_measured_with_two_threads_at_most_and_the_other_is_over_the_base() {
        let mut here = Here::knowing(&[
            ("hash -t 2 --targets fixed --layout lean -b 512 --stride 64", "create", 2e6),
            ("hash -t 2 --targets percpu --layout split -b 512 --stride 64", "create", 6e6),
            ("hash -t 1 --targets global --layout lean -b 16 --stride 64", "create", 1e6),
        ]);
        let case = Case::new("power", 80, 512);
        let split = case.by(Scheme::PerCpu).of(Layout::Split);
        assert_eq!(here.ratio(&case.into(), &split.into()), Some(3.0));
        assert_eq!(here.ratio(&case.into(), &Case::new("ivb-4s", 1, 0).into()), Some(0.5));
        assert_eq!(here.ratio(&case.into(), &case.by(Scheme::Stalled).into()), None, "no resize waits here");
        assert_eq!(here.ratio(&case.processes(4).into(), &case.into()), None, "one process");
    }

    #[test]
    fn timers_are_measured_with_two_threads_or_processes_at_most() {
        let apart = "timers -t 1 -p 2 --targets global-lock --tests create-delete -n 100";
        let ours = "timers -t 1 -p 2 --targets scaled --tests create-delete -n 100";
        let mut here = Here::knowing(&[(apart, "create and delete", 800.0), (ours, "create and delete", 200.0)]);
        let model = |design| Model::timers(design, 63, true, 100, Measure::CreateDelete);
        assert_eq!(here.ratio(&model("global-lock"), &model("scaled")), Some(0.25));
    }
}
