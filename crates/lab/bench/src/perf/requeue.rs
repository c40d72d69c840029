//! `perf bench futex requeue`.

use super::{Bench, Line, Stats, milliseconds};
use crate::Sink;
use crate::requeue::{AtOnce, Requeue};
use crate::sleepers::{Sleepers, wake_rest};
use anyhow::Result;
use lab_measure::machine::OwnLine;
use lab_targets::Waited;
use lab_targets::requeue::{Move, Moved};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

type Words = Arc<[OwnLine<AtomicU32>; 2]>;

/// Threads sleep on one word and are requeued to another; with `-p` to a lock, which each call's first waiter takes.
pub fn run(bench: &Bench<'_>, asked: &Requeue, sink: &mut dyn Sink) -> Result<()> {
    let (settings, threads) = (bench.settings(), bench.threads);
    let nrequeue = match asked.at_once {
        Some(AtOnce::All) => threads,
        Some(AtOnce::Some(count)) => count.min(threads),
        None => 1,
    };
    let words = Words::default();
    sink.perf(Line::Summary(format!(
        "Requeuing {threads} threads (from [{}] {:p} to {}{:p}), {nrequeue} at a time.",
        bench.privacy(),
        &words[0].0,
        if asked.pi { "PI " } else { "" },
        &words[1].0
    )))?;
    let sleepers = Sleepers::new(bench.lab, threads)?;
    let mut all = Stats::default();
    for run in bench.runs() {
        let moved = if asked.pi {
            to_lock(bench, &sleepers, &words, nrequeue)?
        } else {
            once(bench, &sleepers, &words, nrequeue)?
        };
        let ms = milliseconds(moved.elapsed);
        all.update(ms);
        if settings.silent {
            continue;
        }
        let what = if asked.pi {
            let awoken = threads.div_ceil(nrequeue + 1);
            format!("Awoke and Requeued ({awoken}+{}) of {threads} threads", threads - awoken)
        } else {
            format!("Requeued {threads} of {threads} threads")
        };
        sink.perf(Line::Text(format!("[Run {run}]: {what} in {ms:.4} ms")))?;
    }
    sink.perf(Line::Text(format!(
        "Requeued {threads} of {threads} threads in {:.4} ms (+-{:.2}%)",
        all.mean,
        all.percent()
    )))
}

fn once(bench: &Bench<'_>, sleepers: &Sleepers, words: &Words, nrequeue: usize) -> Result<Moved> {
    let (subject, threads) = (&bench.subject, bench.threads);
    subject.make_ready();
    let wait = {
        let (subject, words) = (subject.clone(), words.clone());
        move || subject.wait(&words[0].0, 0) == Waited::Woken
    };
    sleepers.sample(threads, wait, || {
        let moved = subject.requeue(it(words, threads, nrequeue));
        wake_rest(threads, || subject.wake_many(&words[1].0, threads) + subject.wake_many(&words[0].0, threads));
        moved.is_exact.then_some(moved)
    })
}

/// The lock is free: the first waiter takes it and runs, and its unlock passes the lock on.
fn to_lock(bench: &Bench<'_>, sleepers: &Sleepers, words: &Words, nrequeue: usize) -> Result<Moved> {
    let (subject, threads) = (&bench.subject, bench.threads);
    subject.make_ready();
    let wait = {
        let (subject, words) = (subject.clone(), words.clone());
        move || subject.wait_requeue_pi(&words[0].0, &words[1].0)
    };
    sleepers.sample(threads, wait, || {
        let moved = subject.requeue_to_free_lock(it(words, threads, nrequeue + 1));
        wake_rest(threads - moved.waiters, || subject.requeue_to_free_lock(it(words, threads, threads)).waiters);
        moved.is_exact.then_some(moved)
    })
}

fn it(words: &Words, waiters: usize, at_once: usize) -> Move<'_> {
    Move { from: &words[0].0, to: &words[1].0, waiters, at_once }
}
