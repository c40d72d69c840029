//! Setting and asking for the size of a table: `prctl(PR_FUTEX_HASH)` on the host's kernel and on a domain, and what
//! the native calls do beyond it.

#[path = "../common/mod.rs"]
mod common;

mod host;
mod native;
mod prctl;
mod waiters;
