//! The kernel's timers in several processes: each one is a child of this program, which says on stdout when its threads
//! are there, is told on stdin when to begin, and answers with a line of JSON.

use super::{Case, Sample};
use crate::children;
use anyhow::{Result, anyhow};
use lab_measure::machine;
use lab_measure::pool::Pool;
use lab_targets::timers::Test;
use lab_targets::timers::{self, Meeting, Name, Times};

/// What one process of several on the kernel's timers needs to know.
#[derive(Clone)]
pub struct Child {
    /// What is measured.
    pub test: Test,
    /// Timers of each thread.
    pub timers: usize,
    /// Threads of this process.
    pub threads: usize,
    /// How many threads the processes before it have.
    pub before: usize,
}

/// What the threads of all processes have measured, or why they could not.
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

/// A child's part.
pub fn run(args: &Child) -> Result<()> {
    let cpus = machine::allowed_cpus();
    let mine: Vec<_> = (0..cpus.len()).map(|number| cpus[(args.before + number) % cpus.len()]).collect();
    let pool = Pool::new(args.threads, &mine)?;
    let world = timers::build(Name::Kernel, 1).map_err(|reason| anyhow!(reason))?;
    let start = children::ready()?;
    let meeting = Meeting::new(args.threads, Some(start));
    let case = Case::of(args.test, args.timers, args.threads);
    let job = move |thread: usize| -> Sample { world.work(0, &case.load(thread), &meeting) };
    let times: Result<Vec<Times>, String> = pool.run(args.threads, job, || ())?.into_iter().collect();
    println!("{}", serde_json::to_string(&times)?);
    Ok(())
}
