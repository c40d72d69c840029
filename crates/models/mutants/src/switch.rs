//! Added to the copy of the engine: which mutant is switched on in this process.

extern crate std;

use core::sync::atomic::{AtomicBool, Ordering, Ordering::Relaxed};
use std::io::Write;
use std::sync::LazyLock;

/// The number of the mutant; `usize::MAX` if none is switched on.
static ACTIVE: LazyLock<usize> = LazyLock::new(|| {
    let number = std::env::var("UFUTEX_MUTANT").ok();
    number.and_then(|number| number.parse().ok()).unwrap_or(usize::MAX)
});

/// Where the numbers of the mutants that are reached are written.
static LOG: LazyLock<Option<std::fs::File>> = LazyLock::new(|| {
    let path = std::env::var_os("UFUTEX_MUTANTS_REACHED")?;
    std::fs::OpenOptions::new().append(true).create(true).open(path).ok()
});

static REACHED: [AtomicBool; 16384] = [const { AtomicBool::new(false) }; 16384];

/// Whether mutant `number` is switched on.
pub fn active(number: usize) -> bool {
    if let Some(mut log) = LOG.as_ref()
        && !REACHED[number].swap(true, Relaxed)
    {
        // One write, since children of the test write to the same file.
        let mut line = [b'0'; 8];
        line[7] = b'\n';
        for (place, digit) in line[..7].iter_mut().rev().zip(0..) {
            *place = b'0' + (number / 10usize.pow(digit) % 10) as u8;
        }
        let _ = log.write_all(&line);
    }
    *ACTIVE == number
}

/// `strong`, or `weak` if mutant `number` is switched on.
pub fn order(number: usize, strong: Ordering, weak: Ordering) -> Ordering {
    if active(number) { weak } else { strong }
}
