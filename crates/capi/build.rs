//! Makes the manual pages (man.rs), and gives the shared library its symbol versions.
//!
//! rustc hands the linker a version script of its own, in which every `#[no_mangle]` function stands without a version. LLD
//! takes a second script beside it, for symbols that do not stand in the first; GNU ld takes none. So where the linker
//! can do it, the exported names are made in assembly (`export!` in api/mod.rs), of which rustc knows nothing; elsewhere they
//! are plain `#[no_mangle]` functions without a version. Which it is here is tried out on a library of one function.

mod man;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const VERSION: &str = "UFUTEX_0.1";

fn main() {
    for path in ["build.rs", "man.rs", "include/ufutex.h", "src/api", "ufutex.map"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rustc-check-cfg=cfg(symbol_versions)");
    write_pages();
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    // Its threads leave destructors behind that run when they end: it cannot be unloaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    let map = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("ufutex.map");
    match try_versions(&map) {
        Ok(jump) => {
            write_exports(jump);
            println!("cargo::rustc-cfg=symbol_versions");
            println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", map.display());
        }
        Err(why) => println!("cargo::warning=libufutex.so gets no symbol versions: {why}"),
    }
}

fn out() -> PathBuf {
    PathBuf::from(env::var_os("OUT_DIR").unwrap())
}

/// Writes the manual pages to the directory `man`.
fn write_pages() {
    let (header, directory) = (fs::read_to_string("include/ufutex.h").unwrap(), out().join("man"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    for (name, page) in man::pages(&header, &env::var("CARGO_PKG_VERSION").unwrap()) {
        fs::write(directory.join(name), page).unwrap();
    }
}

/// Writes an `export!` of all functions of the interface.
fn write_exports(jump: &str) {
    let mut files: Vec<_> = fs::read_dir("src/api").unwrap().map(|file| file.unwrap().path()).collect();
    // An editor may have files of its own there.
    let is_source = |file: &PathBuf| {
        file.file_name().unwrap().to_string_lossy().strip_suffix(".rs").is_some_and(|name| !name.starts_with('.'))
    };
    files.retain(is_source);
    files.sort();
    let sources: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let functions = sources.lines().filter_map(|line| line.split_once("extern \"C\" fn ufutex_")?.1.split('(').next());
    let functions: Vec<_> = functions.map(|name| format!("ufutex_{name}")).collect();
    fs::write(out().join("export.rs"), format!("export!(\"{jump} {{function}}\", {});", functions.join(", "))).unwrap();
}

/// Whether this linker gives a version to a symbol that only the assembler knows. Then the result is how the processor jumps.
fn try_versions(map: &Path) -> Result<&'static str, String> {
    let jump = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "jmp",
        Ok("aarch64") => "b",
        _ => return Err("they are made on x86-64 and aarch64 only".into()),
    };
    let (source, library) = (out().join("probe.rs"), out().join("libprobe.so"));
    let code = format!(
        "extern \"C\" fn probe() {{}}\n\
         core::arch::global_asm!(\".globl ufutex_probe\", \".type ufutex_probe, %function\", \
         \"ufutex_probe: {jump} {{0}}\", sym probe);\n"
    );
    fs::write(&source, code).map_err(|error| error.to_string())?;
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap());
    rustc.args(["--edition=2024", "--crate-type=cdylib", "-Cstrip=symbols", "--target"]);
    rustc.arg(env::var_os("TARGET").unwrap());
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut argument = OsString::from("-Clinker=");
        argument.push(linker);
        rustc.arg(argument);
    }
    if let Ok(flags) = env::var("CARGO_ENCODED_RUSTFLAGS") {
        rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    }
    rustc.arg(format!("-Clink-arg=-Wl,--version-script={}", map.display())).arg("-o").arg(&library).arg(&source);
    let output = rustc.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err("no library can be linked here with a version script beside rustc's (LLD can)".into());
    }
    let bytes = fs::read(&library).map_err(|error| error.to_string())?;
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    if has(VERSION) && has("ufutex_probe") { Ok(jump) } else { Err("the linker ignores the version script".into()) }
}
