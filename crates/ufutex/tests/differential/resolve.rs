//! Translates a program's arguments to the arguments of system calls in this process.

use crate::layout::{FUTEX_OFFSET, Layout, ROBUST_OFFSET, TIME_OFFSET, VECTOR_OFFSET};
use crate::program::{Arg, Lock, Number, WORKERS};

/// A system call with its arguments in this process.
#[derive(Clone, Debug)]
pub struct Raw {
    pub number: Number,
    pub args: [u64; 6],
    /// The contents of the worker's page at `TIME_OFFSET`.
    pub time: Option<[i64; 2]>,
    /// The contents of the worker's page at `VECTOR_OFFSET`: one `struct futex_waitv` for each element.
    pub vector: Vec<[u64; 3]>,
}

/// A robust list with its addresses in this process.
#[derive(Clone, Debug)]
pub struct Robust {
    /// The address of its `struct robust_list_head`.
    pub head: u64,
    /// The members of that head.
    pub members: [u64; 3],
    /// Address and contents of each entry.
    pub links: Vec<[u64; 2]>,
}

/// The values of a program's arguments in this process.
pub struct Meaning<'a> {
    pub layout: Layout,
    pub tids: [u32; WORKERS],
    /// Returns the current value of a word.
    pub value: &'a dyn Fn(usize) -> u32,
}

impl Meaning<'_> {
    /// The call of `worker` with these arguments.
    pub fn call(&self, worker: usize, number: Number, args: &[Arg; 6]) -> Raw {
        let mut raw = Raw { number, args: [0; 6], time: None, vector: Vec::new() };
        for (i, arg) in args.iter().enumerate() {
            raw.args[i] = match arg {
                Arg::Time(time) => {
                    raw.time = Some(time.seconds_and_nanoseconds());
                    self.layout.scratch(worker) + TIME_OFFSET
                }
                Arg::Vector(entries) => {
                    raw.vector = entries.0.iter().map(|e| self.entry(e)).collect();
                    self.layout.scratch(worker) + VECTOR_OFFSET
                }
                arg => self.value(arg),
            };
        }
        raw
    }

    /// The robust list of `worker` with these locks.
    pub fn robust(&self, worker: usize, locks: &[Lock], pending: Option<Lock>) -> Robust {
        let head = self.layout.scratch(worker) + ROBUST_OFFSET;
        let pointer = |Lock(word, is_pi): Lock| self.layout.link(word) | u64::from(is_pi);
        let pointers = locks.iter().map(|&lock| pointer(lock)).chain([head]);
        let links = locks.iter().map(|lock| self.layout.link(lock.0)).zip(pointers.clone().skip(1));
        let first = pointers.clone().next().expect("the head is one");
        Robust {
            head,
            members: [first, FUTEX_OFFSET.cast_unsigned(), pending.map_or(0, pointer)],
            links: links.map(<[u64; 2]>::from).collect(),
        }
    }

    fn entry(&self, entry: &crate::program::Entry) -> [u64; 3] {
        let flags = u64::from(entry.flags) | u64::from(entry.reserved) << 32;
        [self.value(&entry.value), self.value(&entry.address), flags]
    }

    /// The value of an argument that does not point to a timeout or vector.
    pub fn value(&self, arg: &Arg) -> u64 {
        match arg {
            Arg::Num(number) => *number,
            Arg::Op(cmd, flags) => (cmd.number() | flags).into(),
            Arg::Word(word) => self.layout.word(*word),
            Arg::Past(word, bytes) => self.layout.word(*word) + bytes,
            Arg::Same(word) => (self.value)(*word).into(),
            Arg::Tid(worker, bits) => (self.tids[*worker] | bits).into(),
            Arg::Time(_) | Arg::Vector(_) => 0,
        }
    }
}
