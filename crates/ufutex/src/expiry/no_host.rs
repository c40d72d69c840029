//! Stands in for the module `host` in a build without `std`: there is no thread, and the host's time stands still.

use super::{Base, CpuClock, Driver, DriverInner};
use crate::error::Error;

pub(super) fn start(_driver: &Driver) -> Result<(), Error> {
    Err(Error::NoSuchOperation)
}

pub(super) fn program(_driver: &DriverInner, _base: Base, _at: u64) {}

pub(super) fn now(_base: Base) -> u64 {
    0
}

pub(super) fn cpu_time(_of: CpuClock) -> Option<u64> {
    None
}

pub(super) fn cpus() -> u64 {
    1
}
