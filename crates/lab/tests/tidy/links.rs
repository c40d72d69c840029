//! Links of the pages: the file is there, and has the heading.

use super::File;
use std::path::{Component, Path, PathBuf};

/// Links of a page that lead nowhere. `read` returns the text of a file or the name of a directory, or `None` if there is neither.
pub fn dead(page: &File, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let prose: String = outside_of_code(&page.text).collect::<Vec<_>>().join("\n");
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let of_files = targets.filter(|target| !target.contains("://"));
    let is_dead = |target: &&str| {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { page.path.clone() } else { beside(&page.path, file) };
        !read(&path).is_some_and(|text| heading.is_empty() || headings(&text).any(|known| known == heading))
    };
    of_files.filter(is_dead).map(|target| format!("{}: {target} is not there", page.path)).collect()
}

/// The path of a file that a page names, below the workspace's root.
fn beside(page: &str, file: &str) -> String {
    let mut path = PathBuf::new();
    for part in Path::new(page).parent().unwrap_or(Path::new("")).join(file).components() {
        if part == Component::ParentDir {
            path.pop();
        } else {
            path.push(part);
        }
    }
    path.display().to_string()
}

/// The lines that are not in a block of code.
fn outside_of_code(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The names of a page's headings in links: in lower case, without punctuation, and with hyphens for spaces.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = outside_of_code(text)
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    titles.map(|title| {
        let kept = title.to_lowercase().replace(' ', "-");
        kept.chars().filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect()
    })
}

#[test]
fn dead_links_are_found() {
    let page = |text: &str| File { path: "docs/A.md".to_string(), text: text.to_string() };
    let read = |path: &str| match path {
        "README.md" => Some("# First\n## The `locks`, in short\n```\n# no heading\n```\n".to_string()),
        "docs/A.md" => Some("## Own".to_string()),
        _ => None,
    };
    let good = "[a](../README.md), ![b](../README.md#the-locks-in-short) [c](#own) [d](https://example.org/x#y)\n```\n[e](none)\n```";
    assert_eq!(dead(&page(good), read), Vec::<String>::new());
    for bad in ["README.md", "../README.md#the-locks", "../README.md#no-heading", "#other"] {
        assert_eq!(dead(&page(&format!("[x]({bad})")), read), [format!("docs/A.md: {bad} is not there")]);
    }
}
