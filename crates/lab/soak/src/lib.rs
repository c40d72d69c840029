//! `ufutex soak`: everything at once, for as long as one likes. Threads and futures wait, are woken, requeued, interrupted and
//! dropped; tasks lock and die; tables are resized; words change their node; timers expire while a clock jumps. In the end
//! every wake and every expiry must be accounted for, and memory must be flat.
//!
//! The work is divided among shifts (`shift`), whose threads are in `work`. What has to hold is in `laws`.

#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod clock;
mod counts;
mod crew;
mod findings;
mod heart;
mod land;
mod laws;
mod limit;
mod memory;
mod print;
#[path = "../../../ufutex/tests/common/random.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod random;
mod services;
mod settings;
mod shift;
mod watch;
mod watched;
mod word;
mod work;
mod world;

pub use settings::{Soak, THREADS_MIN};

use anyhow::Result;
use crew::Crew;
use findings::{Finding, Findings};
use lab_measure::interrupt;
use laws::Law;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the driver's thread may take to end and to give its memory back.
const TEARDOWN: Duration = Duration::from_secs(5);

/// How a run has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Everything is accounted for.
    Clean,
    /// Ctrl-C ended the run, and everything until then is accounted for.
    Interrupted,
    /// A law is broken.
    Broken,
}

/// Results of a world.
struct Account {
    world: &'static str,
    counts: Vec<u64>,
    laws: Vec<Law>,
}

/// Memory of the process, in bytes.
#[derive(Default)]
struct Memory {
    /// The resident set after the first tenth of the run, or later, when all futures and timers have been made.
    early: Option<u64>,
    /// Why `early` is `None`.
    no_early: &'static str,
    /// The resident set at the end.
    late: u64,
    heap_before: Option<u64>,
    heap_after: Option<u64>,
}

/// Results of a run.
struct Outcome {
    verdict: Verdict,
    elapsed: Duration,
    /// See [`counts::summary`].
    summary: String,
    accounts: Vec<Account>,
    memory: Memory,
    findings: Vec<Finding>,
    /// Findings, those that were not kept included.
    broken: u64,
}

/// Runs all threads for the requested time, and prints the account.
pub fn run(settings: &Soak) -> Result<Verdict> {
    let findings = Arc::new(Findings::default());
    let show = watch::Show::begin(settings);
    memory::bound_arenas();
    let mut memory = Memory { heap_before: memory::heap(), ..Memory::default() };
    let begun = Instant::now();
    let mut crew = Crew::start(settings, &findings)?;
    let works = watch::until_the_end(settings, show, &mut crew, &findings, &mut memory)?;
    let elapsed = begun.elapsed();
    let has_ended = works && crew.end(&findings);
    let (mut accounts, summary) = (Vec::new(), crew.summary());
    for world in &crew.worlds {
        let shifts: Vec<_> = crew.shifts.iter().filter(|shift| Arc::ptr_eq(&shift.world, world)).cloned().collect();
        let laws = if has_ended { laws::settle(world, &shifts, &findings) } else { Vec::new() };
        accounts.push(Account { world: world.name, counts: world.counts.all(), laws });
    }
    if has_ended {
        drop(crew);
        memory.heap_after = left_after_teardown(memory.heap_before);
        check_memory(&memory, settings.threads, &findings);
    } else {
        // A thread that is stuck still uses all of it.
        std::mem::forget(crew);
    }
    let broken = findings.count();
    let verdict = match broken {
        0 if interrupt::requested() => Verdict::Interrupted,
        0 => Verdict::Clean,
        _ => Verdict::Broken,
    };
    let outcome = Outcome { verdict, elapsed, summary, accounts, memory, findings: findings.kept(), broken };
    print::print(settings, &outcome)?;
    Ok(verdict)
}

/// What the heap has when everything has been dropped.
fn left_after_teardown(before: Option<u64>) -> Option<u64> {
    let begun = Instant::now();
    loop {
        let after = memory::heap()?;
        if after <= before? + memory::HEAP_LEFT || begun.elapsed() > TEARDOWN {
            return Some(after);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn check_memory(memory: &Memory, threads: usize, findings: &Findings) {
    let more = memory::resident_more(threads);
    if let Some(early) = memory.early
        && memory.late > early + more
    {
        let most = format!("at most {more} more bytes than the {early} after a tenth");
        findings.add("the resident set is flat", most, memory.late);
    }
    if let (Some(before), Some(after)) = (memory.heap_before, memory.heap_after)
        && after > before + memory::HEAP_LEFT
    {
        let most = format!("at most {} more bytes than the {before} at the beginning", memory::HEAP_LEFT);
        findings.add("all memory is given back in the end", most, after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_set_may_grow_more_with_more_threads() {
        let growth = |mib: u64, threads| {
            let findings = Findings::default();
            check_memory(&Memory { early: Some(0), late: mib << 20, ..Memory::default() }, threads, &findings);
            findings.count()
        };
        assert_eq!([growth(16, 16), growth(17, 16), growth(16, 64), growth(17, 64)], [0, 1, 0, 1]);
        // 800 threads have been seen to take 27 MiB more after the first tenth of 3 s.
        assert_eq!([growth(27, 800), growth(109, 800), growth(1000, 16_384)], [0, 1, 0]);
    }
}
