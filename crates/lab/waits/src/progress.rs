//! Says on a terminal how many waits there were so far.
//!
//! Whatever the program prints there would break the line, and the line what the program prints. The program has this command's stdout
//! and stderr, and a pipe may end at the terminal too. So the line is shown only if the program's both are files or /dev/null, as after
//! `sh -c 'exec ./server > log 2>&1'`.

use crate::account::Account;
use crate::table;
use lab_terminal::progress::Progress;
use std::fs;
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(1);

/// The line.
pub struct Status {
    shown: Option<Progress>,
    last: Instant,
}

impl Status {
    /// Nothing is shown for the first second.
    pub fn new() -> Self {
        Self { shown: None, last: Instant::now() }
    }

    /// Shows the line anew if a second has passed. `pids` are the program's processes.
    pub fn update(&mut self, account: &Account, mut pids: impl Iterator<Item = i32>) {
        if self.last.elapsed() < EVERY || !std::io::stderr().is_terminal() {
            return;
        }
        self.last = Instant::now();
        if !pids.all(writes_to_files) {
            return self.clear();
        }
        let sum = account.sum();
        let text = format!("{} waits of {} so far", sum.waits, table::time(sum.total_ns));
        self.shown.get_or_insert_with(Progress::endless).remark(&text);
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        self.shown = None;
    }
}

/// Whether stdout and stderr of a process are files, /dev/null or closed.
fn writes_to_files(pid: i32) -> bool {
    const NULL: u64 = libc::makedev(1, 3);
    [1, 2].iter().all(|descriptor| match fs::metadata(format!("/proc/{pid}/fd/{descriptor}")) {
        Ok(file) => file.is_file() || file.rdev() == NULL,
        Err(error) => error.kind() == ErrorKind::NotFound,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn only_files_and_dev_null_are_surely_no_terminal() {
        let of = |stdout: Stdio, stderr: Stdio| {
            // It waits for its stdin. When `spawn` returns it has been executed.
            let mut command = Command::new("cat");
            let mut child = command.stdin(Stdio::piped()).stdout(stdout).stderr(stderr).spawn().expect("cat");
            let writes_to_files = writes_to_files(child.id() as i32);
            drop(child.stdin.take());
            child.wait().expect("it ends");
            writes_to_files
        };
        let file = || Stdio::from(fs::File::open(std::env::current_exe().expect("this program")).expect("a file"));
        let terminal = || Stdio::from(fs::File::open("/dev/ptmx").expect("a terminal's end"));
        assert!(of(Stdio::null(), file()) && of(file(), Stdio::null()));
        assert!(!of(Stdio::null(), Stdio::piped()) && !of(Stdio::piped(), file()), "it may end anywhere");
        assert!(!of(terminal(), Stdio::null()) && !of(file(), terminal()));
        assert!(writes_to_files(i32::MAX), "a process that is gone writes nothing");
    }
}
