//! `ours`: the engine's timers on virtual cores, one [`Timers`] for each process and one [`Driver`] for all.

use std::sync::Arc;
use std::time::Duration;
use ufutex_coherence::current;
use ufutex_designs_sim::{Bytes, Errno, Notify, Process};
use ufutex_sim::timer::{self, Base, Clocks, Deliver, Driver, Notice, TimerClock, TimerOptions, Timers};

/// One process.
pub struct Ours(Timers);

/// Receives nothing: no modelled timer expires.
struct Discard;

impl Deliver for Discard {
    fn expired(&self, _timers: &Timers, _notice: Notice) {}
}

struct Virtual;

impl Clocks for Virtual {
    fn now(&self, _base: Base) -> Duration {
        Duration::from_nanos(current::now_ns())
    }

    fn changed(&self) {}
}

/// Makes `count` processes of one system.
pub fn processes(count: usize) -> Result<Vec<Ours>, String> {
    let say = |error| format!("the engine: {error}");
    let driver = Driver::with_clocks(Arc::new(Virtual)).map_err(say)?;
    let options = TimerOptions::new().max_timers(usize::MAX);
    (0..count).map(|_| Timers::with_options(&driver, Arc::new(Discard), options).map(Ours).map_err(say)).collect()
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

    fn create(&self, (): &mut (), how: Notify) -> Result<i32, Errno> {
        self.0.create(TimerClock::Monotonic, Some(notify(how))).map_err(|error| error.errno())
    }

    fn create_as(&self, (): &mut (), id: i32, how: Notify) -> Result<(), Errno> {
        self.0.create_as(id, TimerClock::Monotonic, Some(notify(how))).map(|_| ()).map_err(|error| error.errno())
    }

    fn getoverrun(&self, id: i32) -> Result<i32, Errno> {
        self.0.getoverrun(id).map_err(|error| error.errno())
    }

    fn delete(&self, (): &mut (), id: i32) -> Result<(), Errno> {
        self.0.delete(id).map_err(|error| error.errno())
    }

    fn bytes(_processes: &[Self], _timers: usize) -> Option<Bytes> {
        None
    }
}
