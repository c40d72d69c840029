//! What a system has for its locks: what the regions of its namespaces are made with, and the embedder's scheduler.

use super::graph::Changes;
use super::region::{HomeRef, PiGraph, Regions};
use super::scheduler::Scheduler;
use crate::error::Error;
use crate::futex::config::Config;
use crate::futex::system::System;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::callbacks::Callbacks;
use crate::sys::counted::Counted;
use crate::sys::platform::PlatformRef;

/// See the top of this file.
pub(crate) struct Pi {
    max_depth: usize,
    scheduler: Option<Callbacks<dyn Scheduler>>,
    chains_refused: Counted<AtomicU64>,
}

impl Pi {
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new(max_depth: usize, scheduler: Option<Callbacks<dyn Scheduler>>) -> Result<Self, Error> {
        Ok(Self { max_depth, scheduler, chains_refused: Counted::new(|_| AtomicU64::new(0))? })
    }

    /// Regions for the namespace with this number.
    pub fn make_regions(&self, on: PlatformRef, namespace: u64) -> Regions {
        let changes = if self.scheduler.is_some() { Changes::Remembered } else { Changes::Ignored };
        Regions::new(on, namespace, self.max_depth, changes, self.chains_refused.clone())
    }
}

impl System {
    /// A system with `config`. `scheduler` is notified of the priorities that its tasks are to run with.
    ///
    /// # Errors
    /// As for [`with_config`](Self::with_config).
    pub fn with_scheduler(config: Config, scheduler: impl Into<Callbacks<dyn Scheduler>>) -> Result<Self, Error> {
        Self::with_config(config.scheduler(scheduler.into()))
    }

    /// How many waits for a lock were refused because the chain of owners would have been longer than is allowed.
    #[must_use]
    pub fn pi_chains_refused(&self) -> u64 {
        self.pi().chains_refused.load(Ordering::Relaxed)
    }

    /// Runs `f` with the region of a home locked; `None` if the home's domain is gone and has no tasks, waiters or
    /// locks left.
    pub(crate) fn in_region<R>(&self, home: HomeRef, f: impl FnOnce(&mut PiGraph) -> R) -> Option<R> {
        home.regions().lock(home).map(|mut region| region.with(f))
    }

    pub(super) fn scheduler(&self) -> Option<&dyn Scheduler> {
        self.pi().scheduler.as_deref()
    }
}
