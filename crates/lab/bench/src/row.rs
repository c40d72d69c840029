//! One row: one object of `--json`, one line of a table.

use crate::Lab;
use lab_measure::stats::{Spread, Tail};
use lab_targets::Name;
use serde::Serialize;

/// What was measured and how; what a workload does not have is left out of its JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// As on the command line.
    pub workload: &'static str,
    /// `sizes`: the part of the full bench where `live` alone is measured at many sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<&'static str>,
    /// As on the command line.
    pub target: &'static str,
    /// Threads that measure (and hammer).
    pub threads: usize,
    /// Words of each thread.
    pub futexes: usize,
    /// Buckets that the table really had at the end; null where that cannot be seen.
    pub buckets: Option<usize>,
    /// `ping-pong`: CPUs that the two threads are pinned to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
    /// `wasm`: `wait` or `notify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<&'static str>,
    /// Of our targets: the size policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Of our targets: the bucket layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// Shared futexes, not private ones.
    pub shared: bool,
    /// `hash`, `wasm`: whether the wait may look at the word before any lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_return: Option<bool>,
    /// Bytes from a word to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stride: Option<usize>,
    /// Rounds.
    pub repeat: usize,
    /// Of an operation as a thread sees it; `ping-pong`: one way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_per_op: Option<Spread>,
    /// Of all threads together, the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops_per_sec: Option<f64>,
    /// This row's time over the kernel's, pairwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_kernel: Option<f64>,
    /// This row's time over parking_lot's, pairwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_parking_lot: Option<f64>,
    /// `wasm`: this row's time over wasmtime's, pairwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_wasmtime: Option<f64>,
    /// `sizes`: this row's throughput over that of the best explicit size, pairwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_of_best: Option<f64>,
    /// `resize`: slots before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<usize>,
    /// `resize`: slots after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<usize>,
    /// `resize`: the median; what was given up counts with the time until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize_us: Option<f64>,
    /// `resize`: in every round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    /// `resize`: in which share of the rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_share: Option<f64>,
    /// `resize`: operations of the hammering threads meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op_pause_us: Option<Tail>,
    /// `growth`: from the call until the thread sleeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_wait_us: Option<Tail>,
    /// `requeue`: waiters that a call moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nrequeue: Option<usize>,
    /// `requeue`: to a lock that lends priorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pi: Option<bool>,
    /// `wake-parallel`: threads that wake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nwakers: Option<usize>,
    /// `wake -w`: waiters that a call wakes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nwakes: Option<usize>,
    /// `sweep`: slots that were asked for; 0: the global table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<usize>,
    /// `sweep`: processes, each with so many threads on CPUs of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<usize>,
    /// `lock-pi`: a lock for each thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi: Option<bool>,
    /// `lock-pi`: for how long a thread sleeps with the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_us: Option<u64>,
    /// `crowd`: `distinct` or `same-bucket`; `wasm`: `words` or `one`; `locks`: `mutex`, `rwlock` or `many-locks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<&'static str>,
    /// `crowd`: `distinct`, all that wait; `same-bucket`, those that wait for the other word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiters: Option<usize>,
    /// `crowd`: `future` or `custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiter_kind: Option<&'static str>,
    /// `crowd`: domains of so many waiters each, all measured together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<usize>,
    /// `crowd`: this row's time over that of the row with the fewest waiters, pairwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_fewest: Option<f64>,
    /// `locks`, `rwlock`: threads that write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writers: Option<usize>,
    /// `locks`, `rwlock`: threads that read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readers: Option<usize>,
    /// `locks`: steps of work with the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work_per_critical_section: Option<usize>,
    /// `locks`: steps of work without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work_between_critical_sections: Option<usize>,
    /// `locks`: of an operation, the time of all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_op: Option<Spread>,
    /// `locks`: this row's CPU time over parking_lot's, pairwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_cpu_parking_lot: Option<f64>,
    /// One way of a cache line between the first two CPUs, where two are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_apart_ns: Option<f64>,
    /// `near` or `far`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_distance: Option<&'static str>,
}

impl Row {
    /// A row without results.
    pub fn new(lab: &Lab<'_>, workload: &'static str, target: Name, threads: usize) -> Row {
        let layout = target.is_ours().then(|| lab.settings.layout.to_string());
        Row { layout, ..Row::of_rival(lab, workload, target.text(), threads) }
    }

    /// The same for one that only this workload has, and that is not ours.
    pub fn of_rival(lab: &Lab<'_>, workload: &'static str, target: &'static str, threads: usize) -> Row {
        let row = Row {
            workload,
            section: None,
            target,
            threads,
            futexes: 0,
            buckets: None,
            cpus: None,
            operation: None,
            policy: None,
            layout: None,
            shared: lab.settings.shared,
            early_return: None,
            stride: None,
            repeat: 0,
            ns_per_op: None,
            ops_per_sec: None,
            ratio_kernel: None,
            ratio_parking_lot: None,
            ratio_wasmtime: None,
            share_of_best: None,
            from: None,
            to: None,
            resize_us: None,
            completed: None,
            completed_share: None,
            op_pause_us: None,
            first_wait_us: None,
            nrequeue: None,
            pi: None,
            nwakers: None,
            nwakes: None,
            slots: None,
            processes: None,
            multi: None,
            hold_us: None,
            case: None,
            waiters: None,
            waiter_kind: None,
            domains: None,
            ratio_fewest: None,
            writers: None,
            readers: None,
            work_per_critical_section: None,
            work_between_critical_sections: None,
            cpu_ns_per_op: None,
            ratio_cpu_parking_lot: None,
            cpus_apart_ns: None,
            cpus_distance: None,
        };
        row.on_cpus(lab, threads)
    }

    /// Says how far the CPUs are apart where more than one is used.
    pub fn on_cpus(mut self, lab: &Lab<'_>, cpus: usize) -> Row {
        let distance = lab.distance.filter(|_| cpus > 1);
        self.cpus_apart_ns = distance.map(|distance| (distance.apart_ns * 10.0).round() / 10.0);
        self.cpus_distance = distance.map(|distance| distance.word());
        self
    }
}
