//! The functions of libc that this library replaces. Each passes calls that are not for the engine on to libc's own
//! function.

use core::arch::{global_asm, naked_asm};
use core::ffi::{c_char, c_int, c_long, c_void};
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::Ordering;

use crate::calls::{self, PR_FUTEX_HASH, Route};
use crate::engine::{self, Inside};
use crate::gate::{self, Gate, RAW_THREADS};
use crate::process::process;
use crate::raw::{self, COOKIE};
use crate::real::{self, REAL, Real};
use crate::signals::{self, Action};
use crate::timers::{self, PR_TIMER_CREATE_RESTORE_IDS, credentials, wait};
use crate::{exit, kernel, late, local, mixed, patch, profile, settings, trap};

/// The arguments and state of a call of `syscall()`, on the stack of the assembly below.
#[repr(C)]
pub struct Call {
    number: i64,
    args: [u64; 6],
    /// The mask to be restored after the call. The signals that were deferred are delivered when it is restored.
    pub mask: u64,
    pub puts_mask_back: u64,
    pub result: i64,
}

/// The result that means that the assembly makes the call again.
pub const AGAIN: i64 = i64::MIN;
/// The result that means that the call is libc's.
pub const NOT_OURS: i64 = i64::MIN + 1;

/// A function in the place of `syscall(2)`. Calls that are not for the engine go to `$otherwise` with all registers
/// unchanged.
///
/// Signals that were deferred are delivered here and not in [`take`]. So an unwinder that starts in a handler, as for
/// the cancellation of a thread, finds only frames that it can unwind.
macro_rules! syscall_function {
    ($(#[$attribute:meta])* $name:ident, otherwise $otherwise:path) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(number: c_long) -> c_long {
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
                "cmp rdi, {exit}",
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
                "9: jmp {otherwise}",
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
                "jmp {otherwise}",
                // A thread that may share this one's storage.
                "8:",
                "mov byte ptr [rip + {raw_threads}], 1",
                "jmp {otherwise}",
                ".cfi_endproc",
                futex = const libc::SYS_futex,
                futex_waitv = const calls::SYS_FUTEX_WAITV,
                futex_wake = const calls::SYS_FUTEX_WAKE,
                futex_wait = const calls::SYS_FUTEX_WAIT,
                futex_requeue = const calls::SYS_FUTEX_REQUEUE,
                prctl = const libc::SYS_prctl,
                exit = const libc::SYS_exit,
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
                otherwise = sym $otherwise,
            )
        }
    };
}

syscall_function!(
    /// `syscall(2)`.
    #[unsafe(no_mangle)]
    syscall, otherwise next_syscall);
syscall_function!(
    /// What libc's own `syscall` jumps to: see `patch/detour.rs`.
    syscall_of_libc, otherwise real::plain_syscall);

/// The `syscall` of the next library.
#[unsafe(naked)]
unsafe extern "C" fn next_syscall() {
    naked_asm!("jmp qword ptr [rip + {real}]", real = sym REAL)
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
            if mixed::is_noted(call.number, &call.args) {
                if mixed::is_private_pi(call.args[1]) {
                    mixed::note_lock();
                }
                return inside(call, |call, inside| mixed::kernel(call.number, call.args, inside));
            }
            if call.number == libc::SYS_futex { unless_mixed(call) } else { NOT_OURS }
        }
        Route::Ours(number, kind, may_sleep) => {
            calls::count_word(kind, call.args[0]);
            inside(call, |call, inside| mixed::call(number, call.args, may_sleep, inside))
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
    let by_mask = |call: &mut Call, f: &dyn Fn(&mut Call, &Inside) -> isize| unstepped(|| inside_by_mask(call, f));
    match call.number {
        libc::SYS_timer_create..=libc::SYS_timer_delete if timers::is_on() => {
            by_mask(call, &|call, _| timers::call(call.number, call.args))
        }
        libc::SYS_prctl if timers::is_on() && call.args[0] as u32 == PR_TIMER_CREATE_RESTORE_IDS as u32 => {
            by_mask(call, &|call, _| timers::call(call.number, call.args))
        }
        libc::SYS_rt_sigtimedwait if timers::is_on() => {
            by_mask(call, &|call, inside| wait::sigtimedwait(call.args, inside))
        }
        number if timers::is_on() && credentials::is_one(number, call.args[0]) => {
            credentials::call(number, call.args) as i64
        }
        libc::SYS_prctl if call.args[0] == PR_FUTEX_HASH => {
            by_mask(call, &|call, _| engine::prctl(call.args[1], call.args[2], call.args[3]))
        }
        libc::SYS_exit => {
            timers::before_exit_of_thread();
            NOT_OURS
        }
        libc::SYS_rt_sigaction => {
            let [signal, new, old, size, ..] = call.args;
            by_mask(call, &|_, _| signals::rt_sigaction(signal, new, old, size))
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
        mixed::note_lock();
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
    unstepped(|| if RAW_THREADS.load(Ordering::Relaxed) { inside_by_mask(call, f) } else { inside_by_flag(call, f) })
}

/// A program that single-steps itself does not step through the engine, as it does not through the kernel.
#[inline(always)]
fn unstepped<R>(f: impl FnOnce() -> R) -> R {
    let is_stepped = signals::is_stepped();
    if is_stepped {
        gate::invert_trap_flag();
    }
    let result = f();
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
    let before = unsafe { Gate::enter(gate) };
    if before == gate::BUSY {
        // SAFETY: as above.
        return match unsafe { late::call(gate, call.number, call.args) } {
            late::Instead::Return(result) => result,
            late::Instead::Kernel => NOT_OURS,
        };
    }
    let result = f(call, &Inside { gate, mask: core::ptr::null() });
    // SAFETY: as above.
    match unsafe { Gate::leave(gate, before) } {
        None => result as i64,
        Some(meanwhile) => {
            if let Some(mask) = meanwhile.mask {
                call.mask = mask;
                call.puts_mask_back = 1;
            }
            after_signal(result, meanwhile.restarts)
        }
    }
}

/// Like [`inside_by_flag`], for a thread that may not have a gate of its own, and for calls that are not on futexes.
#[cold]
fn inside_by_mask(call: &mut Call, f: impl FnOnce(&mut Call, &Inside) -> isize) -> i64 {
    let mut gate = Gate::new();
    call.mask = gate::block_all();
    call.puts_mask_back = 1;
    let mask = call.mask;
    let result = f(call, &Inside { gate: &raw mut gate, mask: &raw const mask });
    // SAFETY: on our own stack.
    let meanwhile = unsafe { Gate::meanwhile(&raw const gate) };
    meanwhile.map_or(result as i64, |meanwhile| after_signal(result, meanwhile.restarts))
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

/// `clone(2)`. Its threads may share the storage of the thread that makes them. With `--timers`, a process that it makes
/// begins in [`in_clone`].
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn clone(function: usize) -> c_int {
    naked_asm!(
        "test edx, {vm}",
        "jz 3f",
        "test edx, {vfork}",
        "jnz 2f",
        "mov byte ptr [rip + {raw_threads}], 1",
        "2: jmp qword ptr [rip + {real} + {offset}]",
        "3: cmp byte ptr [rip + {timers}], 0",
        "je 2b",
        // libc refuses a call without a function or a stack.
        "test rdi, rdi",
        "jz 2b",
        "test rsi, rsi",
        "jz 2b",
        "and rsi, -16",
        "sub rsi, 16",
        "mov [rsi], rdi",
        "mov [rsi + 8], rcx",
        "mov rcx, rsi",
        "lea rdi, [rip + {in_clone}]",
        "jmp 2b",
        vm = const libc::CLONE_VM,
        vfork = const libc::CLONE_VFORK,
        raw_threads = sym RAW_THREADS,
        timers = sym timers::ON,
        in_clone = sym in_clone,
        real = sym REAL,
        offset = const offset_of!(Real, clone),
    )
}

/// Runs a function of the program in a process that it has made. When it returns, libc ends the thread with its result by
/// exit(2).
unsafe extern "C-unwind" fn in_clone(call: *const InClone) -> c_int {
    // SAFETY: on the stack that the program has given, and of that type.
    let InClone { function, argument } = unsafe { call.read() };
    // SAFETY: as the program calls it.
    let result = unsafe { function(argument) };
    timers::before_exit_of_thread();
    result
}

#[repr(C)]
struct InClone {
    function: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
}

/// Sets `errno` and returns -1, as functions of libc do.
pub fn fail(errno: isize) -> c_int {
    // SAFETY: the pointer to the calling thread's errno is valid.
    unsafe { *libc::__errno_location() = -errno as c_int };
    -1
}

/// What `sigaction` jumps to in a libc that does not export `__libc_sigaction`. As libc's own, it refuses the two signals that
/// libc keeps for itself.
pub unsafe extern "C" fn sigaction_of_old_libc(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    if matches!(signal, 32 | 33) {
        return fail(-(libc::EINVAL as isize));
    }
    // SAFETY: as the program calls it.
    unsafe { sigaction_of_libc(signal, new, old) }
}

/// What libc's own `sigaction` jumps to: see `patch/detour.rs`. Other functions of libc that change actions call it too.
pub unsafe extern "C" fn sigaction_of_libc(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the program's pointer, which libc's function would read.
    let action = unsafe { new.as_ref() }.map(|new| Action {
        handler: new.sa_sigaction as u64,
        flags: u64::from(new.sa_flags.cast_unsigned()) | signals::SA_RESTORER,
        restorer: signals::restore as *const () as u64,
        // SAFETY: the kernel's mask is the first word of libc's.
        mask: unsafe { *(&raw const new.sa_mask).cast::<u64>() },
    });
    let action = action.as_ref().map_or(0, |action| core::ptr::from_ref(action) as u64);
    let mut was = Action::default();
    let result = unstepped(|| {
        let mask = gate::block_all();
        let result = signals::rt_sigaction(signal as u64, action, (&raw mut was) as u64, 8);
        gate::set_mask(mask);
        result
    });
    if result < 0 {
        return fail(result);
    }
    // SAFETY: as above.
    if let Some(old) = unsafe { old.as_mut() } {
        old.sa_sigaction = was.handler as usize;
        old.sa_flags = was.flags as c_int;
        // Programs pass the restorer on to rt_sigaction(2), which cannot start a handler without one.
        // SAFETY: the address of a function, or null.
        old.sa_restorer = unsafe { core::mem::transmute::<usize, Option<extern "C" fn()>>(was.restorer as usize) };
        // SAFETY: the kernel's mask is the first word of libc's.
        unsafe { (&raw mut old.sa_mask).cast::<u64>().write(was.mask) };
    }
    0
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

/// A function that ends the process.
macro_rules! exit_function {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(status: c_int) -> ! {
            exit::report();
            // SAFETY: the next library's, and of that type.
            let real: extern "C" fn(c_int) -> ! = unsafe { core::mem::transmute(REAL.$name.load(Ordering::Relaxed)) };
            real(status)
        }
    };
}

exit_function!(
    /// `_exit(2)`.
    _exit);
exit_function!(
    /// `_Exit(3)`.
    _Exit);

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
/// the first constructor: if two libraries are marked `initfirst`, it runs the constructors of only one of them first, perhaps
/// not of this one.
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
    patch::detour_libc();
    exit::begin();
    profile::begin();
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
