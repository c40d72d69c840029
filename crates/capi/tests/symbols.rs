//! The libraries export the functions of the header, with their versions, and nothing else.

#[allow(dead_code, reason = "this test uses a part")]
#[path = "../man.rs"]
mod man;
#[path = "../../ufutex/tests/common/skipped.rs"]
mod skipped;

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use skipped::skip;

fn library(name: &str) -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().join(name)
}

/// The output of a tool. `None` if the tool is not installed.
fn output(tool: &str, args: &[&str], library: &Path) -> Option<String> {
    match Command::new(tool).args(args).arg(library).output() {
        Ok(output) => {
            assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            skip(format_args!("no {tool} here (Debian's package binutils): {error}"));
            None
        }
    }
}

/// The functions that the header declares.
fn declared() -> BTreeSet<String> {
    let items = man::items(include_str!("../include/ufutex.h"));
    items.into_iter().filter(|item| item.kind == man::Kind::Function).map(|item| item.name).collect()
}

#[test]
fn shared_library_exports_the_header_with_versions_and_nothing_else() {
    let library = library("libufutex_capi.so");
    let Some(symbols) = output("readelf", &["--dyn-syms", "--wide"], &library) else { return };
    let exported: BTreeSet<_> = symbols
        .lines()
        .filter(|line| ["GLOBAL", "WEAK"].iter().any(|binding| line.contains(binding)) && !line.contains(" UND "))
        .map(|line| line.split_whitespace().nth(7).expect("a name").to_owned())
        .filter(|name| name != "UFUTEX_0.1")
        .collect();
    if cfg!(symbol_versions) {
        let expected: BTreeSet<_> = declared().into_iter().map(|name| name + "@@UFUTEX_0.1").collect();
        assert_eq!(exported, expected);
        let versions = output("readelf", &["--version-info", "--wide"], &library).unwrap();
        assert!(versions.contains("Name: UFUTEX_0.1"), "{versions}");
    } else {
        let linker = output("readelf", &["-p", ".comment"], &library).unwrap();
        assert!(!linker.contains("LLD"), "LLD can do versions: {linker}");
        assert_eq!(exported, declared());
        skip("the linker here takes no version script beside rustc's");
    }
}

/// The static library may be linked into another shared library, whose linker has no version script for these names.
#[test]
fn static_library_has_the_header_without_versions() {
    let Some(symbols) = output("nm", &["--defined-only", "-g"], &library("libufutex_capi.a")) else { return };
    let defined: BTreeSet<_> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter(|name| name.starts_with("ufutex_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(defined, declared());
}
