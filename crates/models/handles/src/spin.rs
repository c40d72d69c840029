//! Waiting in a model: other threads run, and no time passes.

/// How often a thread has waited.
#[derive(Default)]
pub(crate) struct Patience(u32);

/// The C interface has 10. Fewer here, so that models reach what follows.
const OFTEN: u32 = 2;

impl Patience {
    pub fn wait(&mut self) {
        shuttle::thread::yield_now();
        self.count_wait();
    }

    pub fn count_wait(&mut self) {
        self.0 += 1;
    }

    pub fn has_waited_often(&self) -> bool {
        self.0 > OFTEN
    }

    /// There is no limit: a thread that waits for ever exceeds the steps of an execution, which is a failure.
    pub fn is_left(&mut self) -> bool {
        self.wait();
        true
    }
}

/// Named by unit tests of `registry.rs`, which clippy compiles here. They do not run here.
#[cfg(test)]
pub(crate) const LONGEST: std::time::Duration = std::time::Duration::from_secs(5);
