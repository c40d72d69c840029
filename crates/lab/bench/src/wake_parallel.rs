//! `wake-parallel`, as in perf: threads sleep on one word, and several wakers each wake an equal share of them, in one
//! call each and at the same time.

use crate::all::All;
use crate::flags::{Perfs, Sleeping, help_of_futexes};
use crate::rows::{self, shown};
use crate::settings::Settings;
use crate::sleepers::{self, Sleepers, wake_rest};
use crate::summary::Line;
use crate::wake::Word;
use crate::workload::{Workload, plain};
use crate::{Entrant, Head, Lab, Ratios, stage};
use anyhow::Result;
use clap::Args;
use lab_measure::pool::{Gate, Pool};
use lab_measure::stats::Spread;
use lab_targets::{Subject, Waited};
use lab_values::{self as values, List};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NWAKERS: usize = 2;
const BUDGET_S: f64 = 5.0;

/// Several threads each wake a share of the sleepers: perf's `futex wake-parallel`
#[derive(Clone, Args)]
pub struct WakeParallel {
    /// Threads that sleep, a comma list [default: 1000]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads())]
    threads: Option<List<usize>>,
    /// Threads that wake, each an equal share of the sleepers [default: 2]
    #[arg(short = 'w', long, value_name = "N", value_parser = values::number::<usize>(1, 1024, "threads"))]
    nwakers: Option<usize>,
    #[command(flatten)]
    sleeping: Sleeping,
    #[command(flatten)]
    perfs: Perfs,
}

/// One row of the results. The help has a line on each field.
#[derive(Serialize)]
pub struct Row {
    #[serde(flatten)]
    head: Head,
    nwakers: usize,
    ns_per_op: Spread,
    #[serde(flatten)]
    ratios: Ratios,
}

shown!(Row, |row| row.ns_per_op.median, row.ratios.over());

impl Workload for WakeParallel {
    const NAME: &'static str = "wake-parallel";
    type Row = Row;

    fn help() -> String {
        help_of_futexes(
            "\
  nwakers        threads that wake
  ns_per_op      {p10, median, p90} of each waiter woken, as one waker sees it
  ratio_kernel, ratio_parking_lot   this row's ns_per_op divided by theirs: the median over the rounds",
            "  ufutex bench wake-parallel -t 128 -w 2",
        )
    }

    fn check(&mut self) -> Result<Settings, String> {
        let settings = self.perfs.settings(self.sleeping.targets.as_ref())?;
        if let Some(nwakers) = self.nwakers {
            refuse_uneven_shares(nwakers, self.threads.as_ref().map_or(&sleepers::THREADS, |threads| threads))?;
        }
        Ok(settings)
    }

    fn in_all(all: &All) -> Vec<Self> {
        vec![WakeParallel { threads: all.threads.clone(), ..plain() }]
    }

    /// Measures all targets, one sample of each in a round.
    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        let threads = lab.threads(&self.threads, &sleepers::THREADS, notes);
        let mut competitors = Vec::new();
        for threads in threads.iter().copied() {
            let nwakers = self.nwakers(lab, threads);
            for name in lab.sleeping_targets() {
                competitors.push((lab.small_table(name, threads)?, nwakers));
            }
        }
        let sleepers = Sleepers::new(lab, threads.iter().copied().max().unwrap_or(1))?;
        let wakers = Pool::new(competitors.iter().map(|(_, nwakers)| *nwakers).max().unwrap_or(1), &lab.cpus)?;
        let word = Word::default();
        lab.measure(
            &stage(Self::NAME, &competitors),
            sleepers::rounds(lab, BUDGET_S, competitors.iter().map(|(one, _)| one.threads)),
            &competitors,
            |_, (Entrant { subject, threads, .. }, nwakers)| {
                let shares =
                    wake_up(&sleepers, &wakers, WakeSetup { subject, threads: *threads, nwakers: *nwakers }, &word)?;
                let time: Duration = shares.iter().map(|(_, elapsed)| *elapsed).sum();
                Ok(time.as_nanos() as f64 / *threads as f64)
            },
            (|(one, _)| (Self::NAME.into(), one.name.text().into(), one.threads), |sample| *sample),
            |lab, (one, nwakers), samples| Row {
                head: one.head(lab, Self::NAME, 1, samples.len()),
                nwakers: *nwakers,
                ns_per_op: Spread::of(samples),
                ratios: Ratios::of(&lab.series, Self::NAME, one.name.text(), one.threads),
            },
        )
    }

    fn text(&self, rows: &[Row]) -> String {
        sleepers::text(rows, "wakers", ("ns/wake", 0), |row| {
            (rows::target(row), row.nwakers, row.ns_per_op, row.ratios)
        })
    }

    fn line(&self, rows: &[Row]) -> Option<Line> {
        Line::first("a waiter woken, ns", rows, |row| (row.head.threads, row.nwakers))
    }
}

impl WakeParallel {
    /// As in perf: at most one waker for each sleeper. `-w` divides `threads`. By default there are two wakers, or one if
    /// two do not divide them.
    fn nwakers(&self, lab: &Lab<'_>, threads: usize) -> usize {
        let default = if threads.is_multiple_of(NWAKERS) { NWAKERS.min(lab.cpus.len()) } else { 1 };
        self.nwakers.unwrap_or(default).min(threads)
    }
}

/// perf's rule: each waker wakes the same number of threads.
fn refuse_uneven_shares(nwakers: usize, threads: &[usize]) -> Result<(), String> {
    match threads.iter().find(|threads| nwakers < **threads && **threads % nwakers != 0) {
        Some(threads) => {
            Err(format!("--nwakers '{nwakers}' does not divide {threads} threads; accepted: a divisor of {threads}"))
        }
        None => Ok(()),
    }
}

/// A sample's target, sleepers and wakers, of which each wakes an equal share.
#[derive(Clone, Copy)]
struct WakeSetup<'a> {
    subject: &'a Arc<dyn Subject>,
    threads: usize,
    nwakers: usize,
}

/// Has all threads sleep, and each waker wake its share. Returns the number that each waker woke and the time of its
/// call.
fn wake_up(sleepers: &Sleepers, wakers: &Pool, setup: WakeSetup<'_>, word: &Word) -> Result<Vec<(usize, Duration)>> {
    setup.subject.make_ready();
    let wait = {
        let (subject, word) = (setup.subject.clone(), word.clone());
        move || subject.wait(&word.0, 0) == Waited::Woken
    };
    sleepers.sample(setup.threads, wait, || {
        let shares = wake(wakers, setup, word);
        let woken: usize = shares.iter().map(|(woken, _)| woken).sum();
        wake_rest(setup.threads - woken, || setup.subject.wake_many(&word.0, setup.threads));
        (woken == setup.threads).then_some(shares)
    })
}

fn wake(wakers: &Pool, setup: WakeSetup<'_>, word: &Word) -> Vec<(usize, Duration)> {
    let gate = Gate::new(setup.nwakers);
    let (subject, word, share) = (setup.subject.clone(), word.clone(), setup.threads / setup.nwakers);
    let job = move |_waker: usize| {
        gate.pass_together();
        let start = Instant::now();
        let woken = subject.wake_many(&word.0, share);
        (woken, start.elapsed())
    };
    // If a waker failed, the sample does not count, and the caller wakes the rest.
    wakers.run(setup.nwakers, job, || {}).unwrap_or_default()
}
