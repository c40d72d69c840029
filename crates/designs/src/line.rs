//! Alignment that gives a value cache lines of its own.

/// Keeps a word that one thread writes off the lines that others use. It takes two lines, because the prefetcher
/// fetches pairs.
#[repr(align(128))]
#[derive(Default)]
pub struct OwnLine<T>(pub T);
