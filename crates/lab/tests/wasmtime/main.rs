//! wasmtime's public `SharedMemory` beside our engine: test bodies that both must pass, and random programs that must
//! have the same results on both.
//!
//! `cargo test -p lab --features wasmtime --test wasmtime`

#[path = "../../../ufutex/tests/common/mod.rs"]
mod common;
#[path = "../../../ufutex/tests/wasm/machines.rs"]
#[allow(dead_code, reason = "one of them")]
mod machines;
#[path = "../../../ufutex/tests/wasm/memories.rs"]
#[allow(dead_code, reason = "one of them")]
mod memories;
#[path = "../../../ufutex/tests/wasm/suite/mod.rs"]
mod suite;

mod differential;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use suite::Machine;
use ufutex::wasm::{Trap, Waited};
use wasmtime::{Config, Engine, MemoryType, SharedMemory, WaitResult};

/// A shared memory of wasmtime.
struct Wasmtime(SharedMemory);

impl Wasmtime {
    fn word32(&self, address: u64) -> &AtomicU32 {
        let bytes = &self.0.data()[address as usize..][..4];
        // SAFETY: four bytes of the memory, aligned because `address` is. It is never moved; tests use atomics.
        unsafe { AtomicU32::from_ptr(bytes.as_ptr().cast_mut().cast()) }
    }

    fn word64(&self, address: u64) -> &AtomicU64 {
        let bytes = &self.0.data()[address as usize..][..8];
        // SAFETY: as above, with eight bytes.
        unsafe { AtomicU64::from_ptr(bytes.as_ptr().cast_mut().cast()) }
    }
}

fn limit(timeout: i64) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_nanos)
}

fn trap(trap: wasmtime::Trap) -> Trap {
    match trap {
        wasmtime::Trap::HeapMisaligned => Trap::Unaligned,
        wasmtime::Trap::MemoryOutOfBounds => Trap::OutOfBounds,
        other => panic!("{other:?} is none of these instructions'"),
    }
}

fn waited(result: Result<WaitResult, wasmtime::Trap>) -> Result<Waited, Trap> {
    let waited = |result| match result {
        WaitResult::Ok => Waited::Ok,
        WaitResult::Mismatch => Waited::NotEqual,
        WaitResult::TimedOut => Waited::TimedOut,
    };
    result.map(waited).map_err(trap)
}

impl Machine for Wasmtime {
    fn new(pages: u64, maximum: u64) -> Self {
        let mut config = Config::new();
        config.wasm_threads(true).shared_memory(true);
        let engine = Engine::new(&config).expect("the engine");
        let memory = MemoryType::shared(pages as u32, maximum as u32);
        Self(SharedMemory::new(&engine, memory).expect("the memory"))
    }
    fn grow(&self, pages: u64) -> bool {
        self.0.grow(pages).is_ok()
    }
    fn bytes(&self) -> u64 {
        self.0.data_size() as u64
    }
    fn store32(&self, address: u64, value: u32) {
        self.word32(address).store(value, SeqCst);
    }
    fn store64(&self, address: u64, value: u64) {
        self.word64(address).store(value, SeqCst);
    }
    fn compare_exchange32(&self, address: u64, current: u32, new: u32) -> u32 {
        self.word32(address).compare_exchange(current, new, SeqCst, SeqCst).unwrap_or_else(|other| other)
    }
    fn wait32(&self, address: u64, expected: u32, timeout: i64) -> Result<Waited, Trap> {
        waited(self.0.atomic_wait32(address, expected, limit(timeout)))
    }
    fn wait64(&self, address: u64, expected: u64, timeout: i64) -> Result<Waited, Trap> {
        waited(self.0.atomic_wait64(address, expected, limit(timeout)))
    }
    fn notify(&self, address: u64, count: u32) -> Result<u32, Trap> {
        self.0.atomic_notify(address, count).map_err(trap)
    }
}

suite::on_machines! {
    theirs: Wasmtime;
    ours: machines::Alone;
}
