//! The command's arguments.

use std::time::Duration;

use crate::mutant::{Kind, Mutant};
use crate::suites::PACKAGES;

pub const USAGE: &str = "\
.ci/mutants [OPTIONS]   breaks the engine in one place at a time, and runs the tests that reach the place

  --files PREFIX   only files below crates/ufutex/src that begin so; more than once in this order
  --kind KIND      only ordering, fence, recheck, or condition; more than once for several
  --package NAME   only the tests of ufutex, ufutex-loom, or ufutex-shuttle; more than once for several
  --limit N        at most N mutants
  --jobs N         N tests at a time; 1 by default
  --seconds N      stop with a mutant after N seconds of tests; 120 by default
  --resume         keep the results of the last run, which had the same packages and seconds, and go on
  --list           only print the mutants";

#[derive(PartialEq, Debug)]
pub struct Arguments {
    pub files: Vec<String>,
    pub kinds: Vec<Kind>,
    pub packages: Vec<String>,
    pub limit: usize,
    pub jobs: usize,
    pub seconds: Duration,
    pub resumes: bool,
    pub lists: bool,
}

impl Arguments {
    /// Reads the words of a command line. An error says what was wrong.
    pub fn read(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self {
            files: Vec::new(),
            kinds: Vec::new(),
            packages: Vec::new(),
            limit: usize::MAX,
            jobs: 1,
            seconds: Duration::from_secs(120),
            resumes: false,
            lists: false,
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--files" => arguments.files.push(value()?),
                "--kind" => arguments.kinds.push(kind(&value()?)?),
                "--package" => arguments.packages.push(package(value()?)?),
                "--limit" => arguments.limit = number(&value()?)?,
                "--jobs" => arguments.jobs = number(&value()?)?.max(1),
                "--seconds" => arguments.seconds = Duration::from_secs(number(&value()?)? as u64),
                "--resume" => arguments.resumes = true,
                "--list" => arguments.lists = true,
                _ => return Err(format!("unknown argument '{word}'\n\n{USAGE}")),
            }
        }
        if arguments.packages.is_empty() {
            arguments.packages = PACKAGES.map(str::to_string).into();
        }
        Ok(arguments)
    }

    /// The numbers of the mutants that are asked for, orderings and fences first within each prefix.
    pub fn select(&self, mutants: &[Mutant]) -> Vec<usize> {
        let prefix = |mutant: &Mutant| match self.files.as_slice() {
            [] => Some(0),
            files => files.iter().position(|prefix| mutant.file.starts_with(prefix.as_str())),
        };
        let is_kind = |mutant: &Mutant| self.kinds.is_empty() || self.kinds.contains(&mutant.kind);
        let mut all: Vec<(usize, Kind, usize)> = mutants
            .iter()
            .enumerate()
            .filter(|(_, mutant)| is_kind(mutant))
            .filter_map(|(number, mutant)| Some((prefix(mutant)?, mutant.kind, number)))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, _, number)| number).take(self.limit).collect()
    }
}

fn kind(name: &str) -> Result<Kind, String> {
    let known = Kind::ALL.into_iter().find(|kind| kind.name() == name);
    known.ok_or(format!("no kind '{name}'; there are ordering, fence, recheck, condition"))
}

fn package(name: String) -> Result<String, String> {
    if PACKAGES.contains(&name.as_str()) {
        Ok(name)
    } else {
        Err(format!("no package '{name}'; there are {PACKAGES:?}"))
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}
