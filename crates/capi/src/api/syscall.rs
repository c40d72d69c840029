//! Makes a guest's system calls by number.

use core::ffi::{c_int, c_long};
use core::time::Duration;

use engine::{
    Clock,
    syscall::{ERESTART_RESTARTBLOCK, ERESTARTNOINTR, ERESTARTSYS, Number, Resume, Syscall},
};

use super::{in_use, to_block_as};
use crate::abi;
use crate::errno::{Errno, int, long};
use crate::objects::{DomainObject, TaskObject};
use crate::operation::{Operation, block_on};
use crate::platform::{Memory, OwnMemory};
use crate::registry::{Held, is_alive};
use crate::types::{
    UFUTEX_ARM_NUMBER, UFUTEX_ERESTART_RESTARTBLOCK, UFUTEX_ERESTARTNOINTR, UFUTEX_ERESTARTSYS, UFUTEX_GENERIC_NUMBER,
    UFUTEX_HANDLER, UFUTEX_HANDLER_RESTART, UFUTEX_I386_NUMBER, UFUTEX_NO_HANDLER, UFUTEX_RESUME_AGAIN,
    UFUTEX_RESUME_CONTINUE, UFUTEX_RESUME_RETURN, UFUTEX_RISCV32_NUMBER, ufutex_domain, ufutex_memory, ufutex_task,
};

/// futex(2) on x86-64.
const FUTEX: u64 = 202;

// cbindgen writes numbers into the header, and no names of other crates.
const _: () = assert!(
    UFUTEX_ERESTARTSYS as isize == ERESTARTSYS
        && UFUTEX_ERESTARTNOINTR as isize == ERESTARTNOINTR
        && UFUTEX_ERESTART_RESTARTBLOCK as isize == ERESTART_RESTARTBLOCK
);

/// Makes a system call for a task, by its number. number: that on x86-64, or that of another architecture with
/// UFUTEX_GENERIC_NUMBER, UFUTEX_I386_NUMBER, UFUTEX_ARM_NUMBER or UFUTEX_RISCV32_NUMBER added: futex, futex_time64,
/// futex_waitv, futex_wake, futex_wait, futex_requeue, set_robust_list, get_robust_list, set_tid_address,
/// restart_syscall. args: its six arguments. memory: the memory that they point to; NULL for the domain's. Blocks if the
/// call does. Calls on timers are made with ufutex_timers_syscall().
///
/// Returns the kernel's result, from 0 up or -errno, with the kernel's order of errors. A call that the task's
/// interrupt has ended returns -UFUTEX_ERESTARTSYS, -UFUTEX_ERESTARTNOINTR or -UFUTEX_ERESTART_RESTARTBLOCK: pass that
/// to ufutex_resume(). This function adds the errors that follow. -ENOSYS: another number; -EINVAL: a function is
/// missing from memory.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_syscall(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    memory: *const ufutex_memory,
    number: u64,
    args: *const u64,
) -> c_long {
    let held = match Held::<DomainObject>::new(domain) {
        Ok(held) => held,
        Err(errno) => return long(|| Err::<c_long, _>(errno)),
    };
    // SAFETY: the program passes null or six arguments.
    if let Some(result) = unsafe { call_at_once(&held, task, memory, number, args) } {
        return result as c_long;
    }
    // SAFETY: the same arguments.
    long(|| unsafe { call_in(held, task, memory, number, args) })
}

/// Makes a call on the program's own memory that ends at once, as most do. It does not use the task, so it is enough that
/// the task's handle is alive. `None` also for a call that is refused.
///
/// # Safety
/// As for [`read_args`].
#[inline(always)]
unsafe fn call_at_once(
    domain: &DomainObject,
    task: *mut ufutex_task,
    memory: *const ufutex_memory,
    number: u64,
    args: *const u64,
) -> Option<isize> {
    if number != FUTEX || !memory.is_null() || !domain.is_plain || !is_alive::<TaskObject>(task) {
        return None;
    }
    // SAFETY: the caller guarantees it.
    let args = unsafe { args_at(args).ok()? };
    domain.domain.syscall_at_once(&OwnMemory, Number::Futex, args)
}

/// All other calls.
///
/// # Safety
/// As for `ufutex_syscall`.
#[inline(never)]
unsafe fn call_in(
    held: Held<DomainObject>,
    task: *mut ufutex_task,
    memory: *const ufutex_memory,
    number: u64,
    args: *const u64,
) -> Result<c_long, Errno> {
    if !is_alive::<TaskObject>(task) {
        // It is refused here, unless another thread has tried to free it in vain.
        drop(Held::<TaskObject>::new(task)?);
    }
    let given;
    let mut own = None;
    if !memory.is_null() {
        // SAFETY: the program passes a memory that is as large as it says.
        given = unsafe { Memory::read(memory)? };
        own = Some(&given);
    }
    let number = number_of(number)?;
    // SAFETY: the program passes six arguments.
    let args = unsafe { read_args(args)? };
    call_by_engine(held, task, own, number, args)
}

/// A call that the engine decodes.
#[inline(never)]
fn call_by_engine(
    held: Held<DomainObject>,
    task: *mut ufutex_task,
    memory: Option<&Memory>,
    number: Number,
    args: [u64; 6],
) -> Result<c_long, Errno> {
    let domain = in_use(held);
    let task = to_block_as(task, &domain)?;
    let memory = memory.unwrap_or(&domain.memory);
    if domain.blocks_natively {
        return Ok(domain.domain.syscall(&task.task, memory, number, args) as c_long);
    }
    let mut call = begin(&domain, &task, memory, number, args);
    let timeout = call.take_timeout();
    block_on(&domain, Some(&task), Operation::Syscall(call), timeout)
}

/// The memory of one call. `None` if it is the domain's.
///
/// # Safety
/// As for [`Memory::read`].
pub(super) unsafe fn own_memory(memory: *const ufutex_memory) -> Result<Option<Memory>, Errno> {
    // SAFETY: the caller guarantees it.
    if memory.is_null() { Ok(None) } else { unsafe { Memory::read(memory) }.map(Some) }
}

#[inline(always)]
pub(super) fn number_of(number: u64) -> Result<Number, Errno> {
    call_of(number, [Number::x86_64, Number::generic, Number::i386, Number::arm, Number::riscv32])
}

/// The call with a number, which says by which of the five tables.
#[inline(always)]
pub(super) fn call_of<T>(number: u64, tables: [fn(u64) -> Option<T>; 5]) -> Result<T, Errno> {
    const LOW: u64 = 0xffff_ffff;
    let [x86_64, generic, i386, arm, riscv32] = tables;
    let table = match number & !LOW {
        0 => x86_64,
        UFUTEX_GENERIC_NUMBER => generic,
        UFUTEX_I386_NUMBER => i386,
        UFUTEX_ARM_NUMBER => arm,
        UFUTEX_RISCV32_NUMBER => riscv32,
        _ => return Err(Errno::NO_SYSCALL),
    };
    table(number & LOW).ok_or(Errno::NO_SYSCALL)
}

/// # Safety
/// `args` is null, misaligned, or valid for reading six numbers as long as the result.
#[inline(always)]
unsafe fn args_at<'a>(args: *const u64) -> Result<&'a [u64; 6], Errno> {
    if args.is_null() || !args.is_aligned() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller guarantees it.
    Ok(unsafe { &*args.cast::<[u64; 6]>() })
}

/// # Safety
/// As for [`args_at`], in this call.
pub(super) unsafe fn read_args(args: *const u64) -> Result<[u64; 6], Errno> {
    // SAFETY: the caller guarantees it.
    unsafe { args_at(args).copied() }
}

/// Begins a call. Relative timeouts are measured by the domain's clock.
pub(super) fn begin<'a>(
    domain: &'a DomainObject,
    task: &'a TaskObject,
    memory: &'a Memory,
    number: Number,
    args: [u64; 6],
) -> Syscall<'a, 'a, 'a, Memory> {
    let mut call = domain.domain.syscall_async(&task.task, memory, number, args);
    if call.timeout().is_some() {
        call.begin_at(Duration::from_nanos(domain.time.now(Clock::Monotonic)));
    }
    call
}

/// Decides how the program continues after a system call with this result. handler: whether a signal handler of the
/// guest runs before the program continues, UFUTEX_NO_HANDLER, UFUTEX_HANDLER or UFUTEX_HANDLER_RESTART. If one runs,
/// call ufutex_task_forget_restart() too.
///
/// Returns UFUTEX_RESUME_RETURN, and stores the program's result in *value; UFUTEX_RESUME_AGAIN; or
/// UFUTEX_RESUME_CONTINUE. -EINVAL: another handler.
///
/// Async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_resume(result: c_long, handler: u32, value: *mut c_long) -> c_int {
    int(|| {
        let handler = match handler {
            UFUTEX_NO_HANDLER => None,
            UFUTEX_HANDLER => Some(false),
            UFUTEX_HANDLER_RESTART => Some(true),
            _ => return Err(Errno::INVALID),
        };
        abi::check_out(value)?;
        match engine::syscall::resume(result as isize, handler) {
            Resume::Return(result) => {
                // SAFETY: checked above; the program guarantees that it is valid for a write.
                unsafe { abi::store(value, result as c_long)? };
                Ok(UFUTEX_RESUME_RETURN)
            }
            Resume::Again => Ok(UFUTEX_RESUME_AGAIN),
            Resume::Continue => Ok(UFUTEX_RESUME_CONTINUE),
        }
    })
}
