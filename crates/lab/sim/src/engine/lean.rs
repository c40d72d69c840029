//! The engine with the layout `lean`.

use ufutex_sim as engine;

#[path = "domain.rs"]
pub mod domain;
