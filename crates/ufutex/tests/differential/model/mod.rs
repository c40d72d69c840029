//! Linux's futex system calls as one sequential program: plain, slow, and meant to be read.
//!
//! It knows no hash tables, no locks and no threads. All waiters stand in one queue; a worker is idle or blocked in a
//! call. A call runs to its end, then the next step begins: what the workers that it woke do comes to rest before that.
//! The order of checks is the kernel's ([kernel-futex]); where this differs from the host kernel, this is wrong.

mod decode;
mod key;
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

/// How a call ends that does not return a number.
pub enum Stop {
    Errno(i32),
    /// It sleeps: the worker's entries are in the queue.
    Sleeps(OnSignal),
}

pub type Answer<T = i64> = Result<T, Stop>;

fn errno<T>(errno: i32) -> Answer<T> {
    Err(Stop::Errno(errno))
}

/// What a signal does to a worker that sleeps in a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnSignal {
    /// EINTR in any case.
    Interrupts,
    /// The call begins again with `SA_RESTART`, otherwise EINTR.
    RestartsIfAsked,
    /// The call begins again in any case.
    Restarts,
}

/// Whether a call's time has passed. The far ones never do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Deadline {
    None,
    Passed,
    Far,
}

/// One waiter in the queue. Owned by its worker's call; whoever wakes it takes it out.
#[derive(Debug)]
struct Entry {
    worker: usize,
    /// Which entry of a vector it is.
    index: usize,
    key: Key,
    bitset: u32,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Waits to be woken.
    Plain,
    /// Waits to be requeued to the PI futex `target`.
    RequeuePi { target: Key },
    /// Waits to own a PI futex.
    Pi { requeued: bool },
}

/// What the kernel keeps of a PI futex as long as somebody waits for it: there is one for each key at most.
#[derive(Debug)]
struct PiState {
    key: Key,
    owner: usize,
    /// Who gets it next comes first.
    waiters: Vec<PiWaiter>,
}

/// One who waits to own a PI futex.
#[derive(Clone, Copy, Debug)]
struct PiWaiter {
    worker: usize,
    /// With what its own waiters lend it.
    priority: u8,
}

/// A call that a worker sleeps in.
struct Blocked {
    raw: Raw,
    on_signal: OnSignal,
}

impl Blocked {
    /// The address of the PI futex that the call is to lock.
    fn pi_address(&self) -> u64 {
        let [address, op, .., address2, _] = self.raw.args;
        let cmd = Cmd::from_number(op as u32 & !(PRIVATE | REALTIME));
        if cmd == Cmd::WaitRequeuePi { address2 } else { address }
    }
}

/// What can be seen after a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// What a worker's call returned in this step.
    pub returned: [Option<i64>; WORKERS],
    /// Who is blocked.
    pub blocked: [bool; WORKERS],
    /// The words, where they can be read.
    pub words: [Option<u32>; crate::layout::WORDS.len()],
}

/// What a step came to.
pub struct Done {
    /// The call that it made, if it made one.
    pub raw: Option<Raw>,
    /// The robust list that a worker left, if one has ended.
    pub robust: Option<Robust>,
    /// The value that it was to store, if it was to.
    pub value: u32,
    pub seen: Seen,
}

pub struct Model {
    layout: Layout,
    tids: [u32; WORKERS],
    /// The real-time priority of each worker.
    priorities: [u8; WORKERS],
    memory: Memory,
    /// All waiters: higher priority first, then in the order in which they came.
    queue: Vec<Entry>,
    pi_states: Vec<PiState>,
    blocked: [Option<Blocked>; WORKERS],
    /// Whose thread has ended.
    is_dead: [bool; WORKERS],
    returned: [Option<i64>; WORKERS],
    /// Who was woken in this step, and the highest index of an entry that was.
    woken: [Option<usize>; WORKERS],
    /// False once the step depends on threads that are not part of the program.
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

    /// What each step of `program` comes to, as far as it is defined.
    pub fn run(layout: Layout, tids: [u32; WORKERS], program: &Program) -> Vec<Done> {
        let mut model = Self::new(layout, tids, program.priorities);
        program.steps.iter().map_while(|step| model.step(step)).collect()
    }

    /// Makes a step. `None` if what it comes to depends on threads outside of the program.
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

    /// Whether it can make a call.
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

    /// Makes a call, and lets the tasks that it woke return.
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
                // A vector's other entries go, too.
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
            // A restart would find that the word has changed, so the kernel says that at once.
            OnSignal::Restarts if was_requeued => self.end(worker, -i64::from(libc::EAGAIN)),
            OnSignal::Restarts => self.call(worker, raw),
            OnSignal::RestartsIfAsked if sa_restart => self.call(worker, raw),
            OnSignal::RestartsIfAsked | OnSignal::Interrupts => self.end(worker, -i64::from(libc::EINTR)),
        }
    }

    /// Takes what a worker has queued out. Says whether it had been requeued to a PI futex.
    fn leave(&mut self, worker: usize) -> bool {
        let was_requeued =
            self.queue.iter().any(|e| e.worker == worker && matches!(e.kind, Kind::Pi { requeued: true }));
        self.queue.retain(|entry| entry.worker != worker);
        self.unblock(worker);
        self.drop_unused_states();
        was_requeued
    }

    /// Puts an entry behind all of its priority and above.
    fn enqueue(&mut self, entry: Entry) {
        let priority = self.priorities[entry.worker];
        let at = self.queue.iter().position(|e| self.priorities[e.worker] < priority);
        self.queue.insert(at.unwrap_or(self.queue.len()), entry);
    }

    /// The waiters of a key, as places in the queue.
    fn waiters(&self, key: Key) -> Vec<usize> {
        (0..self.queue.len()).filter(|&i| self.queue[i].key == key).collect()
    }

    /// The first waiter of a key, as a place in the queue.
    fn top_waiter(&self, key: Key) -> Option<usize> {
        self.queue.iter().position(|entry| entry.key == key)
    }
}
