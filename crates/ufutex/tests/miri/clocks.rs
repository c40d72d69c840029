//! A clock that each look at it sets forward.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ufutex::timer::{Base, Clocks, Driver};
use ufutex::{Config, System};

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

/// A system whose timeouts are by such a clock, and nobody turns its driver but the test.
pub fn system() -> System {
    System::with_config(Config::default().clocks(steps())).expect("there is memory")
}

pub fn driver() -> Driver {
    Driver::with_clocks(steps()).expect("there is memory")
}

/// Does both at the same time.
pub fn both(one: impl FnOnce() + Send, other: impl FnOnce()) {
    std::thread::scope(|scope| {
        scope.spawn(one);
        other();
    });
}

/// Does it while another thread turns the driver.
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
