//! WebAssembly's atomic waits and notifies, as runtimes have them: ours, and wasmtime's.

mod ours;
#[cfg(feature = "wasmtime")]
mod wasmtime;

use super::loops::Tally;
use super::{Operation, Shape};
use anyhow::Result;
use lab_measure::clock;
use lab_measure::pool::Gate;
use std::sync::Arc;
use std::time::Instant;

/// The value that is waited for; the words hold 0.
const DIFFERING_VALUE: u32 = 1234;
/// Operations between two looks at the stop flag.
const BATCH: usize = 1024;
/// Bytes of a page of WebAssembly.
const PAGE: u64 = 65536;

/// Words of a linear memory, for one worker.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The first one.
    pub first: u64,
    /// From one to the next, in bytes.
    pub stride: u64,
    /// How many.
    pub count: u64,
}

impl Addresses {
    /// Where the last one ends.
    pub fn end(&self) -> u64 {
        self.first + (self.count - 1) * self.stride + size_of::<u32>() as u64
    }
}

/// A runtime's shared memory.
pub trait Runtime: Send + Sync + 'static {
    /// `memory.atomic.wait32` without a timeout; whether the word differed.
    fn wait_differs(&self, address: u64, expected: u32) -> bool;

    /// `memory.atomic.notify` of one; whether nobody waited.
    fn notify_nobody(&self, address: u64) -> bool;

    /// How many buckets its table has; none where this cannot be seen.
    fn buckets(&self) -> Option<usize>;
}

/// A runtime as the workload holds it: one dynamic call a sample, none inside it.
pub trait Subject: Send + Sync {
    /// Repeats an operation over the addresses until the gate says stop.
    fn hammer(&self, operation: Operation, addresses: Addresses, gate: &Gate) -> Tally;
    /// See [`Runtime::buckets`].
    fn buckets(&self) -> Option<usize>;
}

impl<R: Runtime> Subject for R {
    fn hammer(&self, operation: Operation, addresses: Addresses, gate: &Gate) -> Tally {
        match operation {
            Operation::WaitDiffers => hammer(addresses, gate, |at| self.wait_differs(at, DIFFERING_VALUE)),
            Operation::WakeNobody => hammer(addresses, gate, |at| self.notify_nobody(at)),
        }
    }

    fn buckets(&self) -> Option<usize> {
        Runtime::buckets(self)
    }
}

/// Ours, on a memory of that many bytes.
pub fn ours(shape: &Shape, bytes: u64) -> Result<Arc<dyn Subject>> {
    ours::build(shape, bytes)
}

/// The rival, if it was compiled in.
pub fn wasmtime(bytes: u64) -> Result<Option<Arc<dyn Subject>>> {
    #[cfg(feature = "wasmtime")]
    return wasmtime::build(bytes).map(Some);
    #[cfg(not(feature = "wasmtime"))]
    {
        let _ = bytes;
        Ok(None)
    }
}

/// Walks over the addresses again and again; one counted batch at least, and one before the gate, which brings back what the
/// runtimes before have pushed out of the caches.
fn hammer(addresses: Addresses, gate: &Gate, step: impl Fn(u64) -> bool) -> Tally {
    let mut next = 0;
    let mut as_expected = batch(addresses, &mut next, &step);
    gate.pass_together();
    let (start, on_cpu) = (Instant::now(), clock::thread_cpu_time());
    let mut operations = 0;
    while operations == 0 || !gate.stopped() {
        as_expected += batch(addresses, &mut next, &step);
        operations += BATCH as u64;
    }
    let (on_cpu, end) = (clock::thread_cpu_time() - on_cpu, Instant::now());
    Tally { operations, start, end, on_cpu, failed: operations + BATCH as u64 - as_expected }
}

// Apart for each runtime and step, so that they do not share their registers with the loop around.
#[inline(never)]
fn batch(addresses: Addresses, next: &mut u64, step: &impl Fn(u64) -> bool) -> u64 {
    let mut as_expected = 0;
    let mut left = BATCH as u64;
    while left > 0 {
        let end = addresses.count.min(*next + left);
        let mut address = addresses.first + *next * addresses.stride;
        for _ in *next..end {
            as_expected += u64::from(step(address));
            address += addresses.stride;
        }
        left -= end - *next;
        *next = if end == addresses.count { 0 } else { end };
    }
    as_expected
}
