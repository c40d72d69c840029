//! How a program is run: by itself, or by `ufutex run` in one of its modes.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// A mode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The kernel alone.
    Kernel,
    /// `ufutex run` with these options.
    Run(&'static [&'static str]),
    /// The same with a report, which has to say that the program's calls came to the engine.
    Seen(&'static [&'static str]),
}

/// Calls of libc's `syscall()` and `prctl()` alone.
const PLAIN: Mode = Mode::Run(&[]);
/// System call instructions too.
const TRAP: Mode = Mode::Run(TRAPPED);
const TRAPPED: &[&str] = &["--trap"];

/// What a program is run in that makes some of its calls through libc's `syscall()`.
pub const BOTH: &[Mode] = &[PLAIN, TRAP, Mode::Seen(&[]), Mode::Seen(TRAPPED)];
/// What one is run in whose calls only a trap sees.
pub const TRAP_ONLY: &[Mode] = &[TRAP, Mode::Seen(TRAPPED)];
/// The same, and without a trap it is run as it is.
pub const TRAP_SEES: &[Mode] = &[PLAIN, TRAP, Mode::Seen(TRAPPED)];
/// What makes timers by libc's functions or its `syscall()` is run in these: without `--timers` they are the kernel's.
pub const TIMERS: &[Mode] =
    &[PLAIN, TRAP, Mode::Run(&["--timers"]), Mode::Seen(&["--timers"]), Mode::Seen(TRAPPED_TIMERS)];
/// And what makes them by the instruction.
pub const TRAPPED_TIMERS_ONLY: &[Mode] = &[Mode::Run(TRAPPED_TIMERS), Mode::Seen(TRAPPED_TIMERS)];
const TRAPPED_TIMERS: &[&str] = &["--trap", "--timers"];
/// What makes none before a report.
pub const TIMERS_UNSEEN: &[Mode] = &[Mode::Run(&["--timers"]), Mode::Run(TRAPPED_TIMERS)];
/// For what is over before a report, or makes no call that is private.
pub const UNSEEN: &[Mode] = &[PLAIN, TRAP];
/// The same where only a trap sees anything.
pub const TRAP_UNSEEN: &[Mode] = &[TRAP];
/// Every scheme.
pub const SCHEMES: &[Mode] = &[
    PLAIN,
    TRAP,
    Mode::Seen(TRAPPED),
    Mode::Run(&["--trap", "--scheme", "fixed"]),
    Mode::Run(&["--trap", "--scheme", "atomic"]),
    Mode::Run(&["--trap", "--scheme", "percpu"]),
    Mode::Run(&["--slots", "0"]),
    KERNELS_SLOTS,
];
/// The kernel's futexes, on a table of its own for the program.
const KERNELS_SLOTS: Mode = Mode::Run(&["--kernel", "--slots", "64"]);

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, options) = match self {
            Self::Kernel => ("kernel", &[][..]),
            Self::Run([]) => ("plain", &[][..]),
            Self::Run([first, rest @ ..]) => (*first, rest),
            Self::Seen(options) => ("seen", *options),
        };
        f.write_str(first.trim_start_matches('-'))?;
        options.iter().try_for_each(|option| write!(f, "_{}", option.trim_start_matches('-')))
    }
}

impl Mode {
    /// What this kernel lacks for it.
    pub fn lacks(self) -> Option<&'static str> {
        const PR_FUTEX_HASH: i32 = 78;
        const GET_SLOTS: u64 = 2;
        // SAFETY: takes numbers, and changes nothing.
        let has_slots = || unsafe { libc::prctl(PR_FUTEX_HASH, GET_SLOTS, 0u64, 0u64, 0u64) >= 0 };
        (self == KERNELS_SLOTS && !has_slots()).then_some("this kernel has no PR_FUTEX_HASH")
    }

    /// The command that runs this program; a report goes to that file.
    pub fn command(self, program: &OsString, arguments: &[OsString], report: &Path) -> Command {
        let (Self::Run(options) | Self::Seen(options)) = self else {
            let mut command = Command::new(program);
            command.args(arguments);
            return command;
        };
        let launcher = std::env::var_os("UFUTEX_PROGRAMS_LAUNCHER").unwrap_or(env!("CARGO_BIN_EXE_ufutex").into());
        let mut command = Command::new(launcher);
        command.arg("run").args(options);
        if let Self::Seen(_) = self {
            command.args(["--follow-forks", "--json", "--output"]).arg(report);
        }
        command.arg("--").arg(program).args(arguments);
        command
    }
}
