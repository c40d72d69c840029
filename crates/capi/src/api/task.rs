use core::ffi::c_int;

use engine::{Pointers, Priority};

use super::export;
use crate::abi;
use crate::errno::{Answer, Errno};
use crate::objects::{DomainObject, TaskObject};
use crate::platform::Memory;
use crate::registry::{Counted, Held, boxed, insert, remove};
use crate::types::{UFUTEX_KERNEL_TASK, ufutex_domain, ufutex_memory, ufutex_task};

/// Makes a task of a domain, with a TID from 1 to 2^30 - 1 that no other task of the domain's PID namespace has. flags: 0, or
/// UFUTEX_KERNEL_TASK.
///
/// Stores the handle in *task and answers 0. -EINVAL: another TID, unknown flags, task is NULL or misaligned; -EBUSY: the TID
/// is taken; -ENOMEM; -EBADF: no handle of a domain.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_new(
    domain: *mut ufutex_domain,
    tid: u32,
    flags: u32,
    task: *mut *mut ufutex_task,
) -> c_int {
    let make = || {
        abi::check_out(task)?;
        let held = Held::<DomainObject>::new(domain)?;
        let made = match flags {
            0 => held.domain.task(tid)?,
            UFUTEX_KERNEL_TASK => held.domain.kernel_task(tid)?,
            _ => return Err(Errno::INVALID),
        };
        let handle = insert(boxed(TaskObject::new(made))?)?;
        // SAFETY: checked above, and valid for a write.
        unsafe { abi::store(task, handle) }
    };
    make().map(|()| 0).int()
}

/// Frees a task. It has ended: locks that it owned and others wait for go to them, with FUTEX_OWNER_DIED in the word. Its
/// robust lists are not walked: ufutex_task_exit() does that.
///
/// Answers 0. -EBUSY: it waits, or another thread is using it; -EINVAL: NULL; -EBADF: no handle of a task, or freed before.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_free(task: *mut ufutex_task) -> c_int {
    remove::<TaskObject>(task).map(|_| 0).int()
}

/// The end of a task, as of a thread in the kernel: its robust lists are walked, each lock on them that names the task is
/// marked with FUTEX_OWNER_DIED and one of its waiters is woken; then as for ufutex_task_free(), but the handle is still to
/// be freed. memory: NULL for the domain's.
///
/// Answers 0. -EBUSY: it waits; -EINVAL: a task of another domain, or one that has ended, NULL, or a function that is
/// missing from memory; -E2BIG: memory sets what this library does not know; -EBADF: no handle of a domain or of a task.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_exit(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    memory: *const ufutex_memory,
) -> c_int {
    let exit = || {
        let domain = super::to_block_in(domain)?;
        let task = super::to_block_as(task, &domain)?;
        if memory.is_null() {
            return Ok(domain.domain.exit(&task.task, &domain.memory)?);
        }
        // SAFETY: the program gives a struct that is as large as it says, of functions as the types say.
        let memory = unsafe { Memory::read(memory)? };
        Ok(domain.domain.exit(&task.task, &memory)?)
    };
    exit().map(|()| 0).int()
}

/// Sets where a robust list begins: set_robust_list(2). pointer_bytes: 8 for a list of 64-bit code, 4 for one of 32-bit
/// code. head: its address in the domain's memory, 0 for none. length: the size of a head in bytes, 3 * pointer_bytes.
///
/// Answers 0. -EINVAL: another length or pointer_bytes, NULL; -EBADF: no handle of a task.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_set_robust_list(
    task: *mut ufutex_task,
    pointer_bytes: u32,
    head: u64,
    length: u64,
) -> c_int {
    let set = || {
        let pointers = match pointer_bytes {
            4 => Pointers::Narrow,
            8 => Pointers::Wide,
            _ => return Err(Errno::INVALID),
        };
        Ok(Held::<TaskObject>::new(task)?.task.set_robust_list(pointers, head, length)?)
    };
    set().map(|()| 0).int()
}

/// Sets a task's own priority: a real-time priority from 1 to 99, or 0 for none. It decides the order in which the task
/// gets locks and is woken from its system calls, and is lent to the owners of locks that it waits for.
///
/// Answers 0. -EINVAL: above 99, NULL; -EBADF: no handle of a task.
///
/// Any thread; not async-signal-safe. Calls the system's set_priority or set_priority_in.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_set_priority(task: *mut ufutex_task, priority: u32) -> c_int {
    let set = || {
        if priority > 99 {
            return Err(Errno::INVALID);
        }
        Held::<TaskObject>::new(task)?.task.set_priority(Priority::realtime(priority as u8));
        Ok(0)
    };
    set().int()
}

/// The real-time priority that a task runs with, from 1 to 99, or 0 for none: the best of its own and of those that wait for
/// its locks.
///
/// -EINVAL: NULL; -EBADF: no handle of a task.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_priority(task: *mut ufutex_task) -> c_int {
    Held::<TaskObject>::new(task).map(|held| c_int::from(held.task.priority().as_realtime())).int()
}

/// Interrupts a task, as a signal does: its wait, or its next one, ends with -EINTR, and every one after it until
/// ufutex_task_clear_interrupt(). A waiter of ufutex_prepare_wait() and its like has its callback called.
///
/// Answers 0. -EINVAL: NULL; -EBADF: no handle of a task; -EBUSY: in a signal handler that has interrupted
/// ufutex_task_free() of this task.
///
/// Any thread; async-signal-safe if what it calls is: the callback of the task's waiter or the parker's unpark, if any.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_interrupt(task: *mut ufutex_task) -> c_int {
    // Counted: a signal handler had better not touch thread-local storage.
    Counted::<TaskObject>::new(task).map(|task| task.interrupt()).map(|()| 0).int()
}

/// Takes an interrupt back: the task's waits sleep again.
///
/// Answers 0. -EINVAL: NULL; -EBADF: no handle of a task.
///
/// Any thread; async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_clear_interrupt(task: *mut ufutex_task) -> c_int {
    Counted::<TaskObject>::new(task).map(|task| task.task.interrupt().clear()).map(|()| 0).int()
}

/// A signal handler of the guest runs: a system call that was interrupted before it is not continued after it.
///
/// Answers 0. -EINVAL: NULL; -EBADF: no handle of a task.
///
/// Any thread; not async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_forget_restart(task: *mut ufutex_task) -> c_int {
    Held::<TaskObject>::new(task).map(|held| held.task.forget_restart()).map(|()| 0).int()
}

export!(
    ufutex_task_new,
    ufutex_task_free,
    ufutex_task_exit,
    ufutex_task_set_robust_list,
    ufutex_task_set_priority,
    ufutex_task_priority,
    ufutex_task_interrupt,
    ufutex_task_clear_interrupt,
    ufutex_task_forget_restart,
);
