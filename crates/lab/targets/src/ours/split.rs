//! The engine with the layout `split`.

use ufutex_split as engine;

#[path = "domain.rs"]
pub mod domain;
#[path = "memory.rs"]
pub mod memory;
