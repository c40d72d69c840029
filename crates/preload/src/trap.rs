//! `--trap`: system calls that are made by an instruction, inside libc or anywhere else, stop with SIGSYS
//! (`filter.rs`), and the handler here does them.
//!
//! For that, SIGSYS must never be blocked, nor have another handler. So calls that could do that are trapped too:
//! SIGSYS is removed from masks before the kernel gets them, an action for SIGSYS is remembered and not installed, and
//! a program that is executed gets this library again, or is not executed.
//!
//! The handler begins with the program's own signal mask. If the thread has glibc's storage, the handler enters the
//! engine by flag. Otherwise, and whenever it takes a lock of ours, it blocks all signals except those of faults. A
//! signal that arrives before that counts as one that arrived before the call.

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::vec::Vec;

use ufutex_program::{elf, environment};

use crate::calls::{self, Route};
use crate::engine::{self, Inside};
use crate::gate::{self, Gate, RAW_THREADS};
use crate::process::process;
use crate::raw;
use crate::signals::{self, Action, Context, bit};
use crate::timers::{self, credentials, wait};
use crate::{back, exit, filter, mark, memory, mixed, pkeys, settings, tracer};

static ON: AtomicBool = AtomicBool::new(false);

/// Whether system calls of this process are trapped.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The action that the program has set for SIGSYS. Guarded by the lock of actions.
struct Sigsys(UnsafeCell<Action>);
// SAFETY: guarded by the lock of actions.
unsafe impl Sync for Sigsys {}
static SIGSYS: Sigsys = Sigsys(UnsafeCell::new(Action { handler: 0, flags: 0, restorer: 0, mask: 0 }));

/// Changes the program's action for SIGSYS, and returns the previous one. The caller holds the lock of actions, or
/// changes nothing.
pub fn change_sigsys(new: Option<&Action>) -> Action {
    // SAFETY: guarded by the caller's lock.
    let place = unsafe { &mut *SIGSYS.0.get() };
    let old = *place;
    if let Some(new) = new {
        *place = *new;
        if new.handler > libc::SIG_IGN as u64 && new.flags & signals::SA_ONSTACK != 0 {
            install_handler(signals::SA_ONSTACK);
        }
    }
    old
}

/// Installs our own handler. `on_stack` is a flag to add, or 0.
///
/// The flag is `SA_ONSTACK`, from the time when the program asks for its own SIGSYS handler to run on the alternate
/// stack. The Go runtime does so, because goroutines make system calls on stacks without room for a handler's frame.
/// The flag is never taken back. Without it, the handler runs on the stack on which the call was made: an alternate
/// stack for stack overflows is often too small for our handler with the program's on top.
fn install_handler(on_stack: u64) {
    let action = Action {
        handler: on_sigsys as *const () as u64,
        // `SA_NODEFER`: the program's handler for its own filter runs on top of ours, and may make trapped calls.
        flags: (libc::SA_SIGINFO | libc::SA_NODEFER) as u64 | signals::SA_RESTORER | on_stack,
        restorer: signals::restore as *const () as u64,
        mask: 0,
    };
    // SAFETY: `on_sigsys` is written for this signal and these flags.
    unsafe { raw::own(libc::SYS_rt_sigaction, [libc::SIGSYS as u64, (&raw const action) as u64, 0, 8]) };
}

/// The path of this library, and the entry of the settings, for the environment of a child.
static LIBRARY: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
static SETTINGS: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

/// Installs the handler. A process that was executed under the trap has the filter already.
pub fn begin() {
    ON.store(true, Ordering::Relaxed);
    install_handler(0);
    let sigsys = bit(libc::SIGSYS);
    // SAFETY: changes the calling thread's mask.
    unsafe { raw::own(libc::SYS_rt_sigprocmask, [libc::SIG_UNBLOCK as u64, (&raw const sigsys) as u64, 0, 8]) };
}

/// Installs the filter.
///
/// # Safety
/// `environment` is the process's own at its start, when there is no other thread.
pub unsafe fn install(environment: *const *const c_char) {
    remember(environment);
    let settings = settings::get();
    if is_filtered() && (!settings.timers || are_timers_filtered()) {
        return; // the program that executed this one was trapped, and a filter stays
    }
    match filter::program(settings.stats.is_some(), settings.watch, settings.timers) {
        Ok(filter) => {
            if let Err(errno) = apply(&filter) {
                let errno = std::string::ToString::to_string(&errno);
                raw::die(&["--trap needs seccomp, which cannot be had: error ", &errno]);
            }
        }
        Err(why) => raw::die(&["the filter of --trap: ", &std::string::ToString::to_string(&why)]),
    }
    if !is_filtered() {
        raw::die(&["--trap: the kernel took the filter and does not apply it"]);
    }
}

/// Installs a filter for the calling thread, by system calls of our own: a sanitizer that has taken over `prctl` may
/// not have been initialised yet.
fn apply(filter: &[seccompiler::sock_filter]) -> Result<(), isize> {
    const SET_MODE_FILTER: u64 = 1;
    /// The kernel's `struct sock_fprog`.
    #[repr(C)]
    struct Program {
        length: u16,
        instructions: *const seccompiler::sock_filter,
    }
    let program = Program { length: filter.len() as u16, instructions: filter.as_ptr() };
    // SAFETY: the first call takes no pointer; the second reads `program`, which has the kernel's layout.
    let made = unsafe {
        match raw::own(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0]) {
            0 => raw::own(libc::SYS_seccomp, [SET_MODE_FILTER, 0, (&raw const program) as u64]),
            errno => errno,
        }
    };
    if made == 0 { Ok(()) } else { Err(-made) }
}

/// Whether a futex call made by an instruction arrives in this library.
fn is_filtered() -> bool {
    // SAFETY: a wake that the kernel refuses.
    unsafe { raw::syscall6(libc::SYS_futex, mark::FUTEX_PROBE) == PROBED }
}

/// Whether a call of timers made by an instruction arrives in this library.
fn are_timers_filtered() -> bool {
    // SAFETY: the kernel refuses the call: no timer has this ID.
    unsafe { raw::syscall6(libc::SYS_timer_getoverrun, mark::TIMERS_PROBE) == PROBED }
}

/// The result of a probe.
const PROBED: isize = 0x7566_7574;

fn remember(environment: *const *const c_char) {
    // SAFETY: the process's own environment at its start, as `install` requires.
    for entry in unsafe { environment::entries(environment) } {
        if environment::value_of(entry, environment::SETTINGS).is_some() {
            SETTINGS.store(leak(entry), Ordering::Relaxed);
        }
    }
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: an address in this library, and room for the result.
    if unsafe { libc::dladdr(remember as *const c_void, info.as_mut_ptr()) } != 0 {
        // SAFETY: filled in; the name is a string.
        let path = unsafe { CStr::from_ptr(info.assume_init().dli_fname) };
        LIBRARY.store(leak(path.to_bytes()), Ordering::Relaxed);
    }
}

/// Copies `text` to a string that is never freed, in memory that a forked child has too.
fn leak(text: &[u8]) -> *mut c_char {
    let mut copy = Vec::with_capacity(text.len() + 1);
    copy.extend_from_slice(text);
    copy.push(0);
    copy.leak().as_mut_ptr().cast()
}

/// The `si_code` of a SIGSYS that a filter has caused.
pub const SYS_SECCOMP: i32 = 1;
/// The operation of prctl(2) by which the program's own SIGSYS handler gets its system calls.
pub const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;

/// The flag of execveat(2) with which nothing is executed.
const AT_EXECVE_CHECK: u64 = 0x10000;

/// The registers of a call's arguments.
const ARGUMENTS: [libc::c_int; 6] =
    [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9];

/// The handler of SIGSYS. It may not use its stack before it has the rights for that: see `pkeys.rs`. It calls
/// [`handle`], with the rights that the kernel has given it as the fourth argument, or 0 if the program has not allocated
/// a key.
#[unsafe(naked)]
unsafe extern "C-unwind" fn on_sigsys(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    naked_asm!(
        ".cfi_startproc",
        "xor ecx, ecx",
        "cmp dword ptr [rip + {offset}], 0",
        "je 2f",
        "mov r8, rdx",
        ".byte 0x0f, 0x01, 0xee", // rdpkru: into eax, and 0 into edx
        "mov r9d, eax",
        "xor eax, eax",
        ".byte 0x0f, 0x01, 0xef", // wrpkru
        "mov rdx, r8",
        "mov ecx, r9d",
        "2:",
        "jmp {handle}",
        ".cfi_endproc",
        offset = sym pkeys::OFFSET,
        handle = sym handle,
    )
}

extern "C-unwind" fn handle(_: i32, info: *mut libc::siginfo_t, context: *mut c_void, rights: u32) {
    // SAFETY: a handler's third argument.
    let context = unsafe { Context::new(context) };
    pkeys::enter(&context);
    back::complete(&context);
    // SAFETY: a handler's second argument. The call's number stands behind its address.
    let (code, tag, number) = unsafe { ((*info).si_code, (*info).si_errno, *info.cast::<i32>().add(6)) };
    let args = ARGUMENTS.map(|register| context.register(register));
    let trapped = Trapped { number: number.into(), args, context: &context };
    let outcome = match code {
        SYS_SECCOMP if tag == i32::from(filter::TAG) => trapped.make(),
        SYS_SECCOMP if trapped.is_marked() => trapped.end(),
        _ => Outcome::NotOurs,
    };
    match outcome {
        Outcome::Result(result) => context.set_register(libc::REG_RAX, result as u64),
        Outcome::Unmasked(result) => {
            context.set_register(libc::REG_RAX, result as u64);
            // SAFETY: the context is this handler's own, and the mask has not changed.
            unsafe { back::go(&context) };
        }
        Outcome::Again => {
            // The instruction is two bytes long. It takes the call's number from rax.
            context.set_register(libc::REG_RIP, context.register(libc::REG_RIP) - 2);
            context.set_register(libc::REG_RAX, number as u64);
        }
        Outcome::NotOurs => not_ours(&context, info, rights),
    }
}

/// What happens after a trapped call.
enum Outcome {
    Result(isize),
    /// As `Result`, if the signal mask has been the program's throughout.
    Unmasked(isize),
    /// Executes the instruction again, perhaps with other arguments.
    Again,
    /// A SIGSYS that our filter has not caused.
    NotOurs,
}

struct Trapped<'a> {
    number: i64,
    args: [u64; 6],
    context: &'a Context,
}

impl Trapped<'_> {
    /// Whether this is a call of our own that a filter of the program has stopped.
    fn is_marked(&self) -> bool {
        mark::is_own(self.number, &self.args)
    }

    /// Ends the process, after printing a line if the filter permits that: without this system call the trap does not
    /// work, and the filter might stop any other call that we could make instead.
    ///
    /// To end the process, SIGSYS is blocked and the call is made again. The kernel then ends the process instead of
    /// calling the handler.
    fn end(&self) -> Outcome {
        static SAID: AtomicBool = AtomicBool::new(false);
        if !SAID.swap(true, Ordering::Relaxed) {
            // Formatted without allocating, because an allocation makes system calls too.
            let digits = [100, 10, 1].map(|power| b'0' + (self.number / power % 10) as u8);
            let why = b"ufutex run --trap: a seccomp filter of the program stops a system call of ours, number ";
            for part in [&why[..], &digits, b"\n"] {
                raw::write_all(2, part);
            }
        }
        // SAFETY: the kernel keeps the mask there.
        unsafe { *self.context.mask() |= bit(libc::SIGSYS) };
        Outcome::Again
    }

    fn make(&self) -> Outcome {
        let [a, b, c, d, e, f] = self.args;
        match self.number {
            number if mark::is_probe(number, &self.args) => Outcome::Result(PROBED),
            libc::SYS_futex
            | calls::SYS_FUTEX_WAITV
            | calls::SYS_FUTEX_WAKE
            | calls::SYS_FUTEX_WAIT
            | calls::SYS_FUTEX_REQUEUE => self.futex(),
            number if credentials::is_one(number, a) => blocked(|| credentials::call(number, self.args)),
            libc::SYS_timer_create..=libc::SYS_timer_delete => self.timer(),
            libc::SYS_prctl if a as u32 == timers::PR_TIMER_CREATE_RESTORE_IDS as u32 => self.timer(),
            libc::SYS_rt_sigtimedwait if timers::is_on() => self.inside(|inside| wait::sigtimedwait(self.args, inside)),
            libc::SYS_rt_sigtimedwait => self.inside(|inside| wait::kernel(self.args, inside)),
            // Returns the error of a kernel without this operation: otherwise our handler's system calls and its return
            // would be dispatched too.
            libc::SYS_prctl if a as u32 == PR_SET_SYSCALL_USER_DISPATCH as u32 => {
                Outcome::Result(-(libc::EINVAL as isize))
            }
            libc::SYS_prctl => blocked(|| engine::prctl(b, c, d)),
            libc::SYS_rt_sigaction => blocked(|| signals::rt_sigaction(a, b, c, d)),
            libc::SYS_rt_sigprocmask => Outcome::Result(self.sigprocmask()),
            libc::SYS_rt_sigsuspend => Outcome::Result(self.with_mask(0, b)),
            libc::SYS_ppoll => Outcome::Result(self.with_mask(3, e)),
            libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Outcome::Result(self.with_mask(4, f)),
            libc::SYS_pselect6 => Outcome::Result(self.pselect6()),
            libc::SYS_clone => {
                RAW_THREADS.store(true, Ordering::Relaxed);
                self.again_marked()
            }
            // The program executes the call itself. If the handler made it, sigreturn would undo the change of the rights.
            libc::SYS_pkey_alloc => {
                pkeys::begin(self.context);
                self.again_marked()
            }
            libc::SYS_clone3 => self.clone3(),
            libc::SYS_execve => blocked(|| self.exec(None, [a, b, c], 0)),
            libc::SYS_execveat if e & AT_EXECVE_CHECK != 0 => {
                // SAFETY: the program's own call, in which the kernel only says whether the file may be executed.
                Outcome::Result(unsafe { raw::own(self.number, [a, b, c, d, e]) })
            }
            libc::SYS_execveat => blocked(|| self.exec(Some(a), [b, c, d], e)),
            libc::SYS_exit_group => {
                exit::report();
                // SAFETY: the program's own call.
                Outcome::Result(unsafe { raw::own(libc::SYS_exit_group, [a]) })
            }
            _ => Outcome::NotOurs,
        }
    }

    /// Executes the instruction again, with the call marked.
    fn again_marked(&self) -> Outcome {
        let mut args = self.args;
        mark::put(self.number, &mut args);
        for (register, arg) in ARGUMENTS.into_iter().zip(args) {
            self.context.set_register(register, arg);
        }
        Outcome::Again
    }

    /// A call of timers. Without `--timers` the filter was installed in a program that had `--timers` and executed this
    /// one.
    fn timer(&self) -> Outcome {
        if timers::is_on() {
            return self.inside(|_| timers::call(self.number, self.args));
        }
        blocked(|| timers::kernel(self.number, self.args))
    }

    fn futex(&self) -> Outcome {
        let (number, kind, may_sleep) = match calls::route_of(self.number, &self.args) {
            Route::Ours(number, kind, may_sleep) => (number, kind, may_sleep),
            Route::Kernel => {
                calls::count_kernel(self.number, &self.args);
                return self.kernel_futex();
            }
            Route::Mixed => return self.inside(|inside| mixed::waitv(self.args, inside)),
            Route::Refused => return Outcome::Result(-(libc::EINVAL as isize)),
        };
        calls::count_word(kind, self.args[0]);
        self.inside(|inside| mixed::call(number, self.args, may_sleep, inside))
    }

    /// Makes calls that are left to the kernel: those of futex2 whose flags are in memory, where the filter cannot read
    /// them, and those that trap only to be counted.
    fn kernel_futex(&self) -> Outcome {
        let mut args = self.args;
        mark::put(self.number, &mut args);
        if self.number == libc::SYS_futex && mixed::is_private_pi(args[1]) {
            return self.inside(|inside| {
                if mixed::finds_plain_waiter(&self.args, inside) {
                    return -(libc::EINVAL as isize);
                }
                // SAFETY: the program's own call, which does not sleep.
                unsafe { raw::syscall6(libc::SYS_futex, args) }
            });
        }
        if self.number == libc::SYS_futex {
            return self.inside(|inside| mixed::kernel_futex(args, inside));
        }
        if self.number != calls::SYS_FUTEX_WAITV {
            // SAFETY: the program's own call, which does not sleep.
            return Outcome::Result(unsafe { raw::syscall6(self.number, args) });
        }
        self.inside(|inside| mixed::kernel_waitv(args, inside))
    }

    /// Runs `f` inside the engine: see `gate.rs`.
    fn inside(&self, f: impl FnOnce(&Inside) -> isize) -> Outcome {
        // SAFETY: the kernel keeps the mask there.
        let mask = unsafe { *self.context.mask() };
        let catches_faults = mask & (bit(libc::SIGSEGV) | bit(libc::SIGBUS)) == 0;
        let may_look = catches_faults && !RAW_THREADS.load(Ordering::Relaxed) && gate::is_found_without_a_call();
        // The gate is busy if a debugger calls a function in a thread that it has stopped inside the engine.
        // SAFETY: this thread's own gate, here and below, unless some threads share a gate.
        let is_free = |gate: &*mut Gate| unsafe { !Gate::is_busy(*gate) };
        let Some(gate) = may_look.then(Gate::find).flatten().filter(is_free) else { return self.inside_by_mask(f) };
        // SAFETY: as above.
        let before = unsafe { Gate::enter(gate) };
        let result = f(&Inside { gate, mask: ptr::null() });
        // SAFETY: as above.
        match unsafe { Gate::leave(gate, before) } {
            None => Outcome::Unmasked(result),
            // The kernel restores the mask of the handler's context.
            Some(meanwhile) => after_signal(result, meanwhile.restarts),
        }
    }

    /// Like [`inside`](Self::inside), for a thread that may not have a gate of its own.
    #[cold]
    fn inside_by_mask(&self, f: impl FnOnce(&Inside) -> isize) -> Outcome {
        gate::block_all();
        let mut gate = Gate::new();
        // The context holds the program's mask, without SIGSYS.
        let result = f(&Inside { gate: &raw mut gate, mask: self.context.mask() });
        // SAFETY: on our own stack.
        let meanwhile = unsafe { Gate::meanwhile(&raw const gate) };
        meanwhile.map_or(Outcome::Result(result), |meanwhile| after_signal(result, meanwhile.restarts))
    }

    /// Changes the program's mask, which the kernel restores after this handler.
    fn sigprocmask(&self) -> isize {
        let [how, set, old, size, ..] = self.args;
        if size != 8 {
            return -(libc::EINVAL as isize);
        }
        let Ok(set) = memory::read::<u64>(set) else { return -(libc::EFAULT as isize) };
        let mask = self.context.mask();
        // SAFETY: the kernel keeps the mask there.
        let before = unsafe { *mask };
        let never = bit(libc::SIGSYS) | bit(libc::SIGKILL) | bit(libc::SIGSTOP);
        let after = match how as i32 {
            libc::SIG_BLOCK => before | set,
            _ => set,
        };
        // SAFETY: as above.
        unsafe { *mask = after & !never };
        if old != 0 && memory::write(old, &before).is_err() {
            return -(libc::EFAULT as isize);
        }
        0
    }

    /// Makes a call that sleeps with another mask, with SIGSYS removed from that mask. A handler of the program that
    /// ends the sleep runs on top of this function, and may never return.
    fn with_mask(&self, argument: usize, size: u64) -> isize {
        let mut args = self.args;
        let mask;
        if size == 8
            && let Ok(wanted) = memory::read::<u64>(args[argument])
        {
            mask = wanted & !bit(libc::SIGSYS);
            args[argument] = (&raw const mask) as u64;
        }
        self.make_marked(args)
    }

    /// Like [`with_mask`](Self::with_mask), for the call whose mask and size stand in memory.
    fn pselect6(&self) -> isize {
        let mut args = self.args;
        let (mask, pair);
        if let Ok([at, 8]) = memory::read::<[u64; 2]>(args[5])
            && let Ok(wanted) = memory::read::<u64>(at)
        {
            mask = wanted & !bit(libc::SIGSYS);
            pair = [(&raw const mask) as u64, 8];
            args[5] = (&raw const pair) as u64;
        }
        self.make_marked(args)
    }

    /// Makes the program's call, a sleep with another mask, with other arguments, marked so that it passes the filter.
    fn make_marked(&self, mut args: [u64; 6]) -> isize {
        mark::put(self.number, &mut args);
        // SAFETY: the program's own call, with arguments as valid as its own.
        let result = unsafe { raw::syscall6(self.number, args) };
        if result == -(libc::EINTR as isize) {
            // The handler that has run may have changed the mask of its context, which is now this thread's.
            // SAFETY: the kernel keeps the mask there.
            unsafe { *self.context.mask() = gate::mask() & !bit(libc::SIGSYS) };
        }
        result
    }

    /// execve(2) and execveat(2). A failure leaves `errno` as it was: checking the files changes it, and a program that
    /// makes the call by an instruction does not expect that.
    fn exec(&self, directory: Option<u64>, arguments: [u64; 3], flags: u64) -> isize {
        // SAFETY: the thread has storage of glibc's, which contains `errno`.
        let errno = Gate::find().map(|_| unsafe { libc::__errno_location() });
        // SAFETY: as above.
        let before = errno.map(|errno| unsafe { *errno });
        // SAFETY: the kernel keeps the mask there.
        let mask = unsafe { *self.context.mask() };
        let result = exec_checked(self.number, directory, arguments, flags, mask);
        if let (Some(errno), Some(before)) = (errno, before) {
            // SAFETY: as above.
            unsafe { *errno = before };
        }
        result
    }

    /// clone3(2). With `CLONE_CLEAR_SIGHAND` the child would have the filter without our handler, and its first trapped
    /// call would end it. So that flag gets the error of a kernel without clone3. glibc then uses clone(2) and resets
    /// the actions in the child.
    fn clone3(&self) -> Outcome {
        const CLEAR_SIGHAND: u64 = 1 << 32;
        let shares = (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_SETTLS) as u64;
        let flags = memory::read::<u64>(self.args[0]).unwrap_or(0);
        if flags & CLEAR_SIGHAND != 0 {
            return Outcome::Result(-(libc::ENOSYS as isize));
        }
        if flags & shares == libc::CLONE_VM as u64 {
            RAW_THREADS.store(true, Ordering::Relaxed);
        }
        self.again_marked()
    }
}

/// The program's result of a call that a signal has interrupted. The signal is delivered when the kernel has restored
/// the mask.
fn after_signal(result: isize, restarts: bool) -> Outcome {
    match ufutex::syscall::resume(result, Some(restarts)) {
        ufutex::syscall::Resume::Return(result) => Outcome::Result(result),
        ufutex::syscall::Resume::Again | ufutex::syscall::Resume::Continue => Outcome::Again,
    }
}

/// Runs `f` with all signals blocked except those of faults, until the kernel restores the program's mask.
fn blocked(f: impl FnOnce() -> isize) -> Outcome {
    gate::block_all();
    Outcome::Result(f())
}

/// Executes a program. The filter stays, so the program needs this library too. A program that cannot load it is
/// refused.
fn exec_checked(
    number: i64,
    directory: Option<u64>,
    [path, arguments, environment]: [u64; 3],
    flags: u64,
    mask: u64,
) -> isize {
    let failed = |errno: libc::c_int| -(errno as isize);
    let name = match memory::string(path, libc::PATH_MAX as usize) {
        Ok(Some(name)) => name,
        Ok(None) => return failed(libc::ENAMETOOLONG),
        Err(_) => return failed(libc::EFAULT),
    };
    let Ok(name) = CStr::from_bytes_with_nul(&name) else { return failed(libc::EFAULT) };
    let at = directory.map_or(libc::AT_FDCWD, |directory| directory as i32);
    let is_link_refused = flags & libc::AT_SYMLINK_NOFOLLOW as u64 != 0;
    match elf::check(at, name) {
        Err(refusal) if !is_link_refused && refusal.kernel_error().is_none() => {
            return refuse(&std::string::ToString::to_string(&refusal.about(name.to_bytes())));
        }
        Ok(()) if !library_is_there() => {
            return refuse(
                "the library cannot be loaded from here (another root?), and the filter would stay without it",
            );
        }
        // If the kernel refuses the program, its own error is returned.
        _ => {}
    }
    let Ok(complete) = complete(environment) else { return failed(libc::EFAULT) };
    let environment = complete.as_ref().map_or(environment, |list| list.as_ptr() as u64);
    tracer::before_exec();
    // The new program begins with the mask of the calling thread. That must be the program's, not our handler's.
    gate::set_mask(mask);
    // SAFETY: the program's own call.
    let failed = unsafe {
        match directory {
            None => raw::own(number, [path, arguments, environment]),
            Some(directory) => raw::own(number, [directory, path, arguments, environment, flags]),
        }
    };
    gate::block_all();
    failed
}

fn library_is_there() -> bool {
    let library = LIBRARY.load(Ordering::Relaxed) as u64;
    // SAFETY: a string that is never freed; the call only asks about a file.
    library == 0 || unsafe { raw::own(libc::SYS_faccessat, [libc::AT_FDCWD as u64, library, libc::R_OK as u64]) } == 0
}

fn refuse(why: &str) -> isize {
    for part in ["ufutex run --trap: ", why, "\n"] {
        raw::write_all(2, part.as_bytes());
    }
    -(libc::EACCES as isize)
}

/// The program's environment, with the entries that the library needs added. `None` if it lacks none.
fn complete(environment: u64) -> Result<Option<Vec<u64>>, ufutex::Fault> {
    let mut entries = Vec::new();
    let mut strings = Vec::new();
    // A null pointer means an empty environment, as for the kernel.
    let mut next = (environment != 0).then_some(environment);
    while let Some(at) = next {
        let entry = memory::read::<u64>(at)?;
        next = (entry != 0).then(|| at.wrapping_add(8));
        if entry != 0 {
            entries.push(entry);
            strings.push(memory::string(entry, 1 << 17)?.unwrap_or_default());
        }
    }
    let (library, settings) = (LIBRARY.load(Ordering::Relaxed), SETTINGS.load(Ordering::Relaxed));
    if library.is_null() || settings.is_null() {
        return Ok(None);
    }
    // SAFETY: strings that are never freed.
    let library = unsafe { CStr::from_ptr(library) }.to_bytes();
    let without_end = |string: &'_ Vec<u8>| string.len().saturating_sub(1);
    let missing = environment::missing(strings.iter().map(|string| &string[..without_end(string)]), library);
    if missing.preload.is_none() && !missing.settings {
        return Ok(None);
    }
    if let Some(before) = missing.preload {
        // Of several entries the loader uses the last.
        let entry = environment::preload_entry(library, before).concat();
        entries.retain(|&entry| !matches!(memory::read::<[u8; 11]>(entry), Ok(name) if name == *b"LD_PRELOAD="));
        entries.push(leak(&entry) as u64);
    }
    if missing.settings {
        entries.push(settings as u64);
    }
    entries.push(0);
    Ok(Some(entries))
}

/// A SIGSYS that our filter has not caused: does what the program's action says. The default action ends the process.
/// `rights` are those with which the kernel has begun the handler. The program's handler begins with them too: see `pkeys.rs`.
fn not_ours(context: &Context, info: *mut libc::siginfo_t, rights: u32) {
    gate::block_all();
    let wanted = process().map_or_else(Action::default, |process| {
        let _locked = process.actions.lock();
        change_sigsys(None)
    });
    match wanted.handler {
        handler if handler > libc::SIG_IGN as u64 => {
            // The handler runs with the mask that the kernel would set for it. The kernel restores the mask when we
            // return.
            // SAFETY: where the kernel keeps the mask.
            gate::set_mask((unsafe { *context.mask() } | wanted.mask) & !bit(libc::SIGSYS));
            if rights != 0 {
                pkeys::set(rights);
            }
            // SAFETY: the program's own handler, with the arguments that the kernel gave us.
            unsafe {
                let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) = core::mem::transmute(handler);
                handler(libc::SIGSYS, info, context.as_ptr());
            }
        }
        handler => {
            // SAFETY: a handler's second argument.
            let is_forced = unsafe { (*info).si_code } > 0;
            if handler == libc::SIG_IGN as u64 && !is_forced {
                return;
            }
            exit::report();
            let default = Action::default();
            // SAFETY: ends the process.
            unsafe {
                raw::own(libc::SYS_rt_sigaction, [libc::SIGSYS as u64, (&raw const default) as u64, 0, 8]);
                raw::own(libc::SYS_tgkill, [raw::pid() as u64, raw::tid() as u64, libc::SIGSYS as u64]);
            }
        }
    }
}
