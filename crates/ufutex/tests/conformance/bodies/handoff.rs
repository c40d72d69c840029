//! Two threads that take turns.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::channel;

use crate::common::PATIENCE;
use crate::common::libc;
use crate::futex::{Futex, PLAINLY, word};

const TURNS: u32 = 2_000;

/// Takes every second turn, beginning with `turn`.
fn take_turns(futex: &dyn Futex, word: &AtomicU32, mut turn: u32) {
    while turn < TURNS {
        loop {
            let now = word.load(Acquire);
            if now == turn {
                break;
            }
            match futex.wait(word, now, PLAINLY) {
                Ok(()) | Err(libc::EAGAIN) => {}
                Err(other) => panic!("a wait ended with errno {other}"),
            }
        }
        word.store(turn + 1, Release);
        futex.wake(word, 1);
        turn += 2;
    }
}

pub fn two_threads_take_thousands_of_turns(futex: &Arc<dyn Futex>) {
    let word = word(0);
    let (send, ended) = channel();
    for first in 0..2 {
        let (futex, send) = (futex.clone(), send.clone());
        std::thread::spawn(move || {
            take_turns(&*futex, word, first);
            let _ = send.send(());
        });
    }
    for _ in 0..2 {
        let end = ended.recv_timeout(PATIENCE);
        assert!(end.is_ok(), "a wake was lost at turn {}", word.load(Acquire));
    }
}
