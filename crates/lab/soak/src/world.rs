//! The two worlds, each a system of its own. The first is as most programs have it: the host's platform, clocks, nodes and
//! driver thread. The second is an embedder's: its CLOCK_REALTIME jumps, it has four nodes, and its driver is turned by
//! this program.

use crate::clock::{Jumping, JumpingClocks};
use crate::counts::Counts;
use crate::findings::Findings;
use crate::word::{Cell, cells};
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;
use ufutex::platform::{Clock, Host, Platform, Topology};
use ufutex::{SharedObject, System, SystemConfig};

/// Number of words of the object that the domains of a world share.
const OBJECT_WORDS: usize = 64;
/// The largest table that a domain may have.
pub const MAX_SLOTS: usize = 4096;
/// Nodes of the second world.
const NODES: usize = 4;

/// What ends the threads, and what they have in common.
#[derive(Default)]
pub struct Flags {
    /// After this time, something that is due and has not come is lost.
    pub patience: Duration,
    /// The threads finish what they do, and end.
    pub stop: AtomicBool,
    /// All of them have ended. So do the services now.
    pub halt: AtomicBool,
    /// The number of threads that have made all their futures or timers.
    pub filled: AtomicUsize,
}

/// See the top of this file.
pub struct World {
    pub name: &'static str,
    pub system: System,
    /// `None` in the first world.
    pub clocks: Option<Arc<JumpingClocks>>,
    /// The object that the domains share, and its words.
    pub object: (SharedObject, Vec<Cell>),
    pub counts: Counts,
    pub findings: Arc<Findings>,
    pub flags: Arc<Flags>,
}

impl World {
    /// Both worlds.
    pub fn both(findings: &Arc<Findings>, flags: &Arc<Flags>) -> Result<[Arc<Self>; 2]> {
        let clocks = Arc::new(JumpingClocks::default());
        let host = SystemConfig::new().max_slots(MAX_SLOTS);
        let own =
            host.clone().platform::<Jumping>().clocks(clocks.clone()).topology(Arc::new(Wandering(AtomicU32::new(0))));
        let make = |name, config, clocks| -> Result<Arc<Self>> {
            let system = System::with_config(config).context("cannot make a system")?;
            let object = SharedObject::new(&system).context("cannot make an object")?;
            Ok(Arc::new(Self {
                name,
                system,
                clocks,
                object: (object, cells(OBJECT_WORDS)),
                counts: Counts::default(),
                findings: findings.clone(),
                flags: flags.clone(),
            }))
        };
        Ok([make("host", host, None)?, make("jumping", own, Some(clocks))?])
    }

    /// CLOCK_REALTIME of this world.
    pub fn realtime(&self) -> Duration {
        match self.clocks {
            None => Host::now(Clock::Realtime),
            Some(_) => Jumping::now(Clock::Realtime),
        }
    }

    pub fn is_running(&self) -> bool {
        !self.flags.stop.load(Ordering::Relaxed)
    }

    pub fn has_halted(&self) -> bool {
        self.flags.halt.load(Ordering::Relaxed)
    }

    /// Notes an error that no operation may end with.
    pub fn unexpected(&self, operation: &str, error: ufutex::Error) {
        self.findings.add(
            format_args!("{}: {operation} fails only with an error that it may have", self.name),
            "success, or such an error",
            error,
        );
    }
}

/// Four nodes. Each call answers the next one, so threads seem to move between nodes.
struct Wandering(AtomicU32);

impl Topology for Wandering {
    fn nodes(&self) -> usize {
        NODES
    }
    fn current_node(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) % NODES as u32
    }
}
