//! The engine with the layout `packed`.

use ufutex_packed as engine;

#[path = "domain.rs"]
pub mod domain;
#[path = "memory.rs"]
pub mod memory;
