//! `crowd`: wakes one of many waiters that are not threads. Does the number of waiters change the cost of a wake?
//!
//! Case `distinct`: each waiter has its own word in its own cache line, as a lock in its own object has. Case
//! `same-bucket`: a few waiters are on the word that is woken, and many on another word in the same bucket.

use crate::all::All;
use crate::flags::{Own, help_of_futexes};
use crate::rows::{self, shown};
use crate::settings::{Buckets, Settings};
use crate::summary::Line;
use crate::workers::Disturbances;
use crate::workload::{Workload, plain};
use crate::{BUCKETS_MIN, Head, Lab, policy_name, workers};
use anyhow::{Context, Result, anyhow};
use clap::Args;
use lab_measure::clock;
use lab_measure::interrupt;
use lab_measure::machine;
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::crowd::{BATCH_MAX, Channels, Crowd as Gathering, Kind, Sample};
use lab_targets::{Name, Shape, Subject, Words};
use lab_terminal::table::ratio;
use lab_values::{self as values, List, NUMBER_MAX};
use serde::Serialize;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use strum::{Display, IntoStaticStr};

const DISTINCT: [usize; 2] = [100, 100_000];
const SAME_BUCKET: [usize; 1] = [10_000];
const BUDGET_S: f64 = 15.0;
/// Distance between two words in case `distinct`, in bytes.
const LINE_BYTES: usize = 64;
/// In larger tables the engine puts the words of one cache line into different buckets.
const SHARED_BUCKETS_MAX: usize = 4096;
/// Seed of the order of the wakes, which is the same in each run.
const SEED: u64 = 42;

/// Wake one of many waiters that are futures or custom
#[derive(Clone, Args)]
pub struct Crowd {
    /// Waiters, a comma list [default: distinct 100,100000; same-bucket 10000]
    #[arg(short = 'n', long, visible_alias = "waiters", value_name = "LIST",
        value_parser = values::numbers(1, NUMBER_MAX, "waiters or timers"))]
    number: Option<List<usize>>,
    #[command(flatten)]
    own: Own,
}

/// One row of the results. The help has a line on each field.
#[derive(Serialize)]
pub struct Row {
    #[serde(flatten)]
    head: Head,
    case: &'static str,
    waiters: usize,
    waiter_kind: &'static str,
    domains: usize,
    ns_per_op: Spread,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_fewest: Option<f64>,
}

shown!(Row, |row| row.ns_per_op.median, []);

/// The words of the waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Case {
    /// Each waiter has its own word.
    Distinct,
    /// Two words in one bucket.
    SameBucket,
}

/// Section of the results in `Lab::series`. The last part of a key is the number of waiters of a domain.
pub fn section(case: Case, kind: Kind, domains: usize) -> String {
    let many = if domains > 1 { ", many domains" } else { "" };
    format!("crowd {case} {}{many}", kind.text())
}

/// Number of waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    /// Waiters of each domain.
    waiters: usize,
    domains: usize,
}

/// A crowd with its target. The crowd is in one domain or in many.
struct Competitor {
    kind: Kind,
    case: Case,
    size: Size,
    policy: Policy,
    subject: Arc<dyn Subject>,
    session: Session,
}

impl Competitor {
    /// One sample, taken again if the thread was disturbed. Without an own CPU it always is.
    fn sample(&self, has_own_cpu: bool, length: Duration) -> Result<Sample> {
        let mut sample = Sample::default();
        for _ in 0..workers::TRIES {
            sample = self.session.request(length)?;
            if !has_own_cpu || !workers::had_no_cpu(sample.on_cpu, sample.elapsed) {
                break;
            }
        }
        Ok(sample)
    }
}

impl Workload for Crowd {
    const NAME: &'static str = "crowd";
    type Row = Row;

    fn help() -> String {
        help_of_futexes(
            "\
  case           distinct: a word for each waiter; same-bucket: two words in one bucket
  waiter_kind    future or custom
  waiters        distinct: of each domain; same-bucket: on the word that is not woken
  domains        that are measured together, each with that many waiters
  ns_per_op      {p10, median, p90} of a wake of one waiter
  ratio_fewest   this row's ns_per_op divided by that of the row with the fewest waiters: the median over the rounds",
            "  ufutex bench crowd -n 100,10000 --targets live",
        )
    }

    fn check(&mut self) -> Result<Settings, String> {
        self.own.settings()
    }

    fn in_all(_: &All) -> Vec<Self> {
        vec![plain()]
    }

    /// Measures the engine's targets one after another: a crowd takes much memory, and it is compared only with smaller
    /// crowds of its own target.
    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        if lab.needs_private(notes) {
            return Ok(Vec::new());
        }
        let names = names(lab, notes);
        let mut rows = Vec::new();
        for name in names.iter().take_while(|_| !interrupt::requested()) {
            rows.extend(target(lab, self, *name, names.len(), notes)?);
        }
        Ok(rows)
    }

    fn text(&self, rows: &[Row]) -> String {
        rows::table(rows, 3, |row| {
            let Row { waiters, domains, .. } = row;
            let waiters = if *domains > 1 { format!("{domains} x {waiters}") } else { waiters.to_string() };
            let mut cells = vec![rows::target(row), ("case", row.case.to_string())];
            cells.extend([("kind", row.waiter_kind.to_string()), ("waiters", waiters), rows::buckets(&row.head)]);
            cells.extend(rows::spread("ns/wake", &row.ns_per_op, 1));
            cells.push(("/ fewest", ratio(row.ratio_fewest)));
            cells
        })
    }

    fn line(&self, rows: &[Row]) -> Option<Line> {
        Line::first("a wake in a crowd, ns", rows, |row| row.case)
    }
}

fn names(lab: &Lab<'_>, notes: &mut Vec<String>) -> Vec<Name> {
    let (names, cannot): (Vec<_>, Vec<_>) = lab.sleeping_targets().into_iter().partition(|name| name.is_ours());
    if !cannot.is_empty() {
        let cannot: Vec<_> = cannot.iter().map(|name| name.text()).collect();
        notes.push(format!("{} left out: only threads can wait on them", cannot.join(", ")));
    }
    names
}

/// The rows of one target. A round has one sample of each crowd.
fn target(lab: &mut Lab<'_>, asked: &Crowd, name: Name, targets: usize, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    let competitors = line_up(lab, asked, name, notes)?;
    // The budget is for all targets together.
    let mut pace = lab.pace(BUDGET_S, competitors.len() * targets);
    // Each sample has a warm-up of its own.
    pace.rounds.warm_up = false;
    let ns_per_tick = clock::nanoseconds_per_tick();
    let has_own_cpu = lab.own_cpus() > 0;
    let disturbances = Disturbances::default();
    let rows = lab.measure(
        &format!("crowd: {name}, {} rows at most", competitors.len()),
        pace.rounds,
        &competitors,
        |_, one| {
            let sample = one.sample(has_own_cpu, pace.sample)?;
            disturbances.count(has_own_cpu && workers::had_no_cpu(sample.on_cpu, sample.elapsed));
            Ok(sample.ticks as f64 * ns_per_tick / sample.wakes as f64)
        },
        (
            |one| (section(one.case, one.kind, one.size.domains).into(), name.text().into(), one.size.waiters),
            |sample| *sample,
        ),
        |lab, one, samples| row(lab, asked, name, one, samples),
    )?;
    notes.extend(disturbances.remark().map(|remark| format!("{name}: {remark}")));
    Ok(rows)
}

fn line_up(lab: &Lab<'_>, asked: &Crowd, name: Name, notes: &mut Vec<String>) -> Result<Vec<Competitor>> {
    let mut competitors = Vec::new();
    for case in [Case::Distinct, Case::SameBucket] {
        for kind in [Kind::Future, Kind::Custom] {
            for size in sizes(asked, name, case) {
                if interrupt::requested() {
                    return Ok(competitors);
                }
                let one = competitor(lab, name, case, kind, size)?;
                if case == Case::SameBucket && one.subject.buckets().is_some_and(|buckets| buckets > SHARED_BUCKETS_MAX)
                {
                    notes.push(format!(
                        "{name}, {} left out: in its table the words of a cache line have different buckets",
                        case
                    ));
                    return Ok(competitors);
                }
                competitors.push(one);
            }
        }
    }
    Ok(competitors)
}

/// The first size is the base of the ratios. The last one in case `distinct` has as many waiters as the largest, but in
/// small domains: its ratio is what the caches cost, and the rest is what one large domain costs.
fn sizes(asked: &Crowd, name: Name, case: Case) -> Vec<Size> {
    let one_domain = |waiters| Size { waiters, domains: 1 };
    let asked = asked.number.as_ref().map(|number| &number[..]);
    let mut sizes = match case {
        Case::Distinct => asked.unwrap_or(&DISTINCT).to_vec(),
        Case::SameBucket => [&[0], asked.unwrap_or(&SAME_BUCKET)].concat(),
    };
    sizes.sort_unstable();
    let (fewest, most) = (sizes[0], sizes[sizes.len() - 1]);
    let mut sizes: Vec<_> = sizes.into_iter().map(one_domain).collect();
    // Domains that use the global table have no tables of their own.
    if case == Case::Distinct && most >= 2 * fewest && name != Name::Global {
        sizes.push(Size { waiters: fewest, domains: most / fewest });
    }
    sizes
}

fn competitor(lab: &Lab<'_>, name: Name, case: Case, kind: Kind, size: Size) -> Result<Competitor> {
    let policy = policy(lab, name, case, size.waiters);
    let shape = Shape::new(lab.settings.layout, policy);
    let subject = lab_targets::build(name, &shape)?;
    let crowd = match case {
        Case::Distinct => distinct(kind, size),
        Case::SameBucket => same_bucket(kind, size.waiters),
    };
    let session = Session::start(subject.clone(), crowd, lab.cpus[0])?;
    Ok(Competitor { kind, case, size, policy, subject, session })
}

/// A table that does not grow is large enough from the start. In case `same-bucket` the size is fixed, since the case
/// is about one bucket.
fn policy(lab: &Lab<'_>, name: Name, case: Case, waiters: usize) -> Policy {
    match (lab.settings.buckets, case) {
        (_, Case::Distinct) if name == Name::Live => lab.settings.live_policy(),
        (Buckets::Exactly(buckets), _) => Policy::Fixed(buckets),
        (Buckets::Auto, Case::Distinct) => Policy::Fixed(waiters.next_power_of_two().max(BUCKETS_MIN)),
        (Buckets::Auto, Case::SameBucket) => Policy::Fixed(BUCKETS_MIN),
    }
}

fn distinct(kind: Kind, size: Size) -> Gathering {
    let waiters = size.waiters * size.domains;
    Gathering {
        kind,
        words: Arc::new(Words::new(waiters, LINE_BYTES)),
        places: (0..waiters as u32).collect(),
        order: shuffled(waiters as u32),
        batch: (waiters / 4).clamp(1, BATCH_MAX),
        bystanders: (0, 0),
        domains: size.domains,
    }
}

/// There is one waiter more than a batch wakes, so the woken word always has a waiter. Its key stays in the bucket's
/// chain behind the other word's, and each wake must pass that one.
fn same_bucket(kind: Kind, bystanders: usize) -> Gathering {
    Gathering {
        kind,
        words: Arc::new(Words::new(LINE_BYTES / size_of::<u32>(), size_of::<u32>())),
        places: vec![0; BATCH_MAX + 1],
        order: (0..BATCH_MAX as u32 + 1).collect(),
        batch: BATCH_MAX,
        bystanders: (bystanders, 1),
        domains: 1,
    }
}

/// The numbers below `count`, in a random order that is the same in each run.
fn shuffled(count: u32) -> Vec<u32> {
    let mut state = SEED;
    let mut below = |bound: usize| {
        // Knuth's multiplier for a linear congruential generator (MMIX). Its high bits are the random ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let mut numbers: Vec<_> = (0..count).collect();
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, below(last + 1));
    }
    numbers
}

/// A thread that hosts a crowd and sleeps between samples.
struct Session {
    requests: Option<Sender<Duration>>,
    samples: Receiver<Result<Sample, String>>,
    thread: Option<JoinHandle<()>>,
}

impl Session {
    /// Returns when all waiters are queued.
    fn start(subject: Arc<dyn Subject>, crowd: Gathering, cpu: usize) -> Result<Session> {
        let ((requests, their_requests), (their_samples, samples)) = (mpsc::channel(), mpsc::channel());
        let channels = Channels { requests: their_requests, samples: their_samples };
        let host = move || {
            machine::pin(cpu);
            subject.host(&crowd, &channels);
        };
        let thread = std::thread::Builder::new()
            .name("crowd".to_string())
            .spawn(host)
            .context("cannot start a crowd's thread")?;
        let session = Session { requests: Some(requests), samples, thread: Some(thread) };
        session.receive()?;
        Ok(session)
    }

    /// Takes one sample.
    fn request(&self, length: Duration) -> Result<Sample> {
        let sent = self.requests.as_ref().is_some_and(|requests| requests.send(length).is_ok());
        anyhow::ensure!(sent, "a crowd's thread ended early");
        self.receive()
    }

    fn receive(&self) -> Result<Sample> {
        self.samples.recv().context("a crowd's thread ended early")?.map_err(|reason| anyhow!(reason))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the message has been printed.
            let _ = thread.join();
        }
    }
}

fn row(lab: &Lab<'_>, asked: &Crowd, name: Name, one: &Competitor, samples: &[f64]) -> Row {
    let fewest = sizes(asked, name, one.case)[0];
    let section_of = |size: Size| section(one.case, one.kind, size.domains);
    let (mine, theirs) = (section_of(one.size), section_of(fewest));
    let waiting = one.size.waiters * one.size.domains;
    Row {
        head: Head {
            futexes: if one.case == Case::Distinct { waiting } else { 2 },
            buckets: one.subject.buckets(),
            policy: Some(policy_name(name, one.policy)),
            repeat: samples.len(),
            ..Head::new(lab, Crowd::NAME, name, 1)
        },
        case: one.case.into(),
        waiters: one.size.waiters,
        waiter_kind: one.kind.text(),
        domains: one.size.domains,
        ns_per_op: Spread::of(samples),
        ratio_fewest: lab.series.ratio((&mine, name.text(), one.size.waiters), (&theirs, name.text(), fewest.waiters)),
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
