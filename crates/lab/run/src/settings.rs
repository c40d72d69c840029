//! What `ufutex run` and `ufutex advise` are asked to do; every value has been checked.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use ufutex_program::settings;

/// What `ufutex run` was asked for, checked.
pub struct Run {
    /// For the library; its output is `output`, its process not known yet.
    pub settings: settings::Settings<'static>,
    /// Where the report goes, if not to stderr.
    pub output: Option<PathBuf>,
    /// The program and its arguments: not empty.
    pub command: Vec<OsString>,
}

/// What `ufutex advise` was asked for.
pub struct Advise {
    /// The longest that the program is watched.
    pub duration: Duration,
    /// Whether futex instructions inside glibc are seen, too.
    pub trap: bool,
    /// JSON in place of sentences.
    pub json: bool,
    /// Where the advice goes, if not to stderr.
    pub output: Option<PathBuf>,
    /// The program and its arguments: not empty.
    pub command: Vec<OsString>,
}
