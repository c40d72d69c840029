//! The word is compared under the bucket's lock: a wake that comes after that finds the waiter.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{Access, Domain, Fault, Guest, Options, UserMemory, Width};

use crate::common::PATIENCE;
use crate::common::domains::{on_every_domain, system};

/// Memory whose word changes, with a wake, right after the engine has read the old value.
struct ChangesWhenRead<S: Scheme<L>, L: Layout> {
    domain: Arc<Domain<S, L>>,
    value: AtomicU32,
    woken: std::sync::Mutex<Option<Receiver<usize>>>,
}

impl<S: Scheme<L>, L: Layout> UserMemory for ChangesWhenRead<S, L> {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        let value = self.value.load(Acquire);
        if value == 0 {
            self.value.store(1, Release);
            let domain = self.domain.clone();
            let (send, woken) = channel();
            std::thread::spawn(move || {
                let nobodys = Untouched;
                let word = Guest::new(&nobodys, address, width).expect("aligned");
                let _ = send.send(domain.wake(word, 1));
            });
            // The waker has every chance to be done before the waiter is queued; only the lock can hold it back.
            let woken = match woken.recv_timeout(Duration::from_millis(20)) {
                Ok(count) => panic!("a wake ended, with {count}, between the compare and the sleep"),
                Err(RecvTimeoutError::Timeout) => woken,
                Err(RecvTimeoutError::Disconnected) => panic!("the waker is gone"),
            };
            *self.woken.lock().expect("nobody panics with it") = Some(woken);
        }
        Ok(value.into())
    }

    fn compare_exchange(&self, _: u64, _: Width, _: u64, _: u64) -> Result<Result<u64, u64>, Fault> {
        Err(Fault) // it is read-only
    }
    fn fault_in(&self, _: u64, _: Access) -> Result<(), Fault> {
        Err(Fault)
    }
}

struct Untouched;

impl UserMemory for Untouched {
    fn load(&self, _: u64, _: Width) -> Result<u64, Fault> {
        Err(Fault)
    }
    fn compare_exchange(&self, _: u64, _: Width, _: u64, _: u64) -> Result<Result<u64, u64>, Fault> {
        Err(Fault) // it is read-only
    }
    fn fault_in(&self, _: u64, _: Access) -> Result<(), Fault> {
        Err(Fault)
    }
}

fn word_is_compared_under_the_lock<S: Scheme<L>, L: Layout>() {
    let domain = Arc::new(Domain::<S, L>::with_options(&system(), Options::new().early_return(false)));
    let memory = ChangesWhenRead { domain: domain.clone(), value: AtomicU32::new(0), woken: Default::default() };
    let (send, ended) = channel();
    let memory = Arc::new(memory);
    let its_memory = memory.clone();
    std::thread::spawn(move || {
        let word = Guest::new(&*its_memory, 0x1000, Width::U32).expect("aligned");
        let _ = send.send(domain.wait(word, 0));
    });
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(Ok(())), "the wake was lost");
    let woken = memory.woken.lock().expect("nobody panics with it").take().expect("the word was read");
    assert_eq!(woken.recv_timeout(PATIENCE), Ok(1));
}

on_every_domain![word_is_compared_under_the_lock];
