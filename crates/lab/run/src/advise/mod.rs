//! `ufutex advise`: watches a program's futexes, and says which settings it wants.
//!
//! `watch` runs the program as `ufutex run` does and gets its report; `figures` has what the advice rests on; `judge` makes
//! the advice of them, and knows nothing else.

mod figures;
mod judge;
mod watch;

use crate::Advise;
use anyhow::{Context, Result};
use figures::Figures;
use judge::Advice;
use lab_measure::interrupt;
use lab_terminal::stderr;
use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use watch::Watched;

/// As `ufutex run`: something is wrong with us, not with the program.
const EXIT_OURS: u8 = 125;

#[derive(Serialize)]
struct Answer<'a> {
    command: &'a str,
    ended: String,
    #[serde(flatten)]
    advice: &'a Advice,
    figures: &'a Figures,
}

/// Watches it, and says what it found.
pub fn run(advise: &Advise) -> ExitCode {
    match give(advise) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            stderr::say(format_args!("{error:#}"));
            ExitCode::from(EXIT_OURS)
        }
    }
}

fn give(advise: &Advise) -> Result<u8> {
    if let Some(file) = &advise.output {
        // Before the program has run for nothing.
        std::fs::File::create(file).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    if !advise.json || advise.output.is_some() {
        let name = advise.command[0].to_string_lossy();
        stderr::say(format_args!("watching '{}' for {} s", name.escape_debug(), advise.duration.as_secs_f64()));
    }
    let watched = watch::watch(advise)?;
    let Some(report) = &watched.report else {
        return without_report(&watched);
    };
    let figures = Figures::new(report, online_cpus());
    let advice = judge::judge(&figures, advise.trap, &advise.command);
    let answer = Answer { command: &report.command, ended: watch::ended(&watched), advice: &advice, figures: &figures };
    let text = if advise.json { serde_json::to_string(&answer)? + "\n" } else { text(&answer) };
    match &advise.output {
        Some(file) => std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))?,
        // What all of it was for: where it cannot be said, the status has to say so.
        None => say(&text)?,
    }
    if interrupt::asked() {
        stderr::say(format_args!("interrupted: the advice is from {:.1} s", figures.seconds));
        return Ok(interrupt::EXIT);
    }
    Ok(0)
}

fn say(text: &str) -> Result<()> {
    match std::io::stderr().write_all(text.as_bytes()) {
        // A reader that has gone has read enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("stderr cannot be written"),
        _ => Ok(()),
    }
}

/// One that was not started has been told of by `ufutex run`.
fn without_report(watched: &Watched) -> Result<u8> {
    match watched.status.code() {
        Some(status @ 125..=127) => Ok(status as u8),
        _ if interrupt::asked() => Ok(interrupt::EXIT),
        _ => anyhow::bail!("the program {} and left no report: nothing is known of its futexes", watch::ended(watched)),
    }
}

fn text(answer: &Answer<'_>) -> String {
    let (advice, figures) = (answer.advice, answer.figures);
    let slots = advice.slots.map_or_else(|| "as the policy has it".to_string(), |slots| slots.to_string());
    let kernel = match (advice.kernel.setting, advice.kernel.slots) {
        ("set-slots", Some(slots)) => format!("PR_FUTEX_HASH_SET_SLOTS {slots}"),
        ("default", Some(slots)) => format!("the default ({slots} slots)"),
        _ => "nothing to set".to_string(),
    };
    let mut text = format!(
        "\n Advice for '{}' (watched {:.1} s; {}):\n\n    scheme {}, policy {}, slots: {slots}; kernel: {kernel}\n\n",
        answer.command.escape_debug(),
        figures.seconds,
        answer.ended,
        advice.scheme,
        advice.policy,
    );
    for sentence in &advice.sentences {
        text += &format!("  - {}\n", sentence.text);
    }
    if let Some(command) = &advice.kernel.command {
        text += &format!("\n On the plain kernel: {command}\n");
    }
    text + "\n"
}

/// What the kernel's rule goes by.
fn online_cpus() -> u64 {
    // SAFETY: the call takes a number and changes nothing.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u64::try_from(cpus).unwrap_or(1).max(1)
}
