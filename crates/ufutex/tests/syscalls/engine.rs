//! The engine as a machine: each thread of a test is a task of a domain.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ufutex::platform::Platform;
use ufutex::{Domain, DomainOptions, Policy, Task, pi::Priority, syscall::Resume};

use crate::call::{Call, Number};
use crate::common::arena::Arena;
use crate::common::asleep::{futex_call, thread_id, until};
use crate::common::domains::{system, system_on};
use crate::machine::{Interruption, Machine, Seat, Sharing, System};

/// A system with one domain of this scheme, with the defaults.
pub fn machine(sharing: Sharing) -> Machine {
    machine_with(sharing, DomainOptions::new())
}

/// A wait compares the word with the bucket locked, and not before.
pub fn by_bucket(sharing: Sharing) -> Machine {
    machine_with(sharing, DomainOptions::new().early_return(false))
}

/// Private words in the system's table.
pub fn global() -> Machine {
    machine_with(Sharing::Private, DomainOptions::new().policy(Policy::Fixed(0)))
}

/// Waiters spin before they sleep.
pub fn spinning() -> Machine {
    machine_with(Sharing::Private, DomainOptions::new().spin(Duration::from_millis(1)))
}

/// Private words, on a platform.
pub fn machine_on<P: Platform>() -> Machine {
    engine(Sharing::Private, Domain::with_options(&system_on::<P>(), DomainOptions::new()))
}

fn machine_with(sharing: Sharing, options: DomainOptions) -> Machine {
    engine(sharing, Domain::with_options(&system(), options))
}

fn engine(sharing: Sharing, domain: Domain) -> Machine {
    let kernel_task = domain.kernel_task(KERNEL_TASK).expect("it is the first task");
    Machine::new(Arc::new(Engine { domain: Arc::new(domain), kernel_task }), sharing)
}

struct Engine {
    domain: Arc<Domain>,
    kernel_task: Task,
}

/// The TID of the kernel task. On Linux it belongs to kthreadd.
const KERNEL_TASK: u32 = 2;

impl System for Engine {
    fn enter(&self, memory: &'static Arena) -> Arc<dyn Seat> {
        let tid = thread_id();
        let task = self.domain.task(tid as u32).expect("no other task has the number of this thread");
        Arc::new(Guest {
            domain: self.domain.clone(),
            memory,
            tid,
            task: Mutex::new(Some(Arc::new(task))),
            state: Mutex::new(State { current: None, interruption: None }),
            noticed: AtomicUsize::new(0),
        })
    }

    fn kernel_thread(&self) -> Result<u32, String> {
        Ok(self.kernel_task.tid())
    }
}

/// A thread as a user-mode kernel would run it. It makes the guest's calls, and runs the guest's signal handlers
/// between calls.
struct Guest {
    domain: Arc<Domain>,
    memory: &'static Arena,
    tid: i32,
    /// `None` after the thread has left.
    task: Mutex<Option<Arc<Task>>>,
    state: Mutex<State>,
    /// Number of interruptions that the thread has noticed.
    noticed: AtomicUsize,
}

struct State {
    /// The call that the thread is making.
    current: Option<Call>,
    /// The interruption to handle when that call returns.
    interruption: Option<Interruption>,
}

fn number(call: Call) -> ufutex::syscall::Number {
    match call.number {
        Number::Futex => ufutex::syscall::Number::Futex,
        Number::FutexWaitv => ufutex::syscall::Number::FutexWaitv,
        Number::FutexWake => ufutex::syscall::Number::FutexWake,
        Number::FutexWait => ufutex::syscall::Number::FutexWait,
        Number::FutexRequeue => ufutex::syscall::Number::FutexRequeue,
        Number::SetRobustList => ufutex::syscall::Number::SetRobustList,
        Number::GetRobustList => ufutex::syscall::Number::GetRobustList,
        Number::SetTidAddress => ufutex::syscall::Number::SetTidAddress,
        Number::Restart => ufutex::syscall::Number::RestartSyscall,
    }
}

impl Guest {
    fn task(&self) -> Option<Arc<Task>> {
        self.task.lock().expect("not poisoned").clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// The return from a call to user space, where pending signals are handled.
    fn leave_call(&self, task: &Task) -> Option<Interruption> {
        let mut state = self.state();
        state.current = None;
        let interruption = state.interruption.take()?;
        task.interrupt().clear();
        self.noticed.fetch_add(1, AcqRel);
        Some(interruption)
    }

    fn is_asleep(&self, is_right: impl Fn(Call) -> bool) -> bool {
        self.state().current.is_some_and(is_right) && futex_call(self.tid).is_some_and(|call| call.is_of_the_engine())
    }
}

impl Seat for Guest {
    fn call(&self, mut call: Call) -> isize {
        let task = self.task().expect("it has not left");
        loop {
            self.state().current = Some(call);
            let result = self.domain.syscall(&task, self.memory, number(call), call.args);
            let noticed = self.leave_call(&task);
            let handler = match noticed {
                Some(Interruption::Handler) => Some(false),
                Some(Interruption::RestartingHandler) => Some(true),
                Some(Interruption::NoHandler) | None => None,
            };
            if handler.is_some() {
                task.forget_restart();
            }
            match ufutex::syscall::resume(result, handler) {
                Resume::Return(result) => return result,
                Resume::Again => assert!(noticed.is_some(), "nothing else ends a wait early"),
                Resume::Continue => call = Call::new(Number::Restart, [0; 6]),
            }
        }
    }

    fn leave(&self) {
        let mut task = self.task.lock().expect("not poisoned").take().expect("it leaves once");
        // Another thread may hold a reference for a short time.
        let task = loop {
            match Arc::try_unwrap(task) {
                Ok(task) => break task,
                Err(shared) => task = shared,
            }
            std::thread::yield_now();
        };
        self.domain.exit(&task, self.memory).expect("its own task, which waits for nothing");
    }

    fn is_gone(&self) -> bool {
        self.task.lock().expect("not poisoned").is_none()
    }

    fn is_asleep_in(&self, call: Call) -> bool {
        self.is_asleep(|current| current == call)
    }

    fn is_asleep_again(&self) -> bool {
        self.is_asleep(|current| current.number == Number::Restart)
    }

    fn interrupt(&self, how: Interruption) {
        let task = self.task().expect("it has not left");
        let before = self.noticed.load(Acquire);
        let mut state = self.state();
        if state.current.is_none() {
            return; // there is no call to interrupt
        }
        state.interruption = Some(how);
        task.interrupt().raise();
        drop(state);
        until("the interruption is noticed", || self.noticed.load(Acquire) != before);
    }

    fn set_priority(&self, priority: u8) {
        self.task().expect("it has not left").set_priority(Priority::realtime(priority));
    }

    fn priority(&self) -> u8 {
        self.task().expect("it has not left").priority().as_realtime()
    }
}
