//! Callbacks that panic in their n-th call, for every n.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A callback of an embedder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    WakerWake,
    WakerClone,
    WakerDrop,
    SetPriority,
    Load,
    Exchange,
    FaultIn,
    Now,
    CpuTime,
    Changed,
    Expired,
    Reserve,
    HasThread,
    CurrentNode,
    Allocate,
    #[cfg(any(feature = "atomic", feature = "percpu"))]
    KeepTrying,
}

/// Which calls of this thread panic.
#[derive(Clone, Copy)]
struct Plan {
    is_on: bool,
    call: Call,
    /// How many calls return before one panics.
    before: usize,
    /// How many of the calls after those panic.
    panics: usize,
    has_panicked: bool,
}

const OFF: Plan = Plan { is_on: false, call: Call::Load, before: 0, panics: 0, has_panicked: false };

thread_local! {
    static PLAN: Cell<Plan> = const { Cell::new(OFF) };
}

/// The payload of a callback's panic. Dropping it panics too, so that a test fails if the engine drops it.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("the payload of a callback's panic was dropped");
    }
}

/// Panics if this call of the callback is to panic. Each callback calls this function first.
pub fn pass(call: Call) {
    let mut plan = PLAN.get();
    if !plan.is_on || plan.call != call {
        return;
    }
    if plan.before > 0 {
        plan.before -= 1;
        PLAN.set(plan);
        return;
    }
    if plan.panics > 0 {
        plan.panics -= 1;
        plan.has_panicked = true;
        PLAN.set(plan);
        resume_unwind(Box::new(Payload));
    }
}

/// The panics that are planned. Callbacks panic only in `during`, so that the test's own calls do not.
pub struct Bomb {
    plan: Plan,
}

impl Bomb {
    /// Runs `f`, an operation of the engine. Returns `None` if it panicked.
    pub fn during<R>(&mut self, f: impl FnOnce() -> R) -> Option<R> {
        PLAN.set(Plan { is_on: true, ..self.plan });
        let result = catch_unwind(AssertUnwindSafe(f));
        self.plan = PLAN.replace(OFF);
        match result {
            Ok(result) => Some(result),
            Err(payload) if payload.is::<Payload>() => {
                std::mem::forget(payload);
                None
            }
            Err(other) => resume_unwind(other),
        }
    }

    pub fn has_panicked(&self) -> bool {
        self.plan.has_panicked
    }
}

/// Runs `scenario` for every n: once with the n-th `call` panicking, and once with all from the n-th on. Fails if there
/// are fewer than `least` calls.
pub fn for_every(call: Call, least: usize, scenario: impl Fn(&mut Bomb)) {
    let panics_at = |before, panics| {
        let mut bomb = Bomb { plan: Plan { call, before, panics, ..OFF } };
        scenario(&mut bomb);
        bomb.has_panicked()
    };
    let mut n = 0;
    while panics_at(n, 1) {
        panics_at(n, usize::MAX);
        n += 1;
        assert!(n < 1000, "{call:?} is called without end");
    }
    assert!(n >= least, "{call:?} is called {n} times, and not {least}");
}

/// Makes a `#[test]` of each `scenario`, with the callbacks that may panic in it and the least number of their calls. A
/// test that hangs, because a lock is held or a wake was lost, fails.
macro_rules! panics {
    ($($scenario:ident: $($call:ident $least:literal),+;)*) => {
        $(
            #[test]
            fn $scenario() {
                $crate::common::patient::within_patience(stringify!($scenario), || {
                    $($crate::bomb::for_every($crate::bomb::Call::$call, $least, super::$scenario);)+
                });
            }
        )*
    };
}

pub(crate) use panics;
