//! The engine on virtual cores: a domain for each run. Scheme and layout are type parameters.

use crate::settings::{Scheme as SchemeName, Settings};
use anyhow::{Result, anyhow};
use lab_targets::Layout as LayoutName;
use lab_targets::Policy;
use ufutex_coherence::{memory, objects};
use ufutex_sim::layout::{Layout, Lean, Packed, Split};
use ufutex_sim::scheme::{Atomic, Fixed, Live, PerCpu, Scheme};
use ufutex_sim::{Config, Domain, Options, System};

/// Cycles of an operation's instructions that touch no shared memory: the time of one thread's operation, measured on
/// this project's machine, less what the model charges for its loads, stores and locked instructions.
pub const PLAIN_CYCLES: f64 = 8.0;

/// The parameters of one run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The engine's scheme.
    pub scheme: SchemeName,
    /// The layout of a bucket.
    pub layout: LayoutName,
    /// The size policy of the table.
    pub policy: Policy,
    /// Number of virtual cores.
    pub cores: usize,
}

/// A job that runs on any scheme and layout.
pub trait Job {
    /// The result.
    type Output;
    /// Runs the job.
    fn run<S: Scheme<L>, L: Layout>(&self, engine: &Engine<S, L>) -> Self::Output;
}

/// A domain and its system.
pub struct Engine<S: Scheme<L>, L: Layout> {
    /// The domain of all threads.
    pub domain: Box<Domain<S, L>>,
    system: System<L>,
}

impl<S: Scheme<L>, L: Layout> Engine<S, L> {
    /// Number of buckets in use.
    pub fn buckets(&self) -> usize {
        match self.domain.slots() {
            0 => self.system.global_slots(),
            slots => slots,
        }
    }
}

/// Makes the engine for a case and runs the job on it.
pub fn on_engine<J: Job>(settings: &Settings, case: Case, job: &J) -> Result<J::Output> {
    match case.layout {
        LayoutName::Lean => with_layout::<Lean, J>(settings, case, job),
        LayoutName::Packed => with_layout::<Packed, J>(settings, case, job),
        LayoutName::Split => with_layout::<Split, J>(settings, case, job),
    }
}

fn with_layout<L: Layout, J: Job>(settings: &Settings, case: Case, job: &J) -> Result<J::Output> {
    match case.scheme {
        SchemeName::Live | SchemeName::Global => Ok(job.run(&make::<Live, L>(settings, case)?)),
        SchemeName::Fixed => Ok(job.run(&make::<Fixed, L>(settings, case)?)),
        SchemeName::Atomic => Ok(job.run(&make::<Atomic, L>(settings, case)?)),
        SchemeName::Percpu => Ok(job.run(&make::<PerCpu, L>(settings, case)?)),
    }
}

fn make<S: Scheme<L>, L: Layout>(settings: &Settings, case: Case) -> Result<Engine<S, L>> {
    objects::forget_all();
    let config = Config::new().hash_seed(settings.seed).cpus(settings.topology.cpus());
    let policy = match (case.scheme, case.policy) {
        (SchemeName::Global, _) => ufutex_sim::Policy::Fixed(0),
        (_, Policy::Threads) => ufutex_sim::Policy::Threads,
        (_, Policy::Load) => ufutex_sim::Policy::Load,
        (_, Policy::Fixed(slots)) => ufutex_sim::Policy::Fixed(slots),
    };
    let options = Options::new().policy(policy).early_return(settings.early_return);
    let engine = memory::by_line(|| {
        let system = System::<L>::with_config_in(config).map_err(|error| anyhow!("{}: {error}", case.scheme))?;
        let domain = Box::new(Domain::with_options_in(&system, options));
        anyhow::Ok(Engine { domain, system })
    })?;
    engine.domain.note_threads(case.cores);
    engine.domain.name_objects();
    Ok(engine)
}
