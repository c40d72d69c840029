//! The flags that several workloads have, and their checks.

use crate::settings::{Buckets, Settings};
use clap::Args;
use lab_targets::{Layout, Name, Policy};
use lab_values::{self as values, List};
use strum::VariantArray;

/// Largest memory for the words of one workload.
const WORDS_BYTES_MAX: usize = 1 << 30;

/// Flag of every workload.
#[derive(Clone, Args)]
pub struct Noise {
    /// Take the samples beside N busy loops on each CPU [N if left out: 1]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1",
        value_parser = values::number::<usize>(1, 64, "busy loops on each CPU, or no value for 1"))]
    pub noise: Option<usize>,
}

/// Flags of every workload that compares targets.
#[derive(Clone, Args)]
pub struct Common {
    /// How long in all: seconds, or a time such as 2m
    #[arg(short, long, value_name = "TIME", value_parser = values::runtime)]
    runtime: Option<f64>,
    /// Rounds (each has one sample of every target); growth runs at least 9
    #[arg(long, value_name = "N", value_parser = values::number::<usize>(1, REPEAT_MAX, "rounds"))]
    repeat: Option<usize>,
    #[command(flatten)]
    noise: Noise,
    /// No progress and no notes on stderr
    #[arg(short, long)]
    silent: bool,
    /// Print one JSON object per line on stdout, and nothing else
    #[arg(long)]
    json: bool,
}

/// Largest number of rounds.
pub const REPEAT_MAX: usize = 10_000;

impl Common {
    /// The settings of these flags.
    pub fn settings(&self) -> Settings {
        Settings {
            runtime_s: self.runtime,
            repeat: self.repeat,
            noise: self.noise.noise,
            silent: self.silent,
            json: self.json,
            ..Settings::default()
        }
    }
}

/// Flag of workloads on tables whose size is not a flag.
#[derive(Clone, Args)]
pub struct OfLayout {
    /// Bucket layout of the engine's tables
    #[arg(long, value_parser = values::one_of::<Layout>(), default_value = "lean")]
    pub layout: Layout,
}

/// Flags of workloads on futex tables.
#[derive(Clone, Args)]
pub struct Tables {
    /// Buckets: a power of two; 0: the global table; auto: for every target the size at which `live`
    /// settles under this load
    #[arg(short, long, value_name = "N", value_parser = buckets)]
    buckets: Option<Buckets>,
    #[command(flatten)]
    of: OfLayout,
    /// Size policy of `live`: threads, load, or a power of two [default: load; with -b N, N]
    #[arg(long, value_name = "POLICY", value_parser = values::policies(), hide_possible_values = true)]
    policy: Option<Policy>,
}

/// `-b`.
fn buckets(text: &str) -> Result<Buckets, String> {
    match text {
        "auto" => Ok(Buckets::Auto),
        "0" => Ok(Buckets::Exactly(0)),
        number => match values::slots(number) {
            Ok(slots) => Ok(Buckets::Exactly(slots)),
            Err(reason) => Err(reason + ", 0 for the global table, or auto"),
        },
    }
}

impl Tables {
    /// Adds these flags to the settings.
    fn add_to(&self, settings: Settings) -> Settings {
        let buckets = self.buckets.unwrap_or(Buckets::Auto);
        Settings { buckets, layout: self.of.layout, policy: self.policy, ..settings }
    }
}

/// Flag of workloads in which threads sleep.
#[derive(Clone, Args)]
pub struct Sleeping {
    // The help text has the names.
    #[arg(long, value_name = "LIST", value_parser = values::some_among(values::sleeping()), hide_possible_values = true, help = help_of_targets(&values::sleeping()))]
    pub targets: Option<List<Name>>,
}

/// Flag of workloads that are also measured on `floor`.
#[derive(Clone, Args)]
pub struct Targets {
    // The help text has the names.
    #[arg(long, value_name = "LIST", value_parser = values::some_of::<Name>(), hide_possible_values = true, help = help_of_targets(Name::VARIANTS))]
    pub targets: Option<List<Name>>,
}

impl Targets {
    /// Whether `floor` is among them, on which no thread can sleep.
    pub fn have_floor(&self) -> bool {
        self.targets.as_ref().is_some_and(|targets| targets.contains(&Name::Floor))
    }
}

/// The help text of `--targets`.
pub fn help_of_targets(all: &[Name]) -> String {
    format!("Targets, a comma list [default: all]: {}", values::names(all))
}

/// The given targets, which must have the settings' layout. By default all of `others` that have it.
pub fn targets(settings: Settings, given: Option<&List<Name>>, others: &[Name]) -> Result<Settings, String> {
    let layout = settings.layout;
    let having: Vec<Name> = others.iter().copied().filter(|name| name.has_layout(layout)).collect();
    let Some(List(given)) = given else { return Ok(Settings { targets: having, ..settings }) };
    match given.iter().find(|name| !name.has_layout(layout)) {
        Some(name) => Err(format!(
            "--targets '{name}' is not accepted with --layout '{layout}'; accepted: {}",
            values::names(having)
        )),
        None => Ok(Settings { targets: given.clone(), ..settings }),
    }
}

/// Flag of workloads that can use shared futexes.
#[derive(Clone, Args)]
pub struct Shared {
    /// Use shared futexes instead of process-private ones
    #[arg(short = 'S', long)]
    pub shared: bool,
}

/// Flags of workloads on futex tables that perf does not have.
#[derive(Clone, Args)]
pub struct Own {
    #[command(flatten)]
    sleeping: Sleeping,
    #[command(flatten)]
    tables: Tables,
    #[command(flatten)]
    common: Common,
}

impl Own {
    /// The settings of these flags.
    pub fn settings(&self) -> Result<Settings, String> {
        let settings = self.tables.add_to(self.common.settings());
        targets(settings, self.sleeping.targets.as_ref(), Name::VARIANTS)
    }
}

/// Flags of all of perf's workloads, besides their targets.
#[derive(Clone, Args)]
pub struct Perfs {
    #[command(flatten)]
    pub tables: Tables,
    #[command(flatten)]
    pub shared: Shared,
    #[command(flatten)]
    common: Common,
}

impl Perfs {
    /// The settings of these flags.
    pub fn settings(&self, given: Option<&List<Name>>) -> Result<Settings, String> {
        let settings = self.tables.add_to(self.common.settings());
        let settings = Settings { shared: self.shared.shared, ..settings };
        targets(settings, given, Name::VARIANTS)
    }
}

/// Flag of workloads on many words.
#[derive(Clone, Args)]
pub struct Futexes {
    /// Futexes (words) of each thread
    #[arg(short, long, value_name = "N", default_value = "1024",
        value_parser = values::number::<usize>(1, 1 << 24, "futexes a thread"))]
    pub futexes: usize,
}

/// Flags of workloads on many words at a chosen distance.
#[derive(Clone, Args)]
pub struct Words {
    #[command(flatten)]
    pub number: Futexes,
    /// Distance between two words in bytes; 4 is an array, as perf's
    #[arg(long, value_name = "BYTES", default_value = "4", value_parser = stride)]
    pub stride: usize,
}

/// `--stride`.
fn stride(text: &str) -> Result<usize, String> {
    const MOST: usize = 65_536;
    values::whole(text, 4, MOST)
        .filter(|bytes| bytes % 4 == 0)
        .ok_or_else(|| format!("is not accepted; accepted: a multiple of 4 from 4 to {MOST} bytes"))
}

impl Words {
    /// As many words as requested, in an array.
    pub fn array(number: &Futexes) -> Words {
        Words { number: number.clone(), stride: size_of::<u32>() }
    }

    /// An error if the words of all threads together take too much memory.
    pub fn check(&self, threads: Option<&List<usize>>) -> Result<(), String> {
        let (futexes, stride) = (self.number.futexes, self.stride);
        let most = threads.and_then(|threads| threads.iter().max()).copied().unwrap_or(16);
        let bytes = most.saturating_mul(futexes).saturating_mul(stride);
        if bytes <= WORDS_BYTES_MAX {
            return Ok(());
        }
        Err(format!(
            "--futexes '{futexes}' is too large: {most} threads with {stride} bytes per word need {bytes} bytes; \
            accepted: up to {WORDS_BYTES_MAX} bytes in all"
        ))
    }
}

/// Fields of the rows of every futex workload, for the help.
const HEAD: &str = "\
Rows of --json, one object per line:
  workload, target, threads, futexes, repeat (rounds), shared; policy and layout of the engine's targets
  buckets        of the table at the end (null: it cannot be seen from outside)
  cpus_apart_ns  one-way time of a cache line between the first two CPUs, if both are used; cpus_distance: near (below
                 60 ns) or far";

/// End of the help of a futex workload: the fields of its rows behind those of all, and examples.
pub fn help_of_futexes(rows: &str, examples: &str) -> String {
    // A text that begins behind a backslash has lost the blanks of its first line.
    help(&format!("{HEAD}\n  {rows}"), examples)
}

/// End of the help: `text`, and what is the same for all workloads.
pub fn help(text: &str, examples: &str) -> String {
    let line = if examples.lines().count() > 1 { "Examples" } else { "Example" };
    format!(
        "{text}
With --noise each row has noise, the busy loops on each CPU, and no sample is taken once more.

Exit status:
  0    measured
  1    it failed
  2    a mistake in the options
  130  interrupted by Ctrl-C: the rows have the samples until then; a second Ctrl-C ends it at once

{line}:
{examples}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_strides_out_of_range_are_refused() {
        for bad in ["", "1", "3", "2097152", "automatic", "4,8"] {
            assert!(buckets(bad).is_err(), "{bad}");
        }
        let sizes = ["0", "4", "auto"].map(|text| buckets(text).expect("a size"));
        assert_eq!(sizes, [Buckets::Exactly(0), Buckets::Exactly(4), Buckets::Auto]);
        for bad in ["0", "2", "6", "-4", "+4", "131072"] {
            assert!(stride(bad).is_err(), "{bad}");
        }
        assert_eq!(stride("64"), Ok(64));
    }
}
