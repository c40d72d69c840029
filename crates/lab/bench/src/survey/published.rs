//! The published comparisons by stand-ins: schemes and layouts of the engine, with as many threads as there are CPUs.

use super::hammer::{self, Measured, Spec};
use super::{Effort, resize};
use crate::Lab;
use anyhow::Result;
use lab_targets::Policy;
use lab_targets::{Layout, Name};

const PAIRS_SECONDS: f64 = 12.0;
const TABLE_SECONDS: f64 = 18.0;

/// Threads of the first table of [private-hash].
pub const TABLE_THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// The slots of that table.
pub const TABLE_SLOTS: [usize; 7] = [4, 8, 16, 32, 64, 128, 256];

/// Results.
pub struct Published {
    /// The sides of all comparisons.
    pub sides: Vec<Measured>,
    /// The first table of [private-hash].
    pub table: Vec<Measured>,
    /// Notes on what was left out and on disturbed samples.
    pub notes: Vec<String>,
}

/// Measures the pairs and the table.
pub fn run(lab: &Lab<'_>, effort: Effort) -> Result<Published> {
    let most = if effort.is_quick() { 2 } else { usize::MAX };
    let (sides, mut notes) = hammer::run(lab, "published: pairs", &sides(lab.cpus.len()), effort, PAIRS_SECONDS)?;
    let (table, more) = hammer::run(lab, "published: sizes by threads", &table(most), effort, TABLE_SECONDS)?;
    notes.extend(more);
    notes.dedup();
    Ok(Published { sides, table, notes })
}

/// Slots of the table that does not wait for a resize, in the comparison of the stall.
pub const STALL_SLOTS: usize = 256;

/// Every side once, with a thread on each CPU. Those of the stall have the threads of the resize.
fn sides(threads: usize) -> Vec<Spec> {
    let mut all = Vec::new();
    let mut add = |name, layout, policy| {
        let spec = Spec { layout, ..Spec::waits(name, policy, threads) };
        if !all.contains(&spec) {
            all.push(spec);
        }
    };
    for buckets in [256, 512, 1024, 2048, 4096] {
        add(Name::Live, Layout::Packed, Policy::Fixed(buckets));
        add(Name::Live, Layout::Lean, Policy::Fixed(buckets));
    }
    add(Name::Live, Layout::Split, Policy::Fixed(256));
    add(Name::Fixed, Layout::Lean, Policy::Fixed(512));
    add(Name::PerCpu, Layout::Lean, Policy::Fixed(512));
    add(Name::Global, Layout::Lean, Policy::Fixed(16));
    let mut stall = vec![Name::PerCpu];
    stall.extend(lab_targets::kernel_has_private_hash().then_some(Name::Kernel));
    let stall = stall.into_iter().map(|name| Spec::waits(name, Policy::Fixed(STALL_SLOTS), resize::threads(threads)));
    all.extend(stall);
    all
}

/// At most `most_threads` threads: the engine's and the kernel's table at each size, and both global tables.
fn table(most_threads: usize) -> Vec<Spec> {
    let mut all = Vec::new();
    for threads in TABLE_THREADS.into_iter().filter(|threads| *threads <= most_threads) {
        all.push(Spec::waits(Name::Global, Policy::Fixed(16), threads));
        all.extend(TABLE_SLOTS.map(|slots| Spec::waits(Name::Live, Policy::Fixed(slots), threads)));
        all.push(Spec { shared: true, ..Spec::waits(Name::Kernel, Policy::Fixed(16), threads) });
        if lab_targets::kernel_has_private_hash() {
            all.extend(TABLE_SLOTS.map(|slots| Spec::waits(Name::Kernel, Policy::Fixed(slots), threads)));
        }
    }
    all
}
