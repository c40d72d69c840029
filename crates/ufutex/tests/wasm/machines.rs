//! The suite's machines: the engine on several kinds of memories.

use ufutex::Domain;
use ufutex::wasm::{Atomics, LinearMemory, Trap, Waited};

use crate::common::domains::domain;
use crate::common::platforms::park_thread;
use crate::common::waker::block_on_by;
use crate::memories::{GuestMemory, Movable, Reserved};
use crate::suite::Machine;

/// A memory and its domain.
pub struct Owned<G> {
    pub domain: Domain,
    pub memory: G,
}

impl<G: GuestMemory> Owned<G> {
    pub fn atomics(&self) -> Atomics<'_, G> {
        Atomics::new(&self.domain, &self.memory)
    }
}

/// A memory that never moves and has a domain of its own.
pub type Alone = Owned<Reserved>;
/// A memory that moves when it grows and has a domain of its own.
pub type Moving = Owned<Movable>;

macro_rules! of_the_guest {
    ($($memory:tt).+) => {
        fn grow(&self, pages: u64) -> bool {
            self.$($memory).+.grow(pages)
        }
        fn bytes(&self) -> u64 {
            LinearMemory::bytes(&self.$($memory).+)
        }
        fn store32(&self, address: u64, value: u32) {
            self.$($memory).+.store32(address, value);
        }
        fn store64(&self, address: u64, value: u64) {
            self.$($memory).+.store64(address, value);
        }
        fn compare_exchange32(&self, address: u64, current: u32, new: u32) -> u32 {
            self.$($memory).+.compare_exchange32(address, current, new)
        }
    };
}

impl<G: GuestMemory> Machine for Owned<G> {
    fn new(pages: u64, maximum: u64) -> Self {
        Self { domain: domain(), memory: G::with_pages(pages, maximum) }
    }
    fn wait32(&self, address: u64, expected: u32, timeout: i64) -> Result<Waited, Trap> {
        self.atomics().wait32(address, expected, timeout)
    }
    fn wait64(&self, address: u64, expected: u64, timeout: i64) -> Result<Waited, Trap> {
        self.atomics().wait64(address, expected, timeout)
    }
    fn notify(&self, address: u64, count: u32) -> Result<u32, Trap> {
        self.atomics().notify(address, count)
    }
    of_the_guest!(memory);
}

/// One of two memories in one domain, which differ by number. Each notify is also made in the second memory, which has
/// no waiters.
pub struct Numbered {
    domain: Domain,
    memory: Reserved,
    other: Reserved,
}

impl Machine for Numbered {
    fn new(pages: u64, maximum: u64) -> Self {
        let numbered = |id| Reserved::with_pages(pages, maximum).numbered(id);
        Self { domain: domain(), memory: numbered(1), other: numbered(2) }
    }
    fn wait32(&self, address: u64, expected: u32, timeout: i64) -> Result<Waited, Trap> {
        Atomics::new(&self.domain, &self.memory).wait32(address, expected, timeout)
    }
    fn wait64(&self, address: u64, expected: u64, timeout: i64) -> Result<Waited, Trap> {
        Atomics::new(&self.domain, &self.memory).wait64(address, expected, timeout)
    }
    fn notify(&self, address: u64, count: u32) -> Result<u32, Trap> {
        let elsewhere = Atomics::new(&self.domain, &self.other).notify(address, u32::MAX);
        assert!(matches!(elsewhere, Ok(0) | Err(_)), "{elsewhere:?}: the other memory's waiters were woken");
        Atomics::new(&self.domain, &self.memory).notify(address, count)
    }
    of_the_guest!(memory);
}

/// A memory whose waits are futures, each polled by a thread that parks between polls.
pub struct AsFuture(Alone);

impl Machine for AsFuture {
    fn new(pages: u64, maximum: u64) -> Self {
        Self(Alone::new(pages, maximum))
    }
    fn wait32(&self, address: u64, expected: u32, timeout: i64) -> Result<Waited, Trap> {
        block_on_by(park_thread, self.0.atomics().wait32_async(address, expected, timeout)?)
    }
    fn wait64(&self, address: u64, expected: u64, timeout: i64) -> Result<Waited, Trap> {
        block_on_by(park_thread, self.0.atomics().wait64_async(address, expected, timeout)?)
    }
    fn notify(&self, address: u64, count: u32) -> Result<u32, Trap> {
        self.0.notify(address, count)
    }
    of_the_guest!(0.memory);
}
