//! The published comparisons and their models. The figures are in `crate::published`, and `docs/REFERENCES.md` lists
//! the mails that they are from.

use super::hash::{self, Layout, Scheme};
use super::model::{Measure, Model};
use crate::published::{self, Source};

/// Two figures of one table that the mail compares.
pub struct Comparison {
    /// The mail that the figures are from.
    pub source: Source,
    /// The difference between the two.
    pub what: String,
    /// The figure that is the base of the comparison.
    pub base: Figure,
    /// The figure that is compared with it.
    pub other: Figure,
    /// Whether the size of the difference must agree, not only its direction.
    pub is_sized: bool,
    /// A note for the reader.
    pub note: &'static str,
    /// The name of the comparison in `ufutex report`. `None` if it is not there.
    pub id: Option<String>,
}

/// A published figure and its model.
pub struct Figure {
    pub published: f64,
    pub model: Model,
}

impl Comparison {
    /// The published ratio of the other figure to the base.
    pub fn published(&self) -> f64 {
        self.other.published / self.base.published
    }
}

fn figure(published: f64, model: impl Into<Model>) -> Figure {
    Figure { published, model: model.into() }
}

/// All comparisons.
pub fn comparisons() -> Vec<Comparison> {
    [counted(), layouts(), priv_removed(), per_cpu(), by_threads(), by_nodes(), timer_loops(), timer_lists()]
        .into_iter()
        .flatten()
        .collect()
}

const NO_NOTE: &str = "";

/// [immutable-hash]: schbench on a counted table and on an immutable one.
fn counted() -> Vec<Comparison> {
    const CASES: [(&str, &str, usize, &str); 3] = [
        ("turin-1024", "turin", 1024, "counted-immutable-schbench"),
        ("2-nodes-1024", "zen3-2s", 1024, "counted-immutable-1024"),
        ("2-nodes-2048", "zen3-2s", 2048, "counted-immutable-2048"),
    ];
    let request = |topology, scheme, buckets| Model::Schbench { topology, scheme, buckets };
    let rate = |row, column| published::figure("schbench", row, column);
    let mut all: Vec<Comparison> = CASES
        .into_iter()
        .map(|(row, topology, buckets, id)| Comparison {
            source: Source::ImmutableHash,
            what: format!("schbench, {buckets} buckets: immutable for counted ({topology})"),
            base: figure(rate(row, "counted"), request(topology, Scheme::Atomic, buckets)),
            other: figure(rate(row, "immutable"), request(topology, Scheme::Fixed, buckets)),
            is_sized: true,
            note: NO_NOTE,
            id: Some(id.into()),
        })
        .collect();
    let global = published::figure("schbench-global", "2-nodes", "immutable");
    for (row, topology, buckets, _) in &CASES[1..] {
        all.push(Comparison {
            source: Source::ImmutableHash,
            what: format!("schbench: {buckets} immutable buckets for the global table ({topology})"),
            base: figure(global, request(topology, Scheme::Fixed, 0)),
            other: figure(rate(row, "immutable"), request(topology, Scheme::Fixed, *buckets)),
            is_sized: false,
            note: NO_NOTE,
            id: None,
        });
    }
    all
}

/// [false-sharing]: the chain on a second line, and a table whose resize never ends.
fn layouts() -> Vec<Comparison> {
    let rate = |row, column| published::figure("split", row, column);
    let split = |row, topology, threads, buckets, id: Option<&str>| {
        let case = hash::Case::new(topology, threads, buckets).by(Scheme::PerCpu);
        Comparison {
            source: Source::FalseSharing,
            what: format!("-b {buckets}: the chain on a second line ({topology}, {threads} threads)"),
            base: figure(rate(row, "packed"), case.of(Layout::Packed)),
            other: figure(rate(row, "split"), case.of(Layout::Split)),
            is_sized: true,
            note: NO_NOTE,
            id: id.map(Into::into),
        }
    };
    let auto = |layout| hash::Case::new("skylake-2s", 112, 256).by(Scheme::Stalled).of(layout);
    let sized = hash::Case::new("skylake-2s", 112, 256).by(Scheme::PerCpu).of(Layout::Packed);
    vec![
        split("256", "skylake-2s", 112, 256, Some("packed-split-b256")),
        split("epyc-256", "epyc-9d64", 176, 256, None),
        split("epyc-average", "epyc-9d64", 176, 1024, Some("packed-split-176")),
        Comparison {
            source: Source::FalseSharing,
            what: "-b 256 for auto, which is stuck (skylake-2s, 112 threads)".into(),
            base: figure(rate("auto", "packed"), auto(Layout::Packed)),
            other: figure(rate("256", "packed"), sized),
            is_sized: true,
            note: "false-sharing: the mail names neither the machine nor its threads; the ratio grows with the threads",
            id: Some("auto-b256".into()),
        },
        Comparison {
            source: Source::FalseSharing,
            what: "auto: the chain on a second line (skylake-2s, 112 threads)".into(),
            base: figure(rate("auto", "packed"), auto(Layout::Packed)),
            other: figure(rate("auto", "split"), auto(Layout::Split)),
            is_sized: false,
            note: NO_NOTE,
            id: None,
        },
    ]
}

/// [priv-removed]: the bucket without the pointer `priv`.
fn priv_removed() -> Vec<Comparison> {
    let mut all = Vec::new();
    for (topology, threads) in [("skylake-2s", 112), ("zen3-2s", 256)] {
        for (column, percent) in published::row("priv-removed", &threads.to_string()) {
            let column_is_sized = !matches!(column, "0" | "auto");
            let (column, buckets) = match column {
                "0" => ("shared 16k".to_string(), 0),
                "auto" => ("auto 512".to_string(), 512),
                sized => (format!("-b{sized}"), number(sized)),
            };
            // A shared futex is in the global table, which has no reference count.
            let scheme = if buckets == 0 { Scheme::Fixed } else { Scheme::PerCpu };
            let case = hash::Case::new(topology, threads, buckets).by(scheme);
            let machine = if threads == 112 { "" } else { "-256" };
            let id = column_is_sized.then(|| format!("packed-lean-b{buckets}{machine}"));
            all.push(Comparison {
                source: Source::PrivRemoved,
                what: format!("{column}: priv removed ({topology}, {threads} threads)"),
                base: figure(100.0, case.of(Layout::Packed)),
                other: figure(100.0 + percent, case.of(Layout::Lean)),
                is_sized: true,
                note: NO_NOTE,
                id,
            });
        }
    }
    all
}

/// [percpu-refs]: the cost of per-CPU reference counts.
fn per_cpu() -> Vec<Comparison> {
    const THREADS: usize = 80;
    let case = |buckets| hash::Case::new("power", THREADS, buckets);
    let rate = |row| published::figure("power", row, "rate");
    let immutable = || figure(rate("immutable"), case(512));
    let per_cpu = || case(512).by(Scheme::PerCpu);
    let than_immutable = |what: &str, other| Comparison {
        source: Source::PercpuRefs,
        what: format!("-b512: {what} (power, {THREADS} threads)"),
        base: immutable(),
        other,
        is_sized: false,
        note: "ours counts by restartable sequences, with neither RCU nor preemption to switch",
        id: None,
    };
    vec![
        than_immutable("per-CPU for immutable", figure(rate("percpu"), per_cpu())),
        than_immutable("per-CPU without RCU for immutable", figure(rate("percpu-without-rcu"), per_cpu())),
        Comparison {
            source: Source::PercpuRefs,
            what: format!("the global table for 512 immutable buckets (power, {THREADS} threads)"),
            base: immutable(),
            other: figure(rate("global"), case(0)),
            is_sized: false,
            note: NO_NOTE,
            id: None,
        },
    ]
}

/// In [private-hash] only rows with contention test the model.
const FITTED: &str = "private-hash: what a call and the global hash take is fitted to its columns of 256 buckets and of the \
                      global table, so that rows in which nobody waits say no more than that";

/// [private-hash]: private tables of several sizes and the global one, in one process.
fn by_threads() -> Vec<Comparison> {
    let compare = |threads: usize| {
        let what = format!("{threads} threads");
        by_buckets("by-threads", threads, &what, |buckets| hash::Case::new("ivb-4s", threads, buckets))
    };
    [1, 2, 4, 8, 16].into_iter().flat_map(compare).collect()
}

/// [private-hash]: one process of 36 threads on each of four nodes.
fn by_nodes() -> Vec<Comparison> {
    by_buckets("by-node", 36, "4 x 36 threads", |buckets| hash::Case::new("ivb-4s", 36, buckets).processes(4))
}

/// Compares each private table of a row with the global one.
fn by_buckets(table: &str, row: usize, what: &str, case: impl Fn(usize) -> hash::Case) -> Vec<Comparison> {
    let row = row.to_string();
    let global = published::figure(table, &row, "0");
    let private = published::row(table, &row).into_iter().map(|(column, rate)| (number(column), rate));
    private
        .filter(|(buckets, _)| *buckets > 0)
        .map(|(buckets, rate)| Comparison {
            source: Source::PrivateHash,
            what: format!("{what}: {buckets} private buckets for the global table (ivb-4s)"),
            base: figure(global, Model::Kernel(case(0))),
            other: figure(rate, Model::Kernel(case(buckets))),
            is_sized: true,
            note: FITTED,
            id: None,
        })
        .collect()
}

/// The number that names a column.
fn number(column: &str) -> usize {
    column.parse().expect("a number of buckets")
}

/// Loops of a thread in the model. 100,000 are published. For 63 processes, the order in which they queue for the one
/// lock changes slowly, and their ratio with it (`docs/SIM.md` has it by loops). For threads, only 1000 were tried.
const LOOPS_OF_THREADS: usize = 1000;
const LOOPS_OF_PROCESSES: usize = 4000;

/// [timer-hash]: timers created and deleted in a loop.
fn timer_loops() -> Vec<Comparison> {
    let mut all = Vec::new();
    for (apart, loops) in [(false, LOOPS_OF_THREADS), (true, LOOPS_OF_PROCESSES)] {
        let model = |design| Model::timers(design, 63, apart, loops, Measure::CreateDelete);
        let (one_lock, others) = designs("timers-loop", &format!("63-{}", what_of(apart)));
        for (design, published) in others {
            all.push(Comparison {
                source: Source::TimerHash,
                what: format!("create and delete, 63 {}: {design} for one lock", what_of(apart)),
                base: figure(one_lock, model(ONE_LOCK)),
                other: figure(published, model(design)),
                is_sized: design == "scaled",
                note: NO_NOTE,
                id: None,
            });
        }
    }
    all
}

/// The design that the others of [timer-hash] are compared with.
const ONE_LOCK: &str = "global-lock";

/// The figure of `ONE_LOCK` and those of the other designs.
fn designs(table: &str, row: &str) -> (f64, Vec<(&'static str, f64)>) {
    let others = published::row(table, row).into_iter().filter(|(design, _)| *design != ONE_LOCK).collect();
    (published::figure(table, row, ONE_LOCK), others)
}

fn what_of(apart: bool) -> &'static str {
    if apart { "processes" } else { "threads" }
}

/// Note for rows in which long lists dominate.
const NO_CAPACITY: &str = "long lists: the model's caches hold everything, so that a walk costs too little";
/// Note for rows that are modelled with as many timers as fit into a virtual minute. 20,000 are published.
const FEW_TIMERS: &str = "modelled with 200 timers a thread, published with 20,000: direction alone";

/// [timer-hash]: timers created and looked up.
fn timer_lists() -> Vec<Comparison> {
    /// The row, threads, whether each has a process of its own, timers modelled, the note.
    type Row = (&'static str, usize, bool, usize, &'static str);
    const ROWS: [Row; 5] = [
        ("20000", 1, false, 20_000, NO_CAPACITY),
        ("50000", 1, false, 50_000, NO_CAPACITY),
        ("100000", 1, false, 100_000, NO_CAPACITY),
        ("63-threads", 63, false, 200, FEW_TIMERS),
        ("63-processes", 63, true, 200, FEW_TIMERS),
    ];
    let mut all = Vec::new();
    for (row, threads, apart, timers, note) in ROWS {
        for measure in [Measure::Create, Measure::Getoverrun] {
            let model = |design| Model::timers(design, threads, apart, timers, measure);
            let (one_lock, others) = designs(&format!("timers-{measure}"), row);
            for (design, published) in others {
                all.push(Comparison {
                    source: Source::TimerHash,
                    what: format!("{measure}, {threads} {}, {timers} timers: {design} for one lock", what_of(apart)),
                    base: figure(one_lock, model(ONE_LOCK)),
                    other: figure(published, model(design)),
                    is_sized: false,
                    note,
                    id: None,
                });
            }
        }
    }
    all
}
