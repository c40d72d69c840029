//! The engine on virtual cores: it works, it is deterministic, and its schemes differ as expected.

mod hash;
mod sleep;
mod support;

#[global_allocator]
static ALLOCATOR: ufutex_coherence::memory::Allocator = ufutex_coherence::memory::Allocator;
