//! The engine on virtual cores: it works, it is deterministic, and its schemes differ as expected.

// Cargo does not run tests of a build script, so its module is tested here.
#[allow(dead_code, reason = "only the build script calls table_of")]
#[path = "../../build/functions.rs"]
mod functions;
mod hash;
mod sleep;
mod support;

#[global_allocator]
static ALLOCATOR: ufutex_coherence::memory::Allocator = ufutex_coherence::memory::Allocator;
