//! A file of a copy, which knows where the engine's own text has gone.

use std::ops::Range;

/// A file of a copy.
pub struct File {
    /// Its path below the source.
    pub path: String,
    text: String,
    /// For each byte, where it was in the engine's file; [`NEW`] if it is not from there.
    origins: Vec<usize>,
}

const NEW: usize = usize::MAX;

impl File {
    /// A file of the engine.
    #[must_use]
    pub fn new(path: &str, text: String) -> Self {
        Self { path: path.to_string(), origins: (0..text.len()).collect(), text }
    }

    /// A file that the engine does not have.
    #[must_use]
    pub fn another(path: &str, text: String) -> Self {
        Self { path: path.to_string(), origins: vec![NEW; text.len()], text }
    }

    /// What is in it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Inserts `text` at this byte.
    pub fn insert(&mut self, at: usize, text: &str) {
        self.replace(at..at, text);
    }

    /// Puts `text` in place of these bytes.
    pub fn replace(&mut self, range: Range<usize>, text: &str) {
        self.text.replace_range(range.clone(), text);
        self.origins.splice(range, std::iter::repeat_n(NEW, text.len()));
    }

    /// Where a piece of the engine's file is now, if it is still there.
    #[must_use]
    pub fn place_of(&self, piece: Range<usize>) -> Option<Range<usize>> {
        let start = self.origins.iter().position(|&origin| origin == piece.start)?;
        let last = self.origins.iter().position(|&origin| origin == piece.end - 1)?;
        Some(start..last + 1)
    }
}
