//! What must be equal when all threads have ended.

use crate::counts::Counts;
use crate::findings::Findings;
use crate::shift::Shift;
use crate::work;
use crate::world::{MAX_SLOTS, World};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use ufutex::observe::WhoWaits;

/// Bytes of a slot of a table.
const SLOT: usize = 64;
/// How many words of waiters a finding names.
const NAMED: usize = 20;
/// How long a notice may be on its way.
const SETTLE: Duration = Duration::from_secs(5);

/// One law: `found` lies in `least..=most`. For most laws the two bounds are equal.
pub struct Law {
    pub name: &'static str,
    pub least: u64,
    pub most: u64,
    pub found: u64,
    /// What a finding says beside the number.
    detail: String,
}

impl Law {
    fn new(name: &'static str, expected: u64, found: u64) -> Self {
        Self::between(name, expected, expected, found)
    }

    fn between(name: &'static str, least: u64, most: u64, found: u64) -> Self {
        Self { name, least, most, found, detail: String::new() }
    }

    pub fn holds(&self) -> bool {
        (self.least..=self.most).contains(&self.found)
    }

    /// What is expected, as the report has it.
    pub fn expected(&self) -> String {
        match (self.least, self.most) {
            (least, most) if least == most => least.to_string(),
            (0, most) => format!("at most {most}"),
            (least, most) => format!("{least} to {most}"),
        }
    }
}

/// The laws of a world, whose threads have ended.
pub fn of(world: &World, shifts: &[Arc<Shift>]) -> Vec<Law> {
    let c = &world.counts;
    let sum = |of: fn(&Shift) -> u64| shifts.iter().map(|shift| of(shift)).sum::<u64>();
    let mut laws = of_waits(c);
    laws.extend(of_timers(c));
    laws.extend([
        Law::new(
            "waiters that the engine counts as woken",
            c.woken.get() + c.balls_woken.get() + c.drops_woken.get() + c.passes_woken.get(),
            sum(|shift| shift.plain.counters().woken),
        ),
        Law::new(
            "waiters that the engine counts as requeued",
            c.requeued.get(),
            sum(|shift| shift.plain.counters().requeued),
        ),
        Law::new("waiters that the engine has refused", 0, sum(|shift| shift.plain.counters().refused_waiters)),
        Law::new(
            "changes of what locks guard",
            c.pi_sections.get() + c.robust_sections.get(),
            sum(|shift| crate::land::Land::locks().map(|lock| sections(shift, lock)).sum()),
        ),
        Law::new(
            "locks of dead owners that were recovered, or still have OWNER_DIED",
            c.locks_orphaned.get(),
            c.locks_recovered.get() + sum(|shift| work::locks::orphans(&shift.land)),
        ),
        Law::new("locks that are held", 0, sum(|shift| work::locks::held(&shift.land))),
        Law::new(
            "waiters that are left",
            0,
            sum(|shift| shift.domains().iter().map(|domain| domain.waiting() as u64).sum()),
        ),
        listed(
            "words that have waiters",
            shifts.iter().flat_map(|shift| shift.domains()).map(|domain| domain.who_waits(NAMED)),
        ),
        listed("words of the shared object that have waiters", [world.system.who_waits(NAMED)]),
        Law::between(
            "bytes of the largest tables of a domain, and of those that they replace",
            0,
            (2 * MAX_SLOTS * SLOT) as u64,
            shifts
                .iter()
                .flat_map(|shift| shift.domains())
                .map(|domain| domain.table_bytes() as u64)
                .max()
                .unwrap_or(0),
        ),
    ]);
    laws
}

/// The law that all `lists` are empty. A finding names the words of the first list that is not.
fn listed(name: &'static str, lists: impl IntoIterator<Item = WhoWaits>) -> Law {
    let mut law = Law::new(name, 0, 0);
    for who in lists {
        let words = who.iter().len() + who.omitted();
        law.found += words as u64;
        if words > 0 && law.detail.is_empty() {
            law.detail = format!(": {who:?}");
        }
    }
    law
}

fn sections(shift: &Shift, lock: crate::land::Lock) -> u64 {
    shift.land.guarded(lock).sections.load(Ordering::Relaxed)
}

fn of_waits(c: &Counts) -> Vec<Law> {
    vec![
        Law::new("wakes of the crowd that were received", c.woken.get(), c.received.get()),
        Law::new("wakes for a ball that were received", c.balls_woken.get(), c.balls_received.get()),
        Law::new("balls that were caught", c.balls_thrown.get(), c.balls_caught.get()),
        // A dropped future does not say whether it had been woken.
        Law::between(
            "wakes at words whose futures were dropped",
            c.drops_received.get(),
            c.drops_received.get() + c.futures_dropped.get(),
            c.drops_woken.get(),
        ),
        Law::new("wakes that a dropped future has passed on", c.passes_made.get(), c.passes_received.get()),
        Law::new(
            "futures that were done, ended or dropped",
            c.futures_begun.get(),
            c.futures_done.get() + c.futures_ended.get() + c.futures_dropped.get(),
        ),
    ]
}

fn of_timers(c: &Counts) -> Vec<Law> {
    let ended = c.timers_expired.get() + c.timers_cancelled.get() + c.timers_voided.get();
    vec![Law::new("settings of timers that expired, were cancelled or became void", c.timers_armed.get(), ended)]
}

/// Waits until the laws hold, because the driver's thread may still deliver notices, and notes what does not hold then.
pub fn settle(world: &World, shifts: &[Arc<Shift>], findings: &Findings) -> Vec<Law> {
    let begun = Instant::now();
    let mut laws = of(world, shifts);
    while !laws.iter().all(Law::holds) && begun.elapsed() < SETTLE {
        std::thread::sleep(Duration::from_millis(10));
        laws = of(world, shifts);
    }
    check(world, &laws, findings);
    laws
}

fn check(world: &World, laws: &[Law], findings: &Findings) {
    for law in laws.iter().filter(|law| !law.holds()) {
        let found = format_args!("{}{}", law.found, law.detail);
        findings.add(format_args!("{}: {}", world.name, law.name), law.expected(), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Flags;

    /// The findings in a world in which `happens` has happened, and nothing else.
    fn findings(happens: impl FnOnce(&Shift)) -> Vec<String> {
        let all = Arc::new(Findings::default());
        let [world, _] = World::both(&all, &Arc::new(Flags::default())).expect("there is memory");
        let shifts = [Arc::new(Shift::new(&world, 0, 8, 1, 1).expect("there is memory"))];
        happens(&shifts[0]);
        let laws = of(&world, &shifts);
        check(&world, &laws, &all);
        all.kept().iter().map(|one| format!("{}: {} {}", one.law, one.expected, one.found)).collect()
    }

    #[test]
    fn what_is_not_accounted_for_is_found() {
        let counts = |shift: &Shift, of: fn(&Counts) -> &crate::counts::Tally| of(&shift.world.counts).add(1);
        assert_eq!(findings(|_| ()), [""; 0]);
        let found = findings(|shift| counts(shift, |c| &c.woken));
        assert_eq!(found[0], "host: wakes of the crowd that were received: 1 0");
        assert_eq!(found[1], "host: waiters that the engine counts as woken: 1 0");
        let found = findings(|shift| counts(shift, |c| &c.timers_armed));
        assert_eq!(found, ["host: settings of timers that expired, were cancelled or became void: 1 0"]);
        let found = findings(|shift| counts(shift, |c| &c.locks_orphaned));
        assert_eq!(found, ["host: locks of dead owners that were recovered, or still have OWNER_DIED: 1 0"]);
        let found = findings(|shift| {
            counts(shift, |c| &c.drops_woken);
            counts(shift, |c| &c.drops_woken);
            counts(shift, |c| &c.futures_dropped);
        });
        assert!(
            found.contains(&"host: wakes at words whose futures were dropped: at most 1 2".to_string()),
            "{found:?}"
        );
    }
}
