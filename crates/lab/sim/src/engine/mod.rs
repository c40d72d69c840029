//! The engine on virtual cores: domains of any scheme and layout, and the words that their threads wait on.
//!
//! Each bucket layout is a package of its own, with the engine's source compiled for it over the model's atomics, so
//! `domain.rs` is compiled for each of them.

#![expect(clippy::duplicate_mod, reason = "each time with another package as `engine`")]

mod lean;
mod packed;
mod split;

use crate::settings::{Scheme, Settings};
use anyhow::Result;
use lab_targets::{Layout, Policy};
use std::time::Duration;

/// Cycles of an operation's instructions that touch no shared memory: the time of one thread's operation, measured on
/// this project's machine, less what the model charges for its loads, stores and locked instructions.
pub const PLAIN_CYCLES: f64 = 8.0;

/// The parameters of one run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The engine's scheme.
    pub scheme: Scheme,
    /// The layout of a bucket.
    pub layout: Layout,
    /// The size policy of the table.
    pub policy: Policy,
    /// Number of virtual cores.
    pub cores: usize,
}

/// How the domains of a run are made.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The scheme.
    pub scheme: Scheme,
    /// The size policy of their tables.
    pub policy: Policy,
    /// Whether a wait compares the word before it locks the bucket, too.
    pub early_return: bool,
    /// How long a thread may spin before it sleeps.
    pub spin: Duration,
    /// The seed of the hash.
    pub seed: u64,
    /// Number of CPUs of the machine.
    pub cpus: usize,
}

/// Memory of virtual threads in which futex words lie. `None` for an address at which it has no word.
pub trait Memory {
    /// Reads a word.
    fn load(&self, address: u64) -> Option<u32>;
    /// Writes `new` if the word is `current`. Returns the value found, as an error if it differs.
    fn compare_exchange(&self, address: u64, current: u32, new: u32) -> Option<Result<u32, u32>>;
}

/// A futex word of a virtual thread, as a domain gets it.
#[derive(Clone, Copy)]
pub struct Word<'m> {
    /// Its memory.
    pub memory: &'m dyn Memory,
    /// Its address.
    pub address: u64,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The thread slept, and another thread woke it.
    Woken,
    /// The word had another value.
    Differs,
    /// Any other result.
    Failed,
}

/// A domain of any scheme and layout.
pub trait Domain {
    /// Sleeps if the word has the expected value.
    fn wait(&self, word: Word<'_>, expected: u32) -> Waited;
    /// Wakes up to `count` waiters. Returns how many.
    fn wake(&self, word: Word<'_>, count: usize) -> usize;
    /// Resizes the table. Returns whether it was resized, and not given up because `keep_trying` returned `false`.
    fn set_slots_while(&self, slots: usize, keep_trying: &mut dyn FnMut() -> bool) -> Result<bool>;
    /// Notes the number of threads, for the size policy.
    fn note_threads(&self, threads: usize);
    /// Number of buckets in use.
    fn buckets(&self) -> usize;
}

/// Makes `count` domains in one system, and names what the model is to report of them.
pub fn make(layout: Layout, wanted: Wanted, count: usize) -> Result<Vec<Box<dyn Domain>>> {
    match layout {
        Layout::Lean => lean::domain::make(wanted, count),
        Layout::Packed => packed::domain::make(wanted, count),
        Layout::Split => split::domain::make(wanted, count),
    }
}

/// Makes the domain of a case.
pub fn of_case(settings: &Settings, case: Case) -> Result<Box<dyn Domain>> {
    let wanted = Wanted {
        scheme: case.scheme,
        policy: case.policy,
        early_return: settings.early_return,
        spin: Duration::ZERO,
        seed: settings.seed,
        cpus: settings.topology.cpus(),
    };
    let domain = make(case.layout, wanted, 1)?.remove(0);
    domain.note_threads(case.cores);
    Ok(domain)
}
