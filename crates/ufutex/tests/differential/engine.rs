//! The engine, behind the kernel's ABI: [`Domain::syscall`] with tasks that have the workers' TIDs.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use ufutex::{
    Domain, DomainOptions, Policy, System, SystemConfig, Task,
    pi::Priority,
    syscall::{Number, Resume, resume},
};

use crate::common::domains::set_slots;
use crate::compare::Bench;
use crate::memory::Memory;
use crate::program::{Program, WORKERS};
use crate::resolve::{Raw, Robust};
use crate::workers::{Target, WORKER_PRIORITY};

/// Table sizes. In a table of two buckets, keys collide.
const POLICIES: [Policy; 4] = [Policy::Fixed(2), Policy::Fixed(64), Policy::Load, Policy::Fixed(0)];

/// One configuration of the engine: table size, early return.
#[derive(Clone, Copy)]
pub struct Variant {
    policy: Policy,
    early_return: bool,
}

impl Variant {
    /// Number of variants.
    pub const COUNT: usize = POLICIES.len() * 2;

    /// The variant `number` modulo `COUNT`.
    pub fn number(number: usize) -> Self {
        let (number, policy) = (number / POLICIES.len(), POLICIES[number % POLICIES.len()]);
        Self { policy, early_return: number % 2 == 0 }
    }

    pub fn make(self, bench: &Bench, program: &Program) -> Arc<dyn Target> {
        let options = DomainOptions::new().policy(self.policy).early_return(self.early_return);
        make(bench, program, options)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, early_return } = self;
        write!(f, "{policy:?}, early return {early_return}")
    }
}

/// Reasons for interrupting a call.
const NOT: u8 = 0;
const BY_PLAIN_SIGNAL: u8 = 1;
const BY_RESTARTING_SIGNAL: u8 = 2;
const ABANDONED: u8 = 3;

struct Worker {
    /// `None` once the thread has ended.
    task: Mutex<Option<Arc<Task>>>,
    is_calling: AtomicBool,
    interruption: AtomicU8,
}

struct Engine {
    // Tasks end before their domain does.
    workers: [Worker; WORKERS],
    domain: Domain,
    memory: Arc<Memory>,
}

fn make(bench: &Bench, program: &Program, options: DomainOptions) -> Arc<dyn Target> {
    let config = SystemConfig::new().cpus(2).global_slots(64).hash_seed(1);
    let system = System::with_config(config).expect("the memory is there");
    let domain = Domain::with_options(&system, options);
    let tids = bench.workers.tids();
    let workers = std::array::from_fn(|worker| {
        let task = domain.task(tids[worker]).expect("the TID is free");
        task.set_priority(Priority::realtime(WORKER_PRIORITY + program.priorities[worker]));
        Worker {
            task: Mutex::new(Some(Arc::new(task))),
            is_calling: AtomicBool::new(false),
            interruption: AtomicU8::new(NOT),
        }
    });
    Arc::new(Engine { workers, domain, memory: bench.memory.clone() })
}

impl Worker {
    fn task(&self) -> Arc<Task> {
        self.task.lock().expect("not poisoned").clone().expect("the worker lives")
    }

    /// Interrupts the worker's call. Outside of a call, a signal has no effect on the worker.
    fn interrupt(&self, interruption: u8) {
        let task = self.task();
        if self.is_calling.load(Ordering::Relaxed) {
            self.interruption.store(interruption, Ordering::Relaxed);
            task.interrupt().raise();
        } else {
            task.interrupt().raise();
            task.interrupt().clear();
        }
    }
}

impl Engine {
    fn syscall(&self, task: &Task, number: u64, args: [u64; 6]) -> isize {
        let number = Number::x86_64(number).expect("a call of the engine's");
        self.domain.syscall(task, &self.memory.arena, number, args)
    }
}

impl Target for Engine {
    fn call(&self, worker: usize, raw: &Raw) -> i64 {
        let worker = &self.workers[worker];
        let task = worker.task();
        worker.is_calling.store(true, Ordering::Relaxed);
        let result = loop {
            let result = self.syscall(&task, raw.number as u64, raw.args);
            let handler = match worker.interruption.swap(NOT, Ordering::Relaxed) {
                NOT => break result,
                ABANDONED => {
                    task.interrupt().clear();
                    break result;
                }
                interruption => Some(interruption == BY_RESTARTING_SIGNAL),
            };
            task.interrupt().clear();
            task.forget_restart();
            match resume(result, handler) {
                Resume::Return(result) => break result,
                Resume::Again => {}
                Resume::Continue => unreachable!("a handler has run"),
            }
        };
        worker.is_calling.store(false, Ordering::Relaxed);
        result as i64
    }

    fn signal(&self, worker: usize, sa_restart: bool) {
        self.workers[worker].interrupt(if sa_restart { BY_RESTARTING_SIGNAL } else { BY_PLAIN_SIGNAL });
    }

    fn abandon(&self, worker: usize) {
        self.workers[worker].interrupt(ABANDONED);
    }

    fn exit(&self, worker: usize, robust: &Robust) {
        const SET_ROBUST_LIST: u64 = 273;
        const LENGTH: u64 = 24;
        let task = self.workers[worker].task.lock().expect("not poisoned").take().expect("the worker lives");
        let task = Arc::into_inner(task).expect("it makes no call");
        assert_eq!(self.syscall(&task, SET_ROBUST_LIST, [robust.head, LENGTH, 0, 0, 0, 0]), 0);
        self.domain.exit(&task, &self.memory.arena).expect("its own task, which waits for nothing");
    }

    fn resize(&self, slots: usize) {
        // All workers are idle or blocked, so the resize needs no waiting. A fixed table returns an error.
        let _ = set_slots(&self.domain, slots);
    }
}
