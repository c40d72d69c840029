//! Finds the library that is preloaded.

use super::Failure;
use std::path::{self, Path, PathBuf};
use std::time::SystemTime;
use ufutex_program::environment::{LIBRARY, LIBRARY_NAME};

/// The library's absolute path.
pub fn find() -> Result<PathBuf, Failure> {
    if let Some(given) = std::env::var_os(LIBRARY).filter(|value| !value.is_empty()) {
        let path = Path::new(&given);
        return match path::absolute(path) {
            Ok(path) if path.is_file() => Ok(path),
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
    use std::fs::{self, File};
    use std::time::Duration;

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
