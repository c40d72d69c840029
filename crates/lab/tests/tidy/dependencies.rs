//! docs/DEPENDENCIES.md says a word on each package that users of the published packages compile, and on no other.

use std::collections::BTreeSet;
use std::process::Command;

use super::source::root;

/// What cargo says that users compile, on any target, with any feature: a package and its version. The error says why
/// there is no cargo here, or is cargo's if it cannot fetch the packages of other hosts, which it reads.
pub fn compiled() -> Result<BTreeSet<String>, String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args([
        "tree",
        "--locked",
        "--all-features",
        "--target",
        "all",
        "--edges",
        "normal,build",
    ]);
    cargo.args(["--prefix", "none", "--no-dedupe", "--package", "ufutex", "--package", "ufutex-capi"]);
    let output = cargo.args(["--package", "ufutex-parking"]).output().map_err(|error| error.to_string())?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() && ["download", "offline", "network"].iter().any(|word| error.contains(word)) {
        return Err(error);
    }
    assert!(output.status.success(), "{error}");
    Ok(from_tree(&String::from_utf8_lossy(&output.stdout)))
}

/// The packages in what `cargo tree` prints, but those of this workspace, which have a path.
fn from_tree(tree: &str) -> BTreeSet<String> {
    let outside = tree.lines().filter(|line| !line.is_empty() && !line.contains(" (/"));
    outside.filter_map(|line| line.split(" (").next()).map(|package| package.replacen(" v", " ", 1)).collect()
}

/// The packages that the document's table has a row for: `| name version | ...`.
fn described(document: &str) -> BTreeSet<String> {
    let rows = document.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.filter(|cell| cell.contains(|c: char| c.is_ascii_digit())).map(str::to_string).collect()
}

pub fn findings(document: &str, compiled: &BTreeSet<String>) -> Vec<String> {
    let described = described(document);
    let new =
        compiled.difference(&described).map(|it| format!("{it}: users compile it, and DEPENDENCIES.md has no row"));
    let old =
        described.difference(compiled).map(|it| format!("{it}: DEPENDENCIES.md has it, and users do not compile it"));
    new.chain(old).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "| package | for |\n|---|---|\n| libc 0.2.1 | calls |\n| probe 0.5.2 | probes |\n";

    #[test]
    fn a_new_package_and_one_that_is_gone_are_found() {
        let compiled = |tree: &str| findings(DOCUMENT, &from_tree(tree));
        assert_eq!(compiled("it v0.1.0 (/where/it)\nlibc v0.2.1\nprobe v0.5.2\nlibc v0.2.1 (*)\n\n"), [""; 0]);
        assert_eq!(compiled("libc v0.2.1\nprobe v0.5.2\nnew v1.0.0 (proc-macro)\n").len(), 1);
        assert_eq!(compiled("libc v0.2.1\n"), ["probe 0.5.2: DEPENDENCIES.md has it, and users do not compile it"]);
        assert_eq!(compiled("libc v0.2.2\nprobe v0.5.2\n").len(), 2, "another version");
    }
}
