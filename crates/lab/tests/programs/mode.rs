//! How a program is run: on the kernel alone, or by `ufutex run` with options.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The kernel alone.
    Kernel,
    /// `ufutex run` with these options.
    Run(&'static [&'static str]),
    /// `ufutex run` with these options and a report, which must show that the program's calls reached the engine.
    Reported(&'static [&'static str]),
    /// `ufutex locks`.
    Locks,
}

/// Only calls by libc's `syscall()` and `prctl()`.
const PLAIN: Mode = Mode::Run(&[]);
/// Also system call instructions.
const TRAP: Mode = Mode::Run(TRAPPED);
const TRAPPED: &[&str] = &["--trap"];
/// As `TRAP`, but libc's futex instructions stay as they are.
const UNPATCHED: Mode = Mode::Run(&["--trap", "--no-patch"]);

/// As `TRAP`, with threads that spin before they sleep.
const SPINNING: Mode = Mode::Run(&["--trap", "--spin"]);

/// For programs that make some of their calls by libc's `syscall()`.
pub const BOTH: &[Mode] = &[PLAIN, TRAP, Mode::Reported(&[]), Mode::Reported(TRAPPED), Mode::Locks];
/// For programs whose calls only a trap intercepts.
pub const TRAP_ONLY: &[Mode] = &[TRAP, Mode::Reported(TRAPPED), Mode::Locks];
/// For programs that execute libc's futex instructions.
pub const LIBCS: &[Mode] = &[TRAP, UNPATCHED, SPINNING, Mode::Reported(TRAPPED), Mode::Locks];
/// For programs whose calls only a trap intercepts: also with libc's instructions as they are, and once without a
/// trap, where the program's calls go to the kernel.
pub const TRAP_SEES: &[Mode] = &[PLAIN, TRAP, UNPATCHED, Mode::Reported(TRAPPED), Mode::Locks];
/// For programs that make timers by libc's functions or its `syscall()`. Without `--timers` these are the kernel's.
pub const TIMERS: &[Mode] =
    &[PLAIN, TRAP, Mode::Run(&["--timers"]), Mode::Reported(&["--timers"]), Mode::Reported(TRAPPED_TIMERS)];
/// For programs that make timers by the instruction.
pub const TRAPPED_TIMERS_ONLY: &[Mode] = &[Mode::Run(TRAPPED_TIMERS), Mode::Reported(TRAPPED_TIMERS)];
const TRAPPED_TIMERS: &[&str] = &["--trap", "--timers"];
/// For programs that may not make timers.
pub const TIMERS_UNREPORTED: &[Mode] = &[Mode::Run(&["--timers"]), Mode::Run(TRAPPED_TIMERS)];
/// For programs that end before a report, or make no private call.
pub const UNREPORTED: &[Mode] = &[PLAIN, TRAP];
/// The same, for programs whose calls only a trap intercepts.
pub const TRAP_UNREPORTED: &[Mode] = &[TRAP];
/// For programs that other preloaded libraries serve, too.
pub const CHAINED: &[Mode] = &[PLAIN, TRAP, Mode::Run(&["--timers"]), KERNELS_SLOTS];
/// Also with the tables that a program may be given.
pub const TABLES: &[Mode] = &[
    PLAIN,
    TRAP,
    Mode::Reported(TRAPPED),
    Mode::Run(&["--trap", "--policy", "threads"]),
    Mode::Run(&["--trap", "--slots", "64", "--immutable"]),
    Mode::Run(&["--slots", "0"]),
    KERNELS_SLOTS,
];
/// The kernel's futexes, with a private table of this size.
const KERNELS_SLOTS: Mode = Mode::Run(&["--kernel", "--slots", "64"]);

/// The command's path.
pub fn launcher() -> PathBuf {
    std::env::var_os("UFUTEX_PROGRAMS_LAUNCHER").unwrap_or(env!("CARGO_BIN_EXE_ufutex").into()).into()
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, options) = match self {
            Self::Kernel => ("kernel", &[][..]),
            Self::Run([]) => ("plain", &[][..]),
            Self::Run([first, rest @ ..]) => (*first, rest),
            Self::Reported(options) => ("seen", *options),
            Self::Locks => ("locks", &[][..]),
        };
        f.write_str(first.trim_start_matches('-'))?;
        options.iter().try_for_each(|option| write!(f, "_{}", option.trim_start_matches('-')))
    }
}

impl Mode {
    /// What this kernel lacks for the mode.
    pub fn lacks(self) -> Option<&'static str> {
        const PR_FUTEX_HASH: i32 = 78;
        const GET_SLOTS: u64 = 2;
        // SAFETY: the call takes only numbers and changes nothing.
        let has_slots = || unsafe { libc::prctl(PR_FUTEX_HASH, GET_SLOTS, 0u64, 0u64, 0u64) >= 0 };
        (self == KERNELS_SLOTS && !has_slots()).then_some("this kernel has no PR_FUTEX_HASH")
    }

    /// The command that runs this program. A report is written to `report`.
    pub fn command(self, program: &OsString, arguments: &[OsString], report: &Path) -> Command {
        if self == Self::Kernel {
            let mut command = Command::new(program);
            command.args(arguments);
            return command;
        }
        let mut command = Command::new(launcher());
        match self {
            Self::Run(options) | Self::Reported(options) => command.arg("run").args(options),
            Self::Kernel | Self::Locks => command.args(["locks", "--output"]).arg(report),
        };
        match self {
            Self::Reported(_) => _ = command.args(["--follow-forks", "--json", "--output"]).arg(report),
            Self::Locks => _ = command.arg("--follow-forks"),
            Self::Run(_) | Self::Kernel => {}
        }
        command.arg("--").arg(program).args(arguments);
        command
    }
}
