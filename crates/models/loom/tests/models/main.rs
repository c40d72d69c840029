//! Models of the engine's own source, explored by loom: all interleavings, and all values that a load may return in the
//! memory model, up to a bound on preemptions. Each model names the labels of ORDERING.md that it checks, and has
//! faults in the engine (`Mutant`) that it must catch.

#[path = "../../../shuttle/tests/models/apart.rs"]
mod apart;
mod support;

mod cancel_resize;
mod first_table;
mod future_drop;
mod future_waker;
mod global;
mod graph;
mod group;
mod handshake;
mod helped_resize;
mod lock;
mod objects;
mod parking;
mod pi;
mod pieces;
mod pivot_counted;
mod pivot_live;
mod requeue;
mod settle;
mod static_domain;
mod timeout;
mod timers;
mod timers_driver;
mod timers_expiry;
mod timers_sleep;
mod timers_table;
mod wait_any;
