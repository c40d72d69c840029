//! The kernel's timers in several processes, each a child of this program (see `children`).

use super::{Case, Sample};
use crate::children;
use anyhow::{Result, anyhow};
use clap::Args;
use lab_measure::machine;
use lab_measure::pool::Pool;
use lab_targets::timers::Test;
use lab_targets::timers::{self, Name, Rendezvous, Times};
use lab_terminal::stdout;
use lab_values as values;

/// Parameters of one child process.
#[derive(Clone, Args)]
pub struct Child {
    /// The test.
    #[arg(long, value_parser = values::one_of::<Test>())]
    test: Test,
    /// Timers of each thread.
    #[arg(long)]
    timers: usize,
    /// Threads of this process.
    #[arg(long)]
    threads: usize,
    /// Number of threads in the processes before this one.
    #[arg(long)]
    before: usize,
}

/// The results of all threads of all processes, or why there are none.
pub fn processes(case: &Case) -> Result<Result<Vec<Times>, String>> {
    let arguments = |number: usize| {
        let numbers = [case.timers, case.threads, number * case.threads].map(|number| number.to_string());
        let [timers, threads, before] = numbers;
        let test = case.test.text().to_string();
        ["timers-child", "--test", &test, "--timers", &timers, "--threads", &threads, "--before", &before]
            .map(str::to_string)
            .to_vec()
    };
    let reports: Vec<Result<Vec<Times>, String>> = children::measure(case.processes, arguments)?;
    Ok(reports.into_iter().collect::<Result<Vec<_>, _>>().map(|times| times.concat()))
}

/// Runs in the child process.
pub fn run(args: &Child) -> Result<()> {
    let cpus = machine::allowed_cpus();
    let mine: Vec<_> = (0..cpus.len()).map(|number| cpus[(args.before + number) % cpus.len()]).collect();
    let pool = Pool::new(args.threads, &mine)?;
    let world = timers::build(Name::Kernel, 1).map_err(|reason| anyhow!(reason))?;
    let start = children::ready()?;
    let rendezvous = Rendezvous::new(args.threads, Some(start));
    let case = Case::of(args.test, args.timers, args.threads);
    let job = move |thread: usize| -> Sample { world.work(0, &case.load(thread), &rendezvous) };
    let times: Result<Vec<Times>, String> = pool.run(args.threads, job, || ())?.into_iter().collect();
    stdout::print(&serde_json::to_string(&times)?)
}
