//! What this kernel checks. Each check ends, or the watchdog ends the kernel.

mod condvar;
pub mod interrupt;
mod inversion;
mod mutex;
mod timeout;

use core::time::Duration;

use ufutex::System;

use crate::lock::Lock;
use crate::{clock, console, platform, say};

/// Much longer than a check takes on a slow host.
const PATIENCE: Duration = Duration::from_secs(40);

/// The check that is going on, and when it began.
static GOING_ON: Lock<Option<(&str, Duration)>> = Lock::new(None);

type Check = fn(&System);

/// The first thread.
pub fn run() {
    let system = platform::system().expect("a valid configuration, and memory");
    let checks: [(&str, Check); 5] = [
        ("mutex", mutex::check),
        ("condvar", condvar::check),
        ("inversion", inversion::check),
        ("timeout", timeout::check),
        ("interrupt", interrupt::check),
    ];
    for (name, check) in checks {
        *GOING_ON.lock() = Some((name, clock::uptime()));
        check(&system);
    }
    say!("all checks hold, {} ms after boot", clock::uptime().as_millis());
    console::power_off(true);
}

/// Called by each CPU in its ticks, before other threads are chosen.
pub fn on_tick() {
    let going_on = *GOING_ON.lock();
    if let Some((name, since)) = going_on
        && clock::uptime() > since + PATIENCE
    {
        panic!("{name}: hangs");
    }
    interrupt::on_tick();
}
