//! The published comparisons that the report shows. The figures are in `lab_sim::published`. Nothing here is measured
//! or modelled.

use lab_sim::published::{self, Source};
use lab_targets::{Layout, Name};

/// The mails: short name, subject, author and date. `docs/REFERENCES.md` has more about each.
pub const MAILS: [(Source, &str, &str, &str); 6] = [
    (
        Source::ImmutableHash,
        "futex performance regression from \"futex: Allow automatic allocation of process wide futex hash\"",
        "C. Mason",
        "June 2025",
    ),
    (
        Source::FalseSharing,
        "futex: avoid false sharing between hb->chain and the bucket lock",
        "B. Leitao, P. Zijlstra",
        "June 2026",
    ),
    (
        Source::PrivRemoved,
        "futex: avoid false sharing between hb->chain and the bucket lock",
        "T. Gleixner",
        "June 2026",
    ),
    (Source::PercpuRefs, "futex: Use RCU-based per-CPU reference counting", "S. Hegde", "July 2025"),
    (Source::PrivateHash, "futex: Hash private futexes per process", "S. A. Siewior, T. Gleixner", "May 2016"),
    (Source::TimerHash, "posix-timers: Improve hash table performance", "T. Gleixner, F. Weisbecker", "March 2025"),
];

/// One comparison: one workload before and after a change.
pub struct Comparison {
    /// The mail.
    pub source: Source,
    /// Unique name, also in the model's rows.
    pub id: &'static str,
    /// The change.
    pub what: &'static str,
    /// Machine and workload.
    pub where_: &'static str,
    /// The published figures.
    pub figures: Figures,
    /// The pair of the engine's schemes or layouts that stands for the change.
    pub here: Option<Pair>,
    /// Whether the model must reproduce the factor to within 1.5, and not only its direction.
    pub is_validation: bool,
}

/// The published figures of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figures {
    /// Operations per second before and after.
    Rates(f64, f64),
    /// Only a gain, in percent.
    Gain(f64),
}

impl Figures {
    /// The rate after divided by the rate before.
    pub fn factor(self) -> f64 {
        match self {
            Figures::Rates(before, after) => after / before,
            Figures::Gain(percent) => 1.0 + percent / 100.0,
        }
    }
}

/// A stand-in for one side of a comparison: target, layout, buckets.
pub type Side = (Name, Layout, usize);

/// The two sides, before and after.
#[derive(Clone, Copy, Debug)]
pub enum Pair {
    /// The same loop on two tables.
    Tables(Side, Side),
    /// A stall: `percpu` while its resize is under way, and `percpu` with 256 buckets.
    Stall,
}

/// A comparison of rates whose two tables the engine has stand-ins for.
fn tables(
    (source, id): (Source, &'static str),
    (what, where_): (&'static str, &'static str),
    figures: Figures,
    before: Side,
    after: Side,
) -> Comparison {
    Comparison { source, id, what, where_, figures, here: Some(Pair::Tables(before, after)), is_validation: false }
}

/// Two figures of a row.
fn rates(table: &str, row: &str, before: &str, after: &str) -> Figures {
    Figures::Rates(published::figure(table, row, before), published::figure(table, row, after))
}

/// All comparisons, in the order of the mails.
pub fn comparisons() -> Vec<Comparison> {
    let mut all = counted();
    all.extend(layouts());
    all.extend(percpu());
    all
}

/// [immutable-hash]: the cost of a reference count. It is not measured here: schbench's 1024 workers on a few CPUs
/// would not show it.
fn counted() -> Vec<Comparison> {
    const CASES: [(&str, &str, &str, &str); 3] = [
        ("counted-immutable-schbench", "turin-1024", "counted → immutable, 1024 buckets", "schbench, Turin"),
        ("counted-immutable-1024", "2-nodes-1024", "counted → immutable, 1024 buckets", "schbench, 256 cores, 2 nodes"),
        ("counted-immutable-2048", "2-nodes-2048", "counted → immutable, 2048 buckets", "schbench, 256 cores, 2 nodes"),
    ];
    let case = |(id, row, what, where_)| Comparison {
        source: Source::ImmutableHash,
        id,
        what,
        where_,
        figures: rates("schbench", row, "counted", "immutable"),
        here: None,
        is_validation: true,
    };
    CASES.into_iter().map(case).collect()
}

/// [false-sharing] and [priv-removed]: the stall, and the layout of a bucket.
fn layouts() -> Vec<Comparison> {
    let with = |layout, buckets| (Name::Live, layout, buckets);
    let mut all = vec![
        Comparison {
            source: Source::FalseSharing,
            id: "auto-b256",
            what: "the stall: automatic size → 256 buckets",
            where_: "perf bench futex hash",
            figures: Figures::Rates(
                published::figure("split", "auto", "packed"),
                published::figure("split", "256", "packed"),
            ),
            here: Some(Pair::Stall),
            is_validation: true,
        },
        Comparison {
            is_validation: true,
            ..tables(
                (Source::FalseSharing, "packed-split-b256"),
                ("packed → split, 256 buckets", "perf bench futex hash"),
                rates("split", "256", "packed", "split"),
                with(Layout::Packed, 256),
                with(Layout::Split, 256),
            )
        },
        Comparison {
            here: None,
            ..tables(
                (Source::FalseSharing, "packed-split-176"),
                ("packed → split, average", "EPYC 9D64, 176 CPUs"),
                rates("split", "epyc-average", "packed", "split"),
                with(Layout::Packed, 256),
                with(Layout::Split, 256),
            )
        },
    ];
    for (id, what, threads, buckets) in PRIV_REMOVED {
        let where_ = if threads == "112" { "112 threads, 2 sockets" } else { "256 threads, 2 sockets" };
        let percent = published::figure("priv-removed", threads, &buckets.to_string());
        all.push(Comparison {
            is_validation: true,
            ..tables(
                (Source::PrivRemoved, id),
                (what, where_),
                Figures::Gain(percent),
                with(Layout::Packed, buckets),
                with(Layout::Lean, buckets),
            )
        });
    }
    all
}

/// Comparisons of [priv-removed]: name, what changed, threads, buckets.
const PRIV_REMOVED: [(&str, &str, &str, usize); 10] = [
    ("packed-lean-b256", "packed → priv removed, 256 buckets", "112", 256),
    ("packed-lean-b512", "packed → priv removed, 512 buckets", "112", 512),
    ("packed-lean-b1024", "packed → priv removed, 1024 buckets", "112", 1024),
    ("packed-lean-b2048", "packed → priv removed, 2048 buckets", "112", 2048),
    ("packed-lean-b4096", "packed → priv removed, 4096 buckets", "112", 4096),
    ("packed-lean-b256-256", "packed → priv removed, 256 buckets", "256", 256),
    ("packed-lean-b512-256", "packed → priv removed, 512 buckets", "256", 512),
    ("packed-lean-b1024-256", "packed → priv removed, 1024 buckets", "256", 1024),
    ("packed-lean-b2048-256", "packed → priv removed, 2048 buckets", "256", 2048),
    ("packed-lean-b4096-256", "packed → priv removed, 4096 buckets", "256", 4096),
];

/// [percpu-refs]: per-CPU reference counts, with 512 buckets.
fn percpu() -> Vec<Comparison> {
    let percpu = (Name::PerCpu, Layout::Lean, 512);
    let power = "POWER, perf bench futex hash";
    let than_percpu =
        |row| Figures::Rates(published::figure("power", "percpu", "rate"), published::figure("power", row, "rate"));
    vec![
        tables(
            (Source::PercpuRefs, "percpu-immutable"),
            ("per-CPU counts → immutable, 512 buckets", power),
            than_percpu("immutable"),
            percpu,
            (Name::Fixed, Layout::Lean, 512),
        ),
        tables(
            (Source::PercpuRefs, "percpu-global"),
            ("per-CPU counts → global hash", power),
            than_percpu("global"),
            percpu,
            (Name::Global, Layout::Lean, 16),
        ),
    ]
}

/// The first table of [private-hash]: threads, and the rates with the global hash of 65536 slots and with 4 to 256
/// slots.
pub fn by_threads() -> impl Iterator<Item = (&'static str, Vec<f64>)> {
    let rates = |threads| published::row("by-threads", threads).into_iter().map(|(_, rate)| rate).collect();
    ["1", "2", "4", "8", "16"].into_iter().map(move |threads| (threads, rates(threads)))
}

/// The second table of [private-hash], with one process of 36 threads on each node: slots (0 is the global hash) and
/// operations per second.
pub fn by_node() -> Vec<(&'static str, f64)> {
    published::row("by-node", "36")
}

/// The first five tests of [timer-hash]: milliseconds of create and getoverrun with mainline, lockless check, scaled
/// hash and xarray.
pub fn timers() -> impl Iterator<Item = (&'static str, Vec<(f64, f64)>)> {
    const CASES: [(&str, &str); 5] = [
        ("20k timers, 1 thread", "20000"),
        ("50k timers, 1 thread", "50000"),
        ("100k timers, 1 thread", "100000"),
        ("63 threads × 20k", "63-threads"),
        ("63 processes × 20k", "63-processes"),
    ];
    let both = |row| {
        let looked = published::row("timers-getoverrun", row);
        let created = published::row("timers-create", row).into_iter();
        created.zip(looked).map(|((_, create), (_, look_up))| (create, look_up)).collect()
    };
    CASES.into_iter().map(move |(case, row)| (case, both(row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_factors_are_those_of_the_mails() {
        let all = comparisons();
        for (number, one) in all.iter().enumerate() {
            assert!(all[..number].iter().all(|other| other.id != one.id), "{}", one.id);
        }
        let factor = |id: &str| all.iter().find(|one| one.id == id).expect("there").figures.factor();
        assert!((factor("packed-split-b256") - 1.155).abs() < 0.001);
        assert!((factor("packed-lean-b512") - 1.392).abs() < 1e-9);
        assert!(all.iter().all(|one| one.figures.factor() > 1.0), "each is told as what became better");
    }
}
