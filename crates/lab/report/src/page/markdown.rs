//! Writes the document as Markdown.

use super::document::{Block, Document, Picture, Section, Table};

/// The whole file.
pub fn text(document: &Document) -> String {
    let mut parts = vec![format!("# {}", document.title), document.subtitle.clone()];
    parts.extend(document.warnings.iter().map(|warning| format!("**Careful:** {warning}")));
    if !document.summary.is_empty() {
        parts.push(document.summary.iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n"));
    }
    parts.extend(document.sections.iter().map(section));
    parts.join("\n\n") + "\n"
}

fn section(section: &Section) -> String {
    let mut parts = vec![format!("## {}: {}", section.name, section.title)];
    for block in &section.blocks {
        match block {
            Block::Words(text) => parts.push(text.clone()),
            Block::Means(text) => parts.push(format!("**What it means.** {text}")),
            Block::Note(text) => parts.push(format!("*{text}*")),
            Block::Table(rows) => parts.push(table(rows)),
            Block::Pictures(pictures) => parts.extend(pictures.iter().filter_map(picture)),
        }
    }
    parts.join("\n\n")
}

/// A picture is written as its table. Without one, its description is written.
fn picture(picture: &Picture) -> Option<String> {
    match &picture.table {
        Some(rows) => Some(table(&Table { caption: picture.title.clone(), ..rows.clone() })),
        None => (!picture.description.is_empty()).then(|| format!("{}: {}", picture.title, picture.description)),
    }
}

fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let header = table.header.iter().enumerate().map(|(column, title)| cell(&titled(table, column, title)));
    let rule = (0..table.header.len()).map(|column| if column < table.words { "---" } else { "---:" }.to_string());
    let mut lines = vec![line(header.collect()), line(rule.collect())];
    lines.extend(table.rows.iter().map(|row| line(row.iter().map(|text| cell(text)).collect())));
    let body = lines.join("\n");
    if table.caption.is_empty() { body } else { format!("{}:\n\n{body}", table.caption) }
}

/// Markdown has one line of headers, so a group's header is put before each of its columns'.
fn titled(table: &Table, column: usize, title: &str) -> String {
    let mut before = 0;
    for (group, columns) in &table.groups {
        if column < before + columns {
            return if group.is_empty() { title.to_string() } else { format!("{group}: {title}") };
        }
        before += columns;
    }
    title.to_string()
}

/// A bar would end the cell, so it is escaped.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_its_groups_in_its_titles_and_no_bars_in_its_cells() {
        let mut rows = Table::new("Caption", 1, &["what", "before", "after"]);
        rows.groups = vec![(String::new(), 1), ("published".into(), 2)];
        rows.rows.push(vec!["a|b".into(), "1".into(), "2".into()]);
        let expected =
            "Caption:\n\n| what | published: before | published: after |\n| --- | ---: | ---: |\n| a\\|b | 1 | 2 |";
        assert_eq!(table(&rows), expected);
    }
}
