//! Programs: sequences of steps that do not depend on the TIDs and addresses of one process.
//!
//! The `Debug` form of a step is the Rust expression that makes it, for `named.rs`.

use std::fmt;

pub use crate::common::arena::Rights;

/// Number of threads of a program.
pub const WORKERS: usize = 4;

/// `FUTEX_WAITERS`
pub const WAITERS: u32 = 0x8000_0000;
/// `FUTEX_OWNER_DIED`
pub const OWNER_DIED: u32 = 0x4000_0000;
/// `FUTEX_TID_MASK`
pub const TID_MASK: u32 = 0x3fff_ffff;

/// Flags of futex(2) operations.
pub const PRIVATE: u32 = 128;
pub const REALTIME: u32 = 256;

/// A sequence of steps. After each step, all workers are idle or blocked before the next step begins.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Program {
    /// Real-time priorities of the workers, relative to `WORKER_PRIORITY`. All are 0 in most programs.
    pub priorities: [u8; WORKERS],
    pub steps: Vec<Step>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// A worker makes a system call. The step has no effect if the worker is blocked.
    Call(usize, Number, [Arg; 6]),
    /// A worker receives a signal. The flag tells whether the handler has `SA_RESTART`.
    Signal(usize, bool),
    /// Writes a word if its page is writable.
    Store(usize, Arg),
    /// Changes the access rights of a page.
    Protect(usize, Rights),
    /// The thread of an idle worker exits with a robust list of these locks, in this order, and this `list_op_pending`.
    /// The worker is not replaced during the program.
    Exit(usize, Locks, Option<Lock>),
    /// Resizes the engine's hash table, which must not change any result. The kernel and the model ignore the step.
    Resize(usize),
}

/// An entry of a robust list: a word, and whether the entry is marked as a PI futex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock(pub usize, pub bool);

#[derive(Clone, PartialEq)]
pub struct Locks(pub Vec<Lock>);

/// The locks of a robust list.
#[allow(dead_code, reason = "only named programs say this")]
pub fn locks(locks: &[Lock]) -> Locks {
    Locks(locks.to_vec())
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "locks(&{:?})", self.0)
    }
}

/// A system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    Futex = 202,
    /// `restart_syscall`, which programs normally never call themselves.
    Restart = 219,
    Waitv = 449,
    Wake2 = 454,
    Wait2 = 455,
    Requeue2 = 456,
}

/// An operation of futex(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cmd {
    Wait,
    Wake,
    Fd,
    Requeue,
    CmpRequeue,
    WakeOp,
    LockPi,
    UnlockPi,
    TrylockPi,
    WaitBitset,
    WakeBitset,
    WaitRequeuePi,
    CmpRequeuePi,
    LockPi2,
    /// An operation number that does not exist.
    Unknown(u32),
}

impl Cmd {
    pub const KNOWN: [Self; 14] = [
        Self::Wait,
        Self::Wake,
        Self::Fd,
        Self::Requeue,
        Self::CmpRequeue,
        Self::WakeOp,
        Self::LockPi,
        Self::UnlockPi,
        Self::TrylockPi,
        Self::WaitBitset,
        Self::WakeBitset,
        Self::WaitRequeuePi,
        Self::CmpRequeuePi,
        Self::LockPi2,
    ];

    pub fn number(self) -> u32 {
        match self {
            Self::Unknown(number) => number,
            known => Self::KNOWN.iter().position(|&k| k == known).expect("it is in the list") as u32,
        }
    }

    pub fn from_number(number: u32) -> Self {
        Self::KNOWN.get(number as usize).copied().unwrap_or(Self::Unknown(number))
    }
}

/// An argument of a system call, or the value of a word.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    Num(u64),
    /// An operation with its flags.
    Op(Cmd, u32),
    /// The address of a word.
    Word(usize),
    /// The address of a word plus a number of bytes.
    Past(usize, u64),
    /// The value of a word when the step is made.
    Same(usize),
    /// The TID of a worker, with these bits set in addition.
    Tid(usize, u32),
    /// The address of a `struct timespec`.
    Time(Time),
    /// The address of an array of `struct futex_waitv`.
    Vector(Entries),
}

/// A timeout, which has passed already or is too far in the future to expire during the test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Time {
    Passed,
    Far,
    /// Beyond the range of the kernel's clock.
    Farthest,
    BadNanoseconds,
    NegativeNanoseconds,
    NegativeSeconds,
}

impl Time {
    /// The members of the `struct timespec`.
    pub fn seconds_and_nanoseconds(self) -> [i64; 2] {
        match self {
            Self::Passed => [0, 1],
            Self::Far => [4_000_000_000, 999_999_999],
            Self::Farthest => [i64::MAX, 0],
            Self::BadNanoseconds => [0, 1_000_000_000],
            Self::NegativeNanoseconds => [1, -1],
            Self::NegativeSeconds => [-1, 0],
        }
    }
}

/// One `struct futex_waitv`.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    pub value: Arg,
    pub address: Arg,
    pub flags: u32,
    pub reserved: u32,
}

#[derive(Clone, PartialEq)]
pub struct Entries(pub Vec<Entry>);

/// The entries of a `Vector`.
#[allow(dead_code, reason = "only named programs say this")]
pub fn entries(entries: &[Entry]) -> Entries {
    Entries(entries.to_vec())
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let same = self.0.split_first().is_some_and(|(first, rest)| rest.len() > 8 && rest.iter().all(|e| e == first));
        if same {
            write!(f, "entries(&vec![{:?}; {}])", self.0[0], self.0.len())
        } else {
            write!(f, "entries(&{:?})", self.0)
        }
    }
}

/// The program as Rust code, one step on each line.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Program {{")?;
        writeln!(f, "    priorities: {:?},", self.priorities)?;
        writeln!(f, "    steps: vec![")?;
        for step in &self.steps {
            writeln!(f, "        {step:?},")?;
        }
        writeln!(f, "    ],")?;
        write!(f, "}}")
    }
}
