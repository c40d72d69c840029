//! The home of a domain, and who belongs to its namespace.

use super::region::HomeRef;
use super::spin::Spins;
use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::system::System;
use crate::table::refs::Scheme;

/// The home of a domain, given back to its namespace when the domain is dropped.
pub(crate) struct Joined {
    system: System,
    home: HomeRef,
    spins: Spins,
}

impl Drop for Joined {
    fn drop(&mut self) {
        if self.system.is_abandoned() {
            return;
        }
        self.home.regions().close(self.home);
    }
}

impl<S: Scheme> Domain<S> {
    /// The home of the domain's tasks and locks. The first call, for the first task, makes it.
    pub(in crate::futex) fn home(&self) -> Result<HomeRef, Error> {
        let join = || {
            let home = self.namespace().regions.open()?;
            Ok(Joined { system: self.system.clone(), home, spins: Spins::new() })
        };
        self.home.get_or_make(join).map(|joined| joined.home)
    }

    /// What came of spinning for the domain's locks. The domain has it if it has had a task.
    pub(super) fn spins(&self) -> Option<&Spins> {
        self.home.get().map(|joined| &joined.spins)
    }

    /// Whether the task of a queued waiter, whose home is `home`, belongs to the domain's namespace: only then may the
    /// domain's tasks see its TID.
    pub(super) fn is_of_namespace(&self, home: HomeRef) -> bool {
        core::ptr::eq(home.regions(), &self.namespace().regions)
    }

    /// The home of the task with this TID. The task may have ended by the time that the caller looks there.
    pub(super) fn home_of(&self, tid: u32) -> Option<HomeRef> {
        self.namespace().look_up(tid, |task| task.home)
    }
}
