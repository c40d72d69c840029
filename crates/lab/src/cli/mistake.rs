//! Turns clap's errors into one line: what is wrong, the value, what is accepted.

use super::Refusal;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error;

/// Turns clap's error into one line. `--help` and `--version` are passed on unchanged.
pub fn refusal(error: &clap::Error, shape: &clap::Command, verb: &str) -> Refusal {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Refusal::Information(error.render()),
        _ => Refusal::Mistake(one_line(error, shape, verb)),
    }
}

fn one_line(error: &clap::Error, shape: &clap::Command, verb: &str) -> String {
    let argument = flag_name(&context(error, ContextKind::InvalidArg));
    let value = shown(&context(error, ContextKind::InvalidValue));
    let values = context(error, ContextKind::ValidValue);
    match error.kind() {
        ErrorKind::ValueValidation => {
            let reason = error.source().map(ToString::to_string).unwrap_or_default();
            format!("{argument} '{value}' {}", shown(&reason))
        }
        ErrorKind::InvalidValue if value.is_empty() && values.is_empty() => {
            format!("{argument} has no value; accepted: {argument} VALUE, see --help")
        }
        ErrorKind::InvalidValue => {
            let others = if argument == "workload" { own_workloads(shape, verb) } else { String::new() };
            no_such_value(&argument, &value, &values, &others)
        }
        ErrorKind::UnknownArgument => unknown(&argument, shape, verb),
        ErrorKind::InvalidSubcommand => {
            let name = context(error, ContextKind::InvalidSubcommand);
            match find(shape, verb).filter(|verb| verb.has_subcommands()) {
                Some(verb) => no_such_verb(&name, "workload", verb),
                None => no_such_verb(&name, "command", shape),
            }
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("no command given; accepted: {}, see --help", verbs(shape))
        }
        ErrorKind::MissingRequiredArgument if verb == "compare" => {
            "a file is missing; accepted: ufutex compare OLD.json NEW.json, see --help".to_string()
        }
        ErrorKind::MissingRequiredArgument if !matches!(verb, "run" | "advise") => {
            let missing = if argument.starts_with('-') { argument } else { argument.to_uppercase() };
            match choices(shape, verb, &missing) {
                Some(choices) => format!("{missing} is missing; accepted: ufutex {verb} {choices}"),
                None => format!("{missing} is missing; accepted: ufutex {verb} {missing}, see --help"),
            }
        }
        ErrorKind::MissingRequiredArgument => {
            format!("no program given; accepted: ufutex {verb} [OPTIONS] PROGRAM [ARGS]..., see --help")
        }
        ErrorKind::ArgumentConflict if argument.is_empty() => {
            let workload = shown(&context(error, ContextKind::InvalidSubcommand));
            format!("'{workload}' follows flags; accepted: workloads first, then flags")
        }
        ErrorKind::ArgumentConflict if !is_the_same(error) => {
            let other = flag_name(&context(error, ContextKind::PriorArg));
            format!("{argument} is not accepted with {other}; accepted: one of the two")
        }
        ErrorKind::ArgumentConflict => {
            format!("{argument} is given more than once; accepted: once")
        }
        ErrorKind::TooManyValues => {
            format!("{argument} takes no value, not '{value}'; accepted: {argument} alone")
        }
        ErrorKind::InvalidUtf8 => "an argument is not UTF-8; accepted: see --help".to_string(),
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            format!("{}; accepted: see --help", first.trim_start_matches("error: "))
        }
    }
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        Some(ContextValue::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// A flag or word that this command does not take.
fn unknown(argument: &str, shape: &clap::Command, verb: &str) -> String {
    let before = match verb {
        "run" | "advise" => "PROGRAM, before it ",
        "compare" => "OLD.json NEW.json and ",
        "bench" => "workloads and ",
        _ => "",
    };
    if let Some(parent) = verb.rsplit_once(' ').and_then(|(parent, _)| find(shape, parent)) {
        if parent.find_subcommand(argument).is_some() {
            return format!("'{argument}' follows flags; accepted: workloads first, then flags");
        }
        if parent.get_name() == "bench" && !argument.starts_with('-') {
            return no_such_verb(argument, "workload", parent);
        }
    }
    let (name, flags) = (shown(argument), flags(shape, verb));
    if flags.is_empty() {
        return format!("'{name}' is not accepted here; accepted: --help, --version, or a command: {}", verbs(shape));
    }
    let meant = meant(argument, flags.split([' ', '/']));
    format!("'{name}' is not accepted by 'ufutex {verb}'{meant}; accepted: {before}{flags}")
}

/// The message for a command or a workload, as `kind` says, that `of` does not have.
fn no_such_verb(name: &str, kind: &str, of: &clap::Command) -> String {
    let verbs = verbs(of);
    format!("'{}' is not a {kind}{}; accepted: {verbs}", shown(name), meant(name, verbs.split(", ")))
}

/// ` (did you mean NAME?)` with the name that is most like `word`, or an empty string if none is like it.
fn meant<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    let likeness = |name: &str| strsim::jaro_winkler(word, name);
    let alike = names.filter(|name| name.len() > 2 && likeness(name) > 0.8);
    let most = alike.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    most.map_or_else(String::new, |name| format!(" (did you mean {name}?)"))
}

/// Whether the conflict is one argument that was given twice.
fn is_the_same(error: &clap::Error) -> bool {
    context(error, ContextKind::InvalidArg) == context(error, ContextKind::PriorArg)
}

/// `others` are the workloads with flags of their own, which cannot be combined.
fn no_such_value(argument: &str, value: &str, values: &str, others: &str) -> String {
    if !value.is_empty() && others.split([' ', ',']).any(|own| own == value) {
        return format!("'{value}' cannot be combined with another workload; accepted: one workload, before all flags");
    }
    format!("{argument} '{value}' is not accepted; accepted: {values}{others}")
}

/// The name alone: clap's text is `--threads <LIST>`, `--processes [<LIST>]`, `--spin[=<US>]`, `[WORKLOAD]` or `<WORKLOAD>`.
fn flag_name(argument: &str) -> String {
    let name = argument.split([' ', '=']).next().unwrap_or_default();
    let is_flag = name.starts_with('-');
    if is_flag {
        name.trim_end_matches('[').to_string()
    } else {
        name.trim_matches(['[', ']', '<', '>', '.']).to_lowercase()
    }
}

/// Escapes control characters of what the user typed, so that the error stays one line.
fn shown(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// What a word of a command may be, if it is one of a few: `one|two`.
fn choices(shape: &clap::Command, verb: &str, name: &str) -> Option<String> {
    let is_named = |argument: &&clap::Arg| argument.get_id().as_str().eq_ignore_ascii_case(name);
    let values = find(shape, verb)?.get_positionals().find(is_named)?.get_possible_values();
    let names: Vec<_> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
    (!names.is_empty()).then(|| names.join("|"))
}

/// The workloads with their own flags, which must be named before all flags.
fn own_workloads(shape: &clap::Command, verb: &str) -> String {
    let own: Vec<_> = shape.find_subcommand(verb).map_or_else(Vec::new, |verb| verb.get_subcommands().collect());
    let names: Vec<_> = own.into_iter().map(clap::Command::get_name).filter(|name| *name != "help").collect();
    if names.is_empty() { String::new() } else { format!("; before all flags {}", names.join(", ")) }
}

/// The commands that are not hidden.
fn verbs(shape: &clap::Command) -> String {
    let shown = shape.get_subcommands().filter(|verb| !verb.is_hide_set());
    shown.map(clap::Command::get_name).filter(|name| *name != "help").collect::<Vec<_>>().join(", ")
}

/// Finds a command by its words after `ufutex`.
fn find<'a>(shape: &'a clap::Command, verb: &str) -> Option<&'a clap::Command> {
    let inner = |outer: Option<_>, name| outer.and_then(|outer: &clap::Command| outer.find_subcommand(name));
    verb.split(' ').fold(Some(shape), inner)
}

fn flags(shape: &clap::Command, verb: &str) -> String {
    let Some(command) = find(shape, verb) else { return String::new() };
    let names = command.get_arguments().filter(|argument| !argument.is_hide_set()).filter_map(|argument| {
        Some(match (argument.get_short(), argument.get_long()) {
            (Some(short), Some(long)) => format!("-{short}/--{long}"),
            (Some(short), None) => format!("-{short}"),
            (None, long) => format!("--{}", long?),
        })
    });
    names.collect::<Vec<_>>().join(" ")
}
