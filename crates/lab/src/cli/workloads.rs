//! Finds the workloads of a command line. They are next to each other, before the flags or after flags of the verb itself.

use std::ffi::{OsStr, OsString};

/// Removes the names from `ufutex VERB [FLAGS] NAME...`. Empty if the first word that is neither a flag nor a flag's value
/// is no subcommand.
pub fn take(arguments: &mut Vec<OsString>, verb: Option<&clap::Command>) -> Result<Vec<String>, String> {
    let Some(verb) = verb else { return Ok(Vec::new()) };
    let is_flag = |argument: &OsStr| argument.to_str().is_some_and(|text| text.starts_with('-'));
    let is_name = |argument: &OsStr| verb.find_subcommand(argument).is_some();
    let is_value = |place: usize| has_value(&arguments[place - 1], &arguments[place], verb);
    let is_first = |place: &usize| !is_flag(&arguments[*place]) && !is_value(*place);
    let Some(first) = (2..arguments.len()).find(is_first) else { return Ok(Vec::new()) };
    let count = arguments[first..].iter().take_while(|argument| is_name(argument)).count();
    let names: Vec<String> = arguments.drain(first..first + count).filter_map(|name| name.into_string().ok()).collect();
    match names.iter().enumerate().find(|(number, name)| names[..*number].contains(name)) {
        Some((_, twice)) => Err(format!("'{twice}' is named twice; accepted: each workload once")),
        None => Ok(names),
    }
}

/// Whether `next` is the value of the argument before it. If that flag may be without one, a workload's name is not.
fn has_value(argument: &OsStr, next: &OsStr, verb: &clap::Command) -> bool {
    let text = argument.to_str().unwrap_or_default();
    let is_it = |flag: &&clap::Arg| match text.strip_prefix("--") {
        Some(name) => flag.get_long() == Some(name),
        // Of several short flags in one argument the last may have a value.
        None => text.starts_with('-') && text.chars().next_back() == flag.get_short(),
    };
    let is_optional = |flag: &clap::Arg| flag.get_num_args().is_some_and(|count| count.min_values() == 0);
    let is_name = verb.find_subcommand(next).is_some();
    let takes_it = |flag: &clap::Arg| flag.get_action().takes_values() && !(is_name && is_optional(flag));
    verb.get_arguments().find(is_it).is_some_and(takes_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(line: &str) -> Result<(Vec<String>, String), String> {
        let flags = [
            clap::Arg::new("json").long("json").action(clap::ArgAction::SetTrue),
            clap::Arg::new("threads").short('t').long("threads"),
            clap::Arg::new("noise").long("noise").num_args(0..=1),
        ];
        let verb = clap::Command::new("bench").subcommands(["hash", "wake"].map(clap::Command::new)).args(flags);
        let mut arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let names = take(&mut arguments, Some(&verb))?;
        let left: Vec<_> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
        Ok((names, left.join(" ")))
    }

    #[test]
    fn names_are_taken_where_they_stand_together() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(taken("ufutex bench"), Ok((names(&[]), "ufutex bench".into())));
        assert_eq!(
            taken("ufutex bench --json hash wake -t 2"),
            Ok((names(&["hash", "wake"]), "ufutex bench --json -t 2".into()))
        );
        for flags in ["-t 2", "--threads 2", "--threads=2", "--json -t2"] {
            let line = format!("ufutex bench {flags}");
            assert_eq!(taken(&format!("{line} hash")), Ok((names(&["hash"]), line)));
        }
        assert_eq!(taken("ufutex bench --noise hash"), Ok((names(&["hash"]), "ufutex bench --noise".into())));
        assert_eq!(taken("ufutex bench --noise 2 hash"), Ok((names(&["hash"]), "ufutex bench --noise 2".into())));
        assert_eq!(taken("ufutex bench -t hash"), Ok((names(&[]), "ufutex bench -t hash".into())), "a value");
        assert_eq!(taken("ufutex bench hash -t 2 wake"), Ok((names(&["hash"]), "ufutex bench -t 2 wake".into())));
        assert!(taken("ufutex bench hash wake hash").is_err());
    }
}
