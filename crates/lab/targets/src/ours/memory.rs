//! Our engine under a linear memory as a runtime has it: reserved once at a fixed address, with a length that may
//! change.

use super::domain::{OBJECT, config, engine_policy};
use super::engine::wasm::{Atomics, LinearMemory, Waited};
use super::engine::{Domain, DomainOptions, Error, Fault, ObjectId, System, Timeout, WaitOptions};
use crate::wasm::{PAGE, Runtime, Subject};
use crate::{Policy, Shape};
use anyhow::{Result, anyhow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const FOREVER: i64 = -1;

struct Ours {
    memory: Reserved,
    domain: Domain,
    global_slots: Option<usize>,
}

struct Reserved {
    words: Box<[AtomicU64]>,
    bytes: AtomicU64,
    id: Option<ObjectId>,
}

/// Makes a memory of this many bytes, and the domain of its words.
pub fn build(shape: &Shape, bytes: u64) -> Result<Arc<dyn Subject>> {
    let system = System::with_config(config())?;
    let options = DomainOptions::new().policy(engine_policy(shape.policy)).early_return(shape.early_return);
    let bytes = bytes.next_multiple_of(PAGE);
    let memory = Reserved {
        words: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(),
        bytes: AtomicU64::new(bytes),
        id: shape.shared.then_some(OBJECT),
    };
    let global_slots = shape.shared.then(|| system.global_slots());
    Ok(Arc::new(Ours { memory, domain: Domain::with_options(&system, options), global_slots }))
}

/// Slots and bytes of the table that a domain has after one wait.
pub fn table(policy: Policy) -> anyhow::Result<(usize, usize)> {
    let system = System::with_config(config()).map_err(|error| anyhow!("cannot make a system: {error}"))?;
    let domain = Domain::with_options(&system, DomainOptions::new().policy(engine_policy(policy)));
    let word = AtomicU32::new(0);
    match domain.wait_with(&word, 0, &WaitOptions::new().timeout(Timeout::After(Duration::ZERO))) {
        Err(Error::TimedOut) => Ok((domain.slots(), domain.table_bytes())),
        other => Err(anyhow!("a wait with a timeout of zero ended with {other:?}")),
    }
}

impl Runtime for Ours {
    #[inline(always)]
    fn wait_differs(&self, address: u64, expected: u32) -> bool {
        Atomics::new(&self.domain, &self.memory).wait32(address, expected, FOREVER) == Ok(Waited::NotEqual)
    }

    #[inline(always)]
    fn notify_without_waiters(&self, address: u64) -> bool {
        Atomics::new(&self.domain, &self.memory).notify(address, 1) == Ok(0)
    }

    fn buckets(&self) -> Option<usize> {
        Some(self.global_slots.unwrap_or_else(|| self.domain.slots()))
    }
}

impl LinearMemory for Reserved {
    #[inline(always)]
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst) // [Lh]
    }
    #[inline(always)]
    fn load32(&self, address: u64) -> Result<u32, Fault> {
        let word = self.words.get(address as usize / 8).ok_or(Fault)?;
        // SAFETY: one half of a word of eight bytes that lives as long as `self`. A guest mixes both widths too, and
        // here there are only loads.
        let half = unsafe { &*std::ptr::from_ref(word).cast::<AtomicU32>().add(address as usize % 8 / 4) };
        Ok(half.load(Ordering::SeqCst)) // [Lh]
    }
    #[inline(always)]
    fn load64(&self, address: u64) -> Result<u64, Fault> {
        // [Lh]
        self.words.get(address as usize / 8).map(|word| word.load(Ordering::SeqCst)).ok_or(Fault)
    }
    #[inline(always)]
    fn id(&self) -> Option<ObjectId> {
        self.id
    }
}
