//! Guests: processes with memory of their own, whose threads are threads of the kernel and make Linux's system calls.

mod memory;
mod program;

use alloc::sync::Arc;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Release};

use ufutex::{
    Access, Domain, DomainOptions, Fault, GuestWord, System, Task, UserMemory, Width, pi::Priority, syscall::Number,
};

use crate::platform::FUTEXES;
use crate::scheduler;
pub use memory::{DOORBELL, Memory, PAGES};

pub const EAGAIN: isize = -11;
pub const ETIMEDOUT: isize = -110;

/// futex(2) on x86-64.
const FUTEX: u64 = 202;
const PRIVATE: u64 = 128;
pub const WAIT: u64 = PRIVATE;
pub const WAKE: u64 = PRIVATE | 1;
pub const CMP_REQUEUE: u64 = PRIVATE | 4;
pub const LOCK_PI: u64 = PRIVATE | 6;
pub const UNLOCK_PI: u64 = PRIVATE | 7;
pub const WAIT_BITSET: u64 = PRIVATE | 9;

pub struct Process {
    pub domain: Domain,
    pub memory: Memory,
}

impl Process {
    pub fn new(system: &System, options: DomainOptions) -> Arc<Self> {
        Arc::new(Self { domain: Domain::with_options(system, options), memory: Memory::new() })
    }

    /// clone(2): starts a thread of the guest with a real-time priority, or 0 for none.
    pub fn spawn(self: &Arc<Self>, priority: u8, program: impl FnOnce(&Thread) + Send + 'static) -> Child {
        let (process, priority) = (self.clone(), Priority::realtime(priority));
        let has_ended = Arc::new(AtomicU32::new(0));
        let child = Child(has_ended.clone());
        scheduler::spawn(priority, move || {
            let task = process.domain.task(scheduler::me().0).expect("a thread's TID is its own");
            task.set_priority(priority);
            let thread = Thread { process, task };
            program(&thread);
            thread.process.domain.exit(&thread.task, &thread.process.memory).expect("the task does not wait");
            drop(thread);
            has_ended.store(1, Release);
            FUTEXES.wake_one(&*has_ended);
        });
        child
    }

    /// A wake by the kernel itself, also by its interrupt handlers.
    pub fn wake(&self, address: u64) -> usize {
        self.domain.wake(GuestWord::new(&self.memory, address, Width::U32).expect("an aligned address"), 1)
    }

    /// The word's value; 0 if its page has not been touched.
    pub fn peek(&self, address: u64) -> u32 {
        self.memory.load(address, Width::U32).unwrap_or(0) as u32
    }

    /// Has the kernel store 1 in the word, unless its page has not been touched. Returns whether it was 0.
    pub fn set_if_there(&self, address: u64) -> bool {
        matches!(self.memory.compare_exchange(address, Width::U32, 0, 1), Ok(Ok(_)))
    }

    /// How many threads wait for the word.
    pub fn waiters(&self, address: u64) -> usize {
        let words = self.domain.who_waits(16);
        words.iter().filter(|word| word.address == address).map(|word| word.threads + word.for_lock).sum()
    }
}

/// A thread of a guest that was started.
pub struct Child(Arc<AtomicU32>);

impl Child {
    /// Sleeps until the thread has ended.
    pub fn join(self) {
        while self.0.load(Acquire) == 0 {
            let futexes = FUTEXES.get().expect("there is memory");
            let _differs = futexes.wait(&*self.0, 0);
        }
    }
}

/// A thread of a guest, as its program sees it: it can use memory, and make system calls.
pub struct Thread {
    process: Arc<Process>,
    task: Task,
}

impl Thread {
    /// futex(2).
    pub fn futex(&self, address: u64, operation: u64, value: u32, fourth: u64, address2: u64, value3: u32) -> isize {
        let number = Number::x86_64(FUTEX).expect("the number of futex(2)");
        let registers = [address, operation, value.into(), fourth, address2, value3.into()];
        self.process.domain.syscall(&self.task, &self.process.memory, number, registers)
    }

    pub fn load(&self, address: u64) -> u32 {
        self.access(address, || self.process.memory.load(address, Width::U32)) as u32
    }

    pub fn store(&self, address: u64, value: u32) {
        self.swap(address, value);
    }

    pub fn swap(&self, address: u64, value: u32) -> u32 {
        let mut seen = self.load(address);
        while let Err(now) = self.compare_exchange(address, seen, value) {
            seen = now;
        }
        seen
    }

    pub fn compare_exchange(&self, address: u64, current: u32, new: u32) -> Result<u32, u32> {
        let exchange = || self.process.memory.compare_exchange(address, Width::U32, current.into(), new.into());
        self.access(address, exchange).map(|value| value as u32).map_err(|value| value as u32)
    }

    pub fn write(&self, address: u64, bytes: &[u8]) {
        self.process.memory.write(address, bytes).expect("the program's own memory");
    }

    /// What an instruction does that faults: it is repeated when the page is there.
    fn access<R>(&self, address: u64, instruction: impl Fn() -> Result<R, Fault>) -> R {
        loop {
            match instruction() {
                Ok(result) => return result,
                Err(Fault) => self.process.memory.fault_in(address, Access::Write).expect("a valid address"),
            }
        }
    }
}
