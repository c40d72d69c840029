//! Edits: a piece of the engine's text, and what stands in its place in a copy.

use std::fs;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;

use crate::File;

/// Another text in place of a piece of a file.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The file's path below the engine's source.
    pub file: String,
    /// The piece is the first one behind this text. Without it, the piece must be the only one in the file.
    pub behind: Option<String>,
    /// The piece. How it is broken into lines does not matter.
    pub text: String,
    /// What stands in its place. `TEXT` is the piece itself.
    pub with: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edits {
    edit: Vec<Edit>,
}

/// The edits of a file.
pub fn read(path: &Path) -> Vec<Edit> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    toml::from_str::<Edits>(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())).edit
}

impl Edit {
    /// Makes the edit.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn make(&self, file: &mut File) -> Result<(), &'static str> {
        let text = file.text();
        let begin = match &self.behind {
            Some(before) => next(text, 0, before).ok_or("what it is to be behind is not in the file")?.end,
            None => 0,
        };
        let found = next(text, begin, &self.text).ok_or("the text is not in the file")?;
        if self.behind.is_none() && next(text, found.start + 1, &self.text).is_some() {
            return Err("the text is in the file twice; `behind` can tell which is meant");
        }
        let with = self.with.trim_end_matches('\n');
        match with.split_once("TEXT") {
            Some((before, behind)) => {
                file.insert(found.end, behind);
                file.insert(found.start, before);
            }
            None => file.replace(found, with),
        }
        Ok(())
    }
}

/// The next place of `piece` in `text`, from `begin` on, whatever white space is between its words.
fn next(text: &str, begin: usize, piece: &str) -> Option<Range<usize>> {
    let first = piece.split_whitespace().next()?;
    text[begin..].match_indices(first).find_map(|(at, _)| {
        let start = begin + at;
        let mut end = start;
        for word in piece.split_whitespace() {
            let rest = text[end..].trim_start().strip_prefix(word)?;
            end = text.len() - rest.len();
        }
        Some(start..end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(behind: Option<&str>, text: &str) -> Edit {
        Edit { file: String::new(), behind: behind.map(String::from), text: text.into(), with: "X".into() }
    }

    fn edited(edit: &Edit, text: &str) -> Result<String, &'static str> {
        let mut file = File::new("", text.into());
        edit.make(&mut file).map(|()| file.text().into())
    }

    #[test]
    fn lines_may_be_broken_elsewhere() {
        assert_eq!(edited(&edit(None, "b  c(\nd"), "a b c(  d) e"), Ok("a X) e".into()));
    }

    #[test]
    fn a_text_that_is_gone_or_there_twice_is_an_error() {
        assert!(edited(&edit(None, "b c"), "a b d c").is_err());
        assert!(edited(&edit(None, "b"), "a b c b").is_err());
        assert!(edited(&edit(Some("e"), "b"), "a b").is_err());
    }

    #[test]
    fn the_first_one_behind_is_meant() {
        assert_eq!(edited(&edit(Some("c"), "b"), "b c b d b"), Ok("b c X d b".into()));
    }

    #[test]
    fn the_piece_stays_where_it_is_named() {
        let around = Edit { with: "(TEXT)".into(), ..edit(None, "b c") };
        let mut file = File::new("", "a b  c d".into());
        assert_eq!(around.make(&mut file), Ok(()));
        assert_eq!(file.text(), "a (b  c) d");
        assert_eq!(
            (file.place_of(2..6), file.place_of(0..8), file.place_of(5..6)),
            (Some(3..7), Some(0..10), Some(6..7))
        );
        assert_eq!(edit(None, "b c").make(&mut file), Ok(()));
        assert_eq!((file.text(), file.place_of(2..6), file.place_of(0..1)), ("a (X) d", None, Some(0..1)));
    }
}
