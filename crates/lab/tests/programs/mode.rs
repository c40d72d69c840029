//! How a program is run: by itself, or by `ufutex run` in one of its modes.

use std::ffi::OsString;
use std::fmt;
use std::process::Command;

/// A mode: the arguments of `ufutex run`, or none for the kernel alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mode(Option<&'static [&'static str]>);

impl Mode {
    pub const KERNEL: Mode = Mode(None);
    /// Calls of libc's `syscall()` and `prctl()` alone.
    pub const PLAIN: Mode = Mode(Some(&[]));
    /// System call instructions too.
    pub const TRAP: Mode = Mode(Some(&["--trap"]));
}

/// What a program is run in that makes its calls through libc's `syscall()`.
pub const BOTH: &[Mode] = &[Mode::PLAIN, Mode::TRAP];
/// And what one whose calls only a trap sees.
pub const TRAP_ONLY: &[Mode] = &[Mode::TRAP];
/// Every scheme.
pub const SCHEMES: &[Mode] = &[
    Mode::PLAIN,
    Mode::TRAP,
    Mode(Some(&["--trap", "--scheme", "fixed"])),
    Mode(Some(&["--trap", "--scheme", "atomic"])),
    Mode(Some(&["--trap", "--scheme", "percpu"])),
    Mode(Some(&["--slots", "0"])),
];

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("kernel"),
            Some([]) => f.write_str("plain"),
            Some(arguments) => f.write_str(&arguments.join("_").replace("--", "")),
        }
    }
}

impl Mode {
    /// The command that runs this program.
    pub fn command(self, program: &OsString, arguments: &[OsString]) -> Command {
        let Some(options) = self.0 else {
            let mut command = Command::new(program);
            command.args(arguments);
            return command;
        };
        let launcher = std::env::var_os("UFUTEX_PROGRAMS_LAUNCHER").unwrap_or(env!("CARGO_BIN_EXE_ufutex").into());
        let mut command = Command::new(launcher);
        command.arg("run").args(options).arg("--").arg(program).args(arguments);
        command
    }
}
