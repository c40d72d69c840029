//! Tests under qemu-user. There the variable `UFUTEX_EMULATED`, which `.ci/emulated` sets, names the emulator and the
//! architecture of the machine that it runs on, as in `qemu-aarch64 on x86_64`.

use std::ffi::OsStr;
use std::process::Command;

use super::libc;

const VARIABLE: &str = "UFUTEX_EMULATED";

struct Emulation {
    /// The emulator's command. It finds the libraries of the emulated architecture by the variable `QEMU_LD_PREFIX`,
    /// which `.ci/emulated` sets.
    emulator: String,
    /// The architecture of the machine that the emulator runs on, as `uname -m` prints it there.
    host: String,
}

fn emulation() -> Option<Emulation> {
    let value = std::env::var(VARIABLE).ok()?;
    let Some((emulator, host)) = value.split_once(" on ") else {
        panic!("{VARIABLE}={value:?} names no emulator and host, as \"qemu-aarch64 on x86_64\" does");
    };
    assert!(emulator.ends_with(std::env::consts::ARCH), "{VARIABLE}={value:?}: not an emulator of this test's code");
    Some(Emulation { emulator: emulator.to_owned(), host: host.to_owned() })
}

/// The reason why there is no kernel to compare with, `None` if there is one. qemu-user makes system calls of the host
/// in place of the program's. It changes some of their arguments and results, and answers others by itself.
pub fn lacks_the_kernel() -> Option<String> {
    let Emulation { emulator, host } = emulation()?;
    Some(format!("{VARIABLE} is set: the system calls are those of {emulator} on {host}, not the kernel's"))
}

/// The native number of a system call that `/proc/self/task/*/syscall` shows as `shown`. Under qemu-user that file
/// shows the host's number of the call that the emulator makes for the thread. `-1` stands for calls that no test waits
/// for.
pub fn native_number(shown: libc::c_long) -> libc::c_long {
    let Some(Emulation { host, .. }) = emulation() else { return shown };
    let futex = match host.as_str() {
        "x86_64" => 202,
        "aarch64" | "riscv64" => 98,
        other => panic!("{VARIABLE}: the number of futex(2) on {other} is not known here"),
    };
    if shown == futex { libc::SYS_futex } else { -1 }
}

/// A command that executes `program`, which is compiled for the architecture of this test.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    match emulation() {
        None => Command::new(program),
        Some(Emulation { emulator, .. }) => {
            let mut command = Command::new(emulator);
            command.arg(program.as_ref());
            command
        }
    }
}

/// A command that runs the test `name` of this program alone in a process, where the variable `mark` is set.
pub fn test_alone(name: &str, mark: &str) -> Command {
    let mut again = command(std::env::current_exe().expect("a test is a program"));
    again.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(mark, "1");
    again
}
