//! The thread that watches all others, and shows how far the run is.

use crate::Memory;
use crate::counts::{Counts, Tally};
use crate::crew::Crew;
use crate::findings::Findings;
use crate::memory;
use crate::settings::Soak;
use anyhow::Result;
use lab_measure::interrupt;
use lab_terminal::progress::Progress;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const CHECK_EVERY: Duration = Duration::from_millis(50);
/// The share of the time after which the resident set is read first. All futures and timers exist then.
const EARLY: f64 = 0.1;

/// Watches until the time is up, Ctrl-C, or a finding. Returns `false` if a thread is stuck or has panicked.
pub fn until_the_end(settings: &Soak, crew: &mut Crew, findings: &Findings, memory: &mut Memory) -> Result<bool> {
    let seconds = settings.duration.as_secs_f64().ceil() as usize;
    let stage = format!("soak: {} threads, {} futures, {} timers", settings.threads, settings.futures, settings.timers);
    let progress = Progress::start(&stage, seconds, settings.silent);
    // Elsewhere than on a terminal each remark is a line, and ten of them are enough.
    let lines = if std::io::stderr().is_terminal() { seconds } else { 10 };
    let (begun, mut steps, mut said) = (Instant::now(), 0, 0);
    loop {
        let elapsed = begun.elapsed();
        let share = elapsed.as_secs_f64() / settings.duration.as_secs_f64();
        if memory.early.is_none() && share >= EARLY && crew.is_filled() {
            memory.early = Some(memory::resident()?);
        }
        while steps < seconds && elapsed.as_secs() as usize > steps {
            progress.step();
            steps += 1;
        }
        if (share * lines as f64) as usize > said {
            said = (share * lines as f64) as usize;
            progress.remark(&line(crew)?);
        }
        let works = crew.look(findings);
        if !works || share >= 1.0 || interrupt::requested() || findings.count() > 0 {
            memory.late = memory::resident()?;
            memory.no_early = no_early(share);
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

fn line(crew: &Crew) -> Result<String> {
    let sum = |of: fn(&Counts) -> &Tally| crew.worlds.iter().map(|world| of(&world.counts).get()).sum::<u64>();
    let wakes = sum(|c| &c.received) + sum(|c| &c.balls_received) + sum(|c| &c.drops_received);
    let expiries = sum(|c| &c.timers_expired) + sum(|c| &c.expirations);
    let (resizes, resident) = (sum(|c| &c.resizes), memory::resident()? >> 20);
    Ok(format!("{wakes} wakes, {expiries} expiries, {resizes} resizes, {resident} MiB"))
}
