//! The engine's modules: which module may import which, and that none has statics.

use super::File;
use super::source::code;

/// The layers of the engine's top-level modules, lowest first. A module may import itself and lower layers. `sync`
/// (atomics and their backends), `error` and `sys` (the host) import each other: a backend sleeps, the host has errors.
const FLOORS: [&[&str]; 6] = [
    &["sync", "error", "sys"],
    &["lock"],
    &["table", "signal", "expiry"],
    &["futex", "timer"],
    &["syscall", "wasm", "process"],
    &["lib"],
];

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|modules| modules.contains(&module))
}

/// Imports from a module that is not in a lower layer.
pub fn upward_imports(file: &File) -> Vec<String> {
    let Some(module) = module(&file.path) else { return Vec::new() };
    let Some(mine) = floor(module) else {
        return vec![format!("{}: the module '{module}' has no floor", file.path)];
    };
    if file.is_test() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in file.lines().iter().enumerate() {
        for path in from_root(code(line), depth(&file.path)) {
            let other = first_name(path);
            // A name that is not a module's is exported by `lib`, or the path is a list of names.
            let other = if other.is_empty() || other.starts_with(char::is_uppercase) { "lib" } else { other };
            let Some(theirs) = floor(other) else { continue };
            let is_below = theirs < mine || other == module || theirs == 0;
            if !is_below {
                findings.push(format!("{}:{}: '{module}' imports '{other}'", file.path, number + 1));
            }
        }
    }
    findings
}

/// The paths in a line that begin at the crate's root: behind `crate::`, or behind as many `super::` as lead there.
fn from_root(line: &str, depth: usize) -> impl Iterator<Item = &str> {
    let to_root = "super::".repeat(depth);
    let by_super = move |(start, _): (usize, &str)| {
        let is_first = !line[..start].ends_with("super::");
        line[start..].strip_prefix(&to_root).filter(|rest| is_first && !rest.starts_with("super::"))
    };
    line.split("crate::").skip(1).chain(line.match_indices("super::").filter_map(by_super))
}

/// How many `super` lead from a file's module to the crate's root.
fn depth(path: &str) -> usize {
    let below = path.strip_prefix("crates/ufutex/src/").unwrap_or(path);
    let is_directory = below.ends_with("/mod.rs") || below == "lib.rs";
    below.split('/').count() - usize::from(is_directory)
}

fn module(path: &str) -> Option<&str> {
    let below = path.strip_prefix("crates/ufutex/src/")?;
    below.split(['/', '.']).next()
}

fn first_name(path: &str) -> &str {
    path.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// Accepted statics, each with its reason.
const STATICS: [(&str, &str); 5] = [
    ("sys/host/any_std.rs", "the sleepers of every system, found by address as futex(2) finds them"),
    ("sys/host/linux_nodes.rs", "the host has one topology, which is read once"),
    ("sys/host/std_clocks.rs", "the epoch of a clock that has none: hosts that are neither a Unix nor Windows"),
    ("process.rs", "the domain of programs that make none: an embedder does not call these functions"),
    ("sync/shards.rs", "random hints, which no user can switch on"),
];

/// Statics in the engine. There should be none, because an embedder may have several systems.
pub fn statics(file: &File) -> Vec<String> {
    let allowed = STATICS.iter().any(|(path, _)| file.path.ends_with(&format!("src/{path}")));
    if allowed || file.is_test() {
        return Vec::new();
    }
    let lines = file.lines();
    let is_static = |line: &str| {
        let line = code(line).trim_start();
        let line = line.strip_prefix("pub").map_or(line, |rest| rest.split_once(' ').map_or(rest, |(_, rest)| rest));
        line.starts_with("static ") || line.starts_with("thread_local!")
    };
    let found = lines.iter().enumerate().filter(|(_, line)| is_static(line));
    found.map(|(number, line)| format!("{}:{}: {}", file.path, number + 1, line.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: format!("crates/ufutex/src/{path}"), text: text.to_string() }
    }

    #[test]
    fn an_import_upwards_is_found_and_one_in_a_comment_is_not() {
        let findings = |path: &str, text: &str| upward_imports(&file(path, text)).len();
        assert_eq!(findings("table/list.rs", "use crate::futex::domain::Domain;\n"), 1);
        assert_eq!(
            findings("expiry/queue.rs", "use crate::lock::Lock;\nuse crate::table::hash::Key;\n"),
            1,
            "sideways"
        );
        assert_eq!(findings("expiry/mod.rs", "let x = crate::timer::now(); crate::sync::fence();\n"), 1);
        assert_eq!(findings("table/live.rs", "use super::super::futex::Domain;\n"), 1, "by super");
        assert_eq!(findings("table/live.rs", "use super::hash::Key;\nuse super::tables;\n"), 0, "its own room");
        assert_eq!(findings("table/mod.rs", "use super::futex::Domain;\n"), 1, "by super");
        assert_eq!(findings("futex/wake.rs", "use crate::table::list::Node;\nuse crate::futex::key::Key;\n"), 0);
        assert_eq!(findings("table/list.rs", "// See `crate::futex`.\n"), 0);
        assert_eq!(findings("table/list.rs", "#[cfg(test)]\nmod tests {\n    use crate::futex::Domain;\n"), 0);
        assert_eq!(findings("attic/mod.rs", ""), 1, "a module without a floor");
        assert_eq!(
            findings("sys/mem.rs", "use crate::Domain;\nuse crate::{futex::Domain};\n"),
            2,
            "by the crate's root"
        );
    }

    #[test]
    fn a_static_is_found() {
        let findings = |path: &str, text: &str| statics(&file(path, text)).len();
        assert_eq!(findings("futex/wake.rs", "    pub(crate) static COUNT: AtomicU32 = AtomicU32::new(0);\n"), 1);
        assert_eq!(findings("futex/wake.rs", "pub(super) static COUNT: AtomicU32 = AtomicU32::new(0);\n"), 1);
        assert_eq!(findings("futex/wake.rs", "fn of(x: &'static str) {}\n// static\n"), 0);
        assert_eq!(findings("sys/host/linux_nodes.rs", "static HOST: OnceLock<()> = OnceLock::new();\n"), 0);
        assert_eq!(findings("process.rs", "static FUTEXES: StaticDomain = StaticDomain::new();\n"), 0);
        assert_eq!(findings("futex/process.rs", "static FUTEXES: StaticDomain = StaticDomain::new();\n"), 1);
    }
}
