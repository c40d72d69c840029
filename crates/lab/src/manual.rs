//! What shells and man(1) want to know of the command line, made from the very description that reads it.

use crate::cli;
use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::io::{self, Write};
use std::path::Path;

/// Sections of a page by the lines of the help that they begin with.
const SECTIONS: [(&str, &str); 3] =
    [("Exit status", "EXIT STATUS"), ("Environment", "ENVIRONMENT"), ("Examples", "EXAMPLES")];
/// What stands in the help before the first of them.
const BEFORE: &str = "DETAILS";

/// Prints a shell's completions.
pub fn completions(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::shape(), "ufutex", &mut script);
    Ok(io::stdout().write_all(&script)?)
}

/// Prints a page: of a verb, or of all.
pub fn page(verb: Option<&str>) -> Result<()> {
    let (top, mut page) = (all(), Vec::new());
    let command = verb.and_then(|verb| top.find_subcommand(verb)).unwrap_or(&top);
    render(command, &top, &mut page)?;
    Ok(io::stdout().write_all(&page)?)
}

/// Writes all pages.
pub fn pages(directory: &Path) -> Result<()> {
    let top = all();
    for command in top.get_subcommands().chain([&top]) {
        let mut page = Vec::new();
        render(command, &top, &mut page)?;
        let file = directory.join(format!("{}.1", name(command, &top)));
        std::fs::write(&file, page).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    Ok(())
}

/// `ufutex help` has no page: it is what `--help` is.
fn all() -> Command {
    cli::shape().disable_help_subcommand(true)
}

fn name(command: &Command, top: &Command) -> String {
    let [top, own] = [top, command].map(Command::get_name);
    if own == top { top.to_string() } else { format!("{top}-{own}") }
}

/// As clap_mangen does it, but for what it calls EXTRA: there a table stays a table, and exit status, environment and
/// examples are sections, as in other pages.
fn render(command: &Command, top: &Command, to: &mut dyn Write) -> Result<()> {
    let name = name(command, top);
    let source = format!("ufutex {}", top.get_version().unwrap_or_default());
    let named = command.clone().display_name(&name).bin_name(name.replacen('-', " ", 1));
    let man = Man::new(named).title(name.to_uppercase()).source(source).manual("ufutex");
    man.render_title(to)?;
    man.render_name_section(to)?;
    man.render_synopsis_section(to)?;
    man.render_description_section(to)?;
    man.render_options_section(to)?;
    if command.has_subcommands() {
        man.render_subcommands_section(to)?;
    }
    more(&command.get_after_long_help().map(ToString::to_string).unwrap_or_default()).to_writer(to)?;
    see_also(command, top).to_writer(to)?;
    Ok(())
}

fn more(help: &str) -> Roff {
    let mut page = Roff::default();
    let mut is_open = false;
    for line in help.lines() {
        let section = SECTIONS.iter().find(|(begin, _)| line.starts_with(begin));
        if let Some((begin, title)) = section {
            close(&mut page, is_open);
            page.control("SH", [*title]);
            let rest = line[begin.len()..].trim_start_matches([',', ':']).trim();
            if !rest.is_empty() {
                page.text([roman(rest)]);
            }
            page.control("nf", []);
            is_open = true;
        } else {
            if !is_open {
                page.control("SH", [BEFORE]).control("nf", []);
                is_open = true;
            }
            // An empty line of the text would be one of the page's own.
            if line.is_empty() {
                page.control("sp", [])
            } else {
                page.text([roman(line)])
            };
        }
    }
    close(&mut page, is_open);
    page
}

fn close(page: &mut Roff, is_open: bool) {
    if is_open {
        page.control("fi", []);
    }
}

fn see_also(command: &Command, top: &Command) -> Roff {
    let mut page = Roff::default();
    let others = top.get_subcommands().chain([top]).map(|other| name(other, top));
    let others = others.filter(|other| *other != name(command, top)).map(|other| format!("{other}(1)"));
    let others: Vec<_> = others.chain(["futex(2)".to_string(), "perf-bench(1)".to_string()]).collect();
    page.control("SH", ["SEE ALSO"]).text([roman(others.join(", "))]);
    page
}
