//! A guest's memory on virtual cores, and a domain of it.

use ufutex_coherence::atomic::{AtomicU32, Ordering};
use ufutex_coherence::{Topology, memory};
use ufutex_sim::{
    Access, Domain, DomainOptions, Fault, GuestWord, Policy, Scheme, System, SystemConfig, UserMemory, Width,
};

pub const BASE: u64 = 0x7f00_0000_0000;

/// Words from address [`BASE`] on.
pub struct Words(Vec<AtomicU32>);

impl Words {
    pub fn new(count: usize) -> Self {
        Self(memory::by_line(|| (0..count).map(|_| AtomicU32::new(0)).collect()))
    }

    pub fn word(&self, number: usize) -> GuestWord<'_, Self> {
        GuestWord::new(self, BASE + 4 * number as u64, Width::U32).expect("aligned")
    }

    pub fn host(&self, number: usize) -> &AtomicU32 {
        &self.0[number]
    }

    fn at(&self, address: u64) -> Result<&AtomicU32, Fault> {
        let offset = address.checked_sub(BASE).ok_or(Fault)?;
        self.0.get(offset as usize / 4).ok_or(Fault)
    }
}

impl UserMemory for Words {
    fn load(&self, address: u64, _width: Width) -> Result<u64, Fault> {
        Ok(self.at(address)?.load(Ordering::Acquire).into())
    }

    fn compare_exchange(&self, address: u64, _width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let (done, not) = (Ordering::AcqRel, Ordering::Acquire);
        let result = self.at(address)?.compare_exchange(current as u32, new as u32, done, not);
        Ok(result.map(u64::from).map_err(u64::from))
    }

    fn fault_in(&self, _address: u64, _access: Access) -> Result<(), Fault> {
        Err(Fault)
    }
}

pub fn epyc() -> Topology {
    Topology::given("epyc-9d64").expect("it is given")
}

/// Makes a domain with `buckets` buckets. 0 means the global table.
pub fn domain(scheme: Scheme, buckets: usize) -> Box<Domain> {
    let domain = memory::by_line(|| {
        let config = SystemConfig::new().hash_seed(7).cpus(epyc().cpus());
        let system = System::with_config(config).expect("a valid configuration");
        Box::new(Domain::with_options(
            &system,
            DomainOptions::new().scheme(scheme).policy(Policy::Fixed(buckets)).early_return(false),
        ))
    });
    domain.name_objects();
    domain
}
