//! What the seeds publish, comparison by comparison, and what models it.

use super::hash::{self, Layout, Scheme};
use super::model::{Measure, Model};

/// Two figures of one table, which the text compares.
pub struct Comparison {
    /// The document.
    pub seed: &'static str,
    /// What changes between the two.
    pub what: String,
    /// What it is compared with.
    pub base: Figure,
    /// What is compared.
    pub other: Figure,
    /// Whether its size counts, and not its direction alone.
    pub is_sized: bool,
    /// What the reader must know of it.
    pub note: &'static str,
}

/// One figure, and what it is modelled by.
pub struct Figure {
    pub published: f64,
    pub model: Model,
}

impl Comparison {
    /// How many times the base the other is.
    pub fn published(&self) -> f64 {
        self.other.published / self.base.published
    }
}

fn figure(published: f64, model: impl Into<Model>) -> Figure {
    Figure { published, model: model.into() }
}

fn gain(percent: f64) -> f64 {
    100.0 + percent
}

/// All of them.
pub fn comparisons() -> Vec<Comparison> {
    [counted(), layouts(), follow_up(), per_cpu(), by_threads(), by_nodes(), timer_loops(), timer_lists()]
        .into_iter()
        .flatten()
        .collect()
}

const NO_NOTE: &str = "";

/// 000: schbench on a counted table and on an immutable one.
fn counted() -> Vec<Comparison> {
    const FIGURES: [(&str, usize, f64, f64); 3] = [
        ("turin", 1024, 2_297_856.0, 3_665_920.0),
        ("zen3-2s", 1024, 785_446.0, 1_586_755.0),
        ("zen3-2s", 2048, 736_769.0, 1_555_182.0),
    ];
    let request = |topology, scheme, buckets| Model::Schbench { topology, scheme, buckets };
    let mut all: Vec<Comparison> = FIGURES
        .into_iter()
        .map(|(topology, buckets, with_count, immutable)| Comparison {
            seed: "000",
            what: format!("schbench, {buckets} buckets: immutable for counted ({topology})"),
            base: figure(with_count, request(topology, Scheme::Atomic, buckets)),
            other: figure(immutable, request(topology, Scheme::Fixed, buckets)),
            is_sized: true,
            note: NO_NOTE,
        })
        .collect();
    for (buckets, private) in [(1024, 1_586_755.0), (2048, 1_555_182.0)] {
        all.push(Comparison {
            seed: "000",
            what: format!("schbench: {buckets} immutable buckets for the global table (zen3-2s)"),
            base: figure(1_701_947.0, request("zen3-2s", Scheme::Fixed, 0)),
            other: figure(private, request("zen3-2s", Scheme::Fixed, buckets)),
            is_sized: false,
            note: NO_NOTE,
        });
    }
    all
}

/// 001: the chain on a line of its own, and a table that is stuck.
fn layouts() -> Vec<Comparison> {
    let split = |topology, threads, buckets, packed: f64, split: f64| {
        let case = hash::Case::new(topology, threads, buckets).by(Scheme::PerCpu);
        Comparison {
            seed: "001",
            what: format!("-b {buckets}: the chain on a second line ({topology}, {threads} threads)"),
            base: figure(packed, case.of(Layout::Packed)),
            other: figure(split, case.of(Layout::Split)),
            is_sized: true,
            note: NO_NOTE,
        }
    };
    let auto = |layout| hash::Case::new("skylake-2s", 112, 256).by(Scheme::Stalled).of(layout);
    let sized = hash::Case::new("skylake-2s", 112, 256).by(Scheme::PerCpu).of(Layout::Packed);
    vec![
        split("skylake-2s", 112, 256, 3_453_734.0, 3_987_880.0),
        split("epyc-9d64", 176, 256, 1_267_863.0, 1_460_971.0),
        split("epyc-9d64", 176, 1024, 1_394_938.0, 1_616_781.0),
        Comparison {
            seed: "001",
            what: "-b 256 for auto, which is stuck (skylake-2s, 112 threads)".into(),
            base: figure(192_479.0, auto(Layout::Packed)),
            other: figure(3_453_734.0, sized),
            is_sized: true,
            note: "neither the machine nor its threads are in the text; the ratio grows with the threads",
        },
        Comparison {
            seed: "001",
            what: "auto: the chain on a second line (skylake-2s, 112 threads)".into(),
            base: figure(192_479.0, auto(Layout::Packed)),
            other: figure(195_523.0, auto(Layout::Split)),
            is_sized: false,
            note: NO_NOTE,
        },
    ]
}

/// The follow-up to 001: no `priv` in the bucket.
fn follow_up() -> Vec<Comparison> {
    const COLUMNS: [&str; 7] = ["shared 16k", "auto 512", "-b256", "-b512", "-b1024", "-b2048", "-b4096"];
    const BUCKETS: [usize; 7] = [0, 512, 256, 512, 1024, 2048, 4096];
    const GAINS: [(&str, usize, [f64; 7]); 2] = [
        ("skylake-2s", 112, [4.4, 39.7, 26.4, 39.2, 40.3, 29.0, 5.5]),
        ("zen3-2s", 256, [8.2, 18.3, 11.5, 21.8, 14.1, 10.9, 15.2]),
    ];
    let mut all = Vec::new();
    for (topology, threads, gains) in GAINS {
        for ((column, buckets), percent) in COLUMNS.into_iter().zip(BUCKETS).zip(gains) {
            // A shared futex is in the global table, which nothing counts.
            let scheme = if buckets == 0 { Scheme::Fixed } else { Scheme::PerCpu };
            let case = hash::Case::new(topology, threads, buckets).by(scheme);
            all.push(Comparison {
                seed: "001+",
                what: format!("{column}: priv removed ({topology}, {threads} threads)"),
                base: figure(100.0, case.of(Layout::Packed)),
                other: figure(gain(percent), case.of(Layout::Lean)),
                is_sized: true,
                note: NO_NOTE,
            });
        }
    }
    all
}

/// 002: what counting by CPU costs.
fn per_cpu() -> Vec<Comparison> {
    const THREADS: usize = 80;
    let case = |buckets| hash::Case::new("power", THREADS, buckets);
    let immutable = || figure(1_536_035.0, case(512));
    let than_immutable = |what: &str, other| Comparison {
        seed: "002",
        what: format!("-b512: {what} (power, {THREADS} threads)"),
        base: immutable(),
        other,
        is_sized: false,
        note: "ours counts by restartable sequences, with neither RCU nor preemption to switch",
    };
    vec![
        than_immutable("per-CPU for immutable", figure(1_412_543.0, case(512).by(Scheme::PerCpu))),
        than_immutable("per-CPU without RCU for immutable", figure(1_482_733.0, case(512).by(Scheme::PerCpu))),
        Comparison {
            seed: "002",
            what: format!("the global table for 512 immutable buckets (power, {THREADS} threads)"),
            base: immutable(),
            other: figure(1_559_643.0, case(0)),
            is_sized: false,
            note: NO_NOTE,
        },
    ]
}

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
const SIZES: [usize; 7] = [4, 8, 16, 32, 64, 128, 256];
const GLOBAL_BY_THREADS: [u64; 5] = [8_175_006, 8_149_869, 7_479_482, 7_308_822, 7_295_893];
const PRIVATE_BY_THREADS: [[u64; 7]; 5] = [
    [8_645_465, 8_617_469, 8_628_686, 8_625_223, 8_664_491, 8_590_934, 8_631_582],
    [8_618_385, 8_578_185, 8_622_267, 8_603_253, 8_618_787, 8_595_073, 8_590_591],
    [5_867_840, 7_882_991, 7_604_838, 7_894_380, 7_882_850, 7_884_911, 7_886_278],
    [2_378_057, 5_731_051, 5_550_479, 7_691_198, 7_672_814, 7_711_939, 7_681_549],
    [677_414, 2_670_682, 3_453_552, 7_158_906, 7_688_978, 7_677_603, 7_690_290],
];

/// 003: private tables of several sizes and the global one, in one process.
fn by_threads() -> Vec<Comparison> {
    let mut all = Vec::new();
    for ((threads, global), private) in THREADS.into_iter().zip(GLOBAL_BY_THREADS).zip(PRIVATE_BY_THREADS) {
        for (buckets, private) in SIZES.into_iter().zip(private) {
            all.push(Comparison {
                seed: "003",
                what: format!("{threads} threads: {buckets} private buckets for the global table (ivb-4s)"),
                base: figure(global as f64, hash::Case::new("ivb-4s", threads, 0)),
                other: figure(private as f64, hash::Case::new("ivb-4s", threads, buckets)),
                is_sized: true,
                note: NO_NOTE,
            });
        }
    }
    all
}

/// 003: one process of 36 threads on each of four nodes.
fn by_nodes() -> Vec<Comparison> {
    const GLOBAL: f64 = 2_673_390.0;
    const PRIVATE: [(usize, u64); 10] = [
        (4, 368_952),
        (8, 682_626),
        (16, 1_223_908),
        (32, 1_845_922),
        (64, 3_003_524),
        (128, 3_538_313),
        (256, 4_118_533),
        (512, 4_286_925),
        (1024, 4_289_589),
        (2048, 4_274_020),
    ];
    let case = |buckets| hash::Case::new("ivb-4s", 36, buckets).processes(4);
    let compare = |(buckets, private): (usize, u64)| Comparison {
        seed: "003",
        what: format!("4 x 36 threads: {buckets} private buckets for the global table (ivb-4s)"),
        base: figure(GLOBAL, case(0)),
        other: figure(private as f64, case(buckets)),
        is_sized: true,
        note: NO_NOTE,
    };
    PRIVATE.into_iter().map(compare).collect()
}

/// What 004 calls its columns, after the first.
const DESIGNS: [&str; 3] = ["precheck", "scaled", "radix"];

/// 004: timers created and deleted in a loop.
fn timer_loops() -> Vec<Comparison> {
    const LOOPS: [(bool, [f64; 4]); 2] =
        [(false, [5917.0, 5897.0, 5473.0, 7846.0]), (true, [5137.0, 7828.0, 891.0, 872.0])];
    let mut all = Vec::new();
    for (apart, [one_lock, others @ ..]) in LOOPS {
        let model = |design| Model::timers(design, 63, apart, 100, Measure::CreateDelete);
        for (design, published) in DESIGNS.into_iter().zip(others) {
            all.push(Comparison {
                seed: "004",
                what: format!("create and delete, 63 {}: {design} for one lock", what_of(apart)),
                base: figure(one_lock, model("global-lock")),
                other: figure(published, model(design)),
                is_sized: design == "scaled",
                note: NO_NOTE,
            });
        }
    }
    all
}

fn what_of(apart: bool) -> &'static str {
    if apart { "processes" } else { "threads" }
}

/// Longest lists are what makes these: see `NO_CAPACITY`.
const NO_CAPACITY: &str = "long lists: the model's caches hold everything, so that a walk costs too little";
/// As many timers as a virtual minute has room for, of 20,000 published.
const FEW_TIMERS: &str = "modelled with 200 timers a thread, published with 20,000: direction alone";

/// 004: timers created and looked up.
fn timer_lists() -> Vec<Comparison> {
    /// Threads, whether apart, timers modelled, creation, look-up.
    type Row = (usize, bool, usize, [f64; 4], [f64; 4], &'static str);
    const ROWS: [Row; 5] = [
        (1, false, 20_000, [23.0, 23.0, 9.0, 8.0], [14.0, 14.0, 5.0, 4.0], NO_CAPACITY),
        (1, false, 50_000, [98.0, 219.0, 20.0, 18.0], [62.0, 62.0, 10.0, 9.0], NO_CAPACITY),
        (1, false, 100_000, [313.0, 750.0, 48.0, 33.0], [261.0, 260.0, 20.0, 14.0], NO_CAPACITY),
        (63, false, 200, [180_239.0, 38_599.0, 579.0, 813.0], [2645.0, 2642.0, 32.0, 7.0], FEW_TIMERS),
        (63, true, 200, [157_253.0, 40_008.0, 83.0, 60.0], [2611.0, 2614.0, 40.0, 4.0], FEW_TIMERS),
    ];
    let mut all = Vec::new();
    for (threads, apart, timers, create, getoverrun, note) in ROWS {
        for (measure, [one_lock, others @ ..]) in [(Measure::Create, create), (Measure::Getoverrun, getoverrun)] {
            let model = |design| Model::timers(design, threads, apart, timers, measure);
            for (design, published) in DESIGNS.into_iter().zip(others) {
                all.push(Comparison {
                    seed: "004",
                    what: format!("{measure}, {threads} {}, {timers} timers: {design} for one lock", what_of(apart)),
                    base: figure(one_lock, model("global-lock")),
                    other: figure(published, model(design)),
                    is_sized: false,
                    note,
                });
            }
        }
    }
    all
}
