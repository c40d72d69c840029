//! Random programs of futex system calls, on the host kernel, on the engine, and on a plain model of what they mean:
//! after each step all must agree about who has returned with what, who is blocked, and what the words hold.
//!
//! `UFUTEX_FUZZ_PROGRAMS` sets how many programs are run, `UFUTEX_FUZZ_SEED` which ones, and
//! `UFUTEX_FUZZ_FAILURES` how many of them may fail before it ends. One that fails is made smaller
//! and printed as Rust, for `named.rs`.

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
mod rng;
mod shrink;
mod suite;
mod workers;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{variable}={value:?} is no number")))
}

#[test]
fn random_programs_do_the_same_everywhere() {
    let mut suite = suite::Suite::new();
    let count = number("UFUTEX_FUZZ_PROGRAMS", if suite.is_fast() { 5000 } else { 500 });
    let (seed, most) = (number("UFUTEX_FUZZ_SEED", 1), number("UFUTEX_FUZZ_FAILURES", 1));
    suite.check_random(seed, count, most as usize);
}
