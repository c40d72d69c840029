//! What a system has for its locks: the regions of all domains, and the embedder's scheduler.

use super::graph::Changes;
use super::region::{HomeRef, PiGraph, Regions};
use super::scheduler::Scheduler;
use crate::error::Error;
use crate::futex::config::Config;
use crate::futex::system::System;
use crate::sys::callbacks::Callbacks;
use crate::sys::platform::PlatformRef;

/// See the top of this file.
pub(crate) struct Pi {
    regions: Regions,
    scheduler: Option<Callbacks<dyn Scheduler>>,
}

impl Pi {
    pub fn new(on: PlatformRef, max_depth: usize, scheduler: Option<Callbacks<dyn Scheduler>>) -> Self {
        let changes = if scheduler.is_some() { Changes::Remembered } else { Changes::Ignored };
        Self { regions: Regions::new(on, max_depth, changes), scheduler }
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
        self.regions().chains_refused()
    }

    /// The regions of all domains, which know which task owns which lock.
    pub(crate) fn regions(&self) -> &Regions {
        &self.pi().regions
    }

    /// Runs `f` with the region of a home locked; `None` if the home's domain is gone and has no tasks, waiters or
    /// locks left.
    pub(crate) fn in_region<R>(&self, home: HomeRef, f: impl FnOnce(&mut PiGraph) -> R) -> Option<R> {
        self.regions().lock(home).map(|mut region| region.with(f))
    }

    pub(super) fn scheduler(&self) -> Option<&dyn Scheduler> {
        self.pi().scheduler.as_deref()
    }
}
