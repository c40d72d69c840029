//! The heart of each thread: how often it has made progress, and what it does now. The watch reports a heart that stands
//! still.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use strum::{FromRepr, IntoStaticStr};

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq, FromRepr, IntoStaticStr)]
#[repr(u8)]
pub enum Doing {
    #[strum(to_string = "running")]
    Running,
    #[strum(to_string = "ended")]
    Ended,
    #[strum(to_string = "panicked")]
    Panicked,
    #[strum(to_string = "waiting for a wake")]
    Wait,
    #[strum(to_string = "waiting for a wake of one of several words")]
    WaitAny,
    #[strum(to_string = "waiting for a future's waker")]
    Future,
    #[strum(to_string = "waiting for a lock with priority inheritance")]
    LockPi,
    #[strum(to_string = "waiting to be requeued to a lock with priority inheritance")]
    WaitRequeuePi,
    #[strum(to_string = "waiting for a robust lock")]
    Robust,
    #[strum(to_string = "waking")]
    Wake,
    #[strum(to_string = "requeueing")]
    Requeue,
    #[strum(to_string = "unlocking")]
    Unlock,
    #[strum(to_string = "ending a task")]
    Exit,
    #[strum(to_string = "resizing")]
    Resize,
    #[strum(to_string = "polling, ending or dropping futures")]
    Futures,
    #[strum(to_string = "setting timers")]
    Timers,
    #[strum(to_string = "turning the driver")]
    Turn,
}

/// See the top of this file.
pub struct Heart {
    pub name: String,
    beats: AtomicU64,
    doing: AtomicU8,
    /// The address of the word that it is done with. `0` means none.
    word: AtomicU64,
}

impl Heart {
    pub fn new(name: String) -> Self {
        Self { name, beats: AtomicU64::new(0), doing: AtomicU8::new(Doing::Running as u8), word: AtomicU64::new(0) }
    }

    pub fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Does `work`, which counts as progress when it ends.
    pub fn during<R>(&self, doing: Doing, word: u64, work: impl FnOnce() -> R) -> R {
        self.word.store(word, Ordering::Relaxed);
        self.doing.store(doing as u8, Ordering::Relaxed);
        let result = work();
        self.doing.store(Doing::Running as u8, Ordering::Relaxed);
        self.beat();
        result
    }

    /// Notes that the thread ends.
    pub fn end(&self, by_panic: bool) {
        let doing = if by_panic { Doing::Panicked } else { Doing::Ended };
        self.doing.store(doing as u8, Ordering::Relaxed);
    }

    pub fn has_ended(&self) -> bool {
        self.doing.load(Ordering::Relaxed) == Doing::Ended as u8
    }

    pub fn has_panicked(&self) -> bool {
        self.doing.load(Ordering::Relaxed) == Doing::Panicked as u8
    }
}

impl fmt::Display for Heart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doing = Doing::from_repr(self.doing.load(Ordering::Relaxed)).unwrap_or(Doing::Running);
        write!(f, "{}, {}", self.name, <&str>::from(doing))?;
        match self.word.load(Ordering::Relaxed) {
            0 => Ok(()),
            word if doing != Doing::Running => write!(f, ", word {word:#x}"),
            _ => Ok(()),
        }
    }
}
