//! The engine.

use ufutex as engine;

#[path = "domain.rs"]
pub mod domain;
#[path = "memory.rs"]
pub mod memory;

/// Its resizes wait for no operation.
fn set_slots(domain: &engine::Domain, slots: usize, _keep_trying: impl FnMut() -> bool) -> Result<(), engine::Error> {
    domain.set_slots(slots)
}
