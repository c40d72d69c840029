//! What was published, as it stands in the messages that `seeds` names. Nothing here is measured or modelled.

use crate::targets::{Layout, Name};

/// The messages: number, subject, who wrote it on the kernel's mailing list, and when.
pub const MESSAGES: [[&str; 4]; 5] = [
    [
        "000",
        "futex performance regression from \"futex: Allow automatic allocation of process wide futex hash\"",
        "C. Mason",
        "June 2025",
    ],
    ["001", "futex: avoid false sharing between hb->chain and the bucket lock", "B. Leitao, P. Zijlstra", "June 2026"],
    ["002", "futex: Use RCU-based per-CPU reference counting", "S. Hegde", "July 2025"],
    ["003", "futex: Hash private futexes per process", "S. A. Siewior, T. Gleixner", "May 2016"],
    ["004", "posix-timers: Improve hash table performance", "T. Gleixner, F. Weisbecker", "March 2025"],
];

/// One comparison: the same workload with one thing changed.
pub struct Comparison {
    /// Which message: 000 to 004.
    pub seed: &'static str,
    /// Unique; the model's rows name it, too.
    pub id: &'static str,
    /// What changed.
    pub what: &'static str,
    /// Where and how it was measured.
    pub where_: &'static str,
    /// Operations a second before, after; or only how many times as many.
    pub figures: Figures,
    /// The same pair on this machine.
    pub here: Option<Pair>,
    /// Whether the model must get its size, too, within a factor of 1.5 (and not only the direction).
    pub is_validation: bool,
}

/// What was published of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figures {
    /// A second.
    Rates(f64, f64),
    /// A gain in percent, nothing else.
    Gain(f64),
}

impl Figures {
    /// After over before.
    pub fn factor(self) -> f64 {
        match self {
            Figures::Rates(before, after) => after / before,
            Figures::Gain(percent) => 1.0 + percent / 100.0,
        }
    }
}

/// A side of a comparison as this machine measures it: target, layout, buckets.
pub type Side = (Name, Layout, usize);

/// Before, after.
#[derive(Clone, Copy, Debug)]
pub enum Pair {
    /// The same loop on two tables.
    Tables(Side, Side),
    /// The stall: `atomic` while a resize is under way that does not end, `live` after the same one.
    Stall,
}

/// A rate for a rate, on tables that this machine has, too.
fn tables(
    (seed, id): (&'static str, &'static str),
    (what, where_): (&'static str, &'static str),
    figures: Figures,
    before: Side,
    after: Side,
) -> Comparison {
    Comparison { seed, id, what, where_, figures, here: Some(Pair::Tables(before, after)), is_validation: false }
}

/// All of them, in the order of the messages.
pub fn comparisons() -> Vec<Comparison> {
    let mut all = counted();
    all.extend(layouts());
    all.extend(percpu());
    all
}

/// 000: what a reference count costs.
fn counted() -> Vec<Comparison> {
    let sides = |buckets| ((Name::Atomic, Layout::Lean, buckets), (Name::Fixed, Layout::Lean, buckets));
    let big = "256 cores, 2 nodes";
    let (counted, immutable) = sides(1024);
    let (counted_2k, immutable_2k) = sides(2048);
    vec![
        Comparison {
            seed: "000",
            id: "counted-immutable-schbench",
            what: "counted → immutable, 1024 buckets, schbench",
            where_: "Turin, schbench -L, 256 threads",
            figures: Figures::Rates(2_297_856.0, 3_665_920.0),
            here: None,
            is_validation: true,
        },
        tables(
            ("000", "counted-immutable-1024"),
            ("counted → immutable, 1024 buckets", big),
            Figures::Rates(785_446.0, 1_586_755.0),
            counted,
            immutable,
        ),
        tables(
            ("000", "counted-immutable-2048"),
            ("counted → immutable, 2048 buckets", big),
            Figures::Rates(736_769.0, 1_555_182.0),
            counted_2k,
            immutable_2k,
        ),
    ]
}

/// 001 and what followed it: the stall, and a bucket's layout.
fn layouts() -> Vec<Comparison> {
    let fixed = |layout, buckets| (Name::Fixed, layout, buckets);
    let mut all = vec![
        Comparison {
            seed: "001",
            id: "auto-b256",
            what: "the stall: automatic size → 256 buckets",
            where_: "perf bench futex hash",
            figures: Figures::Rates(192_479.0, 3_453_734.0),
            here: Some(Pair::Stall),
            is_validation: true,
        },
        Comparison {
            is_validation: true,
            ..tables(
                ("001", "packed-split-b256"),
                ("packed → split, 256 buckets", "perf bench futex hash"),
                Figures::Rates(3_453_734.0, 3_987_880.0),
                fixed(Layout::Packed, 256),
                fixed(Layout::Split, 256),
            )
        },
        Comparison {
            here: None,
            ..tables(
                ("001", "packed-split-176"),
                ("packed → split, average", "EPYC 9D64, 176 CPUs"),
                Figures::Rates(1_394_938.0, 1_616_781.0),
                fixed(Layout::Packed, 256),
                fixed(Layout::Split, 256),
            )
        },
    ];
    for (id, what, where_, buckets, percent) in FOLLOW_UP {
        all.push(Comparison {
            is_validation: true,
            ..tables(
                ("001", id),
                (what, where_),
                Figures::Gain(percent),
                fixed(Layout::Packed, buckets),
                fixed(Layout::Lean, buckets),
            )
        });
    }
    all
}

const SMALLER: &str = "112 threads, 2 sockets";
const LARGER: &str = "256 threads, 2 sockets";

/// Name, what changed, where, buckets, gain in percent: `priv` removed.
const FOLLOW_UP: [(&str, &str, &str, usize, f64); 10] = [
    ("packed-lean-b256", "packed → priv removed, 256 buckets", SMALLER, 256, 26.4),
    ("packed-lean-b512", "packed → priv removed, 512 buckets", SMALLER, 512, 39.2),
    ("packed-lean-b1024", "packed → priv removed, 1024 buckets", SMALLER, 1024, 40.3),
    ("packed-lean-b2048", "packed → priv removed, 2048 buckets", SMALLER, 2048, 29.0),
    ("packed-lean-b4096", "packed → priv removed, 4096 buckets", SMALLER, 4096, 5.5),
    ("packed-lean-b256-256", "packed → priv removed, 256 buckets", LARGER, 256, 11.5),
    ("packed-lean-b512-256", "packed → priv removed, 512 buckets", LARGER, 512, 21.8),
    ("packed-lean-b1024-256", "packed → priv removed, 1024 buckets", LARGER, 1024, 14.1),
    ("packed-lean-b2048-256", "packed → priv removed, 2048 buckets", LARGER, 2048, 10.9),
    ("packed-lean-b4096-256", "packed → priv removed, 4096 buckets", LARGER, 4096, 15.2),
];

/// 002: counts on each CPU, -b 512.
fn percpu() -> Vec<Comparison> {
    let percpu = (Name::PerCpu, Layout::Lean, 512);
    let power = "POWER, perf bench futex hash";
    vec![
        tables(
            ("002", "percpu-immutable"),
            ("per-CPU counts → immutable, 512 buckets", power),
            Figures::Rates(1_412_543.0, 1_536_035.0),
            percpu,
            (Name::Fixed, Layout::Lean, 512),
        ),
        tables(
            ("002", "percpu-global"),
            ("per-CPU counts → global hash", power),
            Figures::Rates(1_412_543.0, 1_559_643.0),
            percpu,
            (Name::Global, Layout::Lean, 16),
        ),
    ]
}

/// The first table of seeds/003: threads; the global hash of 65536 slots; private ones of 4 to 256.
pub const BY_THREADS: [(usize, [f64; 8]); 5] = [
    (1, [8175006.0, 8645465.0, 8617469.0, 8628686.0, 8625223.0, 8664491.0, 8590934.0, 8631582.0]),
    (2, [8149869.0, 8618385.0, 8578185.0, 8622267.0, 8603253.0, 8618787.0, 8595073.0, 8590591.0]),
    (4, [7479482.0, 5867840.0, 7882991.0, 7604838.0, 7894380.0, 7882850.0, 7884911.0, 7886278.0]),
    (8, [7308822.0, 2378057.0, 5731051.0, 5550479.0, 7691198.0, 7672814.0, 7711939.0, 7681549.0]),
    (16, [7295893.0, 677414.0, 2670682.0, 3453552.0, 7158906.0, 7688978.0, 7677603.0, 7690290.0]),
];

/// Its second table: one process a node, 36 threads each; slots (0: the global hash) and operations a second.
pub const BY_NODE: [(usize, f64); 11] = [
    (0, 2673390.0),
    (4, 368952.0),
    (8, 682626.0),
    (16, 1223908.0),
    (32, 1845922.0),
    (64, 3003524.0),
    (128, 3538313.0),
    (256, 4118533.0),
    (512, 4286925.0),
    (1024, 4289589.0),
    (2048, 4274020.0),
];

/// The table of seeds/004, milliseconds of create and getoverrun: mainline, lockless check, scaled hash, xarray.
pub const TIMERS: [(&str, [(f64, f64); 4]); 5] = [
    ("20k timers, 1 thread", [(23.0, 14.0), (23.0, 14.0), (9.0, 5.0), (8.0, 4.0)]),
    ("50k timers, 1 thread", [(98.0, 62.0), (219.0, 62.0), (20.0, 10.0), (18.0, 9.0)]),
    ("100k timers, 1 thread", [(313.0, 261.0), (750.0, 260.0), (48.0, 20.0), (33.0, 14.0)]),
    ("63 threads × 20k", [(180239.0, 2645.0), (38599.0, 2642.0), (579.0, 32.0), (813.0, 7.0)]),
    ("63 processes × 20k", [(157253.0, 2611.0), (40008.0, 2614.0), (83.0, 40.0), (60.0, 4.0)]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_factors_are_those_of_the_messages() {
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
