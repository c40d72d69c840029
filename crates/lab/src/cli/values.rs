//! Parsers of the flags' values. Each error names what is accepted.

pub mod schbench;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lab_bench::settings::Buckets;
use lab_measure::names::Named;
use lab_targets::timers::{self, Test};
use lab_targets::{Name, Policy};
use std::fmt;
use std::path::Path;
use std::time::Duration;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};

/// Largest number of threads.
pub const THREADS_MAX: usize = 16_384;
/// Largest number of words of a thread.
pub const FUTEXES_MAX: usize = 1 << 24;
/// Largest number of buckets, as in PR_FUTEX_HASH.
pub const BUCKETS_MAX: usize = 1 << 20;
/// Largest number of waiters of a crowd, or of timers of a thread.
pub const NUMBER_MAX: usize = 1_000_000;
/// Largest number of processes.
const PROCESSES_MAX: usize = 1024;
/// Largest distance between two timer IDs.
const SPARSE_MAX: usize = 1 << 24;
/// Largest number of wakers.
const NWAKERS_MAX: usize = 1024;
/// Longest sleep while a lock is held.
const HOLD_MAX_US: usize = 10_000;
/// Largest number of writers or readers.
const LOCKERS_MAX: usize = 1024;
/// Largest number of busy loops on each CPU.
const NOISE_MAX: usize = 64;
/// Largest number of locks.
const LOCKS_MAX: usize = 1 << 16;
/// Largest number of steps of work.
const WORK_MAX: usize = 1_000_000;
/// Longest work of a player of ping-pong.
const WORK_MAX_MS: u64 = 100;
const REPEAT_MAX: usize = 10_000;
const STRIDE_MAX: usize = 65_536;
const RUNTIME_MAX_S: f64 = 3600.0;

/// The values of a comma list: at least one, each once.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T>(pub Vec<T>);

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Format {
    /// Tables with a sentence below
    Table,
    /// As --json
    Json,
    /// As `perf bench futex` prints
    #[strum(to_string = "perf", serialize = "default")]
    Perf,
    /// As `perf bench --format simple futex` prints
    Simple,
}

impl Format {
    /// The formats of workloads that perf does not have.
    pub const OWN: [Format; 2] = [Format::Table, Format::Json];
}

/// A parser of an enum's names. The help shows the documentation of each variant.
pub fn one_of<T: Named>() -> impl TypedValueParser<Value = T> {
    among(T::VARIANTS)
}

/// Like [`one_of`], for these variants only.
pub fn among<T: Named>(accepted: &'static [T]) -> impl TypedValueParser<Value = T> {
    let value = |one: &T| {
        let help = one.get_documentation().unwrap_or_default().trim_end_matches('.');
        let name: &'static str = (*one).into();
        // Former names stay accepted.
        let former = one.get_serializations().iter().copied().filter(|former| *former != name);
        PossibleValue::new(name).help(help).aliases(former)
    };
    PossibleValuesParser::new(accepted.iter().map(value))
        .map(|name| name.parse().ok().expect("one of the names that were accepted"))
}

/// Parses each part of a comma list with `one`, and drops repetitions.
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

/// Why a file cannot be written. Checked before minutes of measuring and not after them.
pub fn unwritable(file: &Path) -> Option<String> {
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let reason = if file.is_dir() {
        "is a directory"
    } else if !directory.is_dir() {
        "is in a directory that does not exist"
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

/// `-t` of `ping-pong`.
pub fn players(text: &str) -> Result<List<usize>, String> {
    let accepted = format!("2 to {THREADS_MAX} threads, or a comma list of such numbers");
    list(text, &accepted, |part| whole(part, 2, THREADS_MAX))
}

/// `--balls`.
pub fn balls(text: &str) -> Result<u32, String> {
    const MOST: usize = 1_000_000;
    let balls = whole(text, 1, MOST).ok_or_else(|| format!("is not accepted; accepted: 1 to {MOST} balls"))?;
    Ok(balls as u32)
}

/// `-q`.
pub fn nrequeue(text: &str) -> Result<usize, String> {
    whole(text, 1, THREADS_MAX).ok_or_else(|| format!("is not accepted; accepted: 1 to {THREADS_MAX} waiters a call"))
}

/// `-w`.
pub fn nwakers(text: &str) -> Result<usize, String> {
    whole(text, 1, NWAKERS_MAX).ok_or_else(|| format!("is not accepted; accepted: 1 to {NWAKERS_MAX} threads"))
}

/// `--work` of `ping-pong`.
pub fn lengths(text: &str) -> Result<List<Duration>, String> {
    let accepted =
        format!("0, or a time up to {WORK_MAX_MS}ms such as 500ns, 30us or 1ms, or a comma list of such times");
    list(text, &accepted, length)
}

fn length(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let units = [("ns", 1), ("us", 1000), ("ms", 1_000_000)];
    let (number, unit) = units.iter().find_map(|(name, ns)| Some((text.strip_suffix(name)?, *ns)))?;
    let ns = number.parse::<u64>().ok()?.checked_mul(unit)?;
    Some(Duration::from_nanos(ns)).filter(|length| *length <= Duration::from_millis(WORK_MAX_MS))
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

/// `--noise`.
pub fn noise(text: &str) -> Result<usize, String> {
    whole(text, 1, NOISE_MAX)
        .ok_or_else(|| format!("is not accepted; accepted: 1 to {NOISE_MAX} busy loops on each CPU, or no value for 1"))
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

/// `-p` of `timers`.
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
    whole(text, 1, SPARSE_MAX).ok_or_else(|| format!("is not accepted; accepted: a distance of 1 to {SPARSE_MAX}"))
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

/// A time in seconds: a number, alone or with s, m or h behind it. `None` if it is none, below a nanosecond, or above
/// `longest_s`.
pub fn time(text: &str, longest_s: f64) -> Option<f64> {
    let units = [('s', 1.0), ('m', 60.0), ('h', 3600.0)];
    let with_unit = units.iter().find_map(|(letter, seconds)| Some((text.strip_suffix(*letter)?, *seconds)));
    let (number, unit_s) = with_unit.unwrap_or((text, 1.0));
    let seconds = unit_s * number.parse::<f64>().ok()?;
    (seconds >= 1e-9 && seconds <= longest_s).then_some(seconds)
}

/// `-r` of `bench`, and `-d` of `advise`, `--hang` of `locks`: a time in seconds.
pub fn runtime(text: &str) -> Result<f64, String> {
    time(text, RUNTIME_MAX_S).ok_or_else(|| {
        format!("is not accepted; accepted: seconds above 0, up to {RUNTIME_MAX_S}, or a time such as 90s or 10m")
    })
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

/// `--targets` of a run of all workloads.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    /// Targets of the futex workloads, in the given order.
    pub futex: Vec<Name>,
    /// Targets of `timers`, in the given order.
    pub timers: Vec<timers::Name>,
}

/// `--targets` of a run of all workloads.
pub fn all_targets(text: &str) -> Result<Targets, String> {
    let futex = |part: &str| part.parse::<Name>().ok();
    let timers = |part: &str| part.parse::<timers::Name>().ok();
    let of_timers = names(timers::Name::VARIANTS);
    let accepted = format!("{}, or a comma list of these; for timers {of_timers}", names(Name::VARIANTS));
    let List(parts) = list(text, &accepted, |part| {
        Some(part.to_string()).filter(|_| futex(part).is_some() || timers(part).is_some())
    })?;
    Ok(Targets {
        futex: parts.iter().filter_map(|part| futex(part)).collect(),
        timers: parts.iter().filter_map(|part| timers(part)).collect(),
    })
}

/// The targets of `hash` and `wake`.
pub const ALL_TARGETS: &[Name] = Name::VARIANTS;

/// The help text of `--targets`.
pub fn help_of_targets(all: &[Name]) -> String {
    format!("Targets, a comma list [default: all]: {}", names(all))
}

/// The same of a run of all workloads.
pub fn help_of_all_targets() -> String {
    format!(
        "{} (floor: hash and wake only); for timers {}",
        help_of_targets(Name::VARIANTS),
        names(timers::Name::VARIANTS)
    )
}

/// `--targets` of `hash` and `wake`.
pub fn targets(text: &str) -> Result<List<Name>, String> {
    among_targets(text, Name::VARIANTS)
}

/// `--targets` of workloads whose threads sleep. No thread can sleep on `floor`.
pub fn sleeping_targets(text: &str) -> Result<List<Name>, String> {
    among_targets(text, &sleeping())
}

/// `--targets` of `timers`.
pub fn timer_targets(text: &str) -> Result<List<timers::Name>, String> {
    let accepted = format!("{}, or a comma list of these", names(timers::Name::VARIANTS));
    list(text, &accepted, |part| part.parse().ok())
}

/// The targets on which threads can sleep.
pub fn sleeping() -> Vec<Name> {
    Name::VARIANTS.iter().copied().filter(|name| name.can_sleep()).collect()
}

fn among_targets(text: &str, all: &[Name]) -> Result<List<Name>, String> {
    let accepted = format!("{}, or a comma list of these", names(all));
    list(text, &accepted, |part| part.parse().ok().filter(|name| all.contains(name)))
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
        assert_eq!(targets("kernel,live"), Ok(List(vec![Name::Kernel, Name::Live])));
    }

    #[test]
    fn targets_belong_to_their_workloads() {
        let both = all_targets("kernel, radix,ours").expect("targets");
        assert_eq!(both.futex, [Name::Kernel]);
        assert_eq!(both.timers, [timers::Name::Kernel, timers::Name::Radix, timers::Name::Ours]);
        assert!(all_targets("live,hash").is_err() && all_targets("").is_err());
        assert!(targets("floor").is_ok() && sleeping_targets("live,floor").is_err());
        assert!(targets("live,radix").is_err() && timer_targets("ours,live").is_err());
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for bad in ["", "0", "1,", ",", "-1", "x", "99999999999999999999"] {
            assert!(threads(bad).is_err(), "{bad}");
        }
        for bad in ["", "1", "3", "2097152", "automatic", "4,,8"] {
            assert!(buckets(bad).is_err(), "{bad}");
        }
        assert_eq!(buckets("0,4,auto"), Ok(List(vec![Buckets::Exactly(0), Buckets::Exactly(4), Buckets::Auto])));
        for bad in ["0", "-1", "nan", "inf", "", "s", "2 s", "2d", "3601", "61m"] {
            assert!(runtime(bad).is_err(), "{bad}");
        }
        for (text, seconds) in [("2", 2.0), ("0.5s", 0.5), ("1.5m", 90.0), ("1h", 3600.0)] {
            assert_eq!(runtime(text), Ok(seconds));
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
