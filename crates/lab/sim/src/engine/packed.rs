//! The engine with the layout `packed`.

use ufutex_sim_packed as engine;

#[path = "domain.rs"]
pub mod domain;
