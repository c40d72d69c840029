//! The values of the flags. Each parser says what it accepts, so that a mistake needs one line.

pub mod schbench;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lab_bench::settings::Buckets;
use lab_measure::names::Named;
use lab_targets::timers::{self, Test};
use lab_targets::{Name, Policy};
use std::fmt;
use std::path::Path;
use strum::VariantArray;

/// The most threads that a workload takes.
pub const THREADS_MAX: usize = 16_384;
/// The most words of one thread.
pub const FUTEXES_MAX: usize = 1 << 24;
/// The most buckets: PR_FUTEX_HASH takes as many.
pub const BUCKETS_MAX: usize = 1 << 20;
/// The largest crowd, and the most timers of a thread.
pub const NUMBER_MAX: usize = 1_000_000;
/// The most processes.
const PROCESSES_MAX: usize = 1024;
/// The longest way from a timer's ID to the next.
const SPARSE_MAX: usize = 1 << 24;
/// The most threads that wake at the same time.
const NWAKERS_MAX: usize = 1024;
/// The longest sleep with a lock.
const HOLD_MAX_US: usize = 10_000;
/// The most threads that write or read.
const LOCKERS_MAX: usize = 1024;
/// The most locks.
const LOCKS_MAX: usize = 1 << 16;
/// The most steps of work.
const WORK_MAX: usize = 1_000_000;
const REPEAT_MAX: usize = 10_000;
const STRIDE_MAX: usize = 65_536;
const RUNTIME_MAX_S: f64 = 3600.0;

/// A comma list, without repetitions, never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T>(pub Vec<T>);

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables and a sentence.
    Table,
    /// As `--json`.
    Json,
    /// As `perf bench futex` prints.
    #[value(alias = "default")]
    Perf,
    /// As `perf bench --format simple futex` prints.
    Simple,
}

/// A parser of one of an enum's names. The help text has the documentation of each variant.
pub fn one_of<T: Named>() -> impl TypedValueParser<Value = T> {
    among(T::VARIANTS)
}

/// As [`one_of`], of these variants only.
pub fn among<T: Named>(accepted: &'static [T]) -> impl TypedValueParser<Value = T> {
    let value = |one: &T| {
        let help = one.get_documentation().unwrap_or_default().trim_end_matches('.');
        let name: &'static str = (*one).into();
        // Names of before stay accepted.
        let former = one.get_serializations().iter().copied().filter(|former| *former != name);
        PossibleValue::new(name).help(help).aliases(former)
    };
    PossibleValuesParser::new(accepted.iter().map(value))
        .map(|name| name.parse().ok().expect("one of the names that were accepted"))
}

/// Each part of a comma list by `one`, without repetitions.
pub fn list<T: PartialEq>(text: &str, accepted: &str, one: impl Fn(&str) -> Option<T>) -> Result<List<T>, String> {
    let mut items = Vec::new();
    for part in text.split(',') {
        let item = one(part.trim()).ok_or_else(|| format!("is not accepted; accepted: {accepted}"))?;
        if !items.contains(&item) {
            items.push(item);
        }
    }
    Ok(List(items))
}

/// Whoever waits for minutes must not learn then that there is no such directory.
pub fn unwritable(file: &Path) -> Option<String> {
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let reason = if file.is_dir() {
        "is a directory"
    } else if !directory.is_dir() {
        "is in no directory that exists"
    } else {
        return None;
    };
    Some(format!("'{}' {reason}; accepted: a file that can be written", file.display()))
}

/// A whole number within bounds.
pub fn whole(text: &str, smallest: usize, largest: usize) -> Option<usize> {
    text.parse().ok().filter(|number| (smallest..=largest).contains(number))
}

fn power_of_two(text: &str) -> Option<usize> {
    whole(text, 2, BUCKETS_MAX).filter(|number| number.is_power_of_two())
}

/// `-t`.
pub fn threads(text: &str) -> Result<List<usize>, String> {
    let accepted = format!("1 to {THREADS_MAX} threads, or a comma list of such numbers");
    list(text, &accepted, |part| whole(part, 1, THREADS_MAX))
}

/// `-q`.
pub fn nrequeue(text: &str) -> Result<usize, String> {
    whole(text, 1, THREADS_MAX).ok_or_else(|| format!("is not accepted; accepted: 1 to {THREADS_MAX} waiters a call"))
}

/// `-w`.
pub fn nwakers(text: &str) -> Result<usize, String> {
    whole(text, 1, NWAKERS_MAX).ok_or_else(|| format!("is not accepted; accepted: 1 to {NWAKERS_MAX} threads"))
}

/// `--hold`.
pub fn hold(text: &str) -> Result<u64, String> {
    whole(text, 0, HOLD_MAX_US)
        .map(|us| us as u64)
        .ok_or_else(|| format!("is not accepted; accepted: 0 to {HOLD_MAX_US} microseconds"))
}

/// `--writers`, `--readers`.
pub fn lockers(text: &str) -> Result<usize, String> {
    whole(text, 1, LOCKERS_MAX).ok_or_else(|| format!("is not accepted; accepted: 1 to {LOCKERS_MAX} threads"))
}

/// `--locks`.
pub fn locks(text: &str) -> Result<usize, String> {
    whole(text, 1, LOCKS_MAX).ok_or_else(|| format!("is not accepted; accepted: 1 to {LOCKS_MAX} locks"))
}

/// `--work-per-critical-section`, `--work-between-critical-sections`.
pub fn work(text: &str) -> Result<usize, String> {
    whole(text, 0, WORK_MAX).ok_or_else(|| format!("is not accepted; accepted: 0 to {WORK_MAX} steps"))
}

/// `-n`.
pub fn number(text: &str) -> Result<List<usize>, String> {
    let accepted = format!("1 to {NUMBER_MAX} waiters or timers, or a comma list of such numbers");
    list(text, &accepted, |part| whole(part, 1, NUMBER_MAX))
}

/// `-p`, of `timers`.
pub fn processes(text: &str) -> Result<List<usize>, String> {
    let accepted = format!("1 to {PROCESSES_MAX} processes, or a comma list of such numbers");
    list(text, &accepted, |part| whole(part, 1, PROCESSES_MAX))
}

/// `--tests`.
pub fn tests(text: &str) -> Result<List<Test>, String> {
    let accepted = format!("{}, or a comma list of these", names(Test::VARIANTS));
    list(text, &accepted, |part| part.parse().ok())
}

/// `--sparse`.
pub fn sparse(text: &str) -> Result<usize, String> {
    whole(text, 1, SPARSE_MAX)
        .ok_or_else(|| format!("is not accepted; accepted: 1 to {SPARSE_MAX} from an ID to the next"))
}

/// `-f`.
pub fn futexes(text: &str) -> Result<usize, String> {
    whole(text, 1, FUTEXES_MAX).ok_or_else(|| format!("is not accepted; accepted: 1 to {FUTEXES_MAX} futexes a thread"))
}

/// `-b`.
pub fn buckets(text: &str) -> Result<List<Buckets>, String> {
    let accepted = format!("a power of two from 2 to {BUCKETS_MAX}, 0 for the global table, or auto");
    list(text, &accepted, |part| match part {
        "auto" => Some(Buckets::Auto),
        "0" => Some(Buckets::Exactly(0)),
        number => power_of_two(number).map(Buckets::Exactly),
    })
}

/// `--from`, `--to`.
pub fn slots(text: &str) -> Result<usize, String> {
    power_of_two(text).ok_or_else(|| format!("is not accepted; accepted: a power of two from 2 to {BUCKETS_MAX}"))
}

/// `--policy`.
pub fn policy(text: &str) -> Result<Policy, String> {
    match text {
        "threads" => Ok(Policy::Threads),
        "load" => Ok(Policy::Load),
        number => slots(number).map(Policy::Fixed).map_err(|_| {
            format!("is not accepted; accepted: threads, load, or a power of two from 2 to {BUCKETS_MAX}")
        }),
    }
}

/// `-r`, in seconds.
pub fn runtime(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|seconds| *seconds > 0.0 && *seconds <= RUNTIME_MAX_S)
        .ok_or_else(|| format!("is not accepted; accepted: seconds above 0, up to {RUNTIME_MAX_S}"))
}

/// `--repeat`.
pub fn repeat(text: &str) -> Result<usize, String> {
    whole(text, 1, REPEAT_MAX).ok_or_else(|| format!("is not accepted; accepted: 1 to {REPEAT_MAX} rounds"))
}

/// `--stride`.
pub fn stride(text: &str) -> Result<usize, String> {
    whole(text, 4, STRIDE_MAX)
        .filter(|bytes| bytes % 4 == 0)
        .ok_or_else(|| format!("is not accepted; accepted: a multiple of 4 from 4 to {STRIDE_MAX} bytes"))
}

/// `--targets`: those of the futex workloads, and those of `timers`.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    /// In the order in which they are asked for.
    pub futex: Vec<Name>,
    /// The same.
    pub timers: Vec<timers::Name>,
    /// A part that is no target of the futex workloads.
    pub not_futex: Option<String>,
    /// A part that is no target of `timers`.
    pub not_timers: Option<String>,
}

/// `--targets`.
pub fn targets(text: &str) -> Result<Targets, String> {
    let futex = |part: &str| part.parse::<Name>().ok();
    let timers = |part: &str| part.parse::<timers::Name>().ok();
    let accepted = format!("{}, or a comma list of these; by timers {}", futex_targets(), timers_targets());
    let List(parts) = list(text, &accepted, |part| {
        Some(part.to_string()).filter(|_| futex(part).is_some() || timers(part).is_some())
    })?;
    Ok(Targets {
        futex: parts.iter().filter_map(|part| futex(part)).collect(),
        timers: parts.iter().filter_map(|part| timers(part)).collect(),
        not_futex: parts.iter().find(|part| futex(part).is_none()).cloned(),
        not_timers: parts.iter().find(|part| timers(part).is_none()).cloned(),
    })
}

/// What the futex workloads accept.
pub fn futex_targets() -> String {
    names(Name::VARIANTS)
}

/// The refusal of the target that nobody can sleep on.
pub fn no_sleeping(workload: impl fmt::Display) -> String {
    let targets: Vec<_> = Name::VARIANTS.iter().copied().filter(|name| name.can_sleep()).collect();
    format!("--targets '{}' is no target of '{workload}'; accepted: {}", Name::Floor, names(&targets))
}

/// What `timers` accepts.
pub fn timers_targets() -> String {
    names(timers::Name::VARIANTS)
}

fn names(names: &[impl fmt::Display]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_order_and_drops_repetitions() {
        assert_eq!(threads("16,2,16"), Ok(List(vec![16, 2])));
        assert_eq!(targets("kernel,live").map(|targets| targets.futex), Ok(vec![Name::Kernel, Name::Live]));
    }

    #[test]
    fn a_target_may_belong_to_one_kind_of_workload_or_to_both() {
        let both = targets("kernel, radix,ours").expect("targets");
        assert_eq!(both.futex, [Name::Kernel]);
        assert_eq!(both.timers, [timers::Name::Kernel, timers::Name::Radix, timers::Name::Ours]);
        assert_eq!((both.not_futex.as_deref(), both.not_timers), (Some("radix"), None));
        let futex = targets("live,kernel").expect("targets");
        assert_eq!((futex.not_futex, futex.not_timers.as_deref()), (None, Some("live")));
        assert!(targets("live,hash").is_err() && targets("").is_err());
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        for bad in ["", "0", "1,", ",", "-1", "x", "99999999999999999999"] {
            assert!(threads(bad).is_err(), "{bad}");
        }
        for bad in ["", "1", "3", "2097152", "automatic", "4,,8"] {
            assert!(buckets(bad).is_err(), "{bad}");
        }
        assert_eq!(buckets("0,4,auto"), Ok(List(vec![Buckets::Exactly(0), Buckets::Exactly(4), Buckets::Auto])));
        for bad in ["0", "-1", "nan", "inf", "", "3601"] {
            assert!(runtime(bad).is_err(), "{bad}");
        }
        for bad in ["0", "2", "6", "-4", "131072"] {
            assert!(stride(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_policy_is_a_rule_or_a_number_of_slots() {
        assert_eq!(policy("load"), Ok(Policy::Load));
        assert_eq!(policy("256"), Ok(Policy::Fixed(256)));
        assert!(policy("0").is_err());
    }
}
