//! The objects that handles refer to: systems, domains, tasks, timers and waiters.

use std::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{Acquire, Release, SeqCst},
    fence,
};

use engine::{Domain, System, Task};

use crate::api::WaiterObject;
use crate::bell::{Bell, Handle, OneByOne};
use crate::errno::Errno;
use crate::platform::{Memory, Parker, Time};
use crate::registry::Object;
use crate::timers::TimersObject;
use crate::types::{ufutex_domain, ufutex_system, ufutex_task, ufutex_timers, ufutex_waiter};

macro_rules! kinds {
    ($($kind:literal: $object:ty as $opaque:ty,)+) => {$(
        // SAFETY: no other type has this kind.
        unsafe impl Object for $object {
            type Opaque = $opaque;
            const KIND: u64 = $kind;
        }
    )+};
}
kinds! {
    1: SystemObject as ufutex_system,
    2: DomainObject as ufutex_domain,
    3: TaskObject as ufutex_task,
    4: WaiterObject as ufutex_waiter,
    5: TimersObject as ufutex_timers,
}

pub(crate) struct SystemObject(pub System);

pub(crate) struct DomainObject {
    pub domain: Domain,
    pub system: System,
    pub memory: Memory,
    pub time: Time,
    pub parker: Option<Parker>,
    /// Whether the engine itself blocks threads, with the host's clocks.
    pub blocks_natively: bool,
    /// Whether, in addition, the words are in the program's own memory.
    pub is_plain: bool,
    /// Whether a wait checks the word before it locks the bucket, and is not counted.
    pub looks_first: bool,
}

pub(crate) struct TaskObject {
    pub task: Task,
    /// How often the task has been interrupted. By this number a wait notices an interrupt that has been cleared since.
    interrupts: AtomicUsize,
    /// The bell that an interrupt rings, besides waking the engine's own sleepers. Null if there is none.
    bell: AtomicPtr<Bell>,
    /// The interrupt that may be ringing the bell.
    ringing: OneByOne,
}

impl TaskObject {
    pub fn new(task: Task) -> Self {
        Self { task, interrupts: AtomicUsize::new(0), bell: AtomicPtr::default(), ringing: OneByOne::default() }
    }

    /// Raises the task's interrupt. Takes no lock, allocates nothing, and uses no thread-local storage: signal handlers
    /// call this.
    pub fn interrupt(&self) {
        self.task.interrupt().raise();
        self.interrupts.fetch_add(1, Release); // [Ce]: after it has been raised
        // [Ce] pairs with the fence in `Interruptible::new`: either the wait sees the interrupt, or this function sees
        // the wait's bell.
        fence(SeqCst);
        // [Cb]: either this load finds no bell, or the end of the wait sees this call. [Ce]: the bell as it was made.
        // SAFETY: before the bell is freed, `Interruptible` removes it from the task and waits for this call.
        let bell = || unsafe { self.bell.load(SeqCst).as_ref() };
        self.ringing.call(|| {
            if let Some(bell) = bell() {
                bell.ring_in_handler();
            }
        });
    }
}

/// A task's wait that an interrupt ends. An interrupt rings the wait's bell as long as this value lives.
pub(crate) struct Interruptible<T: core::ops::Deref<Target = TaskObject>> {
    task: T,
    /// The task's number of interrupts when the wait began.
    interrupts: usize,
}

impl<T: core::ops::Deref<Target = TaskObject>> Interruptible<T> {
    /// `bell` must outlive the result.
    ///
    /// # Errors
    /// [`Errno::BUSY`] if the task has another such wait.
    pub fn new(task: T, bell: &Handle) -> Result<Self, Errno> {
        let bell = core::ptr::from_ref::<Bell>(bell).cast_mut();
        // [Ce]: publishes the bell.
        if task.bell.compare_exchange(core::ptr::null_mut(), bell, SeqCst, SeqCst).is_err() {
            return Err(Errno::BUSY);
        }
        fence(SeqCst); // [Ce]: between the store of the bell and the caller's check for an interrupt
        let interrupts = task.interrupts.load(Acquire); // [Ce]
        Ok(Self { task, interrupts })
    }

    /// Whether the task is interrupted, or has been since the wait began.
    pub fn is_interrupted(&self) -> bool {
        self.task.interrupts.load(Acquire) != self.interrupts || self.task.task.interrupt().is_raised() // [Ce]
    }
}

impl<T: core::ops::Deref<Target = TaskObject>> Drop for Interruptible<T> {
    fn drop(&mut self) {
        self.task.bell.store(core::ptr::null_mut(), SeqCst); // [Cb]
        self.task.ringing.wait_for_others();
    }
}
