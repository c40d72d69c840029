//! The domains of one layout.

use super::engine::{self, Access, DomainOptions, Error, Fault, GuestWord, System, SystemConfig, UserMemory, Width};
use crate::engine::{Domain, Memory, Waited, Wanted, Word};
use crate::settings::Scheme;
use anyhow::{Result, anyhow};
use lab_targets::Policy;
use ufutex_coherence::{memory, objects};

/// A domain, and the system whose global table it may use.
struct Made {
    domain: engine::Domain,
    system: System,
}

/// See [`make`](crate::engine::make).
pub fn make(wanted: Wanted, count: usize) -> Result<Vec<Box<dyn Domain>>> {
    objects::forget_all();
    let policy = match (wanted.scheme, wanted.policy) {
        (Scheme::Global, _) => engine::Policy::Fixed(0),
        (_, Policy::Threads) => engine::Policy::Threads,
        (_, Policy::Load) => engine::Policy::Load,
        (_, Policy::Fixed(slots)) => engine::Policy::Fixed(slots),
    };
    let scheme = match wanted.scheme {
        Scheme::Live | Scheme::Global => engine::Scheme::Live,
        Scheme::Fixed => engine::Scheme::Fixed,
        Scheme::Atomic => engine::Scheme::Atomic,
        Scheme::Percpu => engine::Scheme::PerCpu,
    };
    let made: Vec<Box<Made>> = memory::by_line(|| {
        let system = System::with_config(SystemConfig::new().hash_seed(wanted.seed).cpus(wanted.cpus))
            .map_err(|error| anyhow!("{}: {error}", wanted.scheme))?;
        let options =
            || DomainOptions::new().scheme(scheme).policy(policy).early_return(wanted.early_return).spin(wanted.spin);
        let one = |_| Made { domain: engine::Domain::with_options(&system, options()), system: system.clone() };
        anyhow::Ok((0..count).map(|number| Box::new(one(number))).collect())
    })?;
    Ok(made
        .into_iter()
        .map(|made| {
            made.domain.name_objects();
            made as Box<dyn Domain>
        })
        .collect())
}

impl Domain for Made {
    fn wait(&self, word: Word<'_>, expected: u32) -> Waited {
        match self.domain.wait(Words(word.memory).word(word.address), u64::from(expected)) {
            Ok(()) => Waited::Woken,
            Err(Error::Again) => Waited::Differs,
            Err(_) => Waited::Failed,
        }
    }

    fn wake(&self, word: Word<'_>, count: usize) -> usize {
        self.domain.wake(Words(word.memory).word(word.address), count)
    }

    fn set_slots_while(&self, slots: usize, keep_trying: &mut dyn FnMut() -> bool) -> Result<bool> {
        match self.domain.set_slots_while(slots, keep_trying) {
            Ok(()) => Ok(true),
            Err(Error::TimedOut) => Ok(false),
            Err(error) => Err(anyhow!("{error}")),
        }
    }

    fn note_threads(&self, threads: usize) {
        self.domain.note_threads(threads);
    }

    fn buckets(&self) -> usize {
        match self.domain.slots() {
            0 => self.system.global_slots(),
            slots => slots,
        }
    }
}

/// A [`Memory`], as the engine reads it.
struct Words<'m>(&'m dyn Memory);

impl Words<'_> {
    fn word(&self, address: u64) -> GuestWord<'_, Self> {
        GuestWord::new(self, address, Width::U32).expect("words of four bytes lie at multiples of four")
    }
}

impl UserMemory for Words<'_> {
    #[inline]
    fn load(&self, address: u64, _width: Width) -> Result<u64, Fault> {
        self.0.load(address).map(u64::from).ok_or(Fault)
    }

    fn compare_exchange(&self, address: u64, _width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let result = self.0.compare_exchange(address, current as u32, new as u32).ok_or(Fault)?;
        Ok(result.map(u64::from).map_err(u64::from))
    }

    fn fault_in(&self, _address: u64, _access: Access) -> Result<(), Fault> {
        Err(Fault)
    }
}
