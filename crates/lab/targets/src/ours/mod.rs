//! The engine's targets. Each scheme and each bucket layout is a package of its own, with the engine's source compiled for
//! it, so `domain.rs` and `memory.rs` are compiled for each of them.

#![expect(clippy::duplicate_mod, reason = "each time with another package as `engine`")]

mod atomic;
mod fixed;
mod live;
mod packed;
mod percpu;
mod split;

use super::{Layout, Name, Shape, Subject, wasm};
use crate::Policy;
use anyhow::anyhow;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

/// Makes one of our targets.
pub fn build(name: Name, shape: &Shape) -> anyhow::Result<Arc<dyn Subject>> {
    match (name, shape.layout) {
        (Name::Live | Name::Global, Layout::Lean) => live::domain::build(name, shape),
        (Name::Live | Name::Global, Layout::Packed) => packed::domain::build(name, shape),
        (Name::Live | Name::Global, Layout::Split) => split::domain::build(name, shape),
        (Name::Fixed, Layout::Lean) => fixed::domain::build(name, shape),
        (Name::Atomic, Layout::Lean) => atomic::domain::build(name, shape),
        (Name::PerCpu, Layout::Lean) => percpu::domain::build(name, shape),
        (Name::Fixed | Name::Atomic | Name::PerCpu, layout) => Err(anyhow!("{name} has no layout {layout}")),
        (Name::Kernel | Name::ParkingLot | Name::Floor, _) => Err(anyhow!("{name} is no scheme of the engine")),
    }
}

/// Makes a domain under a linear memory of this many bytes.
pub fn build_wasm(shape: &Shape, bytes: u64) -> anyhow::Result<Arc<dyn wasm::Subject>> {
    match shape.layout {
        Layout::Lean => live::memory::build(shape, bytes),
        Layout::Packed => packed::memory::build(shape, bytes),
        Layout::Split => split::memory::build(shape, bytes),
    }
}

/// Slots and bytes of the table that a domain has after one wait.
pub fn table(layout: Layout, policy: Policy) -> anyhow::Result<(usize, usize)> {
    match layout {
        Layout::Lean => live::memory::table(policy),
        Layout::Packed => packed::memory::table(policy),
        Layout::Split => split::memory::table(policy),
    }
}

/// The hash seed of this run, the same for all systems: no scheme gets a luckier one. It differs from run to run.
fn hash_seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one(std::process::id()))
}
