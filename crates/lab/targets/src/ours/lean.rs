//! The engine with the layout `lean`.

use ufutex as engine;

#[path = "domain.rs"]
pub mod domain;
#[path = "memory.rs"]
pub mod memory;
