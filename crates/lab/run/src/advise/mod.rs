//! `ufutex advise`: watches a program's futexes and recommends settings.
//!
//! `watch` runs the program as `ufutex run` does and collects its report. `figures` computes figures from the report.
//! `judge` derives the advice from the figures alone.

mod figures;
mod judge;
mod watch;

use crate::Advise;
use anyhow::{Context, Result};
use figures::Figures;
use judge::Advice;
use lab_measure::interrupt;
use lab_terminal::stderr;
use lab_waits::watched;
use serde::Serialize;
use std::process::ExitCode;
use watch::Watched;

#[derive(Serialize)]
struct Output<'a> {
    command: &'a str,
    ended: String,
    #[serde(flatten)]
    advice: &'a Advice,
    figures: &'a Figures,
}

/// Watches the program and prints the advice.
pub fn run(advise: &Advise) -> ExitCode {
    watched::exit(watch_and_advise(advise))
}

fn watch_and_advise(advise: &Advise) -> Result<u8> {
    if let Some(file) = &advise.output {
        // Reports an unusable file before the program has run in vain.
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
    if !advise.json || advise.output.is_some() {
        watched.missing.iter().for_each(stderr::say);
    }
    let figures = Figures::new(report, watched.lock.clone(), online_cpus());
    let advice = judge::judge(&figures, advise.trap, &advise.command);
    let output = Output { command: &report.command, ended: watch::ended(&watched), advice: &advice, figures: &figures };
    let text = if advise.json { serde_json::to_string(&output)? + "\n" } else { text(&output) };
    match &advise.output {
        Some(file) => std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))?,
        // The advice is the command's only result, so a failure to write it sets the exit status.
        None => stderr::result(text.as_bytes()).context("stderr cannot be written")?,
    }
    if interrupt::requested() {
        stderr::say(format_args!("interrupted: the advice is based on {:.1} s", figures.seconds));
        return Ok(interrupt::EXIT);
    }
    Ok(0)
}

/// If the program was not started, `ufutex run` has printed the reason.
fn without_report(watched: &Watched) -> Result<u8> {
    match watched.status.code() {
        Some(status @ 125..=127) => Ok(status as u8),
        _ if interrupt::requested() => Ok(interrupt::EXIT),
        _ => anyhow::bail!("the program {} and left no report: no advice is possible", watch::ended(watched)),
    }
}

fn text(output: &Output<'_>) -> String {
    let (advice, figures) = (output.advice, output.figures);
    let slots = advice.slots.map_or_else(|| "as the policy chooses".to_string(), |slots| slots.to_string());
    let kernel = match (advice.kernel.setting, advice.kernel.slots) {
        ("set-slots", Some(slots)) => format!("PR_FUTEX_HASH_SET_SLOTS {slots}"),
        ("default", Some(slots)) => format!("the default ({slots} slots)"),
        _ => "nothing to set".to_string(),
    };
    let mut text = format!(
        "\n Advice for '{}' (watched {:.1} s; {}):\n\n    policy {}, slots: {slots}; kernel: {kernel}\n\n",
        output.command.escape_debug(),
        figures.seconds,
        output.ended,
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

/// Number of online CPUs, which the kernel's rule uses.
fn online_cpus() -> u64 {
    // SAFETY: the call takes a number and changes nothing.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u64::try_from(cpus).unwrap_or(1).max(1)
}
