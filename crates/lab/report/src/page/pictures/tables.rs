//! Reads tables of `docs/data`: comments, a header, rows. Tables are separated by empty lines.

use anyhow::{Context, Result, ensure};

/// A table.
pub struct Table<'a> {
    /// The comment above it.
    pub title: &'a str,
    header: Vec<&'a str>,
    rows: Vec<Vec<&'a str>>,
}

impl<'a> Table<'a> {
    /// The table of `text` whose comment begins with `title`.
    pub fn find(text: &'a str, title: &str) -> Result<Table<'a>> {
        let is_it = |part: &&str| part.strip_prefix("# ").is_some_and(|line| line.starts_with(title));
        let part = text.split("\n\n").map(str::trim_start).find(is_it);
        let part = part.with_context(|| format!("there is no table '{title}'"))?;
        let comment = part.lines().next().unwrap_or_default().trim_start_matches("# ");
        let mut lines = part.lines().filter(|line| !line.starts_with('#')).map(cells);
        let table = Table { title: comment, header: lines.next().unwrap_or_default(), rows: lines.collect() };
        let has_width = |row: &Vec<&str>| row.len() == table.header.len();
        ensure!(table.rows.iter().all(has_width), "table '{title}' has rows of another width than its header");
        Ok(table)
    }

    /// One `of` of each row, which gets a function from a column's name to its cell.
    pub fn rows<T>(&self, of: impl Fn(&dyn Fn(&str) -> Result<&'a str>) -> Result<T>) -> Result<Vec<T>> {
        let row = |row: &Vec<&'a str>| {
            of(&|name| {
                let column = self.header.iter().position(|one| *one == name);
                column.map(|column| row[column]).with_context(|| format!("there is no column '{name}'"))
            })
        };
        self.rows.iter().map(row).collect()
    }
}

/// The machine on which a file was measured: the processor and the kernel.
pub fn machine(text: &str) -> Result<String> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(','));
        line.with_context(|| format!("there is no line '{name}'"))
    };
    let kernel = value("kernel")?;
    Ok(format!("{}, {}", value("CPU")?, kernel.split('-').next().unwrap_or(kernel)))
}

/// The cells of a line. A cell with a comma is in quotes.
fn cells(line: &str) -> Vec<&str> {
    let (mut cells, mut rest) = (Vec::new(), line);
    loop {
        let quoted = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        let (cell, behind) = quoted.unwrap_or_else(|| rest.split_at(rest.find(',').unwrap_or(rest.len())));
        cells.push(cell);
        match behind.strip_prefix(',') {
            Some(behind) => rest = behind,
            None => return cells,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A file.\n\n# The machine\nCPU,Some CPU\nkernel,Linux 6.18.44-x\n\n# Times of 2 threads\nname,ns\n\"a, b\",1\nc,2\n";

    #[test]
    fn a_table_is_found_by_its_comment_and_a_cell_by_its_column() -> Result<()> {
        let table = Table::find(TEXT, "Times of")?;
        let rows = table.rows(|cell| Ok((cell("ns")?.parse::<u32>()?, cell("name")?)))?;
        assert_eq!((table.title, rows), ("Times of 2 threads", vec![(1, "a, b"), (2, "c")]));
        assert_eq!(machine(TEXT)?, "Some CPU, Linux 6.18.44");
        Ok(())
    }

    #[test]
    fn what_is_not_there_is_an_error() -> Result<()> {
        assert!(Table::find(TEXT, "Rates").is_err());
        assert!(Table::find("# Times\na,b\n1\n", "Times").is_err());
        assert!(Table::find(TEXT, "Times of")?.rows(|cell| cell("us")).is_err());
        Ok(())
    }
}
