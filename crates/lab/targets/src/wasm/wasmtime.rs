//! wasmtime ([wasmtime-48]): the functions behind its instructions, called through its public `SharedMemory`.

use super::{PAGE, Runtime, Subject};
use anyhow::{Result, anyhow};
use std::sync::Arc;
use wasmtime::{Config, Engine, MemoryType, SharedMemory, WaitResult};

struct Wasmtime(SharedMemory);

pub fn build(bytes: u64) -> Result<Arc<dyn Subject>> {
    let pages = u32::try_from(bytes.div_ceil(PAGE))?;
    let mut config = Config::new();
    config.wasm_threads(true).shared_memory(true);
    let memory = Engine::new(&config).and_then(|engine| SharedMemory::new(&engine, MemoryType::shared(pages, pages)));
    Ok(Arc::new(Wasmtime(memory.map_err(|error| anyhow!("wasmtime: {error:#}"))?)))
}

impl Runtime for Wasmtime {
    #[inline(always)]
    fn wait_differs(&self, address: u64, expected: u32) -> bool {
        matches!(self.0.atomic_wait32(address, expected, None), Ok(WaitResult::Mismatch))
    }

    #[inline(always)]
    fn notify_without_waiters(&self, address: u64) -> bool {
        matches!(self.0.atomic_notify(address, 1), Ok(0))
    }

    fn buckets(&self) -> Option<usize> {
        None
    }
}
