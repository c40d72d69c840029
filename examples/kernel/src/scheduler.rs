//! Threads of the kernel. On each CPU runs one of the best priority; those of one priority take turns, a tick each.

use alloc::boxed::Box;
use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::fmt::Write;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;
use core::time::Duration;

use ufutex::pi::Priority;
use x86_64::instructions::interrupts as cpu_interrupts;

use crate::console::Serial;
use crate::cpu::{self, CPUS};
use crate::lock::{Guard, Lock};
use crate::{clock, interrupts};

/// How many threads there can be. The first `CPUS` of them are the CPUs' idle threads.
const THREADS: usize = 20;

/// `boot.s` knows this size too.
const STACK_BYTES: usize = 1 << 16;

#[repr(align(65536))]
struct Stacks(UnsafeCell<[[u8; STACK_BYTES]; THREADS]>);

// SAFETY: each thread uses its own stack.
unsafe impl Sync for Stacks {}

#[unsafe(no_mangle)]
static STACKS: Stacks = Stacks(UnsafeCell::new([[0; STACK_BYTES]; THREADS]));

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Ready,
    Running { cpu: usize },
    Parked { word: usize, until: Option<Duration> },
}

struct Thread {
    /// No other thread ever has this number.
    tid: u32,
    state: State,
    /// `None`, which is less than all others, for idle threads.
    priority: Option<Priority>,
    /// Orders ready threads of one priority: the least has waited longest.
    turn: u64,
    /// Where `switch_stacks` has saved the registers, while the thread does not run.
    stack_pointer: usize,
    /// What the thread is to do. `None` once it has begun.
    body: Option<Body>,
}

impl Thread {
    const FREE: Self = Self { tid: 0, state: State::Free, priority: None, turn: 0, stack_pointer: 0, body: None };
}

type Body = Box<dyn FnOnce() + Send>;

struct Threads {
    all: [Thread; THREADS],
    /// The turn that was given last.
    turn: u64,
    /// The TID that was given last.
    tid: u32,
}

/// All threads, behind one lock. It also makes one step of the look at a word and the sleep on it.
static ALL: Lock<Threads> = Lock::new(Threads { all: [Thread::FREE; THREADS], turn: 0, tid: 100 });

impl Threads {
    /// Makes a thread ready, behind the others of its priority. CPUs that run a lesser thread choose again.
    fn make_ready(&mut self, thread: usize) {
        self.turn += 1;
        self.all[thread].turn = self.turn;
        self.all[thread].state = State::Ready;
        let priority = self.all[thread].priority;
        for other in &self.all {
            if let State::Running { cpu } = other.state
                && other.priority < priority
            {
                interrupts::send(cpu, interrupts::KICK);
            }
        }
    }

    /// The thread that the CPU runs next.
    fn best(&self, cpu: usize) -> usize {
        let is_ready = |&thread: &usize| self.all[thread].state == State::Ready;
        let order = |&thread: &usize| (self.all[thread].priority, u64::MAX - self.all[thread].turn);
        (CPUS..THREADS).filter(is_ready).max_by_key(order).unwrap_or(cpu)
    }

    /// Wakes up to `count` of the parked threads whose word and deadline `is_meant` accepts. Returns their number.
    fn wake_if(&mut self, count: usize, is_meant: impl Fn(usize, Option<Duration>) -> bool) -> usize {
        let mut woken = 0;
        for thread in CPUS..THREADS {
            if let State::Parked { word, until } = self.all[thread].state
                && woken < count
                && is_meant(word, until)
            {
                self.make_ready(thread);
                woken += 1;
            }
        }
        woken
    }

    fn find(&mut self, tid: u32) -> Option<usize> {
        self.all.iter().position(|thread| thread.tid == tid && thread.state != State::Free)
    }
}

/// Makes the caller, which has started this CPU, its idle thread.
pub fn start_cpu(cpu: usize) {
    ALL.lock().all[cpu].state = State::Running { cpu };
}

/// Runs the best thread on this CPU. That may be the caller, which has changed its own state before.
fn switch(mut threads: Guard<'_, Threads>) {
    let (from, cpu) = (cpu::current(), cpu::index());
    let to = threads.best(cpu);
    threads.all[to].state = State::Running { cpu };
    if to != from {
        let stack_pointer = threads.all[to].stack_pointer;
        let save = &raw mut threads.all[from].stack_pointer;
        // SAFETY: `to` was saved by this function or by `spawn`, and runs nowhere. The lock is held until it runs.
        cpu::run_other(to, || unsafe { switch_stacks(save, stack_pointer) });
    }
    // Unlocks for the thread that has switched to this one, perhaps on another CPU than before.
    drop(threads);
}

/// Saves the registers that a function must preserve on the stack, and loads those of the thread with the other stack.
#[unsafe(naked)]
unsafe extern "sysv64" fn switch_stacks(save: *mut usize, stack_pointer: usize) {
    naked_asm!(
        "push rbx; push rbp; push r12; push r13; push r14; push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
        "ret"
    )
}

/// Where a new thread begins, when `switch` puts it on a CPU for the first time.
extern "sysv64" fn begin() -> ! {
    // SAFETY: the thread that has switched to this one holds the lock for it.
    unsafe { ALL.unlock() };
    cpu_interrupts::enable();
    let body = ALL.lock().all[cpu::current()].body.take();
    body.expect("a new thread has something to do")();
    let mut threads = ALL.lock();
    threads.all[cpu::current()].state = State::Free;
    switch(threads);
    unreachable!("a thread has ended, and runs");
}

/// Starts a thread.
pub fn spawn(priority: Priority, body: impl FnOnce() + Send + 'static) {
    let body: Body = Box::new(body);
    let mut threads = ALL.lock();
    let is_free = |&thread: &usize| threads.all[thread].state == State::Free;
    let free = (CPUS..THREADS).find(is_free).expect("too many threads");
    // SAFETY: the stack is no thread's now.
    let top = unsafe { STACKS.0.get().cast::<[u8; STACK_BYTES]>().add(free + 1) }.cast::<usize>();
    // SAFETY: this is in the stack. `switch_stacks` loads six registers, of any value, from below, and returns to
    // `begin`, whose stack is then aligned as after a call.
    unsafe { top.sub(2).write(begin as *const () as usize) };
    threads.tid += 1;
    let tid = threads.tid;
    let stack_pointer = top.wrapping_sub(8).addr();
    let thread = Thread { tid, state: State::Free, priority: Some(priority), turn: 0, stack_pointer, body: Some(body) };
    threads.all[free] = thread;
    threads.make_ready(free);
}

/// Puts the caller behind the ready threads of its priority, and runs the best thread.
pub fn reschedule() {
    let mut threads = ALL.lock();
    let caller = cpu::current();
    threads.make_ready(caller);
    switch(threads);
}

/// What each CPU does in its ticks.
pub fn on_tick() {
    let mut threads = ALL.lock();
    let now = clock::uptime();
    threads.wake_if(THREADS, |_, until| until.is_some_and(|until| until <= now));
    drop(threads);
    reschedule();
}

/// Puts the caller to sleep if `word` holds `expected`: until [`unpark`], or `until` in the time since boot.
pub fn park(word: &AtomicU32, expected: u32, until: Option<Duration>) {
    let mut threads = ALL.lock();
    if word.load(Acquire) == expected {
        threads.all[cpu::current()].state = State::Parked { word: word.as_ptr().addr(), until };
        switch(threads);
    }
}

/// Puts the caller to sleep until the next tick of any CPU.
pub fn sleep_a_tick() {
    let word = AtomicU32::new(0);
    park(&word, 0, Some(clock::uptime()));
}

/// Wakes up to `count` threads that sleep on the word at this address. Returns their number.
pub fn unpark(address: usize, count: usize) -> usize {
    ALL.lock().wake_if(count, |word, _| word == address)
}

/// Sets the priority of the thread with this TID, if it has not ended.
pub fn set_priority(tid: u32, priority: Priority) {
    let mut threads = ALL.lock();
    let Some(thread) = threads.find(tid) else { return };
    threads.all[thread].priority = Some(priority);
    match threads.all[thread].state {
        State::Ready => threads.make_ready(thread),
        State::Running { cpu } => interrupts::send(cpu, interrupts::KICK),
        _ => {}
    }
}

/// The TID of the caller, and the priority that it runs with.
pub fn me() -> (u32, Priority) {
    let threads = ALL.lock();
    let me = &threads.all[cpu::current()];
    (me.tid, me.priority.expect("an idle thread does nothing"))
}

/// Prints the state of each thread, unless the lock stays held: the thread that panics may hold it.
pub fn print_threads() {
    let Some(threads) = ALL.try_lock_for(1_000_000) else { return };
    for thread in threads.all.iter().filter(|thread| thread.state != State::Free) {
        let _ = writeln!(Serial, "thread {}, {:?}: {:x?}", thread.tid, thread.priority, thread.state);
    }
}
