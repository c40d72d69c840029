//! Linker options for the command and for the library that `ufutex run` preloads. Each start of a program loads both.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The library's initialiser runs before those of other libraries, and sees what they do with signals and futexes.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,initfirst");
    // It calls its own functions of libc's names by no symbol that another library could replace.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-Bsymbolic");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") != "linux" || target("ENV") != "gnu" {
        return;
    }
    if target("FEATURE").split(',').any(|feature| feature == "crt-static") {
        return; // the command is static: nothing to load
    }
    // The library calls libc's own timers, which before glibc 2.34 are in one that a program need not have.
    println!("cargo::rustc-link-arg-cdylib=-Wl,--push-state,--no-as-needed,-lrt,--pop-state");
    // At a fixed address nothing has to be relocated. Otherwise the loader writes 15,000 addresses to 57 pages.
    println!("cargo::rustc-link-arg-bin=ufutex=-no-pie");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it"));
    println!("cargo::rerun-if-changed=hot.ld");
    println!("cargo::rerun-if-env-changed=UFUTEX_UNORDERED");
    let script = format!("-Wl,-T,{}/hot.ld", env!("CARGO_MANIFEST_DIR"));
    if env::var_os("UFUTEX_UNORDERED").is_none() && links_with(&script, &out) {
        println!("cargo::rustc-link-arg-cdylib={script}");
    }
    // The library keeps `libgcc_s.so`: a thread of a program may be cancelled in one of its frames. The system's unwinder
    // then asks functions of the library about a context that may be laid out otherwise than the archive's.
    if unwinder_in_archive(&out) {
        println!("cargo::rustc-link-arg-bin=ufutex=-L{}", out.display());
    }
}

/// Whether a library can be linked with this argument. Some linkers refuse a script.
fn links_with(argument: &str, directory: &Path) -> bool {
    const EMPTY: &str = "#![no_std] #[panic_handler] fn panic(_: &core::panic::PanicInfo) -> ! { loop {} }";
    let source = directory.join("empty.rs");
    let var = |name| env::var(name).unwrap_or_default();
    let mut rustc = Command::new(var("RUSTC"));
    rustc.args(["--crate-type=cdylib", "-Cpanic=abort", "--target", &var("TARGET")]);
    rustc.arg(format!("-Clink-arg={argument}")).arg(&source).arg("-o").arg(directory.join("empty.so"));
    rustc.args(env::var("RUSTC_LINKER").map(|linker| format!("-Clinker={linker}")));
    rustc.args(var("CARGO_ENCODED_RUSTFLAGS").split('\x1f').filter(|flag| !flag.is_empty()));
    // What the compiler says is part of the answer, and nothing to show.
    fs::write(&source, EMPTY).is_ok() && rustc.output().is_ok_and(|output| output.status.success())
}

/// Makes the linker find the archive `libgcc_eh.a` where the standard library asks for `libgcc_s.so`, if the compiler
/// has it. The constructor of `libgcc_s.so` asks the CPU for its features. The host of a virtual machine answers, which
/// takes 40 to 60 us.
fn unwinder_in_archive(directory: &Path) -> bool {
    const ARCHIVE: &str = "libgcc_eh.a";
    if env::var("HOST") != env::var("TARGET") {
        return false; // `cc` links for the host alone
    }
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let asked = Command::new(linker).arg(format!("-print-file-name={ARCHIVE}")).output();
    // Without such a file, `cc` prints the bare name.
    let found = asked.is_ok_and(|asked| Path::new(String::from_utf8_lossy(&asked.stdout).trim()).is_absolute());
    found && fs::write(directory.join("libgcc_s.so"), "INPUT(-lgcc_eh)\n").is_ok()
}
