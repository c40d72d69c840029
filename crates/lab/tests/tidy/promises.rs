//! What SECURITY.md promises, the tests that it names, and docs/PROOF.md, which has the commands: each promise has
//! tests that are there, each of these tests names the promise in a comment, and the commands run them.

use super::File;
use super::commands::{Command, Package, commands};

/// A row of the table in SECURITY.md.
struct Promise<'a> {
    name: &'a str,
    /// The files that it links to.
    tests: Vec<&'a str>,
    /// Of these files, the test functions that it names.
    functions: Vec<String>,
}

/// The table's rows. Its columns are the name, what is promised, and what shows it.
fn promises(security: &str) -> Vec<Promise<'_>> {
    rows(section(security, "What is promised")).map(promise).collect()
}

fn promise<'a>([name, _, shown]: [&'a str; 3]) -> Promise<'a> {
    let links = shown.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let names = shown.split('`').skip(1).step_by(2);
    Promise { name, tests: links.collect(), functions: names.map(str::to_string).collect() }
}

/// The part of a document below a heading.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let (_, rest) = document.split_once(&format!("\n## {heading}\n")).unwrap_or_default();
    rest.split("\n## ").next().unwrap_or_default()
}

/// The rows of a document's first table, without its head.
fn rows<const N: usize>(document: &str) -> impl Iterator<Item = [&str; N]> {
    let lines = document.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    lines.skip(2).filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        cells.try_into().ok()
    })
}

/// The promises that a file names.
fn named(file: &File) -> impl Iterator<Item = &str> {
    file.text.lines().filter_map(|line| line.trim_start().strip_prefix("//! Promise: "))
}

pub fn findings(security: &str, proof: &str, files: &[File], packages: &[Package]) -> Vec<String> {
    let promises = promises(security);
    let mut findings = Vec::new();
    for promise in &promises {
        findings.extend(of_tests(promise, files).into_iter().map(|finding| format!("{}: {finding}", promise.name)));
        findings.extend(of_proof(promise, proof, packages).into_iter().map(|it| format!("{}: {it}", promise.name)));
        if promises.iter().filter(|other| other.name == promise.name).count() != 1 {
            findings.push(format!("{}: SECURITY.md has it twice", promise.name));
        }
    }
    for file in files {
        for name in named(file) {
            let is_known = |promise: &&Promise<'_>| promise.name == name && promise.tests.contains(&file.path.as_str());
            if !promises.iter().any(|promise| is_known(&promise)) {
                findings.push(format!("{}: SECURITY.md has no promise '{name}' that names this file", file.path));
            }
        }
    }
    for [name, _] in rows(section(proof, "Promises")) {
        if !promises.iter().any(|promise| promise.name == name) {
            findings.push(format!("{name}: SECURITY.md does not promise it, but PROOF.md has it"));
        }
    }
    findings
}

/// Whether the tests are there, and name the promise.
fn of_tests(promise: &Promise<'_>, files: &[File]) -> Vec<String> {
    let found: Vec<&File> =
        promise.tests.iter().filter_map(|path| files.iter().find(|file| file.path == *path)).collect();
    let mut findings = Vec::new();
    if promise.tests.is_empty() {
        findings.push("SECURITY.md names no test".to_string());
    }
    let is_gone = |path: &&&str| !found.iter().any(|file| file.path == ***path);
    findings.extend(promise.tests.iter().filter(is_gone).map(|path| format!("there is no {path}")));
    let is_silent = |file: &&&File| !named(file).any(|name| name == promise.name);
    findings.extend(found.iter().filter(is_silent).map(|file| format!("{} does not name it", file.path)));
    let has = |function: &&String| found.iter().any(|file| file.text.contains(&format!("fn {function}(")));
    let gone = promise.functions.iter().filter(|function| !has(function));
    findings.extend(gone.map(|function| format!("none of its tests has a function {function}")));
    findings
}

/// Whether PROOF.md has commands that run all tests of the promise.
fn of_proof(promise: &Promise<'_>, proof: &str, packages: &[Package]) -> Vec<String> {
    let cells: Vec<&str> =
        rows(section(proof, "Promises")).filter(|[name, _]| *name == promise.name).map(|[_, cell]| cell).collect();
    let &[cell] = cells.as_slice() else {
        return vec![format!("PROOF.md has it {} times", cells.len())];
    };
    let commands = commands(cell);
    let is_run = |path: &&&str| {
        let runs = |command: &Command<'_>| command.runs(path, &promise.functions, packages);
        commands.iter().any(runs)
    };
    let idle = promise.tests.iter().filter(|path| !is_run(path));
    idle.map(|path| format!("no command in PROOF.md runs {path}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::commands::packages;
    use super::*;

    const SECURITY: &str = "# Title\n\n## What is promised\n\n| name | promise | shown by |\n|---|---|---|\n\
        | own table | it has `one` | [a](crates/it/tests/a.rs), `b_holds` in [b](crates/it/src/b.rs) |\n\n\
        ## Else\n\n| name | promise | shown by |\n|---|---|---|\n| no promise | x | y |\n";
    const PROOF: &str = "# Title\n\n## Promises\n\n| promise | commands |\n|---|---|\n\
        | own table | `cargo test -p it --lib b`, `cargo test -p it --test a` |\n";

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_string(), text: text.to_string() }
    }

    fn sources() -> [File; 2] {
        let b = "mod tests {\n    //! Promise: own table\n    fn b_holds() {}\n}\n";
        [file("crates/it/tests/a.rs", "//! Tests.\n//!\n//! Promise: own table\n"), file("crates/it/src/b.rs", b)]
    }

    fn check(security: &str, proof: &str, files: &[File]) -> Vec<String> {
        let manifest = ("crates/it/Cargo.toml".to_string(), "[package]\nname = \"it\"\n".to_string());
        findings(security, proof, files, &packages(&[manifest]))
    }

    #[test]
    fn agreement_has_no_findings() {
        assert_eq!(check(SECURITY, PROOF, &sources()), [""; 0]);
    }

    #[test]
    fn promise_without_tests_or_with_a_test_that_is_gone_is_found() {
        let [a, b] = sources();
        assert_eq!(check(SECURITY, PROOF, &[b]), ["own table: there is no crates/it/tests/a.rs"]);
        let renamed = file("crates/it/src/b.rs", "//! Promise: own table\nfn b_held() {}\n");
        assert_eq!(check(SECURITY, PROOF, &[a, renamed]), ["own table: none of its tests has a function b_holds"]);
        let row = "| own table | it has | by construction |\n";
        let without = format!("{}{row}", &SECURITY[..SECURITY.find("| own").unwrap_or_default()]);
        assert_eq!(check(&without, PROOF, &[]), ["own table: SECURITY.md names no test"]);
    }

    #[test]
    fn test_and_promise_name_each_other() {
        let [a, b] = sources();
        let silent = file(&a.path, "//! Tests.\n// Promise: own table, in a comment that is none\n");
        assert_eq!(check(SECURITY, PROOF, &[silent, b]), ["own table: crates/it/tests/a.rs does not name it"]);
        let [a, b] = sources();
        let stranger = file("crates/it/tests/c.rs", "//! Promise: own table\n//! Promise: new\n");
        let findings = check(SECURITY, PROOF, &[a, b, stranger]);
        let of = |name| format!("crates/it/tests/c.rs: SECURITY.md has no promise '{name}' that names this file");
        assert_eq!(findings, [of("own table"), of("new")]);
        // The promise is gone, and its tests are still there.
        assert_eq!(check("", "", &sources()).len(), 2);
    }

    #[test]
    fn promise_is_in_the_proof_once_with_commands_that_run_its_tests() {
        assert_eq!(check(SECURITY, "", &sources()), ["own table: PROOF.md has it 0 times"]);
        let row = &PROOF[PROOF.find("| own").unwrap_or_default()..];
        assert_eq!(check(SECURITY, &format!("{PROOF}{row}"), &sources()), ["own table: PROOF.md has it 2 times"]);
        let more = format!("{PROOF}| old | `cargo test -p it` |\n");
        assert_eq!(check(SECURITY, &more, &sources()), ["old: SECURITY.md does not promise it, but PROOF.md has it"]);
        let other = PROOF.replace("--test a", "--test b");
        assert_eq!(
            check(SECURITY, &other, &sources()),
            ["own table: no command in PROOF.md runs crates/it/tests/a.rs"]
        );
    }

    #[test]
    fn name_stands_for_one_promise() {
        let row = SECURITY.lines().find(|line| line.starts_with("| own")).unwrap_or_default();
        let twice = SECURITY.replace(row, &format!("{row}\n{row}"));
        assert_eq!(check(&twice, PROOF, &sources()), ["own table: SECURITY.md has it twice"; 2]);
    }
}
