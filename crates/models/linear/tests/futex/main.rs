//! Random programs of futex calls on threads that run at the same time: on the engine and on futex(2).

#[path = "../../../../ufutex/tests/common/mod.rs"]
mod common;
#[path = "../../../../ufutex/tests/differential/layout.rs"]
#[allow(dead_code, reason = "of the differential tests")]
mod layout;
#[path = "../../../../ufutex/tests/differential/model/mod.rs"]
#[allow(dead_code, reason = "of the differential tests")]
mod model;
#[path = "../../../../ufutex/tests/differential/program.rs"]
#[allow(dead_code, reason = "of the differential tests")]
mod program;
#[path = "../../../../ufutex/tests/differential/resolve.rs"]
#[allow(dead_code, reason = "of the differential tests")]
mod resolve;

mod corrupted;
mod engine;
mod generate;
#[cfg(target_os = "linux")]
mod kernel;
mod log;
mod named;
mod ops;
mod run;
mod spec;
mod watched;
mod words;
