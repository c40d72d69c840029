//! WebAssembly's atomic waits and notifies in two runtimes: our engine and wasmtime.

#[cfg(feature = "wasmtime")]
mod wasmtime;

use super::loops::Tally;
use super::{Operation, Shape};
use anyhow::Result;
use lab_measure::clock;
use lab_measure::pool::Gate;
use std::sync::Arc;
use std::time::Instant;

/// The expected value of the waits. The words hold 0.
const DIFFERING_VALUE: u32 = 1234;
/// Operations between two checks of the stop flag.
const BATCH: usize = 1024;
/// Bytes of a WebAssembly page.
pub(crate) const PAGE: u64 = 65536;

/// The words of one worker in a linear memory.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// Address of the first word.
    pub first: u64,
    /// Bytes from one word to the next.
    pub stride: u64,
    /// Number of words.
    pub count: u64,
}

impl Addresses {
    /// Address after the last word.
    pub fn end(&self) -> u64 {
        self.first + (self.count - 1) * self.stride + size_of::<u32>() as u64
    }
}

/// A runtime's shared memory.
pub trait Runtime: Send + Sync + 'static {
    /// `memory.atomic.wait32` without a timeout. Returns whether the word differed.
    fn wait_differs(&self, address: u64, expected: u32) -> bool;

    /// `memory.atomic.notify` with a count of one. Returns whether there was no waiter.
    fn notify_without_waiters(&self, address: u64) -> bool;

    /// Number of buckets of the table. `None` if the runtime does not show it.
    fn buckets(&self) -> Option<usize>;
}

/// A runtime behind dynamic dispatch. Each sample is one dynamic call. The loop inside is compiled for the runtime.
pub trait Subject: Send + Sync {
    /// Repeats an operation over the addresses until the gate is stopped.
    fn hammer(&self, operation: Operation, addresses: Addresses, gate: &Gate) -> Tally;
    /// See [`Runtime::buckets`].
    fn buckets(&self) -> Option<usize>;
}

impl<R: Runtime> Subject for R {
    fn hammer(&self, operation: Operation, addresses: Addresses, gate: &Gate) -> Tally {
        match operation {
            Operation::WaitDiffers => hammer(addresses, gate, |at| self.wait_differs(at, DIFFERING_VALUE)),
            Operation::WakeNoWaiter => hammer(addresses, gate, |at| self.notify_without_waiters(at)),
        }
    }

    fn buckets(&self) -> Option<usize> {
        Runtime::buckets(self)
    }
}

/// Makes our runtime with a memory of `bytes` bytes.
pub fn ours(shape: &Shape, bytes: u64) -> Result<Arc<dyn Subject>> {
    crate::ours::build_wasm(shape, bytes)
}

/// Makes wasmtime's. `None` if it was not compiled in.
pub fn wasmtime(bytes: u64) -> Result<Option<Arc<dyn Subject>>> {
    #[cfg(feature = "wasmtime")]
    return wasmtime::build(bytes).map(Some);
    #[cfg(not(feature = "wasmtime"))]
    {
        let _ = bytes;
        Ok(None)
    }
}

/// Repeats an operation on one address after the other. Counts at least one batch. A batch before the gate is not
/// counted: it brings back the cache lines that other runtimes' samples have evicted.
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

// Not inlined, for each runtime and operation, so that the loop around does not change its register allocation.
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
