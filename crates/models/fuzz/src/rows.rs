//! Files of rows, as `ufutex compare` reads them.

use lab_compare::{Compare, Comparison, texts};

/// The line between the file of before and the file of now. Without it one file is compared with itself.
const BETWEEN: &str = "\n--\n";

/// Compares two files.
pub fn files(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (old, new) = text.split_once(BETWEEN).unwrap_or((text, text));
    for json in [false, true] {
        let compare = |files| {
            let args = Compare { old: "before.json".into(), new: "now.json".into(), threshold: 5.0, json };
            match texts(&args, files) {
                Ok(comparison) => Some(comparison),
                Err(message) => {
                    assert!(!message.is_empty() && message.lines().count() == 1, "{message:?}");
                    None
                }
            }
        };
        if let Some(Comparison { text, .. }) = compare([old, new]) {
            assert!(text.ends_with('\n'));
            // What a file contains neither reaches the terminal nor ends a line.
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
            assert!(!json || text.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{text}");
        }
        for same in [old, new] {
            if let Some(comparison) = compare([same, same]) {
                assert!(!comparison.has_regression, "a file is worse than itself: {}", comparison.text);
            }
        }
    }
}
