//! `bench` without a workload: all that need nothing built first, each for less than its usual time.

use super::common::{self, Perfs};
use super::{Asked, Bench, Job};
use crate::cli::values::{self, List, Targets};
use clap::Args;
use lab_bench::growth::Growth;
use lab_bench::hammer::Hammer;
use lab_bench::lock_pi::LockPi;
use lab_bench::locks::Locks;
use lab_bench::perf::FirstLine;
use lab_bench::ping_pong::PingPong;
use lab_bench::requeue::Requeue;
use lab_bench::resize::Resize;
use lab_bench::settings::{Buckets, Settings};
use lab_bench::timers::Timers;
use lab_bench::wake_many::WakeMany;
use lab_bench::wake_parallel::WakeParallel;
use lab_bench::{Workload, crowd};
use lab_targets::Name;
use strum::VariantArray;

/// The flags. Each applies to the workloads that have it.
#[derive(Args)]
pub struct AllArgs {
    /// Threads, a comma list [default: by the workload]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads, allow_negative_numbers = true)]
    threads: Option<List<usize>>,
    /// Futexes (words) of each thread
    #[arg(short, long, value_name = "N", default_value = "1024", value_parser = values::futexes, allow_negative_numbers = true)]
    futexes: usize,
    // The help text has the names.
    #[arg(long, value_name = "LIST", value_parser = values::all_targets, help = values::help_of_all_targets())]
    targets: Option<Targets>,
    #[command(flatten)]
    perfs: Perfs,
    /// Check the engine's bounds: run every workload at full length, and print each figure with its bound
    #[arg(long, hide = true, conflicts_with = "noise")]
    figures: bool,
}

impl AllArgs {
    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(self) -> Result<Bench, String> {
        let perf = self.perfs.perf(&self.threads)?;
        self.refuse_floor_alone()?;
        let (futex, timers) = match self.targets {
            Some(targets) => (Some(List(targets.futex)), targets.timers),
            None => (None, Timers::default().targets),
        };
        let futex = common::names(futex, perf, self.perfs.tables.layout)?;
        let settings = self.perfs.settings(futex)?;
        if settings.buckets == Buckets::Exactly(0) && perf.is_none() {
            return Err(super::GLOBAL_FOR_GOOD.to_string());
        }
        let hammer = common::hammer(self.threads, self.futexes, size_of::<u32>())?;
        let timers = Timers { targets: timers, threads: hammer.threads.clone(), ..Timers::default() };
        let workloads = match (perf, self.figures) {
            (Some(_), _) => &Workload::OF_PERF[..],
            (None, true) => Workload::VARIANTS,
            (None, false) => &Workload::BY_DEFAULT,
        };
        let asked = workloads.iter().flat_map(|workload| asked(*workload, &hammer, &timers, &settings, perf));
        let jobs = asked.map(|asked| Job { settings: settings.clone(), asked }).collect();
        Ok(Bench { jobs, is_all: true, figures: self.figures, perf, mlockall: self.perfs.common.mlockall })
    }

    /// Rejects `floor` as the only target: most workloads would have none.
    fn refuse_floor_alone(&self) -> Result<(), String> {
        match &self.targets {
            Some(targets) if targets.futex == [Name::Floor] => {
                Err("--targets 'floor' is for hash and wake; accepted: one of these workloads, or further targets"
                    .to_string())
            }
            _ => Ok(()),
        }
    }
}

/// Settings of a workload in a run of all. `hash` has two parts.
fn asked(
    workload: Workload,
    hammer: &Hammer,
    timers: &Timers,
    settings: &Settings,
    perf: Option<FirstLine>,
) -> Vec<Asked> {
    let (threads, hammer) = (hammer.threads.clone(), hammer.clone());
    vec![match workload {
        Workload::Hash if perf.is_some() || settings.shared => Asked::Hash(hammer),
        Workload::Hash => return vec![Asked::Hash(hammer.clone()), Asked::Sizes(hammer)],
        Workload::Wake if perf.is_some() => Asked::WakeMany(WakeMany { threads, nwakes: 1 }),
        Workload::Wake => Asked::Wake(hammer),
        Workload::Resize => Asked::Resize(Resize { hammer, ..Resize::default() }),
        Workload::Growth => Asked::Growth(Growth { threads }),
        Workload::PingPong => Asked::PingPong(PingPong::default()),
        Workload::Requeue => Asked::Requeue(Requeue { threads, ..Requeue::default() }),
        Workload::WakeParallel => Asked::WakeParallel(WakeParallel { threads, nwakers: None }),
        Workload::LockPi => Asked::LockPi(LockPi { threads, ..LockPi::default() }),
        Workload::Crowd => Asked::Crowd(crowd::Crowd::default()),
        Workload::Wasm => Asked::Wasm(hammer),
        Workload::Locks => Asked::Locks(Locks { threads, ..Locks::default() }),
        Workload::Timers => Asked::Timers(timers.clone()),
    }]
}
