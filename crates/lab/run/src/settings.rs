//! The checked settings of `ufutex run` and `ufutex advise`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use ufutex_program::settings;

/// The settings of `ufutex run`.
pub struct Run {
    /// The library's settings. `output` and `process` are filled in before the program is executed.
    pub settings: settings::Settings<'static>,
    /// The file for the report. `None` means stderr.
    pub output: Option<PathBuf>,
    /// The program and its arguments. Not empty.
    pub command: Vec<OsString>,
}

/// The settings of `ufutex advise`.
pub struct Advise {
    /// The longest time that the program is watched.
    pub duration: Duration,
    /// Whether futex calls inside glibc are counted too.
    pub trap: bool,
    /// Whether to print JSON, not sentences.
    pub json: bool,
    /// The file for the advice. `None` means stderr.
    pub output: Option<PathBuf>,
    /// The program and its arguments. Not empty.
    pub command: Vec<OsString>,
}
