//! The bytes of tables, domains and waiters.

use crate::{Lab, Memory, memory};
use anyhow::{Result, anyhow, ensure};
use serde::Serialize;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use ufutex::layout::{Layout, Lean, Packed, Split};
use ufutex::scheme::Live;
use ufutex::{Config, Domain, Error, Options, Policy, System, Timeout, WaitOptions};

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
        buckets: vec![("lean", bucket::<Lean>()?), ("packed", bucket::<Packed>()?), ("split", bucket::<Split>()?)],
        memory: memory::run(lab)?,
        first_table: table::<Lean>(Policy::Load)?.1,
    })
}

fn bucket<L: Layout>() -> Result<f64> {
    let bytes = |buckets: usize| -> Result<usize> {
        let (slots, bytes) = table::<L>(Policy::Fixed(buckets))?;
        ensure!(slots == buckets, "requested {buckets} buckets, got {slots}");
        Ok(bytes)
    };
    Ok((bytes(2 * BUCKETS)? as f64 - bytes(BUCKETS)? as f64) / BUCKETS as f64)
}

/// Slots and bytes of a table after one wait.
fn table<L: Layout>(policy: Policy) -> Result<(usize, usize)> {
    let system =
        System::<L>::with_config_in(Config::new()).map_err(|error| anyhow!("cannot make a system: {error}"))?;
    let domain = Domain::<Live, L>::with_options_in(&system, Options::new().policy(policy));
    let word = AtomicU32::new(0);
    match domain.wait_with(&word, 0, &WaitOptions::new().timeout(Timeout::After(Duration::ZERO))) {
        Err(Error::TimedOut) => Ok((domain.slots(), domain.table_bytes())),
        other => Err(anyhow!("a wait with a timeout of zero ended with {other:?}")),
    }
}
