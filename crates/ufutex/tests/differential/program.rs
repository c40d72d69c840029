//! What is run: steps that mean the same in every process, whatever its thread numbers and addresses are.
//!
//! The `Debug` form of a step is the Rust that makes it, for `named.rs`.

use std::fmt;

/// How many threads take part in a program.
pub const WORKERS: usize = 4;

/// The bit of a PI futex word that says that somebody waits in the kernel.
pub const WAITERS: u32 = 0x8000_0000;
/// The bit that says that the owner has died.
pub const OWNER_DIED: u32 = 0x4000_0000;
/// The bits that name the owner.
pub const TID_MASK: u32 = 0x3fff_ffff;

/// Flags of an operation of futex(2).
pub const PRIVATE: u32 = 128;
pub const REALTIME: u32 = 256;

/// A sequence of steps, run one after the other; each comes to rest before the next begins.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Program {
    /// Real-time priorities that the workers have over the base priority; all 0 in most programs.
    pub priorities: [u8; WORKERS],
    pub steps: Vec<Step>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// A worker makes a system call. Nothing happens if it is blocked in another.
    Call(usize, Number, [Arg; 6]),
    /// A worker gets a signal, whose handler is installed with `SA_RESTART` or without.
    Signal(usize, bool),
    /// The program writes a word, if it may.
    Store(usize, Arg),
    /// The program changes what may be done with a page.
    Protect(usize, Rights),
    /// A worker's thread ends, if it is idle: it leaves a robust list with these locks, the first of them first, and
    /// this one that it was about to take or give back. No thread takes its place in this program.
    Exit(usize, Locks, Option<Lock>),
    /// The engine's table gets another size. Must change nothing; the kernel's and the model's have none.
    Resize(usize),
}

/// An entry of a robust list: a word, and whether it says to be a PI futex.
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

/// What may be done with a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
#[repr(u8)]
pub enum Rights {
    Nothing,
    Read,
    ReadWrite,
}

/// A system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    Futex = 202,
    /// `restart_syscall`, which a program has no reason to call.
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
    /// None that exists.
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

/// An argument of a system call, or a value of a word.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    Num(u64),
    /// An operation with its flags.
    Op(Cmd, u32),
    /// The address of a word.
    Word(usize),
    /// So many bytes after a word.
    Past(usize, u64),
    /// The value that a word has at this moment.
    Same(usize),
    /// The TID of a worker, with these bits set as well.
    Tid(usize, u32),
    /// The address of a time.
    Time(Time),
    /// The address of an array of `struct futex_waitv`.
    Vector(Entries),
}

/// When a call shall time out: either it has passed already, or nobody lives to see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Time {
    Passed,
    Far,
    /// Beyond what the kernel's clock can count.
    Farthest,
    BadNanoseconds,
    NegativeNanoseconds,
    NegativeSeconds,
}

impl Time {
    /// `struct timespec`.
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

/// The program as Rust, one step a line.
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
