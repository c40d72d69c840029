//! Linux's futex system calls as one sequential program: plain, slow, and meant to be read.
//!
//! The model has no hash tables, no locks and no threads. All waiters are in one queue. A worker is idle or blocked in
//! a call. A call runs to its end, and the workers that it woke return, before the next step begins. The order of
//! checks is the kernel's ([kernel-futex]). Where the model differs from the host kernel, the model is wrong.

pub mod concurrent;
mod decode;
pub mod key;
mod memory;
mod pi;
mod priority;
mod requeue;
mod requeue_pi;
mod robust;
mod vector;
mod wait;
mod wake;

use std::cell::Cell;

use crate::layout::Layout;
use crate::program::{Cmd, PRIVATE, Program, REALTIME, Rights, Step, WORKERS};
use crate::resolve::{Meaning, Raw, Robust};

use key::Key;
use memory::Memory;

/// The end of a call that does not return a number.
pub enum Stop {
    Errno(i32),
    /// The call blocks. The worker's entries are in the queue.
    Sleeps(OnSignal),
}

pub type Answer<T = i64> = Result<T, Stop>;

fn errno<T>(errno: i32) -> Answer<T> {
    Err(Stop::Errno(errno))
}

/// The effect of a signal on a blocked call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnSignal {
    /// The call returns EINTR.
    Interrupts,
    /// The call is restarted if the handler has `SA_RESTART`. Otherwise it returns EINTR.
    RestartsIfAsked,
    /// The call is restarted, with or without `SA_RESTART`.
    Restarts,
}

/// A call's timeout. `Far` ones never expire during a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Deadline {
    None,
    Passed,
    Far,
}

/// One waiter in the queue. It belongs to its worker's call. A wake removes it from the queue.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Entry {
    worker: usize,
    /// The index in the vector of a `futex_waitv` call.
    index: usize,
    key: Key,
    bitset: u32,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    /// Waits to be woken.
    Plain,
    /// Waits to be requeued to the PI futex `target`.
    RequeuePi { target: Key },
    /// Waits to own a PI futex.
    Pi { requeued: bool },
}

/// The kernel's state of a PI futex, which exists while there are waiters. There is at most one for each key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct PiState {
    key: Key,
    owner: usize,
    /// In the order in which they will get the lock.
    waiters: Vec<PiWaiter>,
}

/// A waiter for a PI futex.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct PiWaiter {
    worker: usize,
    /// The effective priority, including what the worker inherits from its own waiters.
    priority: u8,
}

/// A call in which a worker is blocked.
#[derive(Clone)]
struct Blocked {
    raw: Raw,
    on_signal: OnSignal,
}

impl Blocked {
    /// The address of the PI futex that the call locks.
    fn pi_address(&self) -> u64 {
        let [address, op, .., address2, _] = self.raw.args;
        let cmd = Cmd::from_number(op as u32 & !(PRIVATE | REALTIME));
        if cmd == Cmd::WaitRequeuePi { address2 } else { address }
    }
}

/// What can be observed after a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The results of the calls that returned in this step, by worker.
    pub returned: [Option<i64>; WORKERS],
    /// Which workers are blocked.
    pub blocked: [bool; WORKERS],
    /// The values of the words, `None` for a word that is not readable.
    pub words: [Option<u32>; crate::layout::WORDS.len()],
}

/// The effects of a step.
pub struct Done {
    /// The call that the step made, `None` if it made none.
    pub raw: Option<Raw>,
    /// The robust list of the worker that exited, `None` if none did.
    pub robust: Option<Robust>,
    /// The value of a `Store` step.
    pub value: u32,
    pub seen: Seen,
}

#[derive(Clone)]
pub struct Model {
    layout: Layout,
    tids: [u32; WORKERS],
    /// The real-time priority of each worker.
    priorities: [u8; WORKERS],
    memory: Memory,
    /// All waiters, by descending priority and then in order of arrival.
    queue: Vec<Entry>,
    pi_states: Vec<PiState>,
    blocked: [Option<Blocked>; WORKERS],
    /// The workers whose thread has ended.
    is_dead: [bool; WORKERS],
    returned: [Option<i64>; WORKERS],
    /// For each worker that was woken in this step, the highest index of its woken entries.
    woken: [Option<usize>; WORKERS],
    /// Set to false when the result of the step depends on threads outside of the program.
    is_defined: Cell<bool>,
}

impl Model {
    pub fn new(layout: Layout, tids: [u32; WORKERS], priorities: [u8; WORKERS]) -> Self {
        Self {
            layout,
            tids,
            priorities,
            memory: Memory::new(layout),
            queue: Vec::new(),
            pi_states: Vec::new(),
            blocked: [const { None }; WORKERS],
            is_dead: [false; WORKERS],
            returned: [None; WORKERS],
            woken: [None; WORKERS],
            is_defined: Cell::new(true),
        }
    }

    /// The effects of the program's steps, up to the first step whose effect is not defined.
    pub fn run(layout: Layout, tids: [u32; WORKERS], program: &Program) -> Vec<Done> {
        let mut model = Self::new(layout, tids, program.priorities);
        program.steps.iter().map_while(|step| model.step(step)).collect()
    }

    /// Makes a step. Returns `None` if its effect depends on threads outside of the program.
    pub fn step(&mut self, step: &Step) -> Option<Done> {
        self.returned = [None; WORKERS];
        let (mut raw, mut robust, mut value) = (None, None, 0);
        match step {
            Step::Call(worker, number, args) if self.is_idle(*worker) => {
                let call = self.meaning(|meaning| meaning.call(*worker, *number, args));
                self.memory.prepare(*worker, &call);
                raw = Some(call.clone());
                self.call(*worker, call);
            }
            Step::Signal(worker, restart) => self.signal(*worker, *restart),
            Step::Store(word, arg) => {
                value = self.meaning(|meaning| meaning.value(arg)) as u32;
                let _ = self.memory.store(self.layout.word(*word), value);
            }
            Step::Protect(page, rights) => self.memory.protect(*page, *rights),
            Step::Exit(worker, locks, pending) if self.is_idle(*worker) => {
                let list = self.meaning(|meaning| meaning.robust(*worker, &locks.0, *pending));
                self.exit(*worker, &list);
                robust = Some(list);
            }
            Step::Call(..) | Step::Exit(..) | Step::Resize(_) => {}
        }
        self.is_defined.get().then(|| Done { raw, robust, value, seen: self.seen() })
    }

    /// Whether the worker can make a call.
    pub fn is_idle(&self, worker: usize) -> bool {
        !self.is_blocked(worker) && !self.is_dead[worker]
    }

    pub fn is_blocked(&self, worker: usize) -> bool {
        self.blocked[worker].is_some()
    }

    pub fn rights(&self, page: usize) -> Rights {
        self.memory.rights(page)
    }

    pub fn value(&self, word: usize) -> u32 {
        self.memory.value(self.layout.word(word))
    }

    fn meaning<R>(&self, f: impl FnOnce(Meaning) -> R) -> R {
        f(Meaning { layout: self.layout, tids: self.tids, value: &|word| self.value(word) })
    }

    fn seen(&self) -> Seen {
        let blocked = std::array::from_fn(|worker| self.is_blocked(worker));
        let words = std::array::from_fn(|word| self.memory.load(self.layout.word(word)).ok());
        Seen { returned: self.returned, blocked, words }
    }

    /// Makes a call. The workers that it wakes return.
    fn call(&mut self, worker: usize, raw: Raw) {
        match self.decode(worker, &raw) {
            Ok(result) => self.returned[worker] = Some(result),
            Err(Stop::Errno(errno)) => self.returned[worker] = Some(-i64::from(errno)),
            Err(Stop::Sleeps(on_signal)) => self.blocked[worker] = Some(Blocked { raw, on_signal }),
        }
        self.end_woken();
    }

    fn end_woken(&mut self) {
        for worker in 0..WORKERS {
            if let Some(index) = self.woken[worker].take() {
                // The other entries of a `futex_waitv` call leave the queue, too.
                self.queue.retain(|entry| entry.worker != worker);
                self.end(worker, index as i64);
            }
        }
    }

    /// A blocked call returns.
    fn end(&mut self, worker: usize, result: i64) {
        self.blocked[worker] = None;
        self.returned[worker] = Some(result);
    }

    fn signal(&mut self, worker: usize, sa_restart: bool) {
        let Some(Blocked { raw, on_signal }) = self.blocked[worker].take() else { return };
        let was_requeued = self.leave(worker);
        match on_signal {
            // The kernel returns EAGAIN instead of restarting a wait that has been requeued to a PI futex.
            OnSignal::Restarts if was_requeued => self.end(worker, -i64::from(libc::EAGAIN)),
            OnSignal::Restarts => self.call(worker, raw),
            OnSignal::RestartsIfAsked if sa_restart => self.call(worker, raw),
            OnSignal::RestartsIfAsked | OnSignal::Interrupts => self.end(worker, -i64::from(libc::EINTR)),
        }
    }

    /// Removes a worker's entries from the queue. Returns whether it had been requeued to a PI futex.
    fn leave(&mut self, worker: usize) -> bool {
        let was_requeued =
            self.queue.iter().any(|e| e.worker == worker && matches!(e.kind, Kind::Pi { requeued: true }));
        self.queue.retain(|entry| entry.worker != worker);
        self.unblock(worker);
        self.drop_unused_states();
        was_requeued
    }

    /// Queues an entry behind all entries of its priority and above.
    fn enqueue(&mut self, entry: Entry) {
        let priority = self.priorities[entry.worker];
        let at = self.queue.iter().position(|e| self.priorities[e.worker] < priority);
        self.queue.insert(at.unwrap_or(self.queue.len()), entry);
    }

    /// The indices in the queue of a key's waiters.
    fn waiters(&self, key: Key) -> Vec<usize> {
        (0..self.queue.len()).filter(|&i| self.queue[i].key == key).collect()
    }

    /// The index in the queue of a key's first waiter.
    fn top_waiter(&self, key: Key) -> Option<usize> {
        self.queue.iter().position(|entry| entry.key == key)
    }
}
