//! Finds the library that is preloaded.

use super::Failure;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{self, Path, PathBuf};
use std::time::SystemTime;
use ufutex_program::environment::{LIBRARY, LIBRARY_NAME, LIBRARY_SYMBOL};

/// The library's absolute path.
pub fn find() -> Result<PathBuf, Failure> {
    if let Some(given) = std::env::var_os(LIBRARY).filter(|value| !value.is_empty()) {
        let path = Path::new(&given);
        return match path::absolute(path) {
            Ok(path) if path.is_file() => match mistake(&path) {
                None => Ok(path),
                Some(why) => Err(Failure::ours(format!(
                    "{LIBRARY}='{}' is not {LIBRARY_NAME} of this version: {why}; accepted: the path of {LIBRARY_NAME}, or nothing",
                    given.to_string_lossy()
                ))),
            },
            _ => Err(Failure::ours(format!(
                "{LIBRARY}='{}' is not a file; accepted: the path of {LIBRARY_NAME}, or nothing",
                path.display()
            ))),
        };
    }
    let command = std::env::current_exe().map_err(|error| {
        Failure::ours(format!(
            "cannot find this command's own path: {error}; accepted: the library's path in {LIBRARY}"
        ))
    })?;
    let places = places(command.parent().unwrap_or(Path::new("/")));
    newest(&places).ok_or_else(|| {
        let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        Failure::ours(format!(
            "the library to preload is not found in {}; accepted: build it (cargo build -p lab), put it there, or set \
            {LIBRARY} to its path",
            places.join(", ")
        ))
    })
}

/// Why the loader would not load the file, or load something else than the library. `None` if it is the library. The loader
/// itself only warns, and the program would run on the kernel.
fn mistake(path: &Path) -> Option<String> {
    match File::open(path).and_then(|file| is_library(&file)) {
        Ok(Ok(())) => None,
        Ok(Err(why)) => Some(why.to_string()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Some("the file is cut off".to_string()),
        Err(error) => Some(format!("it cannot be read ({error})")),
    }
}

/// Reads the ELF header, the headers of the sections and the names of the dynamic symbols.
fn is_library(file: &File) -> io::Result<Result<(), &'static str>> {
    const HEADER: usize = 64;
    const SECTION: usize = 64;
    const DYNAMIC_SYMBOLS: u64 = 11;
    const MOST_NAMES: u64 = 1 << 24;
    const NOT_OURS: io::Result<Result<(), &str>> = Ok(Err("it lacks the symbol UFUTEX_PRELOAD_LIBRARY"));
    let mut magic = [0; 4];
    // A file that is shorter than that is none either.
    if file.read_exact_at(&mut magic, 0).is_err() || magic != *b"\x7fELF" {
        return Ok(Err("it is not an ELF file"));
    }
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0)?;
    // 64 bits, the lower byte first, and the machine.
    if header[4..6] != [2, 1] || number(&header[18..20]) != 62 {
        return Ok(Err("it is not for 64-bit x86-64"));
    }
    if number(&header[16..18]) != 3 {
        return Ok(Err("it is no shared library"));
    }
    let (table, count) = (number(&header[40..48]), number(&header[60..62]) as usize);
    let mut sections = vec![0; count * SECTION];
    file.read_exact_at(&mut sections, table)?;
    let sections: Vec<_> = sections.chunks_exact(SECTION).collect();
    let symbols = sections.iter().find(|section| number(&section[4..8]) == DYNAMIC_SYMBOLS);
    let names = symbols.and_then(|symbols| sections.get(number(&symbols[40..44]) as usize));
    let Some(names) = names.filter(|names| number(&names[32..40]) <= MOST_NAMES) else { return NOT_OURS };
    let mut text = vec![0; number(&names[32..40]) as usize];
    file.read_exact_at(&mut text, number(&names[24..32]))?;
    match text.split(|byte| *byte == 0).any(|name| name == LIBRARY_SYMBOL.as_bytes()) {
        true => Ok(Ok(())),
        false => NOT_OURS,
    }
}

/// A number whose lowest byte is the first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The places where the library may be: beside the command, if it was copied or built there; in `deps/`, if Cargo built
/// it as a dependency of the command; in the library directory of an installation.
fn places(directory: &Path) -> [PathBuf; 3] {
    let up = directory.parent().unwrap_or(directory);
    [directory.join(LIBRARY_NAME), directory.join("deps").join(LIBRARY_NAME), up.join("lib/ufutex").join(LIBRARY_NAME)]
}

/// The existing file that was written last. Cargo may leave an old one beside the command.
fn newest(places: &[PathBuf]) -> Option<PathBuf> {
    let written = |path: &&PathBuf| {
        let status = path.metadata().ok().filter(|status| status.is_file())?;
        Some(status.modified().unwrap_or(SystemTime::UNIX_EPOCH))
    };
    // Of equally new files `max_by_key` returns the last, so the reversed list returns the nearest.
    places.iter().rev().filter(|path| written(path).is_some()).max_by_key(|path| written(path)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    /// The mistake in a file with this text.
    fn of(bytes: &[u8]) -> Option<String> {
        let path = std::env::temp_dir().join(format!("ufutex-library-mistake-{}", std::process::id()));
        fs::write(&path, bytes).expect("a temporary file");
        let mistake = mistake(&path);
        fs::remove_file(&path).expect("our own file");
        mistake
    }

    #[test]
    fn a_file_that_is_not_the_library_is_refused_with_the_reason() {
        let why = |bytes: &[u8]| of(bytes).expect("no library");
        assert_eq!(why(b""), "it is not an ELF file");
        assert_eq!(
            why(b"root:x:0:0:root:/root:/bin/bash and more lines than an ELF header has"),
            "it is not an ELF file"
        );
        let mut file = [0; 64 + 64];
        file[..4].copy_from_slice(b"\x7fELF");
        assert_eq!(why(&file[..63]), "the file is cut off");
        file[4..6].copy_from_slice(&[1, 1]);
        assert_eq!(why(&file), "it is not for 64-bit x86-64");
        file[4] = 2;
        file[18] = 183;
        assert_eq!(why(&file), "it is not for 64-bit x86-64");
        file[18] = 62;
        file[16] = 2;
        assert_eq!(why(&file), "it is no shared library");
        file[16] = 3;
        assert_eq!(why(&file), "it lacks the symbol UFUTEX_PRELOAD_LIBRARY");
        // One section, behind the header, whose names are the file's first bytes.
        (file[40], file[60]) = (64, 1);
        file[64 + 4] = 11;
        file[64 + 32] = 32;
        assert_eq!(why(&file), "it lacks the symbol UFUTEX_PRELOAD_LIBRARY");
        // The names cannot be read.
        file[64 + 33] = 1;
        assert_eq!(why(&file), "the file is cut off");
        file[60] = 2;
        assert_eq!(why(&file), "the file is cut off");
        let missing = mistake(Path::new("/nowhere")).expect("no file");
        assert!(missing.starts_with("it cannot be read (No such file"), "{missing}");
    }

    #[test]
    fn the_library_written_last_is_taken_and_the_nearest_of_equals() {
        let directory = std::env::temp_dir().join(format!("ufutex-library-{}", std::process::id()));
        let places = places(&directory.join("bin"));
        assert_eq!(newest(&places), None);
        for (place, seconds) in places.iter().zip([2, 3, 3]) {
            fs::create_dir_all(place.parent().expect("a directory")).expect("a temporary directory");
            let file = File::create(place).expect("a file");
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("our own file");
        }
        assert_eq!(newest(&places).as_ref(), Some(&places[1]));
        fs::remove_file(&places[1]).expect("our own file");
        assert_eq!(newest(&places).as_ref(), Some(&places[2]));
        fs::remove_file(&places[2]).expect("our own file");
        fs::create_dir(&places[2]).expect("a directory");
        assert_eq!(newest(&places).as_ref(), Some(&places[0]));
        fs::remove_dir_all(&directory).expect("our own directory");
    }
}
