//! How a contender for a bucket sleeps. With membarrier(2) it sleeps until it is woken. Without membarrier(2) it could
//! miss the wake, so it sleeps for a bounded time and checks the lock again.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use ufutex::scheme::Live;
use ufutex::{Domain, Error, Options};

use crate::common::PATIENCE;
use crate::common::asleep::{sleeps_in, thread_id, until};
use crate::common::domains::system;
use crate::common::emulated::lacks_the_kernel;
use crate::common::guest_memory::GuestMemory;
use crate::common::patient::within_patience;
use crate::common::refuse::refuse;

/// What `linux/membarrier.h` calls these commands.
const PRIVATE_EXPEDITED: libc::c_long = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_long = 1 << 4;

/// Whether the calling thread can make membarrier(2) calls.
fn has_membarrier() -> bool {
    // SAFETY: membarrier(2) reads and writes no memory of ours.
    let call = |command: libc::c_long| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    call(REGISTER_PRIVATE_EXPEDITED) == 0 && call(PRIVATE_EXPEDITED) == 0
}

/// Makes membarrier(2) fail in the calling thread. Returns the reason if that is not possible.
fn refuse_membarrier() -> Result<(), String> {
    refuse(libc::SYS_membarrier, libc::ENOSYS)
}

/// Whether the thread sleeps as a contender for a bucket, and if it does, whether for a bounded time.
fn contention(thread: i32) -> Option<bool> {
    // `ASLEEP` and `STARVING` in `lock/state.rs`.
    const CONTENDED: [u64; 2] = [1, 3];
    let (number, [_, _, expected, timeout, ..]) = sleeps_in(thread)?;
    (number == libc::SYS_futex && CONTENDED.contains(&expected)).then_some(timeout != 0)
}

/// Whether the sleep of a contender is bounded. The contender runs `prepare` first.
fn contender_sleeps_for_a_bounded_time(prepare: impl FnOnce() + Send + 'static) -> bool {
    let domain = Arc::new(Domain::<Live>::with_options(&system(), Options::new().early_return(false)));
    let words = Arc::new(GuestMemory::new());
    let (send, is_held) = channel();
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    // A wait loads its word with the bucket locked.
    let memory = GuestMemory::of_words(&words, move |_, _| {
        send.send(()).expect("the test waits for it");
        _ = released.lock().expect("not poisoned").recv();
        Ok(())
    });
    let its_domain = domain.clone();
    let holder = std::thread::spawn(move || its_domain.wait(memory.target(0), 1));
    is_held.recv_timeout(PATIENCE).expect("the word is loaded");
    let (send, thread) = channel();
    let contender = std::thread::spawn(move || {
        prepare();
        send.send(thread_id()).expect("the test waits for it");
        domain.wait(words.target(0), 1)
    });
    let thread = thread.recv_timeout(PATIENCE).expect("the contender is prepared");
    let mut is_bounded = None;
    until("the contender sleeps", || {
        is_bounded = contention(thread);
        is_bounded.is_some()
    });
    drop(release);
    let results = within_patience("a wait", || [holder, contender].map(|waiter| waiter.join().expect("no panic")));
    assert_eq!(results, [Err(Error::Again); 2]);
    is_bounded.expect("it slept")
}

#[test]
fn contender_sleeps_for_a_bounded_time_if_there_is_no_membarrier() {
    let is_there = has_membarrier();
    println!("found: membarrier(2) is {}", if is_there { "there" } else { "not there" });
    assert_eq!(contender_sleeps_for_a_bounded_time(|| ()), !is_there);
}

#[test]
fn contender_sleeps_for_a_bounded_time_if_membarrier_is_refused() {
    let probe = std::thread::spawn(|| refuse_membarrier().map(|()| has_membarrier()));
    match probe.join().expect("no panic") {
        Ok(is_there) => assert!(!is_there),
        Err(reason) => return println!("skipped: {reason}{}", emulator()),
    }
    assert!(contender_sleeps_for_a_bounded_time(|| refuse_membarrier().expect("it was possible before")));
}

fn emulator() -> String {
    lacks_the_kernel().map(|reason| format!(" ({reason})")).unwrap_or_default()
}
