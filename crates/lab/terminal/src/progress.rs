//! Progress on stderr: a bar on a terminal, lines elsewhere, nothing with `-s`.

use crate::stderr;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// Shows the user what runs.
pub struct Progress {
    bar: Option<ProgressBar>,
    silent: bool,
}

impl Progress {
    /// Begins a stage of `steps` steps.
    pub fn start(stage: &str, steps: usize, silent: bool) -> Progress {
        if silent {
            return Progress { bar: None, silent };
        }
        if !std::io::stderr().is_terminal() {
            stderr::say(stage);
            return Progress { bar: None, silent };
        }
        let bar = ProgressBar::new(steps as u64).with_message(stage.to_string());
        if let Ok(style) = ProgressStyle::with_template("{msg:<44} {wide_bar} {pos}/{len} {elapsed}") {
            bar.set_style(style);
        }
        Progress { bar: Some(bar), silent }
    }

    /// Begins a stage of which nobody knows how long it is. It has a line for remarks, only on a terminal.
    pub fn endless() -> Progress {
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("ufutex: {msg}") {
            bar.set_style(style);
        }
        Progress { bar: Some(bar), silent: true }
    }

    /// Shows what the current step does.
    pub fn remark(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_string()),
            None if self.silent => {}
            None => stderr::say(text),
        }
    }

    /// Advances by one step.
    pub fn step(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
