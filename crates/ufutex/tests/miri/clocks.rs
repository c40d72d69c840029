//! A clock that advances whenever it is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ufutex::timer::{Base, Clocks, Driver};
use ufutex::{System, SystemConfig};

pub struct Steps(AtomicU64);

impl Clocks for Steps {
    fn now(&self, _: Base) -> Duration {
        Duration::from_micros(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn changed(&self) {}
}

fn steps() -> Arc<Steps> {
    Arc::new(Steps(AtomicU64::new(0)))
}

/// A system with such a clock, whose driver only the test turns.
pub fn system() -> System {
    System::with_config(SystemConfig::default().clocks(steps())).expect("there is memory")
}

pub fn driver() -> Driver {
    Driver::with_clocks(steps()).expect("there is memory")
}

/// Runs both functions concurrently.
pub fn both(one: impl FnOnce() + Send, other: impl FnOnce()) {
    std::thread::scope(|scope| {
        scope.spawn(one);
        other();
    });
}

/// Runs `f` while another thread turns the driver.
pub fn while_it_turns(driver: &Driver, f: impl FnOnce()) {
    let is_done = AtomicBool::new(false);
    both(
        || {
            while !is_done.load(Ordering::Relaxed) {
                driver.turn();
                std::thread::yield_now();
            }
        },
        || {
            f();
            is_done.store(true, Ordering::Relaxed);
        },
    );
}
