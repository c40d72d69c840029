//! `ours`: the engine's timers. As in a system, there is one [`Timers`] for each process and one [`Driver`] for all.

use super::{Bytes, Errno, Notify, Process};
use std::sync::Arc;
use std::time::Duration;
use ufutex::timer::{self, Deliver, Driver, Expiry, Notice, Setting, TimerClock, TimerOptions, Timers};

/// One process.
pub struct Ours(Timers);

/// Receives nothing: no measured timer expires.
struct Discard;

impl Deliver for Discard {
    fn expired(&self, _timers: &Timers, _notice: Notice) {}
}

/// Makes `count` processes of one system.
pub fn processes(count: usize) -> Result<Vec<Ours>, String> {
    let say = |error| format!("the engine: {error}");
    let driver = Driver::host().map_err(say)?;
    let process = |_| {
        let timers = Timers::with_options(&driver, Arc::new(Discard), TimerOptions::new().max_timers(usize::MAX))
            .map_err(say)?;
        // Starts the driver's thread. The other designs have no such thread, so its start is not measured.
        let first = timers.create(TimerClock::Monotonic, None).map_err(say)?;
        timers.delete(first).map_err(say)?;
        Ok(Ours(timers))
    };
    (0..count).map(process).collect()
}

fn notify(notify: Notify) -> timer::Notify {
    match notify {
        Notify::Nothing => timer::Notify::None,
        Notify::Signal => timer::Notify::Signal { signal: libc::SIGALRM, value: 0 },
    }
}

impl Process for Ours {
    type Thread = ();

    fn thread(&self) {}

    #[inline]
    fn create(&self, (): &mut (), how: Notify) -> Result<i32, Errno> {
        self.0.create(TimerClock::Monotonic, Some(notify(how))).map_err(|error| error.errno())
    }

    fn create_as(&self, (): &mut (), id: i32, how: Notify) -> Result<(), Errno> {
        self.0.create_as(id, TimerClock::Monotonic, Some(notify(how))).map(|_| ()).map_err(|error| error.errno())
    }

    #[inline]
    fn getoverrun(&self, id: i32) -> Result<i32, Errno> {
        self.0.getoverrun(id).map_err(|error| error.errno())
    }

    #[inline]
    fn settime(&self, id: i32, seconds: u64) -> Result<(), Errno> {
        let new = Setting { value: Duration::from_secs(seconds), interval: Duration::ZERO };
        self.0.settime(id, Expiry::After(new.value), new.interval).map(|_| ()).map_err(|error| error.errno())
    }

    #[inline]
    fn delete(&self, (): &mut (), id: i32) -> Result<(), Errno> {
        self.0.delete(id).map_err(|error| error.errno())
    }

    fn bytes(processes: &[Self], _timers: usize) -> Option<Bytes> {
        let sum = |of: fn(&Timers) -> usize| processes.iter().map(|process| of(&process.0)).sum();
        Some(Bytes { table: sum(Timers::table_bytes), all: sum(Timers::bytes) })
    }
}
