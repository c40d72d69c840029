//! The thread that watches all others, and shows how far the run is.

use crate::Memory;
use crate::crew::Crew;
use crate::findings::Findings;
use crate::memory;
use crate::settings::{Soak, seconds};
use anyhow::Result;
use lab_measure::interrupt;
use lab_terminal::progress::Progress;
use lab_terminal::stderr;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const CHECK_EVERY: Duration = Duration::from_millis(50);
/// Longest time between two lines of progress.
const A_LINE: Duration = Duration::from_secs(60);
/// The resident set is first read when this share of the time has passed, or later, when all futures and timers have been made.
const EARLY: f64 = 0.1;

/// How the progress is shown.
pub struct Show {
    progress: Progress,
    /// The time between two remarks.
    every: Duration,
    /// Whether a remark begins with the time. On a terminal the progress bar shows the time.
    is_timed: bool,
}

impl Show {
    /// Prints the settings with the seed first, because the command may be killed before its report.
    pub fn begin(settings: &Soak) -> Self {
        let seconds = settings.duration.as_secs_f64().ceil() as usize;
        let is_terminal = std::io::stderr().is_terminal();
        if is_terminal && !settings.silent {
            stderr::say(settings.line());
        }
        let stage = if is_terminal { "soak".to_string() } else { settings.line() };
        let progress = Progress::start(&stage, seconds, settings.silent);
        // Elsewhere than on a terminal each remark is a line: ten of them, or one a minute.
        let every = if is_terminal { Duration::from_secs(1) } else { (settings.duration / 10).min(A_LINE) };
        Self { progress, every, is_timed: !is_terminal }
    }

    fn remark(&self, settings: &Soak, elapsed: Duration, crew: &Crew) -> Result<()> {
        let line = format!("{}, {} MiB resident", crew.summary(), memory::resident()? >> 20);
        if self.is_timed {
            let (elapsed, all) = (seconds(elapsed.min(settings.duration)), seconds(settings.duration));
            self.progress.remark(&format!("{elapsed} of {all}: {line}"));
        } else {
            self.progress.remark(&line);
        }
        Ok(())
    }
}

/// Watches until the time is up, Ctrl-C, or a finding. Returns `false` if a thread is stuck or has panicked.
pub fn until_the_end(
    settings: &Soak,
    show: Show,
    crew: &mut Crew,
    findings: &Findings,
    memory: &mut Memory,
) -> Result<bool> {
    let (begun, mut steps, mut said) = (Instant::now(), 0, 0);
    loop {
        let elapsed = begun.elapsed();
        let share = elapsed.as_secs_f64() / settings.duration.as_secs_f64();
        if memory.early.is_none() && share >= EARLY && crew.is_filled() {
            memory.early = Some(memory::resident()?);
        }
        while share < 1.0 && elapsed.as_secs() > steps {
            show.progress.step();
            steps += 1;
        }
        let due = elapsed.div_duration_f64(show.every) as usize;
        if due > said {
            said = due;
            show.remark(settings, elapsed, crew)?;
        }
        let works = crew.look(findings);
        let is_interrupted = interrupt::requested();
        if !works || share >= 1.0 || is_interrupted || findings.count() > 0 {
            memory.late = memory::resident()?;
            memory.no_early = no_early(share);
            drop(show);
            if is_interrupted && !settings.silent {
                stderr::say("interrupted: ending; Ctrl-C again ends at once, without a report");
            }
            return Ok(works);
        }
        std::thread::sleep(CHECK_EVERY.min(settings.duration.saturating_sub(elapsed)));
    }
}

/// Why the resident set was not read before the end, which came when this share of the time had passed.
fn no_early(share: f64) -> &'static str {
    match share < EARLY {
        true => "the run ended before a tenth of its time had passed",
        false => "the threads had not yet made all futures and timers",
    }
}
