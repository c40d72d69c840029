//! What works after a failure.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use ufutex::timer::{Base, Clocks};
use ufutex::{Callbacks, Domain, Error, System, SystemConfig};

use crate::allocator::Memory;
pub use crate::futures::poll;

/// A thread waits, and is woken by another.
pub fn works(domain: &Domain) {
    let word = AtomicU32::new(0);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| domain.wait(&word, 0));
        while domain.wake(&word, 1) == 0 {
            thread::yield_now();
        }
        assert_eq!(waiter.join().expect("it does not panic"), Ok(()));
    });
}

/// A system that counts the machine's CPUs when it needs them.
pub fn system() -> System {
    System::with_config(config()).expect("there is memory")
}

pub fn config() -> SystemConfig {
    SystemConfig::new().hash_seed(1)
}

/// A system with clocks that stand still until they are set.
pub fn system_with_clocks() -> (System, Callbacks<Time>) {
    let time = Callbacks::try_new(Time(AtomicU64::new(1))).expect("there is memory");
    (System::with_config(config().clocks(time.clone())).expect("there is memory"), time)
}

/// Clocks that show a number of nanoseconds.
pub struct Time(pub AtomicU64);

impl Clocks for Time {
    fn now(&self, _: Base) -> Duration {
        Duration::from_nanos(self.0.load(Relaxed))
    }

    fn changed(&self) {}
}

pub fn words<const N: usize>() -> [AtomicU32; N] {
    [const { AtomicU32::new(0) }; N]
}

/// The result of `f`. If it fails for lack of memory, tries again with memory.
pub fn at_last<R>(memory: &mut Memory, f: impl Fn() -> Result<R, Error>) -> R {
    match memory.during(&f) {
        Err(error) => {
            assert!(memory.has_just_failed() && matches!(error, Error::NoMemory | Error::Again), "{error}");
            f().expect("there is memory")
        }
        Ok(value) => value,
    }
}

/// Polls the future that `make` makes. If it fails for lack of memory, tries again with memory. It is pending then.
pub fn begun<R, F: Future<Output = Result<R, Error>>>(memory: &mut Memory, make: impl Fn() -> F) -> Pin<Box<F>> {
    let mut future = Box::pin(make());
    if let Poll::Ready(result) = memory.during(|| poll(&mut future)) {
        assert_eq!((result.err(), memory.has_just_failed()), (Some(Error::NoMemory), true));
        future = Box::pin(make());
        assert!(poll(&mut future).is_pending());
    }
    future
}
