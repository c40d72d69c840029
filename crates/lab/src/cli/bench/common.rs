//! The flags that several workloads have, and their checks.

use super::noise::NoiseArgs;
use super::{Asked, One};
use crate::cli::values::{self, Format, List};
use clap::Args;
use lab_bench::hammer::Hammer;
use lab_bench::perf::FirstLine;
use lab_bench::settings::{Buckets, Settings};
use lab_targets::{Layout, Name, Policy};
use strum::VariantArray;

/// Largest memory for the words of one workload.
const WORDS_BYTES_MAX: usize = 1 << 30;

/// Flags of every workload.
#[derive(Args)]
pub struct Common {
    /// How long in all: seconds, or a time such as 2m
    #[arg(short, long, value_name = "TIME", value_parser = values::runtime, allow_negative_numbers = true)]
    pub runtime: Option<f64>,
    /// Rounds (each has one sample of every target); growth runs at least 9
    #[arg(long, value_name = "N", value_parser = values::repeat, allow_negative_numbers = true)]
    pub repeat: Option<usize>,
    #[command(flatten)]
    pub noise: NoiseArgs,
    /// No progress and no notes on stderr
    #[arg(short, long)]
    pub silent: bool,
    /// Print one JSON object per line on stdout, and nothing else
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Lock all current and future memory
    #[arg(short, long)]
    pub mlockall: bool,
}

impl Common {
    /// The settings of these flags.
    pub fn settings(&self, format: Option<Format>) -> Settings {
        let json = self.json || format == Some(Format::Json);
        Settings {
            runtime_s: self.runtime,
            repeat: self.repeat,
            noise: self.noise.noise,
            silent: self.silent,
            json,
            ..Settings::default()
        }
    }
}

/// Output of workloads that perf does not have.
#[derive(Args)]
pub struct Output {
    /// table or json
    #[arg(long, value_parser = values::among::<Format>(&Format::OWN))]
    pub format: Option<Format>,
}

/// Output of perf's workloads.
#[derive(Args)]
pub struct PerfOutput {
    /// table; json; perf (or default): what `perf bench futex` prints, for `live` or --targets, with perf's
    /// defaults: as many threads as CPUs, 10 s or 10 runs; simple: the same without its first line
    #[arg(long, value_parser = values::one_of::<Format>())]
    pub format: Option<Format>,
}

impl PerfOutput {
    /// Whether perf's output is requested, and whether with its first line.
    pub fn perf(&self) -> Option<FirstLine> {
        match self.format? {
            Format::Perf => Some(FirstLine::Shown),
            Format::Simple => Some(FirstLine::Left),
            Format::Table | Format::Json => None,
        }
    }
}

/// Flags of workloads on futex tables.
#[derive(Args)]
pub struct Tables {
    /// Buckets: a power of two; 0: the global table; auto: for every target the size at which `live`
    /// settles under this load
    #[arg(short, long, value_name = "N", value_parser = values::buckets, allow_negative_numbers = true)]
    pub buckets: Option<List<Buckets>>,
    /// Bucket layout of the engine's tables
    #[arg(long, value_parser = values::one_of::<Layout>(), default_value = "lean")]
    pub layout: Layout,
    /// Size policy of `live`: threads, load, or a power of two [default: load; with -b N, N]
    #[arg(long, value_name = "POLICY", value_parser = values::policy, allow_negative_numbers = true)]
    pub policy: Option<Policy>,
}

impl Tables {
    /// Adds these flags to the settings. Only `--sweep` takes several sizes.
    pub fn add_to(&self, settings: Settings) -> Result<Settings, String> {
        let sizes = self.sizes();
        if let [_, second, ..] = sizes {
            let second = match second {
                Buckets::Auto => "auto".to_string(),
                Buckets::Exactly(slots) => slots.to_string(),
            };
            return Err(format!(
                "--buckets '{second}' is a second value; accepted: one value, or several with hash --sweep"
            ));
        }
        let buckets = sizes.first().copied().unwrap_or(Buckets::Auto);
        Ok(Settings { buckets, layout: self.layout, policy: self.policy, ..settings })
    }

    /// The values of `-b`.
    pub fn sizes(&self) -> &[Buckets] {
        self.buckets.as_ref().map_or(&[], |List(sizes)| sizes)
    }
}

/// Flags of workloads in which threads sleep.
#[derive(Args)]
pub struct Sleeping {
    // The help text has the names.
    #[arg(long, value_name = "LIST", value_parser = values::sleeping_targets, help = values::help_of_targets(&values::sleeping()))]
    pub targets: Option<List<Name>>,
}

/// The requested targets. By default all that have this layout, or with perf's output only `live`.
pub fn names(targets: Option<List<Name>>, perf: Option<FirstLine>, layout: Layout) -> Result<Vec<Name>, String> {
    let default = if perf.is_some() { vec![Name::Live] } else { Name::VARIANTS.to_vec() };
    of_layout(targets.map(|List(targets)| targets), default, layout)
}

/// The given targets, which must have this layout, or those of the others that have it.
pub fn of_layout(given: Option<Vec<Name>>, others: Vec<Name>, layout: Layout) -> Result<Vec<Name>, String> {
    let having = |names: &[Name]| names.iter().copied().filter(|name| name.has_layout(layout)).collect::<Vec<_>>();
    let Some(given) = given else { return Ok(having(&others)) };
    match given.iter().find(|name| !name.has_layout(layout)) {
        Some(name) => {
            let accepted = having(&others).iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            Err(format!("--targets '{name}' is not accepted with --layout '{layout}'; accepted: {accepted}"))
        }
        None => Ok(given),
    }
}

/// Flag of workloads that can use shared futexes.
#[derive(Args)]
pub struct Shared {
    /// Use shared futexes instead of process-private ones
    #[arg(short = 'S', long)]
    pub shared: bool,
}

/// Flag of perf's workloads.
#[derive(Args)]
pub struct Immutable {
    /// With -b: the table keeps its size (as in perf 6.16)
    #[arg(short = 'I', long)]
    pub immutable: bool,
}

impl Immutable {
    /// Adds the flag to the settings, which must have their buckets.
    pub fn add_to(&self, settings: Settings) -> Result<Settings, String> {
        if self.immutable && settings.buckets == Buckets::Auto {
            return Err("--immutable is not accepted without --buckets; accepted: --immutable -b N".to_string());
        }
        Ok(Settings { immutable: self.immutable, ..settings })
    }
}

/// Flags of workloads on futex tables that perf does not have.
#[derive(Args)]
pub struct Own {
    #[command(flatten)]
    sleeping: Sleeping,
    #[command(flatten)]
    tables: Tables,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    output: Output,
}

impl Own {
    /// The workload with these flags.
    pub fn one(self, asked: Asked, shared: bool) -> Result<One, String> {
        let settings = self.tables.add_to(self.common.settings(self.output.format))?;
        let targets = names(self.sleeping.targets, None, settings.layout)?;
        let settings = Settings { targets, shared, ..settings };
        Ok(One { settings, asked, perf: None, mlockall: self.common.mlockall })
    }
}

/// Flags of all of perf's workloads, besides their targets.
#[derive(Args)]
pub struct Perfs {
    #[command(flatten)]
    pub tables: Tables,
    #[command(flatten)]
    pub shared: Shared,
    #[command(flatten)]
    pub immutable: Immutable,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: PerfOutput,
}

impl Perfs {
    /// Whether perf's output is requested. It has one number of threads.
    pub fn perf(&self, threads: &Option<List<usize>>) -> Result<Option<FirstLine>, String> {
        one_number_of_threads(threads, self.output.perf()).map(|()| self.output.perf())
    }

    /// The settings with these flags.
    pub fn settings(&self, targets: Vec<Name>) -> Result<Settings, String> {
        let settings = self.immutable.add_to(self.tables.add_to(self.common.settings(self.output.format))?)?;
        Ok(Settings { targets, shared: self.shared.shared, ..settings })
    }

    /// The workload with these flags.
    pub fn one(self, targets: Option<List<Name>>, asked: Asked) -> Result<One, String> {
        let perf = self.output.perf();
        let settings = self.settings(names(targets, perf, self.tables.layout)?)?;
        Ok(One { settings, asked, perf, mlockall: self.common.mlockall })
    }
}

/// Flags of workloads on many words.
#[derive(Args)]
pub struct Words {
    /// Futexes (words) of each thread
    #[arg(short, long, value_name = "N", default_value = "1024", value_parser = values::futexes, allow_negative_numbers = true)]
    pub futexes: usize,
    /// Distance between two words in bytes; 4 is an array, as perf's
    #[arg(long, value_name = "BYTES", default_value = "4", value_parser = values::stride, allow_negative_numbers = true)]
    pub stride: usize,
}

impl Words {
    /// The settings with these threads.
    pub fn hammer(self, threads: Option<List<usize>>) -> Result<Hammer, String> {
        hammer(threads, self.futexes, self.stride)
    }
}

/// Threads and their words. An error if the words take too much memory.
pub fn hammer(threads: Option<List<usize>>, futexes: usize, stride_bytes: usize) -> Result<Hammer, String> {
    let threads = threads.map(|List(threads)| threads);
    let most = threads.iter().flatten().max().copied().unwrap_or(16);
    let bytes = most.saturating_mul(futexes).saturating_mul(stride_bytes);
    if bytes > WORDS_BYTES_MAX {
        return Err(format!(
            "--futexes '{futexes}' is too large: {most} threads with {stride_bytes} bytes per word need {bytes} bytes; \
            accepted: up to {WORDS_BYTES_MAX} bytes in all"
        ));
    }
    Ok(Hammer { threads, futexes, stride_bytes })
}

/// Rejects several numbers of threads with perf's output.
fn one_number_of_threads(threads: &Option<List<usize>>, perf: Option<FirstLine>) -> Result<(), String> {
    match threads {
        Some(List(threads)) if threads.len() > 1 && perf.is_some() => {
            Err(format!("--threads '{}' is a second value; accepted: one value with --format perf", threads[1]))
        }
        _ => Ok(()),
    }
}

/// End of each workload's help: its rows, then the parts that are the same for all.
pub fn more(rows: &str, examples: &str) -> String {
    let line = if examples.lines().count() > 1 { "Examples" } else { "Example" };
    format!("{rows}\n{NOISE}\n\n{EXIT}\n\n{line}:\n{examples}")
}

/// What `--noise` changes in the rows of all workloads.
const NOISE: &str = "\
With --noise each row has noise, the busy loops on each CPU, and no sample is taken once more.";

/// Exit statuses of all workloads.
pub const EXIT: &str = "\
Exit status:
  0    measured
  1    it failed
  2    a mistake in the options
  130  interrupted by Ctrl-C: the rows have the samples until then; a second Ctrl-C ends it at once";
