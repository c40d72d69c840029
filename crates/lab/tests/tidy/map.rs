//! docs/MAP.md: files and packages with the first sentence about each, from its own first comment.

use super::source::{self, File};

/// The directories whose files are in the map.
const DIRECTORIES: [&str; 8] = [
    "crates/ufutex/src",
    "crates/capi/src",
    "crates/preload/src",
    "crates/program/src",
    "crates/parking_lot_core/src",
    "crates/models/seam/files/schemes",
    "crates/models/loom/tests",
    "crates/models/shuttle/tests",
];

const PATH: &str = "docs/MAP.md";
const WRITE: &str = "UFUTEX_WRITE_MAP=1 cargo test -p lab --test tidy map";

/// The map is out of date, or a file in it does not begin with what it does.
pub fn findings() -> Vec<String> {
    let mut rows = Vec::new();
    for directory in DIRECTORIES {
        let first = rows.len();
        rows.extend(source::files(directory).iter().map(|File { path, text }| row(path, text, "//!")));
        rows[first..].sort();
    }
    let models = source::manifests().into_iter().filter(|(path, _)| path.starts_with("crates/models/"));
    let mut models: Vec<_> = models.map(|(path, text)| row(path.trim_end_matches("/Cargo.toml"), &text, "#")).collect();
    models.sort();
    rows.extend(models);
    let mut map = format!("# Map\n\nWhat each file does, by its own first sentence. Made by `{WRITE}`.\n");
    let mut findings = Vec::new();
    for (directory, name, sentence) in rows {
        let heading = format!("\n## {directory}\n\n| | what it does, or is |\n|---|---|\n");
        if !map.contains(&heading) {
            map += &heading;
        }
        map += &format!("| `{name}` | {sentence} |\n");
        if sentence.len() < 2 {
            findings.push(format!("{directory}/{name}: does not begin with what it does"));
        }
    }
    if std::env::var_os("UFUTEX_WRITE_MAP").is_some() {
        std::fs::write(source::root().join(PATH), &map).expect("docs/ can be written to");
    }
    let is_stale = !source::exists(PATH) || source::read(PATH) != map;
    findings.extend(is_stale.then(|| format!("{PATH} is out of date: {WRITE}")));
    findings
}

/// The directory, the name, and the first sentence of the comment whose lines begin with `mark`.
fn row(path: &str, text: &str, mark: &str) -> (String, String, String) {
    let lines = text.lines().map_while(|line| line.strip_prefix(mark)).map(str::trim);
    let paragraph = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let sentence = paragraph.split(". ").next().unwrap_or_default().trim_end_matches('.');
    let (directory, name) = path.rsplit_once('/').unwrap_or_default();
    (directory.into(), name.into(), sentence.replace("[`", "`").replace("`]", "`") + ".")
}
