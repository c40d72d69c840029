//! The word is compared with the bucket locked. A wake that begins after the comparison finds the waiter.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ufutex::{Domain, DomainOptions};

use crate::common::PATIENCE;
use crate::common::domains::{on_domains, system};
use crate::common::guest_memory::{Event, GuestMemory};

/// Starts a thread that changes the word and wakes its waiters.
fn change_and_wake(domain: &Arc<Domain>, words: &Arc<GuestMemory>) -> Receiver<usize> {
    words.word(0).store(1, SeqCst);
    let (domain, words) = (domain.clone(), words.clone());
    let (send, woken) = channel();
    std::thread::spawn(move || _ = send.send(domain.wake(words.target(0), 1)));
    woken
}

fn word_is_compared_with_the_bucket_locked() {
    let domain = Arc::new(Domain::with_options(&system(), DomainOptions::new().early_return(false)));
    let (words, wake) = (Arc::new(GuestMemory::new()), Arc::new(Mutex::new(None)));
    let (its_domain, its_words, its_wake) = (domain.clone(), words.clone(), wake.clone());
    // The hook of a load runs after the word was read.
    let memory = GuestMemory::of_words(&words, move |event, _| {
        let mut wake = its_wake.lock().expect("not poisoned");
        if event == Event::Load && wake.is_none() {
            let woken = change_and_wake(&its_domain, &its_words);
            // If the comparison did not hold the lock, the wake would finish within this time.
            match woken.recv_timeout(Duration::from_millis(20)) {
                Ok(count) => panic!("a wake ended, with {count}, between the comparison and the sleep"),
                Err(RecvTimeoutError::Timeout) => *wake = Some(woken),
                Err(RecvTimeoutError::Disconnected) => panic!("the waker is gone"),
            }
        }
        Ok(())
    });
    let (send, ended) = channel();
    std::thread::spawn(move || _ = send.send(domain.wait(memory.target(0), 0)));
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(Ok(())), "the wake was lost");
    let woken = wake.lock().expect("not poisoned").take().expect("the word was read");
    assert_eq!(woken.recv_timeout(PATIENCE), Ok(1));
}

on_domains![word_is_compared_with_the_bucket_locked];
