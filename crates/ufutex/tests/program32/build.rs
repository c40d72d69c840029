//! Compiles the guest, and finds out whether the kernel can run it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::common::int_80;

/// futex_requeue(2), on x86-64 as on i386.
const FUTEX_REQUEUE: libc::c_long = 456;

const SOURCES: [&str; 8] = ["main", "calls", "waits", "locks", "robust", "tokens", "objects", "owners"];

/// The compiled program, or why there is none.
pub fn guest() -> Result<&'static Path, String> {
    static GUEST: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match GUEST.get_or_init(|| lack().map_or_else(compiled, |reason| Err(reason.to_string()))) {
        Ok(path) => Ok(path),
        Err(reason) => Err(reason.clone()),
    }
}

/// Why the kernel cannot run the program.
fn lack() -> Option<&'static str> {
    // SAFETY: with no array the call fails, whatever the rest of the arguments.
    let result = unsafe { libc::syscall(FUTEX_REQUEUE, 0, 0, 0, 0) };
    assert_eq!(result, -1);
    let is_old = std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS);
    int_80::lack().or(is_old.then_some("the kernel has no futex_requeue(2), which Linux has since 6.7"))
}

/// Runs the compiler with the sources named, and what all runs have in common.
fn gcc(output: &Path, inputs: &[PathBuf]) -> Command {
    let mut command = Command::new("gcc");
    command.args(["-m32", "-pthread", "-O1", "-Wall", "-Werror", "-D_FILE_OFFSET_BITS=64", "-D_TIME_BITS=64"]);
    // Debian has the kernel's headers only here, unless gcc-multilib is installed.
    command.args(["-idirafter", "/usr/include/x86_64-linux-gnu"]);
    command.arg("-o").arg(output).args(inputs);
    command
}

fn compiled() -> Result<PathBuf, String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program32/guest");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Several runs of this test may share the directory.
    let own = directory.join(format!("program32-{}", std::process::id()));
    let probe = directory.join(format!("program32-probe-{}.c", std::process::id()));
    std::fs::write(&probe, "#include <errno.h>\nint main(void) { return errno; }\n").expect("the directory is there");
    let links = gcc(&own, std::slice::from_ref(&probe)).output().is_ok_and(|output| output.status.success());
    std::fs::remove_file(probe).expect("it was written");
    if !links {
        return Err("`gcc -m32` makes no programs here (Debian's package gcc-multilib)".into());
    }
    let output = gcc(&own, &SOURCES.map(|name| sources.join(name).with_extension("c"))).output().expect("it has run");
    assert!(output.status.success(), "gcc: {}", String::from_utf8_lossy(&output.stderr));
    let guest = directory.join("program32-guest");
    std::fs::rename(own, &guest).expect("it was written");
    Ok(guest)
}
