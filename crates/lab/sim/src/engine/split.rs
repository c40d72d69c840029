//! The engine with the layout `split`.

use ufutex_sim_split as engine;

#[path = "domain.rs"]
pub mod domain;
