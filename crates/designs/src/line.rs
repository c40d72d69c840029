//! A line of its own.

/// Keeps a word that one thread writes off the lines that others use (two lines: the prefetcher fetches pairs).
#[repr(align(128))]
#[derive(Default)]
pub struct OwnLine<T>(pub T);
