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

    /// Where a piece of the engine's file, an expression or statements, is now, if it is still there. What an edit has put
    /// around its beginning or its end alone belongs to it.
    #[must_use]
    pub fn place_of(&self, piece: Range<usize>) -> Option<Range<usize>> {
        let start = self.origins.iter().position(|&origin| origin == piece.start)?;
        let end = self.origins.iter().position(|&origin| origin == piece.end - 1)? + 1;
        let is_new = |origin: &&usize| **origin == NEW;
        let before = start - self.origins[..start].iter().rev().take_while(is_new).count();
        let behind = end + self.origins[end..].iter().take_while(is_new).count();
        [start..end, before..end, start..behind].into_iter().find(|place| is_whole(&self.text[place.clone()]))
    }
}

/// Whether each bracket that is opened in `text` is closed there, and the other way round.
fn is_whole(text: &str) -> bool {
    let mut open = Vec::new();
    for c in text.chars() {
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(c) => return false,
            _ => {}
        }
    }
    open.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_around_one_end_of_a_piece_belongs_to_it() {
        let mut file = File::new("", "a(b).c(d).e".into());
        // `(if M { a(b) } else { x })` in place of `a(b)`.
        file.insert(4, " } else { x })");
        file.insert(0, "(if M { ");
        let piece = |place: Range<usize>| file.place_of(place).map(|place| &file.text()[place]);
        assert_eq!(piece(0..4), Some("a(b)"));
        assert_eq!(piece(0..9), Some("(if M { a(b) } else { x }).c(d)"));
        assert_eq!(piece(5..9), Some("c(d)"));
        let mut file = File::new("", "f(g)".into());
        file.insert(4, " }");
        file.insert(2, "{ ");
        assert_eq!(file.place_of(0..4), None, "the brackets cross");
    }
}
