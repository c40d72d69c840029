//! A resize that waits for a moment without operations, by a scheme that counts them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use ufutex::{Domain, Error};

use crate::bomb::{Bomb, Call, for_every};
use crate::common::domains::{on_domains, system};
use crate::common::waiters::waiter_on;

/// A word whose load, with the bucket locked, waits until the resize has called `keep_trying`.
struct Slow<'a>(&'a AtomicU32, &'a AtomicBool, &'a AtomicBool);

impl ufutex::Key for Slow<'_> {
    fn address(&self) -> u64 {
        std::ptr::from_ref(self.0).addr() as u64
    }
}

impl ufutex::Target for Slow<'_> {
    type Value = u32;
    fn load(&self) -> Result<u32, ufutex::Fault> {
        self.1.store(true, SeqCst);
        while !self.2.load(SeqCst) {
            std::thread::yield_now();
        }
        Ok(self.0.load(SeqCst))
    }
}

/// A resize that waits for an operation calls its `keep_trying` callback, which panics. The table keeps its size.
fn keep_trying_of_a_resize_panics() {
    use std::task::Poll;
    let is_asked = |bomb: &mut Bomb| {
        let options = ufutex::DomainOptions::new().early_return(false);
        let domain = &*Box::leak(Box::new(Domain::with_options(&system(), options)));
        let word = AtomicU32::new(0);
        let queued = waiter_on(domain, &word);
        let before = domain.slots();
        let (inside, asked) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let options = ufutex::WaitOptions::new();
                let mut wait = std::pin::pin!(domain.wait_async(Slow(&word, &inside, &asked), 1, &options));
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                assert_eq!(std::future::Future::poll(wait.as_mut(), &mut context), Poll::Ready(Err(Error::Again)));
            });
            while !inside.load(SeqCst) {
                std::thread::yield_now();
            }
            let mut left = 3;
            let resized = bomb.during(|| {
                domain.set_slots_while(64, || {
                    left -= 1;
                    crate::bomb::pass(Call::KeepTrying);
                    left != 0
                })
            });
            assert_ne!(resized, Some(Ok(())), "an operation is under way");
            assert_eq!(domain.slots(), before);
            asked.store(true, SeqCst);
        });
        assert!(!queued.is_woken());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(domain.wait(&word, 1), Err(Error::Again));
                assert_eq!(domain.set_slots(32), Ok(()));
                assert_eq!(domain.wake(&word, 1), 1);
            });
        });
        assert!(queued.is_woken());
    };
    for_every(Call::KeepTrying, 2, is_asked);
}

on_domains![keep_trying_of_a_resize_panics];
