//! The engine on virtual cores: it works there, it does the same each time, and its schemes differ as they must.

// A build script's tests are run by nobody: its module has them here.
#[allow(dead_code, reason = "only the build script calls table_of")]
#[path = "../../build/functions.rs"]
mod functions;
mod hash;
mod sleep;
mod support;

#[global_allocator]
static ALLOCATOR: ufutex_coherence::memory::Allocator = ufutex_coherence::memory::Allocator;
