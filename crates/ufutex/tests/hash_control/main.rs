//! Setting and reading the size of a private hash table: `prctl(PR_FUTEX_HASH)` on the host's kernel and on a domain,
//! and the native functions of a domain.

include!("../common/engine.rs");

#[path = "../common/mod.rs"]
mod common;

#[cfg_attr(not(target_os = "linux"), path = "host_elsewhere.rs")]
mod host;
mod native;
mod prctl;
mod waiters;
