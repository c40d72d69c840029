//! Names an address so that the name is useful after the process has ended, from `/proc/PID/maps`.

use std::borrow::ToOwned;
use std::format;
use std::string::String;

struct Mapping<'a> {
    start: u64,
    end: u64,
    path: &'a str,
}

/// `file+0x1234`, with the offset from where the file was loaded, for memory of a file and for the anonymous memory
/// right behind it (`.bss`). The kernel's name, such as `[heap]`, for other named memory. `None` for memory without a
/// name.
pub fn find(maps: &str, address: u64) -> Option<String> {
    let mut base = None;
    let mut before: Option<Mapping<'_>> = None;
    for mut mapping in maps.lines().filter_map(parse) {
        if let Some(before) = &before
            && mapping.path.is_empty()
            && mapping.start == before.end
            && before.path.starts_with('/')
        {
            mapping.path = before.path;
        }
        if before.as_ref().is_none_or(|before| before.path != mapping.path) {
            base = Some(mapping.start);
        }
        if (mapping.start..mapping.end).contains(&address) {
            return name(mapping.path, address - base.unwrap_or(mapping.start));
        }
        before = Some(mapping);
    }
    None
}

fn name(path: &str, offset: u64) -> Option<String> {
    match path {
        "" => None,
        path if path.starts_with('/') => {
            let file = path.rsplit('/').next().unwrap_or(path);
            Some(format!("{file}+{offset:#x}"))
        }
        path => Some(path.to_owned()),
    }
}

/// Parses a line: `start-end access offset device inode   path`.
fn parse(line: &str) -> Option<Mapping<'_>> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let path = rest.splitn(5, ' ').nth(4)?.trim_start();
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping { start: number(start)?, end: number(end)?, path })
}
