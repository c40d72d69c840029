//! The engine with the scheme `percpu`.

use ufutex_percpu as engine;

#[path = "domain.rs"]
pub mod domain;

fn set_slots(domain: &engine::Domain, slots: usize, keep_trying: impl FnMut() -> bool) -> Result<(), engine::Error> {
    domain.set_slots_while(slots, keep_trying)
}
