//! The flags, checked against each other, with the defaults filled in.

use super::{BenchArgs, refuse};
use crate::cli::values::{Format, List};
use lab_bench::settings::{Buckets, FirstLine, Line, Locks, Settings, Timers};
use lab_bench::{WAKE_PARALLEL_THREADS, Workload};
use lab_targets::Name;
use lab_targets::timers::{self, Test};
use std::time::Duration;
use strum::VariantArray;

/// The most memory for the words of one workload.
const WORDS_BYTES_MAX: usize = 1 << 30;

/// The most timers that exist together: they take two gigabytes.
const TIMERS_MAX: usize = 1 << 24;

fn timers(args: &BenchArgs) -> Result<Timers, String> {
    let tests = match (&args.tests, args.sparse) {
        (Some(List(tests)), Some(stride)) => match tests.iter().find(|test| **test != Test::CreateGetoverrun) {
            Some(test) => {
                return Err(format!("--sparse '{stride}' says nothing to '{test}'; accepted: with create-getoverrun"));
            }
            None => tests.clone(),
        },
        (Some(List(tests)), None) => tests.clone(),
        (None, Some(_)) => vec![Test::CreateGetoverrun],
        (None, None) => Test::VARIANTS.to_vec(),
    };
    let targets = match &args.targets {
        Some(targets) => targets.timers.clone(),
        None => timers::Name::VARIANTS.to_vec(),
    };
    let processes = args.processes.clone().flatten().map(|List(processes)| processes);
    let timers = Timers { targets, tests, processes, sparse: args.sparse };
    refuse_too_many_timers(&timers, args)?;
    Ok(timers)
}

/// All timers exist together, with IDs that are whole numbers of 31 bits.
fn refuse_too_many_timers(asked: &Timers, args: &BenchArgs) -> Result<(), String> {
    let Some(List(number)) = &args.number else { return Ok(()) };
    if !args.workloads.is_empty() && !args.workloads.contains(&Workload::Timers) || asked.tests == [Test::CreateDelete]
    {
        return Ok(());
    }
    let most = |list: Option<&Vec<usize>>| list.into_iter().flatten().max().copied().unwrap_or(1);
    let timers = most(Some(number));
    let process = timers.saturating_mul(most(args.threads.as_ref().map(|List(threads)| threads)));
    let all = process.saturating_mul(most(asked.processes.as_ref()));
    if all > TIMERS_MAX {
        return Err(format!("--number '{timers}' is too much: {all} timers in all; accepted: {TIMERS_MAX} in all"));
    }
    match asked.sparse {
        Some(stride) if (process - 1).saturating_mul(stride) > i32::MAX as usize => Err(format!(
            "--sparse '{stride}' is too much: {process} timers need larger IDs than there are; accepted: up to {}",
            i32::MAX as usize / (process - 1)
        )),
        _ => Ok(()),
    }
}

fn locks(args: &BenchArgs) -> Locks {
    let asked = args.writers.is_some() || args.readers.is_some();
    Locks {
        writers_readers: asked.then(|| (args.writers.unwrap_or(1), args.readers.unwrap_or(1))),
        locks: args.locks,
        inside: args.work_per_critical_section.unwrap_or(1),
        between: args.work_between_critical_sections.unwrap_or(0),
        line: args.line.unwrap_or(Line::V013),
    }
}

/// Fills in the defaults; the error is the line that the user sees.
pub fn settings(args: BenchArgs) -> Result<Settings, String> {
    refuse::all(&args)?;
    let (locks, timers) = (locks(&args), timers(&args)?);
    let pi = refuse::lends_priority(&args);
    let sizes = args.buckets.map_or_else(Vec::new, |List(sizes)| sizes);
    let exact = |size: &Buckets| if let Buckets::Exactly(slots) = size { Some(*slots) } else { None };
    let perf = match args.format {
        Some(Format::Perf) => Some(FirstLine::Shown),
        Some(Format::Simple) => Some(FirstLine::Left),
        _ => None,
    };
    let all = match (&perf, args.figures) {
        (Some(_), _) => &Workload::OF_PERF[..],
        (None, true) => Workload::VARIANTS,
        (None, false) => &Workload::BY_DEFAULT,
    };
    let targets = if perf.is_some() { &[Name::Live][..] } else { Name::VARIANTS };
    let settings = Settings {
        figures: args.figures,
        full: args.workloads.is_empty(),
        workloads: if args.workloads.is_empty() { all.to_vec() } else { args.workloads },
        threads: args.threads.map(|List(threads)| threads),
        futexes: args.futexes.unwrap_or(1024),
        buckets: sizes.first().copied().unwrap_or(Buckets::Auto),
        immutable: args.immutable,
        sweep: args.sweep.then(|| sizes.iter().filter_map(exact).collect()),
        processes: args.processes.flatten().and_then(|List(processes)| processes.first().copied()),
        runtime_s: args.runtime,
        shared: args.shared,
        silent: args.silent,
        targets: args.targets.map_or_else(|| targets.to_vec(), |targets| targets.futex),
        layout: args.layout,
        policy: args.policy,
        repeat: args.repeat,
        stride_bytes: args.stride.unwrap_or(4),
        resize: (args.from.unwrap_or(16), args.to.unwrap_or(1024)),
        number: args.number.map(|List(number)| number),
        nrequeue: args.nrequeue,
        broadcast: args.broadcast,
        pi,
        nwakers: args.nwakers,
        multi: args.multi,
        // perf sleeps with the lock.
        hold: args.hold.or(perf.map(|_| 1)).filter(|us| *us > 0).map(Duration::from_micros),
        locks,
        timers,
        json: args.json || args.format == Some(Format::Json),
        perf,
        mlockall: args.mlockall,
    };
    refuse_too_many_words(&settings)?;
    refuse_uneven_shares(&settings)?;
    Ok(settings)
}

/// perf's rule: every waker has as many to wake as the others.
fn refuse_uneven_shares(settings: &Settings) -> Result<(), String> {
    let Some(nwakers) = settings.nwakers.filter(|_| settings.workloads != [Workload::Wake]) else { return Ok(()) };
    let default = [lab_measure::machine::allowed_cpus().len()];
    let default = if settings.perf.is_some() { &default[..] } else { &WAKE_PARALLEL_THREADS };
    let threads = settings.threads.as_deref().unwrap_or(default);
    match threads.iter().find(|threads| nwakers < **threads && **threads % nwakers != 0) {
        Some(threads) => {
            Err(format!("--nwakers '{nwakers}' cannot share {threads} threads; accepted: a divisor of them"))
        }
        None => Ok(()),
    }
}

fn refuse_too_many_words(settings: &Settings) -> Result<(), String> {
    let threads = settings.threads.iter().flatten().max().copied().unwrap_or(16);
    let bytes = threads.saturating_mul(settings.futexes).saturating_mul(settings.stride_bytes);
    if bytes <= WORDS_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "--futexes '{}' is too much: {threads} threads with {} bytes a word make {bytes} bytes; accepted: {WORDS_BYTES_MAX} bytes in all",
        settings.futexes, settings.stride_bytes
    ))
}
