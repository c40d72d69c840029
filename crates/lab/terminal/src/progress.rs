//! Progress on stderr: a bar on a terminal, lines elsewhere, nothing with `-s`.

use crate::stderr;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shows the user what runs.
pub struct Progress {
    bar: Option<ProgressBar>,
    silent: bool,
    steps: usize,
    done: AtomicUsize,
}

impl Progress {
    /// Begins a stage of `steps` steps.
    pub fn start(stage: &str, steps: usize, silent: bool) -> Progress {
        if silent || !std::io::stderr().is_terminal() {
            if !silent {
                stderr::say(stage);
            }
            return Progress { bar: None, silent, steps, done: AtomicUsize::new(0) };
        }
        let bar = ProgressBar::new(steps as u64).with_message(stage.to_string());
        if let Ok(style) = ProgressStyle::with_template("{msg:<44} {wide_bar} {pos}/{len} {elapsed}") {
            bar.set_style(style);
        }
        Progress { bar: Some(bar), silent, steps, done: AtomicUsize::new(0) }
    }

    /// Begins a stage of which nobody knows how long it is. It has a line for remarks, only on a terminal.
    pub fn endless() -> Progress {
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("ufutex: {msg}") {
            bar.set_style(style);
        }
        Progress { bar: Some(bar), silent: true, steps: 0, done: AtomicUsize::new(0) }
    }

    /// Shows what the current step does.
    pub fn remark(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_string()),
            None if self.silent => {}
            None => stderr::say(text),
        }
    }

    /// As [`remark`](Self::remark), with the percentage of the steps that are done. A bar shows them itself.
    pub fn part(&self, text: &str) {
        match &self.bar {
            Some(_) => self.remark(text),
            None => self.remark(&format!("{text} ({} %)", 100 * self.done.load(Ordering::Relaxed) / self.steps.max(1))),
        }
    }

    /// Advances by one step.
    pub fn step(&self) {
        // Several threads may step at once.
        self.done.fetch_add(1, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Shows that `steps` steps are done.
    pub fn reach(&self, steps: usize) {
        self.done.store(steps, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.set_position(steps as u64);
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
