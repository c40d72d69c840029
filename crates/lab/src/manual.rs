//! Shell completions and manual pages, generated from the description that parses the command line.

use crate::cli;
use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::io::{self, Write};
use std::path::Path;

/// Sections of a page, by the beginning of the help line that starts them.
const SECTIONS: [(&str, &str); 4] =
    [("Exit status", "EXIT STATUS"), ("Environment", "ENVIRONMENT"), ("Examples", "EXAMPLES"), ("Example", "EXAMPLES")];
/// Section of the help text before the first of these.
const BEFORE: &str = "DETAILS";

/// Prints a shell's completions.
pub fn completions(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::shape(), "ufutex", &mut script);
    Ok(io::stdout().write_all(&script)?)
}

/// The commands that have a page, by their words after `ufutex`. The first is "", `ufutex` itself.
pub fn names() -> Vec<String> {
    all().into_iter().map(|(name, _)| name).collect()
}

/// The page of a command, whose name has blanks (`sim validate`) or hyphens (`sim-validate`). A command's former name
/// finds its page too. `None` if there is no such page.
pub fn find(name: &str) -> Option<String> {
    let wanted = name.replace(' ', "-");
    let is_wanted = |(name, command): &(String, Command)| {
        let parent = name.strip_suffix(command.get_name()).unwrap_or_default();
        let names = [command.get_name()].into_iter().chain(command.get_all_aliases());
        names.into_iter().any(|own| format!("{parent}{own}").replace(' ', "-") == wanted)
    };
    if wanted.is_empty() {
        return Some(wanted);
    }
    all().into_iter().skip(1).find(is_wanted).map(|(name, _)| name)
}

/// Prints the page of this name.
pub fn page(name: &str) -> Result<()> {
    let (all, mut page) = (all(), Vec::new());
    let name = find(name).context("no such page")?;
    let (name, command) = all.iter().find(|(known, _)| *known == name).context("no such page")?;
    render(name, command, &all, &mut page)?;
    Ok(io::stdout().write_all(&page)?)
}

/// Writes all pages. Makes the directory if it does not exist.
pub fn pages(directory: &Path) -> Result<()> {
    let all = all();
    std::fs::create_dir_all(directory).with_context(|| format!("{} cannot be made", directory.display()))?;
    for (name, command) in &all {
        let mut page = Vec::new();
        render(name, command, &all, &mut page)?;
        let file = directory.join(format!("{}.1", title(name)));
        std::fs::write(&file, page).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    Ok(())
}

/// Every command that has a page. `ufutex help` has none: it prints what `--help` prints.
fn all() -> Vec<(String, Command)> {
    let top = cli::shape().disable_help_subcommand(true);
    let mut all = Vec::new();
    for verb in top.get_subcommands() {
        let name = verb.get_name();
        all.push((name.to_string(), verb.clone()));
        all.extend(verb.get_subcommands().map(|own| (format!("{name} {}", own.get_name()), own.clone())));
    }
    all.insert(0, (String::new(), top));
    all
}

/// The page's name: `ufutex-sim-validate` for `sim validate`.
fn title(name: &str) -> String {
    format!("ufutex {name}").trim_end().replace(' ', "-")
}

/// Renders a page as clap_mangen does, except its section EXTRA: there tables keep their lines, and exit status,
/// environment and examples become sections, as in other manual pages.
fn render(name: &str, command: &Command, all: &[(String, Command)], to: &mut dyn Write) -> Result<()> {
    let title = title(name);
    let source = format!("ufutex {}", env!("CARGO_PKG_VERSION"));
    let named = command.clone().display_name(&title).bin_name(format!("ufutex {name}").trim_end());
    // `Man::render_title` leaves an empty date away, and the version would take its place.
    writeln!(to, r#".ie \n(.g .ds Aq \(aq"#)?;
    writeln!(to, ".el .ds Aq '")?;
    writeln!(to, r#".TH {} 1 "" "{source}" ufutex"#, title.to_uppercase())?;
    let man = Man::new(named);
    man.render_name_section(to)?;
    man.render_synopsis_section(to)?;
    man.render_description_section(to)?;
    let mut options = Vec::new();
    man.render_options_section(&mut options)?;
    // An empty line between two breaks is one too many for mandoc.
    let options = String::from_utf8(options)?.replace(".br\n\n.br\n", ".sp\n");
    to.write_all(options.as_bytes())?;
    if command.has_subcommands() {
        man.render_subcommands_section(to)?;
    }
    more(&command.get_after_long_help().map(ToString::to_string).unwrap_or_default()).to_writer(to)?;
    see_also(name, all).to_writer(to)?;
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
            // An empty input line has its own meaning in roff, so `.sp` is written instead.
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

fn see_also(name: &str, all: &[(String, Command)]) -> Roff {
    let mut page = Roff::default();
    let others = all.iter().filter(|(other, _)| other != name).map(|(other, _)| format!("{}(1)", title(other)));
    let others: Vec<_> = others.chain(["futex(2)".to_string(), "perf-bench(1)".to_string()]).collect();
    page.control("SH", ["SEE ALSO"]).text([roman(others.join(", "))]);
    page
}
