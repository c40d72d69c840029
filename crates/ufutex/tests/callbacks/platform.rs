//! A panic in a function of `Platform` ends the program. The thread's waiter may be queued then, in memory that
//! unwinding would free.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use ufutex::platform::{AnyStd, Clock, Deadline, Platform};
use ufutex::{Domain, System, SystemConfig, WaitOptions};

use crate::common::emulated;

/// Set in the child process, in which the panic happens.
const ALONE: &str = "UFUTEX_PLATFORM_PANICS";

/// The function that panics.
static WHICH: AtomicU32 = AtomicU32::new(0);
const PARK: u32 = 1;
const UNPARK: u32 = 2;
const NOW: u32 = 3;

/// Whether a thread sleeps.
static IS_ASLEEP: AtomicBool = AtomicBool::new(false);

struct Panicking;

fn perhaps(function: u32) {
    assert!(WHICH.load(SeqCst) != function, "the platform's own message");
}

impl Platform for Panicking {
    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        perhaps(PARK);
        IS_ASLEEP.store(true, SeqCst);
        AnyStd::park(word, expected, deadline);
    }
    fn unpark(word: *const AtomicU32, count: usize) -> usize {
        perhaps(UNPARK);
        AnyStd::unpark(word, count)
    }
    fn now(clock: Clock) -> Duration {
        perhaps(NOW);
        AnyStd::now(clock)
    }
}

fn domain() -> Domain {
    let system = System::with_config(SystemConfig::new().platform::<Panicking>()).expect("the configuration is valid");
    Domain::new(&system)
}

/// Runs `body`, in which `function` panics, in a process of its own, which has to abort.
fn ends_the_program(test: &str, function: u32, body: fn()) {
    if std::env::var_os(ALONE).is_some() {
        WHICH.store(function, SeqCst);
        let _ended = catch_unwind(AssertUnwindSafe(body));
        println!("the program went on");
        return;
    }
    let output =
        emulated::test_alone(&format!("platform::{test}"), ALONE).output().expect("the test's program can be executed");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the platform's own message"), "{}:\n{said}", output.status);
    assert!(!output.status.success() && !said.contains("the program went on"), "{}:\n{said}", output.status);
}

#[test]
fn park_ends_the_program() {
    ends_the_program("park_ends_the_program", PARK, || _ = domain().wait(&AtomicU32::new(0), 0));
}

#[test]
fn now_ends_the_program() {
    ends_the_program("now_ends_the_program", NOW, || {
        let soon = WaitOptions::new().timeout(Duration::from_millis(1));
        _ = domain().wait_with(&AtomicU32::new(0), 0, &soon);
    });
}

#[test]
fn unpark_ends_the_program() {
    ends_the_program("unpark_ends_the_program", UNPARK, || {
        static WORD: AtomicU32 = AtomicU32::new(0);
        // Not joined: if the panic came here, nobody would wake it.
        let domain: &Domain = Box::leak(Box::new(domain()));
        std::thread::spawn(|| domain.wait(&WORD, 0));
        while !IS_ASLEEP.load(SeqCst) {
            std::thread::yield_now();
        }
        // It is queued, and about to sleep or asleep.
        domain.wake(&WORD, 1);
    });
}
