//! WebAssembly's `memory.atomic.wait` and `notify`: every result and trap of the specification, on memories that never
//! move, memories that move, memories that share a domain, and with futures. Then features that only this engine has.
//!
//! The bodies in `suite` also run on wasmtime: see `crates/lab/tests/wasmtime`.

#[path = "../common/mod.rs"]
mod common;

mod domains;
mod futures;
mod interrupt;
mod machines;
mod memories;
mod refusals;
mod suite;
mod unshared;

use machines::{Alone, AsFuture, Moving, Numbered};

suite::on_machines! {
    alone: Alone;
    moving: Moving;
    numbered: Numbered;
    as_future: AsFuture;
}
