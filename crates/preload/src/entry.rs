//! The functions of libc that this library replaces. Each passes calls that are not for the engine on to libc's own
//! function.

use core::arch::{global_asm, naked_asm};
use core::ffi::{c_char, c_int, c_long, c_void};
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::calls::{self, PR_FUTEX_HASH, Route};
use crate::engine::{self, Inside};
use crate::gate::{self, Gate, RAW_THREADS};
use crate::process::process;
use crate::raw::{self, COOKIE};
use crate::real::{self, REAL, Real};
use crate::signals::{self, Action};
use crate::timers::{self, PR_TIMER_CREATE_RESTORE_IDS, credentials, wait};
use crate::{exit, kernel, local, mixed, patch, settings, trap};

/// The arguments and state of a call of `syscall()`, on the stack of the assembly below.
#[repr(C)]
pub struct Call {
    number: i64,
    args: [u64; 6],
    /// The mask to be restored after the call. The signals that were put off are delivered when it is restored.
    pub mask: u64,
    pub puts_mask_back: u64,
    pub result: i64,
}

/// The result that means that the assembly makes the call again.
pub const AGAIN: i64 = i64::MIN;
/// The result that means that the call is libc's.
pub const NOT_OURS: i64 = i64::MIN + 1;

/// `syscall(2)`. Calls that are not futex calls go to libc's own function with all registers unchanged.
///
/// Signals that were put off are delivered here and not in [`take`]. So an unwinder that starts in a handler, as for
/// the cancellation of a thread, finds only frames that it can unwind.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall(number: c_long) -> c_long {
    naked_asm!(
        ".cfi_startproc",
        "cmp rdi, {futex}",
        "je 2f",
        "cmp rdi, {futex_waitv}",
        "je 2f",
        "cmp rdi, {futex_wake}",
        "je 2f",
        "cmp rdi, {futex_wait}",
        "je 2f",
        "cmp rdi, {futex_requeue}",
        "je 2f",
        "cmp rdi, {prctl}",
        "je 2f",
        "cmp rdi, {sigaction}",
        "je 2f",
        "cmp rdi, {clone}",
        "je 8f",
        "cmp rdi, {clone3}",
        "je 8f",
        "lea rax, [rdi - {timer_create}]",
        "cmp rax, {timers}",
        "jb 2f",
        "cmp rdi, {sigtimedwait}",
        "je 2f",
        // One comparison: few other system calls have numbers from setuid(2)'s to capset(2)'s.
        "lea rax, [rdi - {setuid}]",
        "cmp rax, {credentials}",
        "jbe 2f",
        "cmp rdi, {seccomp}",
        "je 2f",
        "cmp rdi, {unshare}",
        "je 2f",
        "cmp rdi, {setns}",
        "je 2f",
        "cmp rdi, {keyctl}",
        "je 2f",
        "cmp rdi, {landlock}",
        "je 2f",
        "9: jmp qword ptr [rip + {real}]",
        "2:",
        "cmp byte ptr [rip + {kernel}], 0",
        "jne 9b",
        "sub rsp, {frame}",
        ".cfi_adjust_cfa_offset {frame}",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "mov rax, [rsp + {frame} + 8]",
        "mov [rsp + 48], rax",
        "mov qword ptr [rsp + {puts_mask_back}], 0",
        "3:",
        "mov rdi, rsp",
        "call {take}",
        "cmp qword ptr [rsp + {puts_mask_back}], 0",
        "je 4f",
        "mov [rsp + {result}], rax",
        "mov qword ptr [rsp + {puts_mask_back}], 0",
        "mov eax, {sigprocmask}",
        "mov edi, {setmask}",
        "lea rsi, [rsp + {mask}]",
        "xor edx, edx",
        "mov r10d, 8",
        "movabs r9, {cookie}",
        "syscall",
        "xor r9d, r9d",
        "mov rax, [rsp + {result}]",
        "4:",
        "cmp rax, -4095",
        "jae 6f",
        "movabs rcx, {again}",
        "cmp rax, rcx",
        "je 3b",
        "inc rcx",
        "cmp rax, rcx",
        "je 7f",
        "5:",
        "add rsp, {frame}",
        ".cfi_adjust_cfa_offset -{frame}",
        "ret",
        ".cfi_adjust_cfa_offset {frame}",
        "6:",
        "neg rax",
        "mov [rsp + {result}], rax",
        "call {errno}",
        "mov rcx, [rsp + {result}]",
        "mov [rax], ecx",
        "mov rax, -1",
        "jmp 5b",
        "7:",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "add rsp, {frame}",
        ".cfi_adjust_cfa_offset -{frame}",
        "jmp qword ptr [rip + {real}]",
        // A thread that may share this one's storage.
        "8:",
        "mov byte ptr [rip + {raw_threads}], 1",
        "jmp qword ptr [rip + {real}]",
        ".cfi_endproc",
        futex = const libc::SYS_futex,
        futex_waitv = const calls::SYS_FUTEX_WAITV,
        futex_wake = const calls::SYS_FUTEX_WAKE,
        futex_wait = const calls::SYS_FUTEX_WAIT,
        futex_requeue = const calls::SYS_FUTEX_REQUEUE,
        prctl = const libc::SYS_prctl,
        sigaction = const libc::SYS_rt_sigaction,
        clone = const libc::SYS_clone,
        clone3 = const libc::SYS_clone3,
        timer_create = const libc::SYS_timer_create,
        timers = const timers::TIMERS.len(),
        sigtimedwait = const libc::SYS_rt_sigtimedwait,
        setuid = const libc::SYS_setuid,
        credentials = const libc::SYS_capset - libc::SYS_setuid,
        seccomp = const libc::SYS_seccomp,
        unshare = const libc::SYS_unshare,
        setns = const libc::SYS_setns,
        keyctl = const libc::SYS_keyctl,
        landlock = const libc::SYS_landlock_restrict_self,
        frame = const size_of::<Call>() + 8,
        mask = const offset_of!(Call, mask),
        puts_mask_back = const offset_of!(Call, puts_mask_back),
        result = const offset_of!(Call, result),
        again = const AGAIN,
        sigprocmask = const libc::SYS_rt_sigprocmask,
        setmask = const libc::SIG_SETMASK,
        cookie = const COOKIE,
        take = sym take,
        errno = sym libc::__errno_location,
        raw_threads = sym RAW_THREADS,
        kernel = sym kernel::ON,
        real = sym REAL,
    )
}

const _: () = assert!((size_of::<Call>() + 8) % 16 == 8);

/// Makes a call. Returns its result or `-errno`, or one of `AGAIN` and `NOT_OURS`.
///
/// # Safety
/// The pointer is valid, and the call's arguments are as the program made them.
pub unsafe extern "C-unwind" fn take(call: *mut Call) -> i64 {
    // SAFETY: on the stack of the assembly, which waits for this function.
    let call = unsafe { &mut *call };
    // A thread that has slept finds the code of its call in no cache: futex(2) comes first.
    if call.number == libc::SYS_futex || is_futex2(call.number) { futex(call) } else { no_futex(call) }
}

fn is_futex2(number: i64) -> bool {
    use calls::{SYS_FUTEX_REQUEUE, SYS_FUTEX_WAIT, SYS_FUTEX_WAITV, SYS_FUTEX_WAKE};
    [SYS_FUTEX_WAITV, SYS_FUTEX_WAKE, SYS_FUTEX_WAIT, SYS_FUTEX_REQUEUE].contains(&number)
}

#[inline(always)]
fn futex(call: &mut Call) -> i64 {
    match calls::route_of(call.number, &call.args) {
        Route::Kernel => {
            calls::count_kernel(call.number, &call.args);
            if call.number == libc::SYS_futex { unless_mixed(call) } else { NOT_OURS }
        }
        Route::Ours(number, kind, may_sleep) => {
            calls::count_word(kind, call.args[0]);
            inside(call, |call, inside| engine::call(number, call.args, may_sleep, inside))
        }
        Route::Mixed => inside(call, |call, inside| mixed::waitv(call.args, inside)),
        Route::Refused => -i64::from(libc::EINVAL),
    }
}

/// Makes a call that is not on futexes.
#[inline(never)]
fn no_futex(call: &mut Call) -> i64 {
    if installs_filter(call) {
        patch::note_filter();
    }
    match call.number {
        libc::SYS_timer_create..=libc::SYS_timer_delete if timers::is_on() => {
            inside(call, |call, _| timers::call(call.number, call.args))
        }
        libc::SYS_prctl if timers::is_on() && call.args[0] as u32 == PR_TIMER_CREATE_RESTORE_IDS as u32 => {
            inside(call, |call, _| timers::call(call.number, call.args))
        }
        libc::SYS_rt_sigtimedwait if timers::is_on() => {
            inside(call, |call, inside| wait::sigtimedwait(call.args, inside))
        }
        number if timers::is_on() && credentials::is_one(number, call.args[0]) => {
            credentials::call(number, call.args) as i64
        }
        libc::SYS_prctl if call.args[0] == PR_FUTEX_HASH => {
            inside(call, |call, _| engine::prctl(call.args[1], call.args[2], call.args[3]))
        }
        libc::SYS_rt_sigaction => {
            let [signal, new, old, size, ..] = call.args;
            inside(call, |_, _| signals::rt_sigaction(signal, new, old, size))
        }
        _ => NOT_OURS,
    }
}

/// Whether a call installs a seccomp filter, if it succeeds.
fn installs_filter(call: &Call) -> bool {
    const STRICT_AND_FILTER: Range<u64> = 0..2;
    match call.number {
        libc::SYS_seccomp => STRICT_AND_FILTER.contains(&(call.args[0] & 0xffff_ffff)),
        libc::SYS_prctl => call.args[0] as c_int == libc::PR_SET_SECCOMP,
        _ => false,
    }
}

/// A futex(2) operation that belongs to the kernel. The kernel must not make it if it finds a waiter of the engine.
#[cold]
fn unless_mixed(call: &mut Call) -> i64 {
    let mut is_mixed = false;
    if mixed::is_private_pi(call.args[1]) {
        inside(call, |call, inside| {
            is_mixed = mixed::finds_plain_waiter(&call.args, inside);
            0
        });
    }
    if is_mixed { -i64::from(libc::EINVAL) } else { NOT_OURS }
}

/// Runs `f` inside the engine: see `gate.rs`.
#[inline(always)]
fn inside(call: &mut Call, f: impl FnOnce(&mut Call, &Inside) -> isize) -> i64 {
    // A program that single-steps itself does not step through the engine, as it does not through the kernel.
    let is_stepped = signals::is_stepped();
    if is_stepped {
        gate::invert_trap_flag();
    }
    let result = if RAW_THREADS.load(Ordering::Relaxed) { inside_by_mask(call, f) } else { inside_by_flag(call, f) };
    if is_stepped {
        gate::invert_trap_flag();
    }
    result
}

#[inline(always)]
fn inside_by_flag(call: &mut Call, f: impl FnOnce(&mut Call, &Inside) -> isize) -> i64 {
    // SAFETY: a thread that calls a function of libc has storage.
    let gate = unsafe { Gate::of_this_thread() };
    // SAFETY: this thread's own gate, here and below.
    unsafe { Gate::enter(gate) };
    let result = f(call, &Inside { gate, mask: core::ptr::null() });
    // SAFETY: as above.
    match unsafe { Gate::leave(gate) } {
        None => result as i64,
        Some(mask) => {
            call.mask = mask;
            call.puts_mask_back = 1;
            // SAFETY: as above.
            after_signal(result, unsafe { Gate::restarts(gate) })
        }
    }
}

/// Like [`inside_by_flag`], for a thread that may not have a gate of its own.
#[cold]
fn inside_by_mask(call: &mut Call, f: impl FnOnce(&mut Call, &Inside) -> isize) -> i64 {
    let mut gate = Gate::new();
    call.mask = gate::block_all();
    call.puts_mask_back = 1;
    let mask = call.mask;
    let result = f(call, &Inside { gate: &raw mut gate, mask: &raw const mask });
    // SAFETY: on our own stack.
    after_signal(result, unsafe { Gate::restarts(&raw const gate) })
}

/// The result that the program gets if a signal came during the call.
fn after_signal(result: isize, restarts: bool) -> i64 {
    match ufutex::syscall::resume(result, Some(restarts)) {
        ufutex::syscall::Resume::Return(result) => result as i64,
        ufutex::syscall::Resume::Again | ufutex::syscall::Resume::Continue => AGAIN,
    }
}

/// `prctl(2)`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn prctl(op: c_int) -> c_int {
    naked_asm!(
        "cmp edi, {futex_hash}",
        "je 2f",
        "cmp edi, {restore_ids}",
        "je 2f",
        // The prctl(2) operations that change credentials have small numbers.
        "cmp edi, 64",
        "jae 3f",
        "movabs rax, {credentials}",
        "bt rax, rdi",
        "jc 2f",
        "3: jmp qword ptr [rip + {real} + {offset}]",
        // syscall(SYS_prctl, …)
        "2:",
        "mov r9, r8",
        "mov r8, rcx",
        "mov rcx, rdx",
        "mov rdx, rsi",
        "mov esi, edi",
        "mov edi, {prctl}",
        "jmp {syscall}",
        futex_hash = const PR_FUTEX_HASH,
        restore_ids = const PR_TIMER_CREATE_RESTORE_IDS,
        credentials = const credentials::PRCTL_BITS,
        real = sym REAL,
        offset = const offset_of!(Real, prctl),
        prctl = const libc::SYS_prctl,
        syscall = sym syscall,
    )
}

/// `clone(2)`. Its threads may share the storage of the thread that makes them.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn clone(function: usize) -> c_int {
    naked_asm!(
        "test edx, {vm}",
        "jz 2f",
        "test edx, {vfork}",
        "jnz 2f",
        "mov byte ptr [rip + {raw_threads}], 1",
        "2: jmp qword ptr [rip + {real} + {offset}]",
        vm = const libc::CLONE_VM,
        vfork = const libc::CLONE_VFORK,
        raw_threads = sym RAW_THREADS,
        real = sym REAL,
        offset = const offset_of!(Real, clone),
    )
}

/// Sets `errno` and returns -1, as functions of libc do.
pub fn fail(errno: isize) -> c_int {
    // SAFETY: the pointer to the calling thread's errno is valid.
    unsafe { *libc::__errno_location() = -errno as c_int };
    -1
}

/// Changes an action as if the program had called libc's `sigaction`, which refuses libc's own two signals and gives
/// each action a restorer.
fn change(signal: c_int, new: Option<&Action>) -> Result<Action, isize> {
    if (32..=33).contains(&signal) {
        return Err(-(libc::EINVAL as isize));
    }
    if kernel::is_on() {
        return change_as_libc(signal, new);
    }
    let mut old = Action::default();
    let restorer = signals::restore as *const () as u64;
    let new = new.map(|new| Action { flags: new.flags | signals::SA_RESTORER, restorer, ..*new });
    let new = new.as_ref().map_or(0, |new| core::ptr::from_ref(new) as u64);
    let mask = gate::block_all();
    let result = signals::rt_sigaction(signal as u64, new, (&raw mut old) as u64, 8);
    gate::set_mask(mask);
    if result < 0 { Err(result) } else { Ok(old) }
}

/// libc's own `sigaction`.
///
/// # Safety
/// As for `sigaction(2)`.
unsafe fn real_sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    type Function = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
    // SAFETY: libc's own, and of that type.
    let real: Function = unsafe { core::mem::transmute(REAL.sigaction.load(Ordering::Relaxed)) };
    // SAFETY: the caller guarantees it.
    unsafe { real(signal, new, old) }
}

/// Changes an action through libc's own `sigaction`, for the other functions of libc that change actions. Used in
/// processes in which this library does not handle signals.
#[cold]
fn change_as_libc(signal: c_int, new: Option<&Action>) -> Result<Action, isize> {
    // SAFETY: the struct consists of numbers, which may be zero.
    let mut actions: [libc::sigaction; 2] = unsafe { core::mem::zeroed() };
    let [to, was] = &mut actions;
    let to = new.map_or(core::ptr::null(), |new| {
        to.sa_sigaction = new.handler as usize;
        to.sa_flags = new.flags as c_int;
        // SAFETY: the kernel's mask is the first word of libc's.
        unsafe { (&raw mut to.sa_mask).cast::<u64>().write(new.mask) };
        &raw const *to
    });
    // SAFETY: `to` is read, and `was` has room for the old action.
    if unsafe { real_sigaction(signal, to, was) } != 0 {
        // SAFETY: the pointer to the calling thread's errno is valid.
        return Err(-unsafe { *libc::__errno_location() } as isize);
    }
    Ok(Action {
        handler: was.sa_sigaction as u64,
        flags: u64::from(was.sa_flags.cast_unsigned()),
        restorer: 0,
        // SAFETY: as above.
        mask: unsafe { *(&raw const was.sa_mask).cast::<u64>() },
    })
}

/// `sigaction(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    if kernel::is_on() {
        // SAFETY: as the program calls it.
        return unsafe { real_sigaction(signal, new, old) };
    }
    let new = (!new.is_null()).then(|| {
        // SAFETY: the program's pointer, which libc's function would read.
        let new = unsafe { &*new };
        Action {
            handler: new.sa_sigaction as u64,
            flags: u64::from(new.sa_flags.cast_unsigned()),
            restorer: 0,
            // SAFETY: the kernel's mask is the first word of libc's.
            mask: unsafe { *(&raw const new.sa_mask).cast::<u64>() },
        }
    });
    match change(signal, new.as_ref()) {
        Err(errno) => fail(errno),
        Ok(_) if old.is_null() => 0,
        Ok(was) => {
            // SAFETY: as above.
            unsafe {
                (*old).sa_sigaction = was.handler as usize;
                (*old).sa_flags = was.flags as c_int;
                // Programs pass the restorer on to rt_sigaction(2), which cannot start a handler without one.
                (*old).sa_restorer = core::mem::transmute::<usize, Option<extern "C" fn()>>(was.restorer as usize);
                (&raw mut (*old).sa_mask).cast::<u64>().write(was.mask);
            }
            0
        }
    }
}

/// Signals for which `siginterrupt(3)` was called.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

fn install(signal: c_int, handler: usize, flags: c_int) -> usize {
    if handler == libc::SIG_ERR {
        fail(-(libc::EINVAL as isize));
        return libc::SIG_ERR;
    }
    let mut mask = 0;
    if flags & libc::SA_NODEFER == 0 && (1..=64).contains(&signal) {
        mask = signals::bit(signal);
    }
    let action = Action { handler: handler as u64, flags: flags.cast_unsigned().into(), restorer: 0, mask };
    match change(signal, Some(&action)) {
        Ok(old) => old.handler as usize,
        Err(errno) => {
            fail(errno);
            libc::SIG_ERR
        }
    }
}

/// `signal(3)` with the semantics of the BSDs.
#[unsafe(no_mangle)]
pub extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    let interrupts = (1..=64).contains(&signal) && INTERRUPTING.load(Ordering::Relaxed) & signals::bit(signal) != 0;
    install(signal, handler, if interrupts { 0 } else { libc::SA_RESTART })
}

/// `bsd_signal(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn bsd_signal(number: c_int, handler: usize) -> usize {
    signal(number, handler)
}

/// `ssignal(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn ssignal(number: c_int, handler: usize) -> usize {
    signal(number, handler)
}

/// `signal(3)` with the semantics of System V: the handler is reset after one signal, and the signal is not blocked
/// while it runs.
#[unsafe(no_mangle)]
pub extern "C" fn __sysv_signal(signal: c_int, handler: usize) -> usize {
    install(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
}

/// `sysv_signal(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn sysv_signal(signal: c_int, handler: usize) -> usize {
    __sysv_signal(signal, handler)
}

/// `siginterrupt(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
    let mut action = match change(signal, None) {
        Ok(action) => action,
        Err(errno) => return fail(errno),
    };
    if interrupts != 0 {
        INTERRUPTING.fetch_or(signals::bit(signal), Ordering::Relaxed);
        action.flags &= !(libc::SA_RESTART as u64);
    } else {
        INTERRUPTING.fetch_and(!signals::bit(signal), Ordering::Relaxed);
        action.flags |= libc::SA_RESTART as u64;
    }
    change(signal, Some(&action)).map_or_else(fail, |_| 0)
}

/// `sigset(3)`: sets the action, and whether the signal is blocked.
#[unsafe(no_mangle)]
pub extern "C" fn sigset(signal: c_int, handler: usize) -> usize {
    const SIG_HOLD: usize = 2;
    if !(1..=64).contains(&signal) {
        fail(-(libc::EINVAL as isize));
        return libc::SIG_ERR;
    }
    let (how, mask, mut before) =
        (if handler == SIG_HOLD { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK }, signals::bit(signal), 0u64);
    let old = if handler == SIG_HOLD {
        change(signal, None).map_or(libc::SIG_ERR, |old| old.handler as usize)
    } else {
        let action = Action { handler: handler as u64, ..Action::default() };
        change(signal, Some(&action)).map_or(libc::SIG_ERR, |old| old.handler as usize)
    };
    if old == libc::SIG_ERR {
        fail(-(libc::EINVAL as isize));
        return old;
    }
    // Made by an instruction that a filter may trap, like libc's own call, because the trap decides which signals may
    // be blocked.
    // SAFETY: changes the calling thread's mask.
    unsafe {
        let (mask, before) = ((&raw const mask) as u64, (&raw mut before) as u64);
        raw::syscall6(libc::SYS_rt_sigprocmask, [how as u64, mask, before, 8, 0, 0]);
    }
    if before & signals::bit(signal) != 0 { SIG_HOLD } else { old }
}

/// `pthread_cancel(3)`. At its first call libc itself installs the handler of its signal. So before the program first
/// cancels a thread, this function makes and cancels a thread for the purpose, and then puts libc's handler behind
/// ours.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cancel(thread: libc::pthread_t) -> c_int {
    static READY: AtomicBool = AtomicBool::new(false);
    // SAFETY: libc's own, and of that type.
    let real: extern "C" fn(libc::pthread_t) -> c_int =
        unsafe { core::mem::transmute(REAL.pthread_cancel.load(Ordering::Relaxed)) };
    if !trap::is_on() && !kernel::is_on() && !READY.load(Ordering::Relaxed) {
        cancel_somebody(real);
        READY.store(true, Ordering::Relaxed);
    }
    real(thread)
}

fn cancel_somebody(cancel: extern "C" fn(libc::pthread_t) -> c_int) {
    const SIGCANCEL: c_int = 32;
    extern "C" fn pause(_: *mut c_void) -> *mut c_void {
        let cancel = signals::bit(SIGCANCEL);
        // The thread begins with its maker's mask, and may be asleep when it is cancelled.
        // SAFETY: changes the calling thread's mask.
        unsafe {
            let cancel = (&raw const cancel) as u64;
            raw::own(libc::SYS_rt_sigprocmask, [libc::SIG_UNBLOCK as u64, cancel, 0, 8]);
        }
        loop {
            // SAFETY: sleeps, or ends the thread, which owns nothing.
            unsafe { libc::pause() };
        }
    }
    let mut thread = 0;
    let mask = gate::block_all();
    // SAFETY: `pause` takes no argument; the thread is joined.
    let made = unsafe { libc::pthread_create(&raw mut thread, core::ptr::null(), pause, core::ptr::null_mut()) };
    gate::set_mask(mask);
    if made == 0 {
        cancel(thread);
        // SAFETY: made above.
        unsafe { libc::pthread_join(thread, core::ptr::null_mut()) };
    }
    signals::adopt(SIGCANCEL);
}

/// `pthread_create(3)`. Notes the number of threads, for the policy that depends on it and for the report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    timers::running::note_thread();
    patch::patch_libc_once();
    // SAFETY: as the program calls it.
    let result = unsafe { real::pthread_create()(thread, attributes, start, argument) };
    if result == 0 && (settings::get().policy == settings::Policy::Threads || settings::get().stats.is_some()) {
        let mask = gate::block_all();
        engine::note_threads();
        gate::set_mask(mask);
    }
    result
}

fn exit_now(status: c_int) -> ! {
    exit::report();
    loop {
        // SAFETY: does not return.
        unsafe { raw::own(libc::SYS_exit_group, [status as u64]) };
    }
}

/// `_exit(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    exit_now(status)
}

/// `_Exit(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    exit_now(status)
}

/// `quick_exit(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn quick_exit(status: c_int) -> ! {
    // SAFETY: libc's own, and of that type.
    let real: extern "C" fn(c_int) -> ! = unsafe { core::mem::transmute(REAL.quick_exit.load(Ordering::Relaxed)) };
    extern "C" fn report() {
        exit::report();
    }
    // SAFETY: the function takes no argument. The function registered last runs first, and others may still use
    // futexes.
    unsafe { at_quick_exit(report) };
    real(status)
}

unsafe extern "C" {
    fn at_quick_exit(function: extern "C" fn()) -> c_int;
}

/// The part of [`begin`] that no code of the program may precede: a program that was executed under the trap has the
/// filter from its first instruction on, and needs our handler for it. Calls nothing outside of this library, and may be
/// called twice.
///
/// # Safety
/// `environment` is the loader's, which stays valid. This is the only thread.
unsafe fn prepare(environment: *const *const c_char) {
    if process().is_some() {
        return;
    }
    crate::process::map();
    // SAFETY: the caller guarantees it.
    let read = unsafe {
        local::begin(environment);
        settings::read(ufutex_program::environment::entries(environment))
    };
    if let Err(invalid) = read {
        raw::die(&[&std::string::ToString::to_string(&invalid)]);
    }
    gate::begin();
    if settings::get().trap {
        trap::begin();
    }
}

/// Returns the address of [`begin`], when the loader asks for it. That is while it relocates this library, before it calls
/// the first constructor: of two libraries that ask to be initialised first it initialises one first, which may not be
/// this one.
///
/// Thread-local storage is not initialised yet.
unsafe extern "C" fn resolve_begin() -> unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) {
    // SAFETY: the loader's own variable: where the process's arguments begin, preceded by their number. It is null if the
    // program has a copy of the variable, which is not filled in yet.
    unsafe {
        if let Some(count) = __libc_stack_end.as_ref() {
            let environment: *const *const c_char = __libc_stack_end.add(count + 2).cast();
            if (*environment.sub(1)).is_null() {
                prepare(environment);
            }
        }
    }
    begin
}

/// Runs before any code of the program, but for constructors of libraries that are initialised first.
unsafe extern "C" fn begin(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    // SAFETY: the loader's environment, which stays valid. This is the only thread, unless another constructor has made one.
    unsafe { prepare(environment) };
    real::resolve();
    if kernel::begin() {
        return;
    }
    gate::note_first_thread();
    exit::begin();
    engine::begin();
    timers::begin();
    // SAFETY: the function takes no argument.
    unsafe { own_process() };
    // SAFETY: the function takes no argument. If there is no memory to register it, the child asks the kernel: see
    // `is_borrowed`.
    unsafe { libc::pthread_atfork(None, None, Some(own_process)) };
    engine::make_early();
    signals::install();
    if settings::get().trap {
        // SAFETY: the loader's environment, which stays valid.
        unsafe { trap::install(environment) };
    }
}

unsafe extern "C" fn own_process() {
    if let Some(process) = process() {
        process.own();
    }
}

extern "C" fn end() {
    exit::report();
}

unsafe extern "C" {
    static __libc_stack_end: *const usize;
}

global_asm!(
    ".pushsection .text.ufutex_begin, \"ax\", @progbits",
    ".globl ufutex_begin",
    ".hidden ufutex_begin",
    ".type ufutex_begin, @gnu_indirect_function",
    "ufutex_begin: jmp {resolve}",
    ".popsection",
    ".pushsection .init_array, \"aw\", @init_array",
    ".balign 8",
    ".quad ufutex_begin",
    ".popsection",
    resolve = sym resolve_begin,
);

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;
