//! The fields with which the rows of all futex workloads begin. A row is one object of `--json` and one line of a
//! table. Each workload has its own row type.

use crate::Lab;
use lab_measure::series::Series;
use lab_targets::{Name, Policy, Subject};
use serde::Serialize;
use std::sync::Arc;

/// The measured target and its setup.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Head {
    /// Name on the command line.
    pub workload: &'static str,
    /// Name on the command line.
    pub target: &'static str,
    /// Number of threads that measure or hammer.
    pub threads: usize,
    /// Number of words of each thread.
    pub futexes: usize,
    /// Number of buckets at the end. `None` if it cannot be seen from outside.
    pub buckets: Option<usize>,
    /// The engine's targets only: the size policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The engine's targets only: the bucket layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// Whether the futexes are shared, not private.
    pub shared: bool,
    /// Number of rounds.
    pub repeat: usize,
    /// One-way transfer of a cache line between the first two CPUs, in ns. `None` with one thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_apart_ns: Option<f64>,
    /// `near` or `far`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_distance: Option<&'static str>,
}

impl Head {
    /// A head for one of the targets, without words, buckets, policy and rounds.
    pub fn new(lab: &Lab<'_>, workload: &'static str, target: Name, threads: usize) -> Head {
        let layout = target.is_ours().then(|| lab.settings.layout.to_string());
        Head { layout, ..Head::of_rival(lab, workload, target.text(), threads) }
    }

    /// A head for a target of this workload alone that is not the engine's.
    pub fn of_rival(lab: &Lab<'_>, workload: &'static str, target: &'static str, threads: usize) -> Head {
        let head = Head { workload, target, threads, shared: lab.settings.shared, ..Head::default() };
        head.on_cpus(lab, threads)
    }

    /// Adds the distance between the CPUs if more than one is used.
    pub fn on_cpus(mut self, lab: &Lab<'_>, cpus: usize) -> Head {
        let distance = lab.distance.filter(|_| cpus > 1);
        self.cpus_apart_ns = distance.map(|distance| (distance.apart_ns * 10.0).round() / 10.0);
        self.cpus_distance = distance.map(|distance| distance.word());
        self
    }
}

/// A target with its table, made for one number of threads.
pub struct Entrant {
    /// The target's name.
    pub name: Name,
    /// Number of threads that measure.
    pub threads: usize,
    /// The size policy of its table.
    pub policy: Policy,
    /// The target itself.
    pub subject: Arc<dyn Subject>,
}

impl Entrant {
    /// The head of the target's row.
    pub fn head(&self, lab: &Lab<'_>, workload: &'static str, futexes: usize, repeat: usize) -> Head {
        self.subject.make_ready();
        Head {
            futexes,
            buckets: self.subject.buckets(),
            policy: self.name.is_ours().then(|| policy_name(self.name, self.policy)),
            repeat,
            ..Head::new(lab, workload, self.name, self.threads)
        }
    }
}

/// The printed name of a policy.
pub fn policy_name(name: Name, policy: Policy) -> String {
    if name == Name::Global { "global".to_string() } else { policy.to_string() }
}

/// A row's time divided by that of the two rivals: the median over the rounds. `None` if the rival was not measured.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ratios {
    /// Divided by the kernel's.
    #[serde(rename = "ratio_kernel", skip_serializing_if = "Option::is_none")]
    pub kernel: Option<f64>,
    /// Divided by parking_lot's.
    #[serde(rename = "ratio_parking_lot", skip_serializing_if = "Option::is_none")]
    pub parking_lot: Option<f64>,
}

impl Ratios {
    /// Ratios of `target` in this section of the series, at this number of threads or CPUs.
    pub fn of(series: &Series, section: &str, target: &str, number: usize) -> Ratios {
        let over = |rival: Name| series.ratio((section, target, number), (section, rival.text(), number));
        Ratios { kernel: over(Name::Kernel), parking_lot: over(Name::ParkingLot) }
    }

    /// The name of each rival in sentences, and the ratio.
    pub fn over(&self) -> Vec<(&'static str, Option<f64>)> {
        vec![("the kernel", self.kernel), ("parking_lot", self.parking_lot)]
    }
}
