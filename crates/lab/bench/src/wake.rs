//! `wake`: wakes a word without waiters. With `-w`, perf's `futex wake`: threads sleep on one word, and one thread wakes
//! them, `-w` in each call.

use crate::all::All;
use crate::flags::{Perfs, Targets, Words, help_of_futexes};
use crate::hammer::{self, Row};
use crate::rows;
use crate::settings::Settings;
use crate::sleepers::{self, Sleepers, wake_rest};
use crate::summary::Line;
use crate::workload::{Workload, plain};
use crate::{Lab, Ratios, stage};
use anyhow::Result;
use clap::Args;
use lab_measure::machine::OwnLine;
use lab_measure::stats::Spread;
use lab_targets::{Operation, Subject, Waited};
use lab_values::{self as values, List};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

const BUDGET_S: f64 = 5.0;
/// Section of the results with `-w` in `Lab::series`.
const MANY: &str = "wake many";

/// The word on which all threads sleep.
pub type Word = Arc<OwnLine<AtomicU32>>;

/// Wake a word without waiters; with -w perf's `futex wake`
#[derive(Clone, Args)]
pub struct Wake {
    /// Threads, a comma list [default: 1,2; with -w 1000]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads())]
    threads: Option<List<usize>>,
    #[command(flatten)]
    words: Words,
    /// Wake N sleeping threads in a call, as perf's wake does
    #[arg(short = 'w', long, value_name = "N", value_parser = values::number::<usize>(1, 1024, "threads"))]
    nwakes: Option<usize>,
    #[command(flatten)]
    targets: Targets,
    #[command(flatten)]
    perfs: Perfs,
}

impl Workload for Wake {
    const NAME: &'static str = "wake";
    type Row = Row;

    fn help() -> String {
        help_of_futexes(
            "\
  stride         distance between two words in bytes
  ns_per_op      {p10, median, p90} as one thread sees it; ops_per_sec of all threads
  ratio_kernel, ratio_parking_lot   this row's ns_per_op divided by theirs: the median over the rounds
  with -w        nwakes, and ns_per_op of each waiter woken; neither stride nor ops_per_sec
A sample in which a thread had its CPU for less than 95 % of the time is taken once more.",
            "  ufutex bench wake -w 1 -t 100                 threads sleep, and one call wakes one of them",
        )
    }

    fn check(&mut self) -> Result<Settings, String> {
        let settings = self.perfs.settings(self.targets.targets.as_ref())?;
        if self.nwakes.is_some() && self.targets.have_floor() {
            return Err(
                "--targets 'floor' is not accepted where threads sleep; accepted: the other targets".to_string()
            );
        }
        if self.nwakes.is_none() {
            self.words.check(self.threads.as_ref())?;
        }
        Ok(settings)
    }

    fn in_all(all: &All) -> Vec<Self> {
        vec![Wake { threads: all.threads.clone(), words: all.words(), ..plain() }]
    }

    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        match self.nwakes {
            Some(nwakes) => self.run_many(lab, nwakes, notes),
            None => hammer::run(lab, Operation::WakeNoWaiter, &self.threads, &self.words, notes),
        }
    }

    fn text(&self, rows: &[Row]) -> String {
        let Some(nwakes) = self.nwakes else { return hammer::text(rows) };
        sleepers::text(rows, "at once", ("ns/wake", 0), |row| (rows::target(row), nwakes, row.ns_per_op, row.ratios))
    }

    fn line(&self, rows: &[Row]) -> Option<Line> {
        let what = if self.nwakes.is_some() { "a sleeper woken, ns" } else { "a wake without waiters, ns" };
        Line::first(what, rows, |row| row.head.threads)
    }
}

impl Wake {
    /// Measures all targets, one sample of each in a round.
    fn run_many(&self, lab: &mut Lab<'_>, nwakes: usize, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        let threads = lab.threads(&self.threads, &sleepers::THREADS, notes);
        let mut competitors = Vec::new();
        for threads in threads.iter().copied() {
            for name in lab.sleeping_targets() {
                competitors.push(lab.small_table(name, threads)?);
            }
        }
        let sleepers = Sleepers::new(lab, threads.iter().copied().max().unwrap_or(1))?;
        let word = Word::default();
        lab.measure(
            &stage(&format!("wake, {nwakes} at once"), &competitors),
            sleepers::rounds(lab, BUDGET_S, competitors.iter().map(|one| one.threads)),
            &competitors,
            |_, one| {
                let elapsed = wake_all(&sleepers, &one.subject, &word, one.threads, nwakes)?;
                Ok(elapsed.as_nanos() as f64 / one.threads as f64)
            },
            (|one| (MANY.into(), one.name.text().into(), one.threads), |sample| *sample),
            |lab, one, samples| Row {
                nwakes: Some(nwakes),
                ratios: Ratios::of(&lab.series, MANY, one.name.text(), one.threads),
                ..Row::new(one.head(lab, Self::NAME, 1, samples.len()), Spread::of(samples))
            },
        )
    }
}

/// Has `threads` threads sleep on the word and wakes them all. Returns the time of all calls.
fn wake_all(
    sleepers: &Sleepers,
    subject: &Arc<dyn Subject>,
    word: &Word,
    threads: usize,
    nwakes: usize,
) -> Result<Duration> {
    subject.make_ready();
    let wait = {
        let (subject, word) = (subject.clone(), word.clone());
        move || subject.wait(&word.0, 0) == Waited::Woken
    };
    sleepers.sample(threads, wait, || {
        let (mut woken, mut calls) = (0, 0);
        let start = Instant::now();
        while woken < threads {
            let some = subject.wake_many(&word.0, nwakes);
            woken += some;
            calls += 1;
            if some == 0 {
                break;
            }
        }
        let elapsed = start.elapsed();
        wake_rest(threads - woken, || subject.wake_many(&word.0, threads));
        // Otherwise some threads were not asleep yet.
        (woken == threads && calls == threads.div_ceil(nwakes)).then_some(elapsed)
    })
}
