//! The engine on virtual cores: it works there, it does the same each time, and its schemes differ as they must.

mod hash;
mod sleep;
mod support;

#[global_allocator]
static ALLOCATOR: ufutex_coherence::memory::Allocator = ufutex_coherence::memory::Allocator;
