//! `crowd`: wakes where many wait who are no threads. Does it cost one waiter anything that there are others?
//!
//! Case `distinct`: each has a word of its own, in a cache line of its own, as a lock in its own object has. Case
//! `same-bucket`: a few wait for the word that is woken, and many for its neighbour, which shares the bucket.

use super::{BUCKETS_MIN, Lab, Outcome, arena};
use crate::Row;
use crate::settings::Buckets;
use anyhow::{Context, Result, anyhow};
use lab_measure::clock;
use lab_measure::interrupt;
use lab_measure::machine;
use lab_measure::sample::{self, Pace};
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::crowd::{BATCH_MAX, Beat, Crowd, Kind, Stage};
use lab_targets::{Name, Shape, Subject, Words};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

const DISTINCT: [usize; 2] = [100, 100_000];
const SAME_BUCKET: [usize; 1] = [10_000];
const BUDGET_S: f64 = 15.0;
/// From a word that somebody waits for to the next in case `distinct`.
const LINE_BYTES: usize = 64;
/// Up to so many buckets the words of a line share theirs: the engine spreads them in larger tables.
const SHARED_BUCKETS_MAX: usize = 4096;
/// Of the order in which words are woken: the same in each run.
const SEED: u64 = 42;

/// Where the waiters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// A word for each.
    Distinct,
    /// Two words that share a bucket.
    SameBucket,
}

impl Case {
    /// As it is printed.
    pub fn text(self) -> &'static str {
        match self {
            Case::Distinct => "distinct",
            Case::SameBucket => "same-bucket",
        }
    }
}

/// The section in the series; the last part of a key is the number of waiters of a domain.
pub fn section(case: Case, kind: Kind, domains: usize) -> String {
    let many = if domains > 1 { ", many domains" } else { "" };
    format!("crowd {} {}{many}", case.text(), kind.text())
}

/// How many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    /// In each domain.
    waiters: usize,
    domains: usize,
}

/// A crowd in a domain of its own, or in many.
struct Competitor {
    kind: Kind,
    case: Case,
    size: Size,
    policy: Policy,
    subject: Arc<dyn Subject>,
    session: Session,
}

impl Competitor {
    /// Once more where the thread was disturbed.
    fn sample(&self, length: Duration) -> Result<Beat> {
        let mut beat = Beat::default();
        for _ in 0..arena::TRIES {
            beat = self.session.turn(length)?;
            if !arena::had_no_cpu(beat.on_cpu, beat.elapsed) {
                break;
            }
        }
        Ok(beat)
    }
}

/// Measures the engine's targets, one after another: a crowd takes memory, and it is compared with smaller ones of its
/// own target.
pub fn run(lab: &mut Lab<'_>) -> Result<Outcome> {
    let mut notes = Vec::new();
    let names = names(lab, &mut notes);
    let mut rows = Vec::new();
    for name in names.iter().take_while(|_| !interrupt::asked()) {
        rows.extend(target(lab, *name, names.len(), &mut notes)?);
    }
    Ok(Outcome { rows, notes })
}

fn names(lab: &Lab<'_>, notes: &mut Vec<String>) -> Vec<Name> {
    let (names, cannot): (Vec<_>, Vec<_>) = lab.sleeping_targets().into_iter().partition(|name| name.is_ours());
    if !cannot.is_empty() {
        let cannot: Vec<_> = cannot.iter().map(|name| name.text()).collect();
        notes.push(format!("{} left out: only threads wait there", cannot.join(", ")));
    }
    names
}

/// The rows of one target, all its crowds interleaved.
fn target(lab: &mut Lab<'_>, name: Name, targets: usize, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    let settings = lab.settings;
    let competitors = line_up(lab, name, notes)?;
    let budget = lab.budget(BUDGET_S) / targets as u32;
    let mut pace = Pace::new(budget, settings.runtime_s.is_some(), settings.repeat, competitors.len());
    // Each sample has its own.
    pace.course.warm_up = false;
    let stage = format!("crowd: {name}, {} rows, {} rounds at most", competitors.len(), pace.course.rounds);
    let progress = lab.progress(&stage, pace.course.rounds);
    let ns_per_tick = clock::nanoseconds_per_tick();
    let (mut taken, mut disturbed) = (0, 0);
    let samples = sample::rounds(pace.course, competitors.len(), &progress, |number| {
        let beat = competitors[number].sample(pace.sample)?;
        taken += 1;
        disturbed += usize::from(arena::had_no_cpu(beat.on_cpu, beat.elapsed));
        Ok(beat.ticks as f64 * ns_per_tick / beat.wakes as f64)
    })?;
    notes.extend(arena::remark(disturbed, taken).map(|remark| format!("{name}: {remark}")));
    for (one, samples) in competitors.iter().zip(&samples) {
        lab.series
            .put((&section(one.case, one.kind, one.size.domains), name.text(), one.size.waiters), samples.clone());
    }
    Ok(competitors.iter().zip(&samples).map(|(one, samples)| row(lab, name, one, samples)).collect())
}

fn line_up(lab: &Lab<'_>, name: Name, notes: &mut Vec<String>) -> Result<Vec<Competitor>> {
    let mut competitors = Vec::new();
    for case in [Case::Distinct, Case::SameBucket] {
        for kind in [Kind::Future, Kind::Custom] {
            for size in sizes(lab, name, case) {
                if interrupt::asked() {
                    return Ok(competitors);
                }
                let one = competitor(lab, name, case, kind, size)?;
                if case == Case::SameBucket && one.subject.buckets().is_some_and(|buckets| buckets > SHARED_BUCKETS_MAX)
                {
                    notes.push(format!(
                        "{name}, {} left out: in its table the words of a cache line have different buckets",
                        case.text()
                    ));
                    return Ok(competitors);
                }
                competitors.push(one);
            }
        }
    }
    Ok(competitors)
}

/// The first one is what the others are compared with. Last in case `distinct`, as many as in the largest crowd, but in
/// domains that are small: its distance to the largest is what one large domain costs, and what is left the caches take.
fn sizes(lab: &Lab<'_>, name: Name, case: Case) -> Vec<Size> {
    let one_domain = |waiters| Size { waiters, domains: 1 };
    let asked = lab.settings.number.as_deref();
    let mut sizes = match case {
        Case::Distinct => asked.unwrap_or(&DISTINCT).to_vec(),
        Case::SameBucket => [&[0], asked.unwrap_or(&SAME_BUCKET)].concat(),
    };
    sizes.sort_unstable();
    let (fewest, most) = (sizes[0], sizes[sizes.len() - 1]);
    let mut sizes: Vec<_> = sizes.into_iter().map(one_domain).collect();
    // Domains of the global table have no tables of their own.
    if case == Case::Distinct && most >= 2 * fewest && name != Name::Global {
        sizes.push(Size { waiters: fewest, domains: most / fewest });
    }
    sizes
}

fn competitor(lab: &Lab<'_>, name: Name, case: Case, kind: Kind, size: Size) -> Result<Competitor> {
    let policy = policy(lab, name, case, size.waiters);
    let shape = Shape { layout: lab.settings.layout, policy, shared: false, early_return: false };
    let subject = lab_targets::build(name, &shape)?;
    let crowd = match case {
        Case::Distinct => distinct(kind, size),
        Case::SameBucket => same_bucket(kind, size.waiters),
    };
    let session = Session::start(subject.clone(), crowd, lab.cpus[0])?;
    Ok(Competitor { kind, case, size, policy, subject, session })
}

/// What does not follow its waiters is large enough from the start. Case `same-bucket` is about one bucket: its table
/// stays as it is.
fn policy(lab: &Lab<'_>, name: Name, case: Case, waiters: usize) -> Policy {
    match (lab.settings.buckets, case) {
        (_, Case::Distinct) if name == Name::Live => lab.settings.live_policy(),
        (Buckets::Exactly(buckets), _) => Policy::Fixed(buckets),
        (Buckets::Auto, Case::Distinct) => Policy::Fixed(waiters.next_power_of_two().max(BUCKETS_MIN)),
        (Buckets::Auto, Case::SameBucket) => Policy::Fixed(BUCKETS_MIN),
    }
}

fn distinct(kind: Kind, size: Size) -> Crowd {
    let waiters = size.waiters * size.domains;
    Crowd {
        kind,
        words: Arc::new(Words::new(waiters, LINE_BYTES)),
        places: (0..waiters as u32).collect(),
        order: shuffled(waiters as u32),
        batch: (waiters / 4).clamp(1, BATCH_MAX),
        bystanders: (0, 0),
        domains: size.domains,
    }
}

/// One waiter more than a batch wakes: so the word that is woken never leaves the bucket's chain, where it stands behind
/// the other one, and each wake has to pass that.
fn same_bucket(kind: Kind, bystanders: usize) -> Crowd {
    Crowd {
        kind,
        words: Arc::new(Words::new(LINE_BYTES / size_of::<u32>(), size_of::<u32>())),
        places: vec![0; BATCH_MAX + 1],
        order: (0..BATCH_MAX as u32 + 1).collect(),
        batch: BATCH_MAX,
        bystanders: (bystanders, 1),
        domains: 1,
    }
}

/// The numbers below `count`, in an order that is random and always the same.
fn shuffled(count: u32) -> Vec<u32> {
    let mut state = SEED;
    let mut below = |bound: usize| {
        // Knuth's multiplier; the high bits are the random ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let mut numbers: Vec<_> = (0..count).collect();
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, below(last + 1));
    }
    numbers
}

/// A thread that hosts a crowd. It sleeps but for its turns.
struct Session {
    turns: Option<Sender<Duration>>,
    beats: Receiver<Result<Beat, String>>,
    thread: Option<JoinHandle<()>>,
}

impl Session {
    /// Comes back when all are queued.
    fn start(subject: Arc<dyn Subject>, crowd: Crowd, cpu: usize) -> Result<Session> {
        let ((turns, their_turns), (their_beats, beats)) = (mpsc::channel(), mpsc::channel());
        let stage = Stage { turns: their_turns, beats: their_beats };
        let host = move || {
            machine::pin(cpu);
            subject.host(&crowd, &stage);
        };
        let thread = std::thread::Builder::new().name("crowd".to_string()).spawn(host).context("a crowd's thread")?;
        let session = Session { turns: Some(turns), beats, thread: Some(thread) };
        session.beat()?;
        Ok(session)
    }

    /// One sample.
    fn turn(&self, length: Duration) -> Result<Beat> {
        let told = self.turns.as_ref().is_some_and(|turns| turns.send(length).is_ok());
        anyhow::ensure!(told, "a crowd's thread ended early");
        self.beat()
    }

    fn beat(&self) -> Result<Beat> {
        self.beats.recv().context("a crowd's thread ended early")?.map_err(|reason| anyhow!(reason))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.turns = None;
        if let Some(thread) = self.thread.take() {
            // A panic has been printed by then.
            let _ = thread.join();
        }
    }
}

fn row(lab: &Lab<'_>, name: Name, one: &Competitor, samples: &[f64]) -> Row {
    let fewest = sizes(lab, name, one.case)[0];
    let section_of = |size: Size| section(one.case, one.kind, size.domains);
    let (mine, theirs) = (section_of(one.size), section_of(fewest));
    let ratio = lab.series.ratio((&mine, name.text(), one.size.waiters), (&theirs, name.text(), fewest.waiters));
    let waiting = one.size.waiters * one.size.domains;
    Row {
        futexes: if one.case == Case::Distinct { waiting } else { 2 },
        buckets: one.subject.buckets(),
        policy: Some(super::hammer::policy_name(name, one.policy)),
        case: Some(one.case.text()),
        waiters: Some(one.size.waiters),
        waiter_kind: Some(one.kind.text()),
        domains: Some(one.size.domains),
        ns_per_op: Some(Spread::of(samples)),
        ratio_fewest: ratio,
        repeat: samples.len(),
        ..Row::new(lab, "crowd", name, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_has_each_number_once_and_is_the_same_in_each_run() {
        let order = shuffled(1000);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        assert_eq!(order, shuffled(1000));
        let neighbours = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
        assert!(neighbours < 20, "{neighbours} of 1000 follow their neighbour");
    }

    #[test]
    fn nearly_all_of_a_crowd_wait_at_any_time() {
        for (waiters, batch) in [(1, 1), (4, 1), (63, 15), (100, 16), (100_000, 16)] {
            let size = Size { waiters, domains: 1 };
            assert_eq!(distinct(Kind::Future, size).batch, batch);
        }
        let crowd = same_bucket(Kind::Custom, 0);
        assert!(crowd.places.len() > crowd.batch);
    }
}
