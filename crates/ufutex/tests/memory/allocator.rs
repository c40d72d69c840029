//! A global allocator that counts the process's live bytes, and fails at the allocations that a test selects, in any
//! thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize};

struct Failing;

#[global_allocator]
static HEAP: Failing = Failing;

/// Bytes that are allocated.
static LIVE: AtomicIsize = AtomicIsize::new(0);
static IS_ON: AtomicBool = AtomicBool::new(false);
/// Number of allocations that succeed before the first failure.
static BEFORE: AtomicUsize = AtomicUsize::new(0);
/// Number of allocations that fail after those.
static FAILURES: AtomicUsize = AtomicUsize::new(0);
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

fn refuses() -> bool {
    let takes_one = |count: &AtomicUsize| count.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1)).is_ok();
    let refuses = IS_ON.load(SeqCst) && !takes_one(&BEFORE) && takes_one(&FAILURES);
    if refuses {
        HAS_FAILED.store(true, Relaxed);
    }
    refuses
}

fn counted(memory: *mut u8, bytes: usize) -> *mut u8 {
    if !memory.is_null() {
        LIVE.fetch_add(bytes as isize, Relaxed);
    }
    memory
}

// SAFETY: each call fails, which the trait allows, or is forwarded to the system's allocator. `realloc` is the trait's.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller meets the requirements of the same function.
        if refuses() { std::ptr::null_mut() } else { counted(unsafe { System.alloc(layout) }, layout.size()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller meets the requirements of the same function.
        if refuses() { std::ptr::null_mut() } else { counted(unsafe { System.alloc_zeroed(layout) }, layout.size()) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, Relaxed);
        // SAFETY: the caller meets the requirements of the same function.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The failures of one run of a scenario. They occur in `during` only, so that the test's own allocations succeed.
pub struct Memory {
    /// What is left of the plan between two calls of `during`.
    before: usize,
    failures: usize,
    /// Whether an allocation of the last operation has failed.
    last_failed: bool,
    /// Whether one of any operation has.
    has_failed: bool,
}

impl Memory {
    /// The allocation after `before` others fails.
    #[allow(dead_code, reason = "for what a process makes once")]
    pub fn failing_at(before: usize) -> Self {
        Self { before, failures: 1, last_failed: false, has_failed: false }
    }

    /// Runs `f`, an operation under test, with the failures that are left.
    pub fn during<R>(&mut self, f: impl FnOnce() -> R) -> R {
        BEFORE.store(self.before, Relaxed);
        FAILURES.store(self.failures, Relaxed);
        HAS_FAILED.store(false, Relaxed);
        IS_ON.store(true, SeqCst);
        let result = f();
        IS_ON.store(false, SeqCst);
        (self.before, self.failures) = (BEFORE.load(Relaxed), FAILURES.load(Relaxed));
        self.last_failed = HAS_FAILED.load(Relaxed);
        self.has_failed |= self.last_failed;
        result
    }

    /// The rest of the run has memory.
    #[allow(dead_code, reason = "for calls that go on where they have failed")]
    pub fn is_plenty(&mut self) {
        self.failures = 0;
    }

    /// Whether any allocation has failed so far.
    #[allow(dead_code, reason = "for operations that need no memory")]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether an allocation of the last operation under test has failed.
    pub fn has_just_failed(&self) -> bool {
        self.last_failed
    }
}

/// The number of threads of the process; 0 where it cannot be read. A listing of `/proc/self/task` ends early if the thread
/// that it has reached ends meanwhile.
fn threads() -> usize {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    let count = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Waits until the process has no more threads than `before`: the driver's frees memory when it ends, and nothing waits
/// for it. An emulator may have threads of its own.
fn alone(before: usize) {
    let begin = std::time::Instant::now();
    while threads() > before {
        assert!(
            begin.elapsed().as_secs() < 60,
            "a minute after a scenario the process has more threads than before it"
        );
        std::thread::yield_now();
    }
}

/// For every n, runs `scenario` once with the n-th allocation failing and once with the n-th and all later ones
/// failing. After each run all memory has been freed. Returns the number of allocations.
pub fn for_every_failure(scenario: impl Fn(&mut Memory)) -> usize {
    let at_first = threads();
    let fails_at = |before, failures| {
        let mut memory = Memory { before, failures, last_failed: false, has_failed: false };
        alone(at_first);
        let live = LIVE.load(Relaxed);
        scenario(&mut memory);
        alone(at_first);
        assert_eq!(LIVE.load(Relaxed), live, "bytes before and after, with failure {before} of {failures}");
        memory.has_failed
    };
    // What the process makes once is made by a run without failures.
    scenario(&mut Memory { before: usize::MAX, failures: 0, last_failed: false, has_failed: false });
    let mut n = 0;
    while fails_at(n, 1) {
        fails_at(n, usize::MAX);
        n += 1;
        assert!(n < 2000, "the scenario allocates without end");
    }
    n
}

/// A name, and a function that returns the number of allocations.
pub type Scenario = (&'static str, fn() -> usize);

/// Runs the scenarios whose names contain one of the arguments, or all, and prints the number of allocations of each.
/// There is no harness: its threads allocate when they like.
pub fn run(scenarios: &[Scenario]) {
    let mut wanted = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Flags of the harness with a value.
            "--skip" | "--test-threads" | "--format" | "--color" | "-Z" => drop(arguments.next()),
            flag if flag.starts_with('-') => {}
            _ => wanted.push(argument),
        }
    }
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| name.contains(wanted.as_str()));
    let scenarios: Vec<&Scenario> = scenarios.iter().filter(|(name, _)| is_wanted(name)).collect();
    println!("{} scenarios", scenarios.len());
    for (name, scenario) in scenarios {
        println!("{name}: {} allocations", scenario());
    }
}

/// Names functions for `run`.
macro_rules! scenarios {
    ($($name:path),* $(,)?) => {
        &[$((stringify!($name), $name as fn() -> usize)),*]
    };
}
pub(crate) use scenarios;
