//! Random programs of futex system calls, run on the host kernel, on the engine, and on a plain model of their meaning.
//! After each step all three must agree on which calls have returned with which result, which workers are blocked, and
//! the values of the words.
//!
//! `UFUTEX_FUZZ_PROGRAMS` sets the number of programs and `UFUTEX_FUZZ_SEED` the seed of the generator. The test stops
//! after `UFUTEX_FUZZ_FAILURES` failures. A failing program is shrunk and printed as Rust code, to be pasted into
//! `named.rs`.
//!
//! Promise: hostile calls

include!("../common/engine.rs");

#[path = "../common/mod.rs"]
mod common;

mod compare;
mod engine;
mod generate;
#[cfg(target_arch = "x86_64")]
mod kernel;
mod layout;
mod memory;
mod model;
mod named;
mod program;
mod resolve;
mod shrink;
mod suite;
mod workers;

use common::random::number;

#[test]
fn random_programs_do_the_same_everywhere() {
    let mut suite = suite::Suite::new();
    let count = number("UFUTEX_FUZZ_PROGRAMS", if suite.is_fast() { 5000 } else { 500 });
    let (seed, most) = (number("UFUTEX_FUZZ_SEED", 1), number("UFUTEX_FUZZ_FAILURES", 1));
    suite.check_random(seed, count, most as usize);
}
