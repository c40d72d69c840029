//! The objects that handles refer to.

use std::sync::atomic::{AtomicPtr, Ordering::SeqCst, fence};

use engine::{Domain, System, Task};

use crate::bell::{Bell, Handle, OneByOne};
use crate::errno::Errno;
use crate::platform::{Memory, Parker, Time};
use crate::registry::Object;
use crate::types::{ufutex_domain, ufutex_system, ufutex_task};

pub(crate) struct SystemObject(pub System);

// SAFETY: no other type has this kind.
unsafe impl Object for SystemObject {
    type Opaque = ufutex_system;
    const KIND: u64 = 1;
}

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

// SAFETY: no other type has this kind.
unsafe impl Object for DomainObject {
    type Opaque = ufutex_domain;
    const KIND: u64 = 2;
}

pub(crate) struct TaskObject {
    pub task: Task,
    /// The bell that an interrupt rings, besides waking the engine's own sleepers. Null if there is none.
    bell: AtomicPtr<Bell>,
    /// The interrupt that may be ringing the bell.
    ringing: OneByOne,
}

// SAFETY: no other type has this kind.
unsafe impl Object for TaskObject {
    type Opaque = ufutex_task;
    const KIND: u64 = 3;
}

impl TaskObject {
    pub fn new(task: Task) -> Self {
        Self { task, bell: AtomicPtr::default(), ringing: OneByOne::default() }
    }

    /// Raises the task's interrupt. Takes no lock, allocates nothing, and uses no thread-local storage: signal handlers
    /// call this.
    pub fn interrupt(&self) {
        self.task.interrupt().raise();
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

    pub fn is_interrupted(&self) -> bool {
        self.task.interrupt().is_raised()
    }
}

/// A task's wait that an interrupt ends. An interrupt rings the wait's bell as long as this value lives.
pub(crate) struct Interruptible<T: core::ops::Deref<Target = TaskObject>>(T);

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
        Ok(Self(task))
    }

    pub fn is_interrupted(&self) -> bool {
        self.0.is_interrupted()
    }
}

impl<T: core::ops::Deref<Target = TaskObject>> Drop for Interruptible<T> {
    fn drop(&mut self) {
        self.0.bell.store(core::ptr::null_mut(), SeqCst); // [Cb]
        self.0.ringing.wait_for_others();
    }
}
