//! A global allocator that fails at the allocations that a test selects, and otherwise calls the system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// The calling thread's plan of failures. The type needs no allocation and no destructor.
    static PLAN: Cell<Plan> = const { Cell::new(Plan::OFF) };
}

#[derive(Clone, Copy)]
struct Plan {
    is_on: bool,
    /// Number of allocations that succeed before the first failure.
    before: usize,
    /// Number of allocations that fail after those.
    failures: usize,
    has_failed: bool,
}

impl Plan {
    const OFF: Self = Self { is_on: false, before: 0, failures: 0, has_failed: false };

    fn refuses(&mut self) -> bool {
        if !self.is_on {
            return false;
        }
        if self.before > 0 {
            self.before -= 1;
            return false;
        }
        if self.failures == 0 {
            return false;
        }
        self.failures -= 1;
        self.has_failed = true;
        true
    }
}

fn refuses() -> bool {
    PLAN.try_with(|plan| {
        let mut now = plan.get();
        let refuses = now.refuses();
        plan.set(now);
        refuses
    })
    .unwrap_or(false)
}

/// Ends the failures of the current `during`. A panic needs memory.
pub fn stop() {
    PLAN.set(Plan { is_on: false, ..PLAN.get() });
}

pub struct Failing;

// SAFETY: each call fails, which the trait allows, or is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller meets the requirements of the same function.
        if refuses() { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller meets the requirements of the same function.
        if refuses() { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller meets the requirements of the same function.
        if refuses() { std::ptr::null_mut() } else { unsafe { System.realloc(memory, layout, size) } }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller meets the requirements of the same function.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The failures of this thread's allocations. They occur in `during` only, so that the test's own allocations succeed.
pub struct Failures {
    plan: Plan,
}

impl Failures {
    /// Runs `f`, an operation of the engine, with the failures that are left.
    pub fn during<R>(&mut self, f: impl FnOnce() -> R) -> R {
        PLAN.set(Plan { is_on: true, ..self.plan });
        let result = f();
        self.plan = PLAN.replace(Plan::OFF);
        result
    }

    /// Whether any allocation has failed so far.
    pub fn has_failed(&self) -> bool {
        self.plan.has_failed
    }
}

/// For every n, runs `scenario` once with the n-th allocation failing and once with the n-th and all later allocations
/// failing. Returns the number of allocations.
pub fn for_every_failure(scenario: impl Fn(&mut Failures)) -> usize {
    let fails_at = |before, failures| {
        let mut failures = Failures { plan: Plan { before, failures, ..Plan::OFF } };
        scenario(&mut failures);
        failures.has_failed()
    };
    let mut n = 0;
    while fails_at(n, 1) {
        fails_at(n, usize::MAX);
        n += 1;
        assert!(n < 1000, "the scenario allocates without end");
    }
    n
}
