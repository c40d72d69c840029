use core::ffi::{c_int, c_long};
use core::time::Duration;

use engine::{
    Clock,
    syscall::{Number, Resume, Syscall},
};

use super::{export, to_block_as, to_block_in};
use crate::abi;
use crate::errno::{Answer, Errno};
use crate::objects::{DomainObject, TaskObject};
use crate::operation::{Operation, block_on};
use crate::platform::Memory;
use crate::types::{
    UFUTEX_GENERIC_NUMBER, UFUTEX_HANDLER, UFUTEX_HANDLER_RESTART, UFUTEX_NO_HANDLER, UFUTEX_RESUME_AGAIN,
    UFUTEX_RESUME_CONTINUE, UFUTEX_RESUME_RETURN, ufutex_domain, ufutex_memory, ufutex_task,
};

/// Makes a system call for a task, by its number on x86-64 (or on aarch64, with UFUTEX_GENERIC_NUMBER added): futex,
/// futex_waitv, futex_wake, futex_wait, futex_requeue, set_robust_list, get_robust_list, restart_syscall. args: its six
/// arguments. memory: the memory that they point to; NULL for the domain's. Blocks if the call does.
///
/// Returns the kernel's result, from 0 up or -errno, with the kernel's order of errors. A call that the task's
/// interrupt has ended returns -512, -513 or -516: pass that to ufutex_resume(). In addition, -ENOSYS: another number;
/// -EINVAL: args is NULL or misaligned, domain or task is NULL, a function is missing from memory; -E2BIG; -EBADF: not
/// a handle of a domain or of a task.
///
/// Any thread; not async-signal-safe. The thread must not be cancelled during the call, and must not leave it by
/// longjmp().
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_syscall(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    memory: *const ufutex_memory,
    number: u64,
    args: *const u64,
) -> c_long {
    let call = || {
        let domain = to_block_in(domain)?;
        let task = to_block_as(task, &domain)?;
        // SAFETY: the program passes a memory that is as large as it says, and six arguments.
        let (own_memory, number, args) = unsafe { (own_memory(memory)?, number_of(number)?, read_args(args)?) };
        let memory = own_memory.as_ref().unwrap_or(&domain.memory);
        if domain.blocks_natively {
            return Ok(domain.domain.syscall(&task.task, memory, number, args) as c_long);
        }
        let mut call = begin(&domain, &task, memory, number, args);
        let deadline = call.take_timeout().map(|timeout| domain.time.begin(timeout));
        block_on(&domain, Some(&task), Operation::Syscall(call), deadline)
    };
    call().long()
}

/// The memory of one call. `None` if it is the domain's.
///
/// # Safety
/// As for [`Memory::read`].
pub(super) unsafe fn own_memory(memory: *const ufutex_memory) -> Result<Option<Memory>, Errno> {
    // SAFETY: the caller guarantees it.
    if memory.is_null() { Ok(None) } else { unsafe { Memory::read(memory) }.map(Some) }
}

pub(super) fn number_of(number: u64) -> Result<Number, Errno> {
    let known = match number.checked_sub(UFUTEX_GENERIC_NUMBER) {
        Some(generic) => Number::generic(generic),
        None => Number::x86_64(number),
    };
    known.ok_or(Errno::NO_SYSCALL)
}

/// # Safety
/// `args` is null, misaligned, or valid for reading six numbers.
pub(super) unsafe fn read_args(args: *const u64) -> Result<[u64; 6], Errno> {
    if args.is_null() || !args.is_aligned() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller guarantees it.
    Ok(unsafe { args.cast::<[u64; 6]>().read() })
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
    call.begin_at(Duration::from_nanos(domain.time.now(Clock::Monotonic)));
    call
}

/// Decides how the program continues after a system call with this result. handler: whether a signal handler of the
/// guest runs before the program continues, UFUTEX_NO_HANDLER, UFUTEX_HANDLER or UFUTEX_HANDLER_RESTART. If one runs,
/// call ufutex_task_forget_restart() too.
///
/// Returns UFUTEX_RESUME_RETURN, and stores the program's result in *value; UFUTEX_RESUME_AGAIN; or
/// UFUTEX_RESUME_CONTINUE. -EINVAL: another handler, value is NULL or misaligned.
///
/// Any thread; async-signal-safe.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_resume(result: c_long, handler: u32, value: *mut c_long) -> c_int {
    let resume = || {
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
    };
    resume().int()
}

export!(ufutex_syscall, ufutex_resume);
