//! Switches for the faults that a model must catch.

extern crate std;

/// A fault of the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    // The faults.
}

// Both checkers run all threads of a model on the thread that started it, so a thread-local applies to one model.
std::thread_local! {
    static ACTIVE: core::cell::Cell<Option<Mutant>> = const { core::cell::Cell::new(None) };
}

/// Whether `mutant` is switched on in the running model.
pub fn mutant(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}

/// Runs `model` with `mutant` switched on.
pub fn with_mutant<R>(mutant: Mutant, model: impl FnOnce() -> R) -> R {
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            ACTIVE.set(None);
        }
    }
    ACTIVE.set(Some(mutant));
    let _off = Off;
    model()
}
