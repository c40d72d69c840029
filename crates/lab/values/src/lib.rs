//! Parsers of the flags' values. Each error names what is accepted.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command};
use lab_measure::names::Named;
use lab_targets::{Name, Policy};
use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use strum::VariantArray;

/// Largest number of threads.
pub const THREADS_MAX: usize = 16_384;
/// Largest number of buckets, as in PR_FUTEX_HASH.
pub const BUCKETS_MAX: usize = 1 << 20;
/// Largest number of waiters of a crowd, or of timers of a thread.
pub const NUMBER_MAX: usize = 1_000_000;
/// Largest number of steps or operations of work.
pub const WORK_MAX: usize = 1_000_000;
/// Longest time of a run.
pub const RUNTIME_MAX_S: f64 = 3600.0;

/// The values of a comma list: at least one, each once.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T>(pub Vec<T>);

impl<T> Deref for List<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
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

/// A parser of a comma list of an enum's names.
pub fn some_of<T: Named + PartialEq>() -> impl TypedValueParser<Value = List<T>> {
    some_among(T::VARIANTS.to_vec())
}

/// Like [`some_of`], for these variants only.
pub fn some_among<T: Named + PartialEq>(all: Vec<T>) -> impl TypedValueParser<Value = List<T>> {
    let names: Vec<&'static str> = all.iter().map(|one| (*one).into()).collect();
    completed(move |text: &str| some(&all, text), names)
}

/// Parses a comma list of these variants' names.
pub fn some<T: Named + PartialEq>(all: &[T], text: &str) -> Result<List<T>, String> {
    let accepted = format!("{}, or a comma list of these", names(all.iter().map(|one| (*one).into())));
    list(text, &accepted, |part| part.parse().ok().filter(|one| all.contains(one)))
}

/// `parser`, with names that shells complete. Such a flag hides its possible values, because its help names them.
pub fn completed<T, P>(parser: P, names: Vec<&'static str>) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
    P: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static,
{
    Completed { parser, names }
}

#[derive(Clone)]
struct Completed<P> {
    parser: P,
    names: Vec<&'static str>,
}

impl<T, P> TypedValueParser for Completed<P>
where
    T: Clone + Send + Sync + 'static,
    P: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        self.parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}

/// A parser of a whole number. `things` says what it counts.
pub fn number<T: TryFrom<usize>>(
    smallest: usize,
    largest: usize,
    things: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = whole(text, smallest, largest).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| {
            format!("is not accepted; accepted: {smallest} to {largest} {things}").trim_end().to_string()
        })
    }
}

/// A parser of a comma list of whole numbers. `things` says what they count.
pub fn numbers(
    smallest: usize,
    largest: usize,
    things: &'static str,
) -> impl Fn(&str) -> Result<List<usize>, String> + Clone {
    move |text| {
        let accepted = format!("{smallest} to {largest} {things}, or a comma list of such numbers");
        list(text, &accepted, |part| whole(part, smallest, largest))
    }
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

/// Joins names with commas.
pub fn names<T: fmt::Display>(names: impl IntoIterator<Item = T>) -> String {
    names.into_iter().map(|name| name.to_string()).collect::<Vec<_>>().join(", ")
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

/// A whole number within bounds: digits alone.
pub fn whole(text: &str, smallest: usize, largest: usize) -> Option<usize> {
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().filter(|number| (smallest..=largest).contains(number))
}

/// `-t`.
pub fn threads() -> impl Fn(&str) -> Result<List<usize>, String> + Clone {
    numbers(1, THREADS_MAX, "threads")
}

/// `-p` of `timers`.
pub fn processes() -> impl Fn(&str) -> Result<List<usize>, String> + Clone {
    numbers(1, 1024, "processes")
}

/// A number of slots.
pub fn slots(text: &str) -> Result<usize, String> {
    whole(text, 2, BUCKETS_MAX)
        .filter(|number| number.is_power_of_two())
        .ok_or_else(|| format!("is not accepted; accepted: a power of two from 2 to {BUCKETS_MAX}"))
}

/// A parser of `--policy`.
pub fn policies() -> impl TypedValueParser<Value = Policy> {
    completed(policy, vec!["threads", "load"])
}

/// `--policy`.
fn policy(text: &str) -> Result<Policy, String> {
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

/// The targets on which threads can sleep.
pub fn sleeping() -> Vec<Name> {
    Name::VARIANTS.iter().copied().filter(|name| name.can_sleep()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_order_and_drops_repetitions() {
        assert_eq!(threads()("16,2,16"), Ok(List(vec![16, 2])));
        assert_eq!(some(Name::VARIANTS, "kernel,live"), Ok(List(vec![Name::Kernel, Name::Live])));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for bad in ["", "0", "1,", ",", "-1", "x", "99999999999999999999"] {
            assert!(threads()(bad).is_err(), "{bad}");
        }
        for bad in ["0", "-1", "nan", "inf", "", "s", "2 s", "2d", "3601", "61m"] {
            assert!(runtime(bad).is_err(), "{bad}");
        }
        for (text, seconds) in [("2", 2.0), ("0.5s", 0.5), ("1.5m", 90.0), ("1h", 3600.0)] {
            assert_eq!(runtime(text), Ok(seconds));
        }
    }

    #[test]
    fn a_policy_is_a_rule_or_a_number_of_slots() {
        assert_eq!(policy("load"), Ok(Policy::Load));
        assert_eq!(policy("256"), Ok(Policy::Fixed(256)));
        assert!(policy("0").is_err());
    }
}
