//! `resize`: sets a new table size while threads hammer. Measures the resize and how long it delays operations.

use crate::all::All;
use crate::flags::{self, Common, Futexes, OfLayout, Sleeping, Words, help_of_futexes};
use crate::rows::{self, Shown, shown};
use crate::settings::Settings;
use crate::summary::Line;
use crate::workload::{Workload, plain};
use crate::{Head, Lab, Ratios, stage, workers};
use anyhow::{Result, anyhow};
use clap::Args;
use hdrhistogram::Histogram;
use lab_measure::clock;
use lab_measure::pool::{Gate, Pool};
use lab_measure::stats::{self, Tail};
use lab_targets::Policy;
use lab_targets::loops::{Hammered, Window, empty_histogram};
use lab_targets::{Name, Shape};
use lab_terminal::table;
use lab_values::{self as values, List};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strum::VariantArray;

const THREADS: [usize; 2] = [2, 16];
const BUDGET_S: f64 = 9.0;
/// A resize that has not completed after this time is given up, if the target allows it.
pub const GIVE_UP: Duration = Duration::from_millis(200);
/// Time of hammering before the resize begins. It is longer than all threads of a CPU take to have had a turn, so that
/// some have lost their CPU in the middle of an operation, as in a busy program.
const LEAD_IN: Duration = Duration::from_millis(50);
/// Assumed time of a round in which one target stalls; decides how many rounds fit into the budget.
const ROUND_GUESS: Duration = Duration::from_millis(250);

/// Resize a table under hammering threads
#[derive(Clone, Args)]
pub struct Resize {
    /// Threads that hammer, a comma list [default: 2,16]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads())]
    threads: Option<List<usize>>,
    #[command(flatten)]
    futexes: Futexes,
    /// Slots before the resize
    #[arg(long, value_name = "N", default_value = "16", value_parser = values::slots)]
    from: usize,
    /// Slots after the resize
    #[arg(long, value_name = "N", default_value = "1024", value_parser = values::slots)]
    to: usize,
    #[command(flatten)]
    of: OfLayout,
    #[command(flatten)]
    sleeping: Sleeping,
    #[command(flatten)]
    common: Common,
}

/// One row of the results. The help has a line on each field.
#[derive(Serialize)]
pub struct Row {
    #[serde(flatten)]
    head: Head,
    from: usize,
    to: usize,
    resize_us: f64,
    resize_p90_us: f64,
    returned_us: f64,
    completed: bool,
    completed_share: f64,
    rate_meanwhile: f64,
    /// Unlike rates, it compares a short request with a long one. Negative if the threads got more done.
    missed_us: f64,
    op_pause_us: Tail,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_kernel: Option<f64>,
}

shown!(Row, |row| row.resize_us, ["the kernel": row.ratio_kernel]);

impl Workload for Resize {
    const NAME: &'static str = "resize";
    type Row = Row;

    fn help() -> String {
        help_of_futexes(
            "\
  from, to       slots
  resize_us      until the new size is in use (of kernel: until the request returned), the median over the rounds; a
                 resize is given up after 200 ms, and counts with the time until then; resize_p90_us: 90th percentile
  returned_us    until the request returned; its thread may have to wait for a CPU after others have done the work
  rate_meanwhile operations a second until the request returned, divided by those of the 50 ms before it
  missed_us      the work that the threads did not get done until the request returned, as the time that it would take
                 them at their rate before it
  completed      whether it completed in every round; completed_share: share of the rounds in which it completed
  op_pause_us    {p50, p99, max} of the hammering threads' operations during the resize, over all rounds
  ratio_kernel   this row's time divided by the kernel's: the median over the rounds",
            "  ufutex bench resize -t 16 --targets live,kernel",
        )
    }

    fn check(&mut self) -> Result<Settings, String> {
        if self.from == self.to {
            return Err(format!("--to '{}' equals --from; accepted: another power of two", self.to));
        }
        Words::array(&self.futexes).check(self.threads.as_ref())?;
        let settings = Settings { layout: self.of.layout, ..self.common.settings() };
        flags::targets(settings, self.sleeping.targets.as_ref(), Name::VARIANTS)
    }

    fn in_all(all: &All) -> Vec<Self> {
        vec![Resize { threads: all.threads.clone(), futexes: all.words().number, ..plain() }]
    }

    /// Measures every target that can resize, each time with a new table.
    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        if lab.needs_private(notes) {
            return Ok(Vec::new());
        }
        let names = names(lab, notes);
        let threads = lab.threads(&self.threads, &THREADS, notes);
        let competitors: Vec<_> =
            threads.iter().flat_map(|threads| names.iter().map(|name| (*name, *threads))).collect();
        if competitors.is_empty() {
            return Ok(Vec::new());
        }
        let most = threads.iter().copied().max().unwrap_or(1);
        let (pool, words) = (Pool::new(most, &lab.cpus)?, workers::words(&Words::array(&self.futexes), most));
        let us_per_tick = clock::nanoseconds_per_tick() / 1000.0;
        let measured = lab.measure(
            &stage(Self::NAME, &competitors),
            lab.rounds_of(BUDGET_S, ROUND_GUESS * competitors.len() as u32 / 2),
            &competitors,
            |lab, (name, threads)| self.once(lab, &pool, &words, *name, *threads),
            (
                |(name, threads)| (Self::NAME.into(), name.text().into(), *threads),
                |repeat: &Repeat| repeat.resize as f64 * us_per_tick,
            ),
            |lab, (name, threads), repeats| {
                let completed = repeats.iter().map(|repeat| f64::from(u8::from(repeat.completed))).collect();
                (completed, self.row(lab, *name, *threads, repeats, us_per_tick))
            },
        )?;
        let mut rows = Vec::new();
        for (completed, row) in measured {
            lab.series.put(("resize completed", row.head.target, row.head.threads), completed);
            rows.push(row);
        }
        Ok(rows)
    }

    fn text(&self, rows: &[Row]) -> String {
        let resize = format!("{} to {}, us", self.from, self.to);
        rows::table(rows, 1, |row| {
            let given_up = row.time() >= GIVE_UP.as_micros() as f64 && !row.completed;
            let time = |us: f64| if given_up { format!("> {:.0}", GIVE_UP.as_micros()) } else { format!("{us:.0}") };
            vec![
                rows::target(row),
                rows::threads(&row.head),
                (resize.as_str(), time(row.resize_us)),
                ("p90", time(row.resize_p90_us)),
                ("returns", time(row.returned_us)),
                ("completed", completed(row)),
                ("rate meanwhile", format!("{:.2}", row.rate_meanwhile)),
                ("missed, us", format!("{:.0}", row.missed_us)),
                ("op p99, us", format!("{:.2}", row.op_pause_us.p99)),
                ("max", format!("{:.2}", row.op_pause_us.max)),
                ("/ kernel", table::ratio(row.ratio_kernel.filter(|_| !given_up))),
            ]
        })
    }

    fn line(&self, rows: &[Row]) -> Option<Line> {
        Line::first("a new table size, us", rows, |row| row.head.threads)
    }
}

impl Resize {
    fn once(
        &self,
        lab: &Lab<'_>,
        pool: &Pool,
        words: &Arc<Vec<lab_targets::Words>>,
        name: Name,
        threads: usize,
    ) -> Result<Repeat> {
        let policy = Policy::Fixed(self.from);
        let shape = Shape::new(lab.settings.layout, policy);
        let subject = lab_targets::build(name, &shape)?;
        subject.make_ready();
        let (gate, window, to) = (Gate::new(threads), Arc::new(Window::default()), self.to);
        let job = {
            let (subject, words, gate, window) = (subject.clone(), words.clone(), gate.clone(), window.clone());
            move |worker: usize| subject.hammer_timed(&words[worker], &gate, &window, to)
        };
        let (mut completed, mut begin, mut asked, mut returned) = (Err("not requested".to_string()), 0, 0, 0);
        let workers = pool.run(threads, job, || {
            gate.sleep_until_passed();
            begin = clock::ticks();
            window.count();
            std::thread::sleep(LEAD_IN);
            asked = clock::ticks();
            window.open();
            let start = Instant::now();
            completed = subject.set_slots(to, &mut || start.elapsed() < GIVE_UP);
            returned = clock::ticks();
            window.close();
            gate.stop();
        })?;
        let completed = completed.map_err(|reason| anyhow!("{name}: {reason}"))?;
        let mut pauses = empty_histogram();
        for recorded in workers.iter().flat_map(|worker| worker.pauses.iter_recorded()) {
            pauses.saturating_record_n(recorded.value_iterated_to(), recorded.count_at_value());
        }
        let in_use = workers.iter().filter_map(|worker| worker.saw_new_size).min().unwrap_or(returned).min(returned);
        let sum = |count: fn(&Hammered) -> u64| workers.iter().map(count).sum::<u64>().max(1) as f64;
        let (resize, before, returned) = (in_use.saturating_sub(asked), asked - begin, (returned - asked).max(1));
        let rate = |operations: f64, ticks: u64| operations / ticks as f64;
        let rate_before = rate(sum(|worker| worker.before), before);
        let rate_meanwhile = rate(sum(|worker| worker.meanwhile), returned) / rate_before;
        Ok(Repeat { resize, returned, rate_meanwhile, completed, pauses, buckets: subject.buckets() })
    }

    fn row(&self, lab: &Lab<'_>, name: Name, threads: usize, repeats: &[Repeat], us_per_tick: f64) -> Row {
        let mut pauses = empty_histogram();
        for repeat in repeats {
            // `add` fails only if the bounds differ, and these do not.
            let _ = pauses.add(&repeat.pauses);
        }
        let us = |ticks: u64| ticks as f64 * us_per_tick;
        let at = |share| us(pauses.value_at_quantile(share));
        let all = |of: &dyn Fn(&Repeat) -> f64| repeats.iter().map(of).collect::<Vec<_>>();
        let times = all(&|repeat| us(repeat.resize));
        let completed = repeats.iter().filter(|repeat| repeat.completed).count();
        Row {
            head: Head {
                futexes: self.futexes.futexes,
                buckets: repeats.last().and_then(|repeat| repeat.buckets),
                repeat: repeats.len(),
                ..Head::new(lab, Self::NAME, name, threads)
            },
            from: self.from,
            to: self.to,
            resize_us: stats::median(&times),
            resize_p90_us: stats::percentile(&times, 0.9),
            returned_us: stats::median(&all(&|repeat| us(repeat.returned))),
            completed: completed == repeats.len(),
            completed_share: completed as f64 / repeats.len() as f64,
            rate_meanwhile: stats::median(&all(&|repeat| repeat.rate_meanwhile)),
            missed_us: stats::median(&all(&|repeat| (1.0 - repeat.rate_meanwhile) * us(repeat.returned))),
            op_pause_us: Tail { p50: at(0.5), p99: at(0.99), max: us(pauses.max()) },
            ratio_kernel: Ratios::of(&lab.series, Self::NAME, name.text(), threads).kernel,
        }
    }
}

struct Repeat {
    /// Until the new size was in use, in ticks.
    resize: u64,
    /// Until the request returned, in ticks.
    returned: u64,
    rate_meanwhile: f64,
    completed: bool,
    pauses: Histogram<u64>,
    buckets: Option<usize>,
}

fn names(lab: &Lab<'_>, notes: &mut Vec<String>) -> Vec<Name> {
    let (mut names, cannot): (Vec<_>, Vec<_>) = lab.sleeping_targets().into_iter().partition(|name| name.can_resize());
    if !cannot.is_empty() {
        let cannot: Vec<_> = cannot.iter().map(|name: &Name| name.text()).collect();
        notes.push(format!("left out, because their tables cannot be resized: {}", cannot.join(", ")));
    }
    if names.contains(&Name::Kernel) && !lab_targets::kernel_has_private_hash() {
        notes.push("kernel left out: no PR_FUTEX_HASH here (6.16 and later)".to_string());
        names.retain(|name| *name != Name::Kernel);
    }
    names
}

fn completed(row: &Row) -> String {
    match row.completed_share {
        _ if row.completed => "yes".to_string(),
        share if share > 0.0 => format!("{:.0} % of {}", 100.0 * share, row.head.repeat),
        _ => "no".to_string(),
    }
}
