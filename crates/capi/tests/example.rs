//! Builds `examples/c` with its own Makefile and pkg-config against an installation, runs it, and compares its output.

#[path = "../../ufutex/tests/common/skipped.rs"]
mod skipped;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use skipped::skip;

/// Installs the header, the libraries and ufutex.pc under `prefix`.
fn install(prefix: &Path) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = env::current_exe().unwrap().parent().unwrap().to_owned();
    let lib = prefix.join("lib");
    fs::create_dir_all(lib.join("pkgconfig")).unwrap();
    fs::create_dir_all(prefix.join("include")).unwrap();
    fs::copy(package.join("include/ufutex.h"), prefix.join("include/ufutex.h")).unwrap();
    for kind in ["a", "so"] {
        fs::copy(built.join(format!("libufutex_capi.{kind}")), lib.join(format!("libufutex.{kind}"))).unwrap();
    }
    let pc = fs::read_to_string(package.join("ufutex.pc.in")).unwrap();
    let pc = pc.replace("@PREFIX@", &prefix.display().to_string()).replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    fs::write(lib.join("pkgconfig/ufutex.pc"), pc).unwrap();
}

fn runs(variables: &[&str]) {
    for tool in ["make", "pkg-config", "cc"] {
        if !Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success()) {
            skip(format_args!("no {tool} here"));
            return;
        }
    }
    let name = if variables.is_empty() { "shared" } else { "static" };
    let stage = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("example").join(name);
    let _ = fs::remove_dir_all(&stage);
    let (prefix, build) = (stage.join("prefix"), stage.join("build"));
    install(&prefix);
    fs::create_dir_all(&build).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c");
    let version = Command::new("pkg-config")
        .args(["--modversion", "ufutex"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&version.stdout).trim(), env!("CARGO_PKG_VERSION"));
    let output = Command::new("make")
        .arg("--silent")
        .arg("-C")
        .arg(&source)
        .arg(format!("BUILD={}", build.display()))
        .args(variables)
        .arg("run")
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .env("CC", "cc")
        .env("CFLAGS", "-O1 -g -Werror")
        // The variable belongs to the make that may run this test.
        .env_remove("MAKEFLAGS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = fs::read_to_string(source.join("expected.txt")).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let printed: String =
        printed.lines().filter(|line| !line.starts_with("make")).map(|line| format!("{line}\n")).collect();
    assert_eq!(printed, expected);
}

#[test]
fn embedding_in_c_runs_with_the_shared_library() {
    runs(&[]);
}

#[test]
fn embedding_in_c_runs_with_the_static_library() {
    runs(&["STATIC=1"]);
}
