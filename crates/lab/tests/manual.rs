//! Completions, manual pages and help name all commands and flags. Shells and formatters accept them.

mod common;

use common::skipped::skip;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

fn ufutex(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program starts")
}

/// Without the user's settings for colours.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ufutex"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

fn printed(arguments: &[&str]) -> String {
    let output = ufutex(arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The help of a command such as `sim validate`. An empty `verb` means `ufutex` itself.
fn help(verb: &str) -> String {
    printed(&verb.split_whitespace().chain(["--help"]).collect::<Vec<_>>())
}

/// The commands that `ufutex --help` lists, and their subcommands.
fn verbs() -> Vec<String> {
    let top = listed("");
    top.iter().flat_map(|verb| [verb.clone()].into_iter().chain(listed(verb))).collect()
}

fn listed(verb: &str) -> Vec<String> {
    let help = help(verb);
    let Some((_, list)) = help.split_once("Commands:\n") else { return Vec::new() };
    let list = list.split("\n\n").next().expect("its end");
    let names =
        list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    names.filter(|name| *name != "help").map(|name| format!("{verb} {name}").trim_start().to_string()).collect()
}

/// The flags that a command's help lists.
fn flags(verb: &str) -> BTreeSet<String> {
    let help = help(verb);
    let options = help.split_once("Options:\n").expect("options").1;
    let is_flag = |line: &&str| line.starts_with("  -") || line.starts_with("      --");
    let words = options.lines().take_while(|line| line.is_empty() || line.starts_with(' ')).filter(is_flag);
    words
        .flat_map(|line| line.split([' ', ',', '=', '[']))
        .filter(|w| w.starts_with("--"))
        .map(str::to_string)
        .collect()
}

/// The text of a manual page without its formatting.
fn plain(page: &str) -> String {
    page.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "")
}

#[test]
fn the_commands_and_their_flags_are_found_in_the_help() {
    let verbs = verbs();
    for verb in [
        "bench",
        "bench schbench",
        "bench neighbour",
        "run",
        "advise",
        "soak",
        "sim",
        "sim timers",
        "sim validate",
        "completions",
        "man",
    ] {
        assert!(verbs.iter().any(|one| one == verb), "{verb} in {verbs:?}");
    }
    assert!(!verbs.iter().any(|verb| verb.ends_with("-child")), "{verbs:?}");
    for (verb, flag, count) in [
        ("bench", "--threads", 13),
        ("bench hash", "--stride", 14),
        ("run", "--trap", 10),
        ("advise", "--duration", 4),
        ("soak", "--timers", 7),
    ] {
        let flags = flags(verb);
        assert!(flags.contains(flag) && flags.len() >= count, "{verb}: {flags:?}");
    }
}

#[test]
fn completions_name_every_command_and_every_flag() {
    for shell in SHELLS {
        let script = printed(&["completions", shell]);
        for verb in verbs() {
            assert!(verb.split(' ').all(|word| script.contains(word)), "{shell}: {verb}");
            for flag in flags(&verb) {
                // fish writes `-l threads`.
                let name = if shell == "fish" { format!("-l {}", &flag[2..]) } else { flag };
                assert!(script.contains(&name), "{shell}: {verb} {name}");
            }
        }
        assert!(!script.contains("growth-child"), "{shell}: what no user calls");
    }
}

#[test]
fn shells_can_read_the_completions_and_bash_completes_by_them() {
    for shell in SHELLS {
        let mut child = match Command::new(shell).args(["-n", "/dev/stdin"]).stdin(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(error) => {
                skip(format_args!("no {shell} here: {error}"));
                continue;
            }
        };
        let script = printed(&["completions", shell]);
        child.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("it reads");
        assert!(child.wait().expect("our child").success(), "{shell} -n");
    }
    let script = printed(&["completions", "bash"]);
    let completed = |words: &str, last: &str| {
        let count = words.split(' ').count();
        // As bash calls it: with the command, the word and the word before it.
        let before = words.rsplit(' ').next().unwrap_or_default();
        let line = format!(
            "{script}\nCOMP_WORDS=({words} {last}); COMP_CWORD={count}; _ufutex ufutex '{last}' '{before}'; echo \"${{COMPREPLY[@]}}\""
        );
        match Command::new("bash").args(["-c", &line]).output() {
            Ok(output) => String::from_utf8(output.stdout).expect("UTF-8").trim().to_string(),
            Err(error) => panic!("skipped above: {error}"),
        }
    };
    if Command::new("bash").arg("--version").output().is_ok() {
        assert_eq!(completed("ufutex", "ad"), "advise");
        assert_eq!(completed("ufutex bench hash", "--strid"), "--stride");
        assert_eq!(completed("ufutex bench requeue", "--strid"), "", "a flag of others");
        assert_eq!(completed("ufutex bench", "wake-"), "wake-parallel");
        assert_eq!(completed("ufutex sim", "va"), "validate");
        assert_eq!(completed("ufutex sim", "se"), "", "a former name is accepted, not offered");
        assert_eq!(completed("ufutex sim validate", "--on"), "--only");
        assert_eq!(completed("ufutex bench --targets", "rad"), "radix");
        assert_eq!(completed("ufutex bench requeue --targets", "f"), "fixed", "no thread sleeps on floor");
        assert_eq!(completed("ufutex bench hash --targets", "f"), "fixed floor");
        assert_eq!(completed("ufutex bench hash --policy", "l"), "load");
        assert_eq!(completed("ufutex run --policy", "th"), "threads");
        assert_eq!(completed("ufutex sim --schemes", "perc"), "percpu");
    }
}

#[test]
fn pages_name_every_command_every_flag_and_every_exit_status() {
    let top = plain(&printed(&["man"]));
    for heading in [".SH NAME", ".SH SYNOPSIS", ".SH \"EXIT STATUS\"", ".SH ENVIRONMENT", ".SH EXAMPLES"] {
        assert!(top.contains(heading), "{heading} in {top}");
    }
    for text in ["NO_COLOR", "CLICOLOR", "130  interrupted", "2    a mistake", "1    it failed"] {
        assert!(top.contains(text), "{text}");
    }
    assert!(!top.contains("ufutex-help(1)"), "there is no such page");
    for verb in verbs() {
        let page_name = format!("ufutex-{}", verb.replace(' ', "-"));
        assert!(top.contains(&format!("{page_name}(1)")), "{verb}");
        let page = plain(&printed(&[&["man"], &*verb.split(' ').collect::<Vec<_>>()].concat()));
        assert!(page.contains(&format!("{page_name} - ")) && page.contains(".SH \"EXIT STATUS\""), "{verb}: {page}");
        for flag in flags(&verb) {
            assert!(page.contains(&flag), "{verb}: {flag}");
        }
        let help = help(&verb);
        assert!(help.contains("Exit status") && help.contains("  2    "), "{verb}");
        assert!(help.contains("Example"), "{verb}");
        assert!(help.contains(&format!("Usage: ufutex {verb}")), "{verb}: {help}");
    }
}

#[test]
fn formatters_have_nothing_to_say_against_the_pages() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("man-{}", std::process::id()));
    let _ = printed(&["man", "-o", directory.to_str().expect("UTF-8")]);
    let mut pages: Vec<_> =
        std::fs::read_dir(&directory).expect("written").map(|file| file.expect("a file").path()).collect();
    pages.sort();
    assert_eq!(pages.len(), verbs().len() + 1, "{pages:?}");
    for page in &pages {
        for formatter in [&["groff", "-man", "-ww", "-Tutf8", "-z"][..], &["mandoc", "-T", "lint", "-W", "warning"]] {
            match Command::new(formatter[0]).args(&formatter[1..]).arg(page).output() {
                Ok(output) => {
                    let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
                    // The pages have a version in place of a date.
                    let said: Vec<_> = said.lines().filter(|line| !line.contains("missing date")).collect();
                    assert!(said.is_empty(), "{formatter:?}: {said:#?}");
                }
                Err(error) => skip(format_args!("no {} here: {error}", formatter[0])),
            }
        }
    }
    std::fs::remove_dir_all(&directory).expect("our own directory");
}

#[test]
fn a_mistake_is_one_line_and_exits_2() {
    common::assert_mistakes(
        &[],
        &[
            (&["completions"], "SHELL is missing; accepted: ufutex completions bash|elvish|fish|powershell|zsh"),
            (&["completions", "tcsh"], "'tcsh'"),
            (&["man", "lunch"], "'lunch' has no page; accepted: bench, bench hash, bench wake, "),
            (&["man", "growth-child"], "'growth-child' has no page"),
            (&["man", "bench", "-o", "/tmp"], "is not accepted with"),
        ],
    );
    assert_eq!(printed(&["man", "sim", "validate"]), printed(&["man", "sim-validate"]), "as its file is called");
    assert_eq!(printed(&["man", "sim", "seeds"]), printed(&["man", "sim", "validate"]), "a former name");
    let output = ufutex(&["man", "-o", "/dev/null/man"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).expect("UTF-8").starts_with("ufutex: /dev/null/man cannot be made"));
}

#[test]
fn there_is_colour_where_it_is_wanted_and_nowhere_else() {
    let is_coloured = |arguments: &[&str], set: &[(&str, &str)]| {
        let output = command(arguments).envs(set.iter().copied()).output().expect("it starts");
        [output.stdout, output.stderr].concat().contains(&0x1b)
    };
    let help = &["bench", "--help"][..];
    assert!(!is_coloured(help, &[]), "no terminal");
    assert!(is_coloured(help, &[("CLICOLOR_FORCE", "1")]));
    assert!(!is_coloured(help, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    for quiet in [
        &["bench", "hash", "-t", "1", "--targets", "live", "--repeat", "1"][..],
        &["bench", "hush"],
        &["advise", "true"],
        &["run", "--stats", "true"],
        &["man"],
    ] {
        assert!(!is_coloured(quiet, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), "{quiet:?}");
    }
}
