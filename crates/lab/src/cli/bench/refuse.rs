//! Flags that do not go together: the one line that says so.

use super::BenchArgs;
use crate::cli::values::{self, Format, List, Targets};
use lab_bench::Workload;
use lab_bench::settings::Buckets;
use lab_targets::Name;

/// Every rule that needs no defaults.
pub fn all(args: &BenchArgs) -> Result<(), String> {
    for workload in args.workloads.iter().copied() {
        refuse_flags_of_others(args, workload)?;
        refuse_targets_of_others(args, workload)?;
    }
    refuse_repetitions(args)?;
    refuse_floor_alone(args)?;
    refuse_two_ways_to_requeue(args)?;
    refuse_the_same_size(args)?;
    refuse_sizes(args)?;
    refuse_two_formats(args)?;
    refuse_half_a_sweep(args)
}

fn refuse_repetitions(args: &BenchArgs) -> Result<(), String> {
    let mut seen = Vec::new();
    for workload in &args.workloads {
        if seen.contains(workload) {
            return Err(format!("'{workload}' is named twice; accepted: each workload once"));
        }
        seen.push(*workload);
    }
    Ok(())
}

fn refuse_the_same_size(args: &BenchArgs) -> Result<(), String> {
    let to = args.to.unwrap_or(1024);
    if args.from.unwrap_or(16) == to {
        return Err(format!("--to '{to}' is --from; accepted: a power of two that differs"));
    }
    Ok(())
}

/// One size, but for `--sweep`.
fn refuse_sizes(args: &BenchArgs) -> Result<(), String> {
    let sizes = args.buckets.as_ref().map_or(&[][..], |List(sizes)| sizes);
    if args.sweep {
        return match sizes.contains(&Buckets::Auto) {
            true => Err("--buckets 'auto' is no size; accepted: powers of two and 0 with --sweep".to_string()),
            false => Ok(()),
        };
    }
    if let [_, second, ..] = sizes {
        let second = match second {
            Buckets::Auto => "auto".to_string(),
            Buckets::Exactly(slots) => slots.to_string(),
        };
        return Err(format!("--buckets '{second}' is one too many; accepted: one, or several with --sweep"));
    }
    // The kernel's process that has been given the global table keeps it, also in the workloads that follow.
    if args.workloads.len() != 1 && !is_perfs(args) && sizes == [Buckets::Exactly(0)] {
        return Err(
            "--buckets '0' is for good in the kernel; accepted: with one workload, or a power of two".to_string()
        );
    }
    if args.immutable && !matches!(sizes, [Buckets::Exactly(_)]) {
        return Err("--immutable needs --buckets; accepted: with -b N".to_string());
    }
    Ok(())
}

/// Whether perf's output is asked for.
fn is_perfs(args: &BenchArgs) -> bool {
    matches!(args.format, Some(Format::Perf | Format::Simple))
}

fn refuse_two_formats(args: &BenchArgs) -> Result<(), String> {
    if args.json && args.format.is_some_and(|format| format != Format::Json) {
        return Err("--json says nothing to another --format; accepted: one of them".to_string());
    }
    if !is_perfs(args) {
        return Ok(());
    }
    if args.sweep {
        return Err("--sweep is nothing that perf prints; accepted: --format table or json".to_string());
    }
    match &args.threads {
        Some(List(threads)) if threads.len() > 1 => {
            Err(format!("--threads '{}' is one too many; accepted: one with --format perf", threads[1]))
        }
        _ => Ok(()),
    }
}

fn refuse_half_a_sweep(args: &BenchArgs) -> Result<(), String> {
    if !args.sweep {
        return Ok(());
    }
    if args.shared {
        return Err("--shared says nothing to --sweep; accepted: private futexes".to_string());
    }
    match &args.processes {
        Some(Some(List(processes))) if processes.len() > 1 => {
            Err(format!("--processes '{}' is one too many; accepted: one with --sweep", processes[1]))
        }
        _ if args.workloads != [Workload::Hash] => Err("--sweep is of one workload; accepted: with hash".to_string()),
        _ => Ok(()),
    }
}

/// All at once, or so many: not both.
fn refuse_two_ways_to_requeue(args: &BenchArgs) -> Result<(), String> {
    match args.nrequeue {
        Some(count) if args.broadcast => {
            Err(format!("--nrequeue '{count}' says nothing to --broadcast; accepted: one of them"))
        }
        _ => Ok(()),
    }
}

/// perf's `-p` is `--pi`; with a list it is `--processes`.
pub fn lends_priority(args: &BenchArgs) -> bool {
    args.pi || matches!(args.processes, Some(None))
}

/// Nobody can sleep on `floor`, nor is it a table whose size is swept.
fn takes_floor(args: &BenchArgs, workload: Workload) -> bool {
    match workload {
        Workload::Hash => !args.sweep,
        Workload::Wake => args.nwakers.is_none(),
        _ => false,
    }
}

/// Where all workloads run, `floor` alone would leave most of them without a target.
fn refuse_floor_alone(args: &BenchArgs) -> Result<(), String> {
    let is_alone = args.targets.as_ref().is_some_and(|targets| targets.futex == [Name::Floor]);
    if args.workloads.is_empty() && is_alone {
        return Err("--targets 'floor' is of hash and wake; accepted: with one of them, or beside other targets".into());
    }
    Ok(())
}

/// `timers` has targets of its own, and shares only the kernel.
fn refuse_targets_of_others(args: &BenchArgs, workload: Workload) -> Result<(), String> {
    let Some(Targets { not_futex, not_timers, .. }) = &args.targets else { return Ok(()) };
    let (unknown, accepted) = match workload {
        Workload::Timers => (not_timers, values::timers_targets()),
        _ => (not_futex, values::futex_targets()),
    };
    let has_floor = args.targets.as_ref().is_some_and(|targets| targets.futex.contains(&Name::Floor));
    match unknown {
        Some(name) => Err(format!("--targets '{name}' is no target of '{workload}'; accepted: {accepted}")),
        None if has_floor && !takes_floor(args, workload) => Err(values::no_sleeping(workload)),
        None => Ok(()),
    }
}

/// A flag that a workload does not look at must not pass in silence.
fn refuse_flags_of_others(args: &BenchArgs, workload: Workload) -> Result<(), String> {
    use Workload::{Crowd, Growth, Hash, LockPi, Locks, PingPong, Requeue, Resize, Timers, Wake, WakeParallel, Wasm};
    let with_tables = &[Hash, Wake, Growth, PingPong, Requeue, WakeParallel, LockPi, Crowd, Wasm];
    let rules: [(&str, bool, &[Workload]); 27] = [
        (
            "--threads",
            args.threads.is_some(),
            &[Hash, Wake, Resize, Growth, Requeue, WakeParallel, LockPi, Wasm, Locks, Timers],
        ),
        ("--futexes", args.futexes.is_some(), &[Hash, Wake, Resize, Wasm]),
        ("--buckets", args.buckets.is_some(), with_tables),
        ("--policy", args.policy.is_some(), with_tables),
        ("--shared", args.shared, &[Hash, Wake, PingPong, Requeue, WakeParallel, LockPi, Wasm]),
        ("--stride", args.stride.is_some(), &[Hash, Wake, Wasm]),
        ("--from", args.from.is_some(), &[Resize]),
        ("--to", args.to.is_some(), &[Resize]),
        ("--nrequeue", args.nrequeue.is_some(), &[Requeue]),
        ("--broadcast", args.broadcast, &[Requeue]),
        ("--pi", lends_priority(args), &[Requeue]),
        ("--processes", matches!(args.processes, Some(Some(_))) && !args.sweep, &[Timers]),
        ("--tests", args.tests.is_some(), &[Timers]),
        ("--sparse", args.sparse.is_some(), &[Timers]),
        ("--nwakers", args.nwakers.is_some(), &[Wake, WakeParallel]),
        ("--sweep", args.sweep, &[Hash]),
        ("--immutable", args.immutable, &[Hash, Wake, Requeue, WakeParallel, LockPi]),
        ("--format", is_perfs(args), &Workload::OF_PERF),
        ("--multi", args.multi, &[LockPi]),
        ("--hold", args.hold.is_some(), &[LockPi]),
        ("--number", args.number.is_some(), &[Crowd, Timers]),
        ("--writers", args.writers.is_some(), &[Locks]),
        ("--readers", args.readers.is_some(), &[Locks]),
        ("--line", args.line.is_some(), &[Locks]),
        ("--locks", args.locks.is_some(), &[Locks]),
        ("--work-per-critical-section", args.work_per_critical_section.is_some(), &[Locks]),
        ("--work-between-critical-sections", args.work_between_critical_sections.is_some(), &[Locks]),
    ];
    if workload == Timers && matches!(args.processes, Some(None)) {
        return Err("--processes has no value; accepted: --processes VALUE, see --help".to_string());
    }
    for (flag, given, workloads) in rules {
        if given && !workloads.contains(&workload) {
            let names: Vec<_> = workloads.iter().map(ToString::to_string).collect();
            return Err(format!("{flag} says nothing to '{workload}'; accepted: with {}", names.join(", ")));
        }
    }
    Ok(())
}
