//! Shared by the models: the test that a mutant is caught, and the system to run in.

use std::time::Duration;

use shuttle::sync::Arc;
use ufutex_shuttle::model::{AtomicU32, Ordering};
use ufutex_shuttle::{Access, Clock, Domain, Fault, Key, Scheme, System, SystemConfig, Target, Timeout, WaitOptions};

/// Makes a test that `$model` fails with `$mutant` in the engine, within `$schedules` schedules: as many as the model is run on
/// without the mutant.
macro_rules! catches {
    ($test:ident, $mutant:ident, $schedules:expr, $model:expr) => {
        #[test]
        fn $test() {
            let name = concat!(module_path!(), "::", stringify!($test));
            let mutant = ufutex_shuttle::model::Mutant::$mutant;
            let broken = || ufutex_shuttle::model::with_mutant(mutant, || $crate::runs::check($schedules, $model));
            $crate::apart::run_apart(name, broken);
        }
    };
}

pub(crate) use catches;

pub use crate::runs::check;

/// A futex word whose address is chosen.
pub struct Word {
    pub value: AtomicU32,
    address: u64,
}

impl Word {
    /// A word at `address` that holds 0.
    pub fn at(address: u64) -> Self {
        Self { value: AtomicU32::new(0), address }
    }
}

impl Key for &Word {
    fn address(&self) -> u64 {
        self.address
    }
}

impl Target for &Word {
    type Value = u32;

    fn load(&self) -> Result<u32, Fault> {
        Ok(self.value.load(Ordering::SeqCst))
    }
    fn compare_exchange(&self, current: u32, new: u32) -> Result<Result<u32, u32>, Fault> {
        Ok(self.value.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst))
    }
    fn fault_in(&self, _access: Access) -> Result<(), Fault> {
        Ok(())
    }
}

/// A deadline that a model does not wait for: a thread that would sleep until then times out at once.
pub fn some_time() -> WaitOptions {
    WaitOptions::new().timeout(Timeout::At(Clock::Monotonic, Duration::MAX))
}

/// A domain whose first table has two slots, and two words of one cache line, so in one bucket.
pub struct World {
    pub domain: Domain,
    pub words: [Word; 2],
}

impl World {
    pub fn new() -> Arc<Self> {
        Self::of(Scheme::Live)
    }

    /// As [`new`](Self::new), on a scheme.
    pub fn of(scheme: Scheme) -> Arc<Self> {
        let config = SystemConfig::new().cpus(1).global_slots(2).hash_seed(1).default_slots(2);
        let system = System::with_config(config).expect("the models' configuration is valid");
        let domain = Domain::with_options(&system, ufutex_shuttle::DomainOptions::new().scheme(scheme));
        // In the first bucket, which a move reaches first. In the second one `GlobalSkipsRecheck` is found too rarely.
        Arc::new(Self { domain, words: [Word::at(0x10c0), Word::at(0x10c4)] })
    }

    /// Resizes the table to these sizes, one after the other.
    pub fn resize(&self, sizes: &[usize]) {
        for &slots in sizes {
            self.domain.set_slots(slots).expect("a table can be made");
        }
    }
}
