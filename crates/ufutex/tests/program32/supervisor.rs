//! Answers the guest's calls by the engine. Each of the guest's threads has a thread here, which may block.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use libc::seccomp_notif;
use ufutex::syscall::{Number, Resume, resume};
use ufutex::{Domain, System, Task};

use crate::filter::EXIT;
use crate::listener::{Answer, Listener};
use crate::memory::Memory;

/// What a register holds above its lower half. The calls of a 32-bit program must ignore it.
const RUBBISH: u64 = 0xdead_beef << 32;
/// `restart_syscall` of i386.
pub const RESTART: u32 = 0;

/// What the supervisor's threads share.
struct Shared {
    listener: Listener,
    domain: Domain,
    memory: Memory,
    /// The numbers of the answered calls, by the numbers of the system calls.
    answered: Mutex<BTreeMap<u32, u64>>,
    /// The guest has ended: nobody waits for an answer.
    is_over: AtomicBool,
}

/// A thread of the guest, and the one that answers its calls.
struct Thread {
    task: Arc<Task>,
    calls: Sender<seccomp_notif>,
    handle: JoinHandle<()>,
}

/// Answers the calls of one guest.
pub struct Supervisor {
    shared: Arc<Shared>,
    /// By their TIDs.
    threads: HashMap<u32, Thread>,
    /// Those whose guest's thread has called `exit`.
    leaving: Vec<JoinHandle<()>>,
}

impl Supervisor {
    pub fn new(listener: Listener, memory: Memory) -> Self {
        let (domain, answered) = (Domain::new(&System::new()), Mutex::default());
        let shared = Arc::new(Shared { listener, domain, memory, answered, is_over: AtomicBool::new(false) });
        Self { shared, threads: HashMap::new(), leaving: Vec::new() }
    }

    /// Hands on a call. Returns `false` if none comes in this time.
    pub fn turn(&mut self, time: Duration) -> bool {
        if !self.shared.listener.wait(time) {
            return false;
        }
        let Some(call) = self.shared.listener.receive() else { return false };
        let thread = self.threads.entry(call.pid).or_insert_with(|| Thread::start(&self.shared, call.pid));
        thread.calls.send(call).expect("it runs until its guest's thread ends");
        if call.data.nr as u32 == EXIT {
            // The TID may be another thread's from the answer on.
            let thread = self.threads.remove(&call.pid).expect("it is there");
            self.leaving.push(thread.handle);
        }
        true
    }

    /// Interrupts all waits.
    pub fn interrupt(&self) {
        for thread in self.threads.values() {
            thread.task.interrupt().raise();
        }
    }

    /// Ends all threads, when the guest has ended. Returns how many calls have been answered by each number.
    pub fn finish(self) -> BTreeMap<u32, u64> {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for Thread { task, calls, handle } in self.threads.into_values() {
            drop(calls);
            // The thread may clear an interrupt before it sees that all is over.
            while !handle.is_finished() {
                task.interrupt().raise();
                std::thread::sleep(Duration::from_micros(100));
            }
            handle.join().expect("it does not panic");
        }
        for handle in self.leaving {
            handle.join().expect("it does not panic");
        }
        let mut answered = self.shared.answered.lock().expect("not poisoned");
        std::mem::take(&mut *answered)
    }
}

impl Thread {
    fn start(shared: &Arc<Shared>, tid: u32) -> Self {
        let task = Arc::new(shared.domain.task(tid).expect("the TID is free"));
        let (calls, received) = channel();
        let (of_thread, shared) = (task.clone(), shared.clone());
        let handle = std::thread::spawn(move || shared.answer_all(&of_thread, &received));
        Self { task, calls, handle }
    }
}

impl Shared {
    fn answer_all(&self, task: &Task, calls: &Receiver<seccomp_notif>) {
        for call in calls {
            if !self.listener.is_valid(call.id) {
                continue;
            }
            let number = call.data.nr as u32;
            let answer = if number == EXIT {
                self.domain.exit(task, &self.memory).expect("it waits for nothing");
                Answer::Continue
            } else {
                Answer::Result(self.result(task, number, call.data.args.map(|argument| argument | RUBBISH)))
            };
            self.count(number);
            self.listener.answer(call.id, answer);
            if number == EXIT {
                return;
            }
        }
    }

    fn count(&self, number: u32) {
        *self.answered.lock().expect("not poisoned").entry(number).or_default() += 1;
    }

    /// Makes a call, and again when it has been interrupted. The guest has no signal handlers.
    fn result(&self, task: &Task, number: u32, args: [u64; 6]) -> isize {
        let original = Number::i386(number.into()).expect("a call of the engine's");
        let mut current = original;
        loop {
            let result = self.domain.syscall(task, &self.memory, current, args);
            current = match resume(result, None) {
                Resume::Again => original,
                Resume::Continue => {
                    self.count(RESTART);
                    Number::i386(RESTART.into()).expect("a call of the engine's")
                }
                Resume::Return(result) => return result,
            };
            task.interrupt().clear();
            if self.is_over.load(Ordering::SeqCst) {
                return result;
            }
        }
    }
}
