//! Descriptions of machines: cores in chiplets in sockets, and the times of transfers between them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::set::CORES;

/// How far one hardware thread is from another, nearest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Distance {
    /// On the same core.
    Smt,
    /// On the same chiplet, under one last-level cache.
    Chiplet,
    /// In the same socket.
    Socket,
    /// In another socket.
    Far,
}

/// A machine, as its file describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// The machine's name.
    pub name: String,
    /// What machine it is.
    #[serde(default)]
    pub description: String,
    /// Cycles per nanosecond.
    pub ghz: f64,
    /// The number of sockets.
    pub sockets: usize,
    /// The number of groups of cores under one last-level cache, in each socket.
    pub chiplets_per_socket: usize,
    /// The number of cores in such a group.
    pub cores_per_chiplet: usize,
    /// The number of hardware threads of a core. Siblings are numbered last.
    #[serde(default = "one")]
    pub threads_per_core: usize,
    /// The times of accesses.
    pub latency: Latency,
    /// The times of threads in an operating system.
    #[serde(default)]
    pub thread: Thread,
    /// The source of each figure.
    #[serde(default)]
    pub source: BTreeMap<String, String>,
}

/// Times of accesses, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// A load of a line that the core has, on average over its own caches.
    pub hit: f64,
    /// A store to a line that the core owns, into the store buffer.
    #[serde(default = "store")]
    pub store: f64,
    /// A locked instruction on a line that the core owns.
    pub locked: f64,
    /// A full barrier with nothing to wait for.
    pub barrier: f64,
    /// A turn of a loop that spins (`pause`).
    #[serde(default = "pause")]
    pub pause: f64,
    /// How long a core keeps a line that others wait for, after the access for which it got the line.
    #[serde(default)]
    pub hold: f64,
    /// How far ahead a core sees its accesses coming: it asks for a line up to this long before the access.
    #[serde(default)]
    pub window: f64,
    /// By which share a core's work takes longer for each sibling that works too.
    #[serde(default)]
    pub sibling: f64,
    /// From the sibling thread of the core.
    pub smt: f64,
    /// From another core of the chiplet.
    pub chiplet: f64,
    /// From another chiplet of the socket.
    pub socket: f64,
    /// From another socket.
    pub far: f64,
    /// From memory, if no core has the line.
    pub memory: f64,
}

/// Times of threads in an operating system, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thread {
    /// A system call.
    pub syscall: f64,
    /// Going to sleep, for the thread that sleeps.
    pub sleep: f64,
    /// Waking one thread, for the thread that wakes it.
    pub wake: f64,
    /// From the wake until the woken thread runs on its idle core.
    pub wakeup: f64,
    /// A switch from one thread to the next on one core.
    pub switch: f64,
    /// How long a thread has its core while others wait for the core.
    pub slice: f64,
    /// A barrier on all cores (membarrier(2)), for the thread that asks for it.
    pub membarrier: f64,
}

/// Plausible values for a server of today. Measured ones belong into the machine's file.
impl Default for Thread {
    fn default() -> Self {
        Self {
            syscall: 100.0,
            sleep: 700.0,
            wake: 900.0,
            wakeup: 1500.0,
            switch: 900.0,
            slice: 3_000_000.0,
            membarrier: 2500.0,
        }
    }
}

fn one() -> usize {
    1
}

fn store() -> f64 {
    0.4
}

fn pause() -> f64 {
    15.0
}

/// The machines that come with this crate.
const GIVEN: &[(&str, &str)] = &[
    ("epyc-9d64", include_str!("../topologies/epyc-9d64.toml")),
    ("turin", include_str!("../topologies/turin.toml")),
    ("skylake-2s", include_str!("../topologies/skylake-2s.toml")),
    ("zen3-2s", include_str!("../topologies/zen3-2s.toml")),
    ("power", include_str!("../topologies/power.toml")),
    ("ivb-4s", include_str!("../topologies/ivb-4s.toml")),
    ("here", include_str!("../topologies/here.toml")),
];

impl Topology {
    /// Parses a description.
    ///
    /// # Errors
    /// A line that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let topology: Self = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            format!("line {line}: {}", error.message().replace('\n', " "))
        })?;
        topology.check()?;
        Ok(topology)
    }

    /// One of the machines that come with this crate.
    #[must_use]
    pub fn given(name: &str) -> Option<Self> {
        let (_, text) = GIVEN.iter().find(|(given, _)| *given == name)?;
        Some(Self::parse(text).expect("a test parses all given topologies"))
    }

    /// The names that [`given`](Self::given) knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        GIVEN.iter().map(|(name, _)| *name)
    }

    /// The number of hardware threads.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cores() * self.threads_per_core
    }

    /// The number of cores.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.sockets * self.chiplets_per_socket * self.cores_per_chiplet
    }

    /// The distance between two hardware threads.
    #[must_use]
    pub fn distance(&self, one: u16, other: u16) -> Distance {
        let core = |cpu: u16| usize::from(cpu) % self.cores();
        let chiplet = |cpu| core(cpu) / self.cores_per_chiplet;
        let socket = |cpu| chiplet(cpu) / self.chiplets_per_socket;
        if core(one) == core(other) {
            Distance::Smt
        } else if chiplet(one) == chiplet(other) {
            Distance::Chiplet
        } else if socket(one) == socket(other) {
            Distance::Socket
        } else {
            Distance::Far
        }
    }

    /// The time of a transfer over this distance, in nanoseconds.
    #[must_use]
    pub fn transfer(&self, distance: Distance) -> f64 {
        match distance {
            Distance::Smt => self.latency.smt,
            Distance::Chiplet => self.latency.chiplet,
            Distance::Socket => self.latency.socket,
            Distance::Far => self.latency.far,
        }
    }

    fn check(&self) -> Result<(), String> {
        // The texts are printed, and are parts of rows.
        for (key, text) in [("name", &self.name), ("description", &self.description)] {
            if text.chars().any(char::is_control) {
                return Err(format!("{key} = {text:?}: one line without control characters is accepted"));
            }
        }
        let counts = [
            ("sockets", self.sockets),
            ("chiplets_per_socket", self.chiplets_per_socket),
            ("cores_per_chiplet", self.cores_per_chiplet),
            ("threads_per_core", self.threads_per_core),
        ];
        if let Some((key, value)) = counts.iter().find(|(_, value)| !(1..=CORES).contains(value)) {
            return Err(format!("{key} = {value}: 1 to {CORES} are accepted"));
        }
        if self.cpus() > CORES {
            return Err(format!("{} hardware threads in all: at most {CORES} are accepted", self.cpus()));
        }
        let (l, t) = (&self.latency, &self.thread);
        let positive = [
            ("ghz", self.ghz),
            ("latency.hit", l.hit),
            ("latency.store", l.store),
            ("latency.locked", l.locked),
            ("latency.barrier", l.barrier),
            ("latency.pause", l.pause),
            ("latency.smt", l.smt),
            ("latency.chiplet", l.chiplet),
            ("latency.socket", l.socket),
            ("latency.far", l.far),
            ("latency.memory", l.memory),
            ("thread.slice", t.slice),
        ];
        let others = [
            ("latency.hold", l.hold),
            ("latency.window", l.window),
            ("latency.sibling", l.sibling),
            ("thread.syscall", t.syscall),
            ("thread.sleep", t.sleep),
            ("thread.wake", t.wake),
            ("thread.wakeup", t.wakeup),
            ("thread.switch", t.switch),
            ("thread.membarrier", t.membarrier),
        ];
        check_all(&positive, 0.01)?;
        check_all(&others, 0.0)
    }
}

/// Checks that each value is at least `least` and at most 1e9.
fn check_all(values: &[(&str, f64)], least: f64) -> Result<(), String> {
    match values.iter().find(|(_, value)| !(least..=1e9).contains(value)) {
        Some((key, value)) => Err(format!("{key} = {value}: {least} to 1e9 are accepted")),
        None => Ok(()),
    }
}
