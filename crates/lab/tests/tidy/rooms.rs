//! The layers of the lab's packages: a package may depend on lower layers only.

use super::source::manifests;

/// The layers, lowest first. Packages of one layer do not depend on each other.
const FLOORS: [&[&str]; 7] = [
    &["lab-page", "lab-terminal"],
    &["lab-compare", "lab-measure"],
    &["lab-targets"],
    &["lab-values"],
    &["lab-bench", "lab-sim", "lab-soak", "lab-waits"],
    &["lab-report", "lab-run"],
    &["lab", "ufutex-fuzz-targets"],
];

fn floor(package: &str) -> Option<usize> {
    FLOORS.iter().position(|packages| packages.contains(&package))
}

/// The violations in all manifests.
pub fn findings() -> Vec<String> {
    let manifests = manifests();
    let seen = manifests.iter().filter(|(_, text)| floor(name(text)).is_some()).count();
    assert_eq!(seen, FLOORS.concat().len(), "a room is missing, or has another name");
    manifests.iter().flat_map(|(path, text)| of(path, text)).collect()
}

fn name(manifest: &str) -> &str {
    let line = manifest.lines().find_map(|line| line.strip_prefix("name = \""));
    line.and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

fn of(path: &str, manifest: &str) -> Vec<String> {
    let name = name(manifest);
    let mine = floor(name);
    // Those of one target only are behind `[target.'cfg(..)'.dependencies]`. Tests and build scripts may use anything.
    let is_section =
        |head: &str| head == "dependencies" || head.starts_with("target.") && head.ends_with(".dependencies");
    let sections = manifest.split("\n[").filter_map(|section| section.split_once("]\n"));
    let dependencies: Vec<&str> =
        sections.filter(|(head, _)| is_section(head)).flat_map(|(_, lines)| lines.lines()).collect();
    let of_lab =
        dependencies.iter().filter_map(|line| line.split([' ', '.']).next()).filter(|name| floor(name).is_some());
    let mut findings: Vec<String> = of_lab
        .filter(|other| mine.is_none_or(|mine| floor(other) >= Some(mine)))
        .map(|other| format!("{path}: '{name}' depends on '{other}', which is not below it"))
        .collect();
    // A workload of `bench` is one file, with its flags.
    let has_flags = ["lab", "lab-bench", "lab-values"].contains(&name);
    if mine.is_some() && !has_flags && dependencies.iter().any(|line| line.starts_with("clap")) {
        findings.push(format!("{path}: '{name}' knows clap, which only the command and the workloads do"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::of;

    fn manifest(name: &str, dependencies: &str) -> String {
        format!("[package]\nname = \"{name}\"\n\n[dependencies]\n{dependencies}\n[lints]\nworkspace = true\n")
    }

    #[test]
    fn upward_and_sideways_are_found_and_downward_is_not() {
        let of = |name: &str, dependencies: &str| of("Cargo.toml", &manifest(name, dependencies)).len();
        assert_eq!(of("lab-bench", "lab-targets = { workspace = true }\nanyhow = \"1\"\n"), 0);
        assert_eq!(of("lab-targets", "lab-bench = { workspace = true }\n"), 1);
        assert_eq!(of("lab-bench", "lab-sim.workspace = true\n"), 1, "sideways");
        assert_eq!(of("ufutex", "lab-terminal = { workspace = true }\n"), 1, "the engine knows no room");
        assert_eq!(of("lab-targets", "clap = \"4\"\n"), 1);
        assert_eq!(of("lab-bench", "clap = \"4\"\n"), 0);
        assert_eq!(of("lab-bench", "[target.'cfg(unix)'.dependencies]\nlab-report = { workspace = true }\n"), 1);
        assert_eq!(of("lab-bench", "[dev-dependencies]\nlab-report = { workspace = true }\n"), 0);
        assert_eq!(of("lab", "clap = \"4\"\nlab-run = { workspace = true }\n"), 0);
    }
}
