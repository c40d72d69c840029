//! `ufutex sim validate --cross`: the model on figures that it has not seen. It prints errors and gives no verdict.
//!
//! 1. Each message is left out once: the parameters are fitted to the others, and predict it.
//! 2. This machine's own figures of two threads are predicted from its latencies.
//! 3. Results of others, which nobody here fitted, are predicted from published latencies.

mod bare;
mod fit;
mod host;
mod latency;
mod messages;
mod others;
mod print;

use super::Settings;
use anyhow::Result;
use lab_measure::interrupt;
use lab_terminal::progress::Progress;
use lab_terminal::{stderr, stdout};

/// The findings of all three parts.
#[derive(Default)]
struct Found {
    left_out: Vec<messages::Row>,
    fits: messages::Fits,
    here: Vec<host::Row>,
    latencies: latency::Latencies,
    others: Vec<others::Row>,
}

/// Runs all parts and prints them.
pub fn run(settings: &Settings) -> Result<()> {
    let messages = messages::messages(settings);
    let mut found = Found::default();
    // First what needs the machine to be quiet.
    if settings.measures {
        (found.here, found.latencies) = host::rows(settings)?;
    }
    if !interrupt::requested() {
        let progress = progress(settings, "predicting results of others,", others::steps());
        found.others = others::rows(|| progress.step())?;
    }
    if !interrupt::requested() {
        let progress = progress(settings, "fitting without each message,", messages::steps(&messages));
        (found.left_out, found.fits) = messages::leave_each_out(&messages, &progress, messages::Message::modelled)?;
    }
    if interrupt::requested() {
        stderr::say("interrupted: what is missing was not predicted");
    }
    stdout::print(&print::text(&found, settings)?)
}

fn progress(settings: &Settings, what: &str, steps: usize) -> Progress {
    Progress::start(&format!("sim validate --cross: {what} {steps} steps"), steps, settings.silent || settings.json)
}
