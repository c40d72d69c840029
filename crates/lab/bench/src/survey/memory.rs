//! The bytes of tables, domains and waiters.

use crate::{Lab, Memory, memory};
use anyhow::{Result, ensure};
use lab_targets::{Layout, Policy};
use serde::Serialize;
use strum::VariantArray;

/// The bytes of a bucket come from tables of this many buckets and of twice as many.
const BUCKETS: usize = 1024;

/// The measured sizes.
pub struct Bytes {
    /// Each layout with the bytes of a bucket.
    pub buckets: Vec<(&'static str, f64)>,
    /// The bytes of tables, waiters and an unused domain.
    pub memory: Memory,
    /// The bytes of a domain's table after its first wait.
    pub first_table: usize,
}

/// One row for `--json`.
#[derive(Serialize)]
pub struct MemoryRow {
    workload: &'static str,
    case: String,
    bytes: f64,
}

impl Bytes {
    /// The rows for `--json`.
    pub fn rows(&self) -> Vec<MemoryRow> {
        let row = |case: &str, bytes| MemoryRow { workload: "memory", case: case.to_string(), bytes };
        let mut rows: Vec<_> =
            self.buckets.iter().map(|(layout, bytes)| row(&format!("bucket, {layout}"), *bytes)).collect();
        rows.push(row("domain before its first wait", self.memory.bytes_before_first_wait as f64));
        rows.push(row("domain after its first wait", self.first_table as f64));
        rows.push(row("waiter of a thread", self.memory.bytes_per_waiter as f64));
        rows.push(row("left of a million waits", self.memory.bytes_after_a_million_waits));
        rows
    }
}

/// Reads the sizes from the engine.
pub fn run(lab: &Lab<'_>) -> Result<Bytes> {
    Ok(Bytes {
        buckets: Layout::VARIANTS.iter().map(|&layout| Ok((layout.into(), bucket(layout)?))).collect::<Result<_>>()?,
        memory: memory::run(lab)?,
        first_table: lab_targets::table(Layout::Lean, Policy::Load)?.1,
    })
}

fn bucket(layout: Layout) -> Result<f64> {
    let bytes = |buckets: usize| -> Result<usize> {
        let (slots, bytes) = lab_targets::table(layout, Policy::Fixed(buckets))?;
        ensure!(slots == buckets, "requested {buckets} buckets, got {slots}");
        Ok(bytes)
    };
    Ok((bytes(2 * BUCKETS)? as f64 - bytes(BUCKETS)? as f64) / BUCKETS as f64)
}
