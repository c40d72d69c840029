//! Functions on tasks: a guest's threads, their robust lists, priorities, interrupts and ends.

use core::ffi::c_int;
use core::num::NonZeroU32;
use core::time::Duration;

use engine::{
    Clock, Timeout,
    pi::Priority,
    syscall::{Pointers, RestartBlock},
};

use super::syscall::own_memory;
use crate::abi;
use crate::errno::{Errno, done, int};
use crate::objects::{DomainObject, TaskObject};
use crate::registry::{Counted, Held, boxed, insert, remove};
use crate::types::{
    UFUTEX_AFTER, UFUTEX_FOREVER, UFUTEX_KERNEL_TASK, UFUTEX_UNTIL_MONOTONIC, UFUTEX_UNTIL_REALTIME, ufutex_domain,
    ufutex_memory, ufutex_restart, ufutex_task,
};

/// Makes a task of a domain, with a TID from 1 to 2^30 - 1 that no other task of the domain's PID namespace has. flags:
/// 0, or UFUTEX_KERNEL_TASK.
///
/// Stores the handle in *task and returns 0. -EINVAL: another TID, unknown flags; -EBUSY: the TID is taken; -ENOMEM.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_new(
    domain: *mut ufutex_domain,
    tid: u32,
    flags: u32,
    task: *mut *mut ufutex_task,
) -> c_int {
    done(|| {
        abi::check_out(task)?;
        let held = Held::<DomainObject>::new(domain)?;
        let made = match flags {
            0 => held.domain.task(tid)?,
            UFUTEX_KERNEL_TASK => held.domain.kernel_task(tid)?,
            _ => return Err(Errno::INVALID),
        };
        let handle = insert(boxed(TaskObject::new(made))?)?;
        // SAFETY: checked above; the program guarantees that it is valid for a write.
        unsafe { abi::store(task, handle) }
    })
}

/// Frees a task, which has ended. Each lock that it owned and that has waiters goes to the first waiter, with
/// FUTEX_OWNER_DIED in the word. The task's robust lists are not walked: ufutex_task_exit() does that.
///
/// Returns 0. -EBUSY: it waits, or another thread is using it.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_free(task: *mut ufutex_task) -> c_int {
    done(|| remove::<TaskObject>(task).map(drop))
}

/// Ends a task, as the kernel ends a thread. Its robust lists are walked: each lock on them that names the task is
/// marked with FUTEX_OWNER_DIED, and one of its waiters is woken. Then the task's locks go to their waiters as in
/// ufutex_task_free(), but the handle must still be freed.
///
/// memory: the memory that contains the robust lists, or NULL for the domain's memory. The functions of that memory are
/// called on this thread, also fault_in, which may block.
///
/// Then it stores 0 in the word of set_tid_address(2), if the task has made that call, and wakes one waiter of it:
/// pthread_join(). For a clone(2) with CLONE_CHILD_CLEARTID make the call for the new task. These wakes are, as in Linux, without
/// FUTEX_PRIVATE_FLAG, and so are those of robust lists. A task that has ended takes no lock any more: that is -EINVAL.
///
/// Returns 0. -EBUSY: it waits; -EINVAL: a task of another domain, or one that has ended, NULL, or a function that is
/// missing from memory.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_exit(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    memory: *const ufutex_memory,
) -> c_int {
    done(|| {
        let domain = super::to_block_in(domain)?;
        let task = super::to_block_as(task, &domain)?;
        // SAFETY: the program passes null, or a struct that is as large as it says. Its functions do what `ufutex.h` requires.
        let own = unsafe { own_memory(memory)? };
        Ok(domain.domain.exit(&task.task, own.as_ref().unwrap_or(&domain.memory))?)
    })
}

/// Sets the head of a robust list: set_robust_list(2). pointer_bytes: 8 for a list of 64-bit code, 4 for a list of
/// 32-bit code. head: its address in the domain's memory, 0 for none. length: the size of a head in bytes, 3 *
/// pointer_bytes.
///
/// Returns 0. -EINVAL: another length or pointer_bytes.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_set_robust_list(
    task: *mut ufutex_task,
    pointer_bytes: u32,
    head: u64,
    length: u64,
) -> c_int {
    done(|| {
        let pointers = match pointer_bytes {
            4 => Pointers::Narrow,
            8 => Pointers::Wide,
            _ => return Err(Errno::INVALID),
        };
        Ok(Held::<TaskObject>::new(task)?.task.set_robust_list(pointers, head, length)?)
    })
}

/// Sets a task's own priority: a real-time priority from 1 to 99, or 0 for none. It decides the order in which the task
/// gets locks and is woken from its system calls, and the owners of locks that it waits for are boosted to it.
///
/// Returns 0. -EINVAL: above 99.
///
/// Calls the system's set_priority or set_priority_in.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_set_priority(task: *mut ufutex_task, priority: u32) -> c_int {
    int(|| {
        if priority > 99 {
            return Err(Errno::INVALID);
        }
        Held::<TaskObject>::new(task)?.task.set_priority(Priority::realtime(priority as u8));
        Ok(0)
    })
}

/// The real-time priority that a task runs with, from 1 to 99, or 0 for none: the best of its own and those of the
/// waiters for its locks.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_priority(task: *mut ufutex_task) -> c_int {
    int(|| Ok(c_int::from(Held::<TaskObject>::new(task)?.task.priority().as_realtime())))
}

/// Interrupts a task, as a signal does: its wait ends with -EINTR, or its next one if it does not wait, and each later
/// one until ufutex_task_clear_interrupt(). A wait that is under way ends even if the interrupt is cleared at once. A
/// wait that ends with -EINTR sees all that this thread did before the call. For a waiter of ufutex_prepare_wait() and
/// its like the callback is called, unless it has been called and ufutex_waiter_finish() has not been since. If another
/// call of this function for the task is in progress, this call returns at once, and the other call checks once more
/// whether the callback has to be called.
///
/// Returns 0. -EBUSY: called in a signal handler that has interrupted ufutex_task_free() of this task.
///
/// Async-signal-safe, with one condition. If the task waits by ufutex_prepare_wait() or its like, or in a domain with a
/// parker, this function calls the waiter's callback or the parker's unpark, which must then be async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_interrupt(task: *mut ufutex_task) -> c_int {
    // Counted and not held, because a signal handler should not access thread-local storage.
    done(|| Counted::<TaskObject>::new(task).map(|held| held.interrupt()))
}

/// Clears a task's interrupt: waits that begin from now on sleep. It is not taken back from a wait that is under way.
///
/// Async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_clear_interrupt(task: *mut ufutex_task) -> c_int {
    done(|| Counted::<TaskObject>::new(task).map(|held| held.task.interrupt().clear()))
}

/// Call this when a signal handler of the guest runs. A system call that was interrupted before is then not continued
/// by restart_syscall.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_forget_restart(task: *mut ufutex_task) -> c_int {
    done(|| Held::<TaskObject>::new(task).map(|held| held.task.forget_restart()))
}

/// Stores the wait that restart_syscall would continue for this task, with its deadline, in *restart. A checkpoint saves
/// it. If there is none, its timeout is UFUTEX_FOREVER.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_restart(task: *mut ufutex_task, restart: *mut ufutex_restart) -> c_int {
    done(|| {
        let wait = Held::<TaskObject>::new(task)?.task.restart();
        let (timeout, time) = match wait.map(|wait| wait.timeout) {
            None => (UFUTEX_FOREVER, Duration::ZERO),
            Some(Timeout::After(time)) => (UFUTEX_AFTER, time),
            Some(Timeout::At(Clock::Monotonic, time)) => (UFUTEX_UNTIL_MONOTONIC, time),
            Some(Timeout::At(_, time)) => (UFUTEX_UNTIL_REALTIME, time),
        };
        let told = ufutex_restart {
            size: size_of::<ufutex_restart>(),
            address: wait.map_or(0, |wait| wait.address),
            expected: wait.map_or(0, |wait| wait.expected),
            bitset: wait.map_or(0, |wait| wait.bitset.get()),
            timeout,
            is_private: wait.is_some_and(|wait| wait.is_private).into(),
            nanoseconds: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
        };
        // SAFETY: the program passes null, or a struct that is as large as it says.
        unsafe { abi::write(restart, &told) }
    })
}

/// Sets what ufutex_task_restart() stores, as when a checkpoint is restored. restart: NULL, or UFUTEX_FOREVER for
/// timeout, for none.
///
/// Returns 0. -EINVAL: an unknown timeout, or UFUTEX_AFTER; a bitset of 0; is_private above 1.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_task_set_restart(task: *mut ufutex_task, restart: *const ufutex_restart) -> c_int {
    done(|| {
        let task = Held::<TaskObject>::new(task)?;
        // SAFETY: the program passes null, or a struct that is as large as it says.
        let said = unsafe { abi::read(restart)? };
        task.task.set_restart(said.map(restart_of).transpose()?.flatten());
        Ok(())
    })
}

/// The wait that a program has saved. `None` means that it has saved none.
fn restart_of(said: ufutex_restart) -> Result<Option<RestartBlock>, Errno> {
    let timeout = match super::timeout_of(said.timeout, said.nanoseconds)? {
        None => return Ok(None),
        Some(timeout @ Timeout::At(..)) if said.is_private <= 1 => timeout,
        Some(_) => return Err(Errno::INVALID),
    };
    let bitset = NonZeroU32::new(said.bitset).ok_or(Errno::INVALID)?;
    let is_private = said.is_private == 1;
    Ok(Some(RestartBlock { address: said.address, expected: said.expected, bitset, is_private, timeout }))
}
