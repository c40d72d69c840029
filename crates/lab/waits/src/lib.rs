//! `ufutex locks`: runs a program, and says which of its locks cost time, which threads held them and which waited, from where.
//!
//! The preloaded library writes a record when a thread goes to sleep, when it is woken, and when its wait ends. This process reads
//! the records while the program runs (`records`, `files`), adds them up (`account`), and looks up names after the program's end (`names`,
//! `kind`). What it prints is in `report`, `table`, `json`, `folded`, `pprof` and `page`; `hang` says which threads wait at the
//! moment.

#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod account;
mod definitions;
mod files;
mod folded;
mod hang;
mod json;
mod kind;
mod names;
mod page;
mod past;
mod pprof;
mod program;
mod progress;
mod records;
mod report;
mod table;
pub mod watched;
mod word;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use program::run;
pub use records::{LIMIT, Lock, Records};
pub use table::time;

/// Format of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A table for people.
    Table,
    /// A JSON object for each word.
    Json,
    /// A line for each stack, for programs that draw flame graphs.
    Folded,
    /// An HTML page with a table, a flame graph and a time line.
    Page,
    /// A compressed profile for pprof. It is binary, and has a file of its own.
    Pprof,
}

/// The settings of `ufutex locks`.
pub struct Locks {
    /// Whether waits by instructions are seen too.
    pub trap: bool,
    /// Whether waits of child processes are seen too.
    pub follow: bool,
    /// After how long without a change the program counts as hung, and is ended.
    pub hang: Option<Duration>,
    /// Most call sites that are kept. At least 1.
    pub limit: usize,
    /// The format of the output.
    pub format: Format,
    /// The file for the output. `None` means stderr.
    pub output: Option<PathBuf>,
    /// The program and its arguments. Not empty.
    pub command: Vec<OsString>,
}
