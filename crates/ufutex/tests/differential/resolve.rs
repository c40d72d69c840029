//! From what a program says to what a system call gets.

use crate::layout::{Layout, TIME_OFFSET, VECTOR_OFFSET};
use crate::program::{Arg, Number, WORKERS};

/// A system call with the arguments that it gets in this process.
#[derive(Clone, Debug)]
pub struct Raw {
    pub number: Number,
    pub args: [u64; 6],
    /// What has to lie at `TIME_OFFSET` of the worker's page.
    pub time: Option<[i64; 2]>,
    /// What has to lie at `VECTOR_OFFSET`: one `struct futex_waitv` each.
    pub vector: Vec<[u64; 3]>,
}

/// What the arguments of a program mean here.
pub struct Meaning<'a> {
    pub layout: Layout,
    pub tids: [u32; WORKERS],
    /// The value of a word at this moment.
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

    fn entry(&self, entry: &crate::program::Entry) -> [u64; 3] {
        let flags = u64::from(entry.flags) | u64::from(entry.reserved) << 32;
        [self.value(&entry.value), self.value(&entry.address), flags]
    }

    /// An argument that points to nothing that would have to be prepared.
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
