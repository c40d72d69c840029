//! Linker options for the command and for the library that `ufutex run` preloads. Each start of a program loads both.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The library's initialiser runs before those of other libraries, and sees what they do with signals and futexes.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,initfirst");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") != "linux" || target("ENV") != "gnu" {
        return;
    }
    // At a fixed address nothing has to be relocated. Otherwise the loader writes 15,000 addresses to 57 pages.
    println!("cargo::rustc-link-arg-bin=ufutex=-no-pie");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it"));
    if unwinder_in_archive(&out) {
        println!("cargo::rustc-link-arg-bin=ufutex=-L{}", out.display());
        // A thread of a program may be cancelled in frames of the library. The system's unwinder unwinds it, whose
        // contexts may be laid out otherwise than the archive's. So the library takes the archive's unwinder only if no
        // frame of it asks for a context: frames do that which clean up when they are unwound. The profile has none, as
        // its panics abort. (Cargo does not tell build scripts a profile's `panic`.)
        if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
            println!("cargo::rustc-link-arg-cdylib=-L{}", out.display());
        }
    }
}

/// Makes the linker find the archive `libgcc_eh.a` where the standard library asks for `libgcc_s.so`, if the compiler
/// has it. The constructor of `libgcc_s.so` asks the CPU for its features, which takes 60 us in a virtual machine.
fn unwinder_in_archive(directory: &Path) -> bool {
    const ARCHIVE: &str = "libgcc_eh.a";
    if env::var("HOST") != env::var("TARGET") {
        return false; // `cc` is not the linker
    }
    let asked = Command::new("cc").arg(format!("-print-file-name={ARCHIVE}")).output();
    // Without such a file, `cc` prints the bare name.
    let found = asked.is_ok_and(|asked| Path::new(String::from_utf8_lossy(&asked.stdout).trim()).is_absolute());
    found && fs::write(directory.join("libgcc_s.so"), "INPUT(-lgcc_eh)\n").is_ok()
}
