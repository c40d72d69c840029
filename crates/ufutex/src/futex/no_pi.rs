//! Stands in for the module `pi` in a build without the feature: tasks run with their own priority, and no task waits for
//! a lock.

use super::priority::Priority;
use super::task::Task;
use crate::error::Error;

/// What `pi` keeps for systems, namespaces and domains: here nothing.
#[derive(Clone, Copy, Debug)]
pub struct Absent;

pub type PiSettings = Absent;
pub type Pi = Absent;
pub type PiGraph = Absent;
pub type TaskId = Absent;

impl Absent {
    pub const fn new() -> Self {
        Self
    }

    pub fn resolve(&self) -> Result<Pi, Error> {
        Ok(Self)
    }

    pub fn make_graph(&self, _pi: &Pi) -> PiGraph {
        Self
    }

    pub fn register(&mut self, _tid: u32) -> Result<TaskId, Error> {
        Ok(Self)
    }

    pub fn unregister(&mut self, _task: TaskId) {}
}

impl Task {
    pub(super) fn set_own_in_graph(&self, _own: Priority) {}

    pub(super) fn effective_priority(&self) -> Priority {
        self.own_priority()
    }

    pub(super) fn pass_on_locks(&self) {}

    pub(super) fn leave_graph(&self) {}
}
