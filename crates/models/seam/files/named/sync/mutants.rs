//! Switches for faults on real threads: the environment names one.

use core::sync::atomic::{AtomicU8, Ordering};
extern crate std;

/// A fault of the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code)]
pub enum Mutant {
    // The faults.
}

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// By the number of the mutant.
static STATES: [AtomicU8; 256] = [const { AtomicU8::new(UNKNOWN) }; 256];

/// Whether `UFUTEX_MUTANT` is the name of `mutant`.
pub fn mutant(mutant: Mutant) -> bool {
    let state = &STATES[mutant as usize];
    if state.load(Ordering::Relaxed) == UNKNOWN {
        let is_named = std::env::var("UFUTEX_MUTANT").is_ok_and(|name| name == std::format!("{mutant:?}"));
        state.store(if is_named { ON } else { OFF }, Ordering::Relaxed);
    }
    state.load(Ordering::Relaxed) == ON
}
