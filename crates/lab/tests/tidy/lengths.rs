//! Functions must fit on a screen.

use super::File;

const MOST: usize = 70;

/// Accepted longer functions, each with its reason.
const EXCEPTIONS: [(&str, &str, &str); 4] = [
    ("preload/src/entry.rs", "syscall", "one block of assembly, which saves and restores every register"),
    ("preload/src/gate.rs", "sleep", "one block of assembly, and where each register is"),
    ("preload/src/trap.rs", "on_sigsys", "one block of assembly, whose first part is a range of addresses"),
    ("preload/src/patch/call.rs", "from_stub", "one block of assembly, which saves and restores every register"),
];

/// Functions of more than [`MOST`] lines.
pub fn findings(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        for (name, lines) in lengths(&file.text) {
            let is_exception = EXCEPTIONS.iter().any(|(path, known, _)| file.path.ends_with(path) && name == *known);
            if lines > MOST && !is_exception {
                findings.push(format!("{}: '{name}' has {lines} lines; accepted: {MOST}", file.path));
            }
        }
    }
    findings
}

/// The names and lengths of a file's functions. Assumes rustfmt's layout: a function ends with a brace in its column.
fn lengths(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let Some((indent, name)) = head(line) else { continue };
        let is_end = |line: &&str| line.len() == indent + 1 && line.trim() == "}";
        let is_one_line = line.ends_with('}') || line.ends_with(';');
        if !is_one_line && let Some(end) = lines[number..].iter().position(is_end) {
            all.push((name, end + 1));
        }
    }
    all
}

fn head(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start();
    let (before, rest) = text.split_once("fn ")?;
    let is_qualifier = |word: &str| {
        ["const", "async", "unsafe", "extern"].contains(&word) || word.starts_with("pub") || word.starts_with('"')
    };
    if !before.split_whitespace().all(is_qualifier) {
        return None;
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (end > 0).then(|| (line.len() - text.len(), &rest[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!(
            "impl It {{\n    pub(crate) unsafe fn long(\n    ) {{\n{}    }}\n}}\nfn short() {{}}\n",
            "        let x = 1;\n".repeat(lines - 3)
        )
    }

    #[test]
    fn a_long_function_is_found_and_a_short_one_is_not() {
        let findings = |lines| findings(&[File { path: "it.rs".to_string(), text: function(lines) }]);
        assert_eq!(lengths(&function(71)), [("long", 71)]);
        assert_eq!(findings(MOST).len(), 0);
        assert_eq!(findings(MOST + 1), ["it.rs: 'long' has 71 lines; accepted: 70"]);
    }
}
