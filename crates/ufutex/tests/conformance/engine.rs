//! The suite's target for the engine, with each scheme and kind of key.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use ufutex::{At, Domain, DomainOptions, Error, ObjectId, Policy, WaitOptions};

use crate::common::asleep::Call;
use crate::common::domains::{system, system_on};
use crate::common::platforms::Watched;
use crate::futex::{Errno, Futex, How, Sharing};

/// The kind of key of a shared word.
#[derive(Clone, Copy)]
enum SharedKeys {
    Object(ObjectId),
    AddressSpace,
}

struct Engine {
    domain: Domain,
    sharing: Sharing,
    shared_keys: SharedKeys,
}

/// Domain options. With `early_return` a wait also compares the word before it locks the bucket.
fn options(early_return: bool) -> DomainOptions {
    DomainOptions::new().early_return(early_return)
}

fn engine(options: DomainOptions, sharing: Sharing, shared_keys: SharedKeys) -> Arc<dyn Futex> {
    Arc::new(Engine { domain: Domain::with_options(&system(), options), sharing, shared_keys })
}

/// Private words in the domain's own table.
pub fn private(early_return: bool) -> Arc<dyn Futex> {
    engine(options(early_return), Sharing::Private, SharedKeys::AddressSpace)
}

/// Private words, whose waiters spin before they sleep.
pub fn spinning(early_return: bool) -> Arc<dyn Futex> {
    engine(options(early_return).spin(Duration::from_millis(1)), Sharing::Private, SharedKeys::AddressSpace)
}

/// Private words on the platform that any standard library is enough for.
pub fn any_std(early_return: bool) -> Arc<dyn Futex> {
    let domain = Domain::with_options(&system_on::<Watched>(), options(early_return));
    Arc::new(Engine { domain, sharing: Sharing::Private, shared_keys: SharedKeys::AddressSpace })
}

/// Private words in the system's table.
pub fn global(early_return: bool) -> Arc<dyn Futex> {
    engine(options(early_return).policy(Policy::Fixed(0)), Sharing::Private, SharedKeys::AddressSpace)
}

/// Words in a shared object.
pub fn object(early_return: bool) -> Arc<dyn Futex> {
    let id = ObjectId::new(7).expect("small enough");
    engine(options(early_return), Sharing::Shared, SharedKeys::Object(id))
}

/// Words in the domain's own memory, without `FUTEX_PRIVATE_FLAG`.
pub fn address_space(early_return: bool) -> Arc<dyn Futex> {
    engine(options(early_return), Sharing::Shared, SharedKeys::AddressSpace)
}

impl Engine {
    /// `word` as a shared target. The object stands for the whole address space, so the offset is the address.
    fn shared<'w>(&self, word: &'w AtomicU32) -> At<&'w AtomicU32> {
        match self.shared_keys {
            SharedKeys::Object(id) => At::object(word, id, word.as_ptr().addr() as u64),
            SharedKeys::AddressSpace => At::address_space(word),
        }
    }
}

impl Futex for Engine {
    fn sharing(&self) -> Sharing {
        self.sharing
    }

    fn wait_as(&self, sharing: Sharing, word: &AtomicU32, expected: u32, how: How) -> Result<(), Errno> {
        let bitset = NonZeroU32::new(how.bitset).expect("a bitset is not zero");
        let mut options = WaitOptions::new().bitset(bitset).realtime_priority(how.priority);
        if let Some(timeout) = how.timeout {
            options = options.timeout(timeout);
        }
        let result = match sharing {
            Sharing::Private => self.domain.wait_with(word, expected, &options),
            Sharing::Shared => self.domain.wait_with(self.shared(word), expected, &options),
        };
        result.map_err(Error::errno)
    }

    fn wake_as(&self, sharing: Sharing, word: &AtomicU32, count: usize, bitset: u32) -> usize {
        let bitset = NonZeroU32::new(bitset).expect("a bitset is not zero");
        match sharing {
            Sharing::Private => self.domain.wake_bitset(word, count, bitset),
            Sharing::Shared => self.domain.wake_bitset(self.shared(word), count, bitset),
        }
    }

    fn sleeps_in(&self, call: Call, _word: &AtomicU32) -> bool {
        call.is_of_the_engine()
    }
}
