//! Turns clap's several lines into one: what is wrong, with what value, what is accepted.

use super::Refusal;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error;

/// What clap refuses, in one line; `--help` and `--version` pass through as they are.
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
        ErrorKind::UnknownArgument => {
            let before = match verb {
                "run" | "advise" => "PROGRAM, before it",
                "compare" => "OLD.json NEW.json and",
                "bench" => "workloads and",
                _ => "only",
            };
            let flags = flags(shape, verb);
            if flags.is_empty() {
                return format!("'{}' is not accepted here; accepted: first {}", shown(&argument), verbs(shape));
            }
            format!("'{}' is not accepted here; accepted: {before} {flags}", shown(&argument))
        }
        ErrorKind::InvalidSubcommand => {
            let verb = shown(&context(error, ContextKind::InvalidSubcommand));
            format!("'{verb}' is not a command; accepted: {}", verbs(shape))
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("no command given; accepted: {}, see --help", verbs(shape))
        }
        ErrorKind::MissingRequiredArgument if verb == "compare" => {
            "two files are compared; accepted: ufutex compare OLD.json NEW.json, see --help".to_string()
        }
        ErrorKind::MissingRequiredArgument if !matches!(verb, "run" | "advise") => {
            let missing = if argument.starts_with('-') { argument } else { argument.to_uppercase() };
            format!("{missing} is missing; accepted: ufutex {verb} {missing}, see --help")
        }
        ErrorKind::MissingRequiredArgument => {
            format!("no program given; accepted: ufutex {verb} [OPTIONS] PROGRAM [ARGS]..., see --help")
        }
        ErrorKind::ArgumentConflict if argument.is_empty() => {
            let workload = shown(&context(error, ContextKind::InvalidSubcommand));
            format!("'{workload}' stands beside another workload or its flags; accepted: one workload, named first")
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

/// Whether what is in conflict is one argument, given twice.
fn is_the_same(error: &clap::Error) -> bool {
    context(error, ContextKind::InvalidArg) == context(error, ContextKind::PriorArg)
}

/// `others` are the workloads with flags of their own, which stand alone.
fn no_such_value(argument: &str, value: &str, values: &str, others: &str) -> String {
    if !value.is_empty() && others.split([' ', ',']).any(|own| own == value) {
        return format!("'{value}' stands beside another workload; accepted: one workload, named first");
    }
    format!("{argument} '{value}' is not accepted; accepted: {values}{others}")
}

/// clap says `--threads <LIST>`, `--processes [<LIST>]`, `[WORKLOAD]` and `<WORKLOAD>`; a reader needs `--threads` and `workload`.
fn flag_name(argument: &str) -> String {
    let name = argument.split([' ', '=']).next().unwrap_or_default();
    let is_flag = name.starts_with('-');
    if is_flag { name.to_string() } else { name.trim_matches(['[', ']', '<', '>', '.']).to_lowercase() }
}

/// What the user typed may hold line ends or control characters: the message stays one line.
fn shown(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// Those with flags of their own, which stand before all flags.
fn own_workloads(shape: &clap::Command, verb: &str) -> String {
    let own: Vec<_> = shape.find_subcommand(verb).map_or_else(Vec::new, |verb| verb.get_subcommands().collect());
    let names: Vec<_> = own.into_iter().map(clap::Command::get_name).filter(|name| *name != "help").collect();
    if names.is_empty() { String::new() } else { format!("; before all flags {}", names.join(", ")) }
}

/// Those that are for users.
fn verbs(shape: &clap::Command) -> String {
    let shown = shape.get_subcommands().filter(|verb| !verb.is_hide_set());
    shown.map(clap::Command::get_name).filter(|name| *name != "help").collect::<Vec<_>>().join(", ")
}

fn flags(shape: &clap::Command, verb: &str) -> String {
    let inner = |outer: Option<_>, name| outer.and_then(|outer: &clap::Command| outer.find_subcommand(name));
    let Some(command) = verb.split(' ').fold(Some(shape), inner) else {
        return String::new();
    };
    let names = command.get_arguments().filter(|argument| !argument.is_hide_set()).filter_map(|argument| {
        Some(match (argument.get_short(), argument.get_long()) {
            (Some(short), Some(long)) => format!("-{short}/--{long}"),
            (Some(short), None) => format!("-{short}"),
            (None, long) => format!("--{}", long?),
        })
    });
    names.collect::<Vec<_>>().join(" ")
}
