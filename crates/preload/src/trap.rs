//! `--trap`: system calls that are made by an instruction, inside libc or anywhere else, stop with SIGSYS
//! (`filter.rs`), and the handler here does them.
//!
//! For that, SIGSYS must never be blocked, nor have another handler. So calls that could do that are trapped too:
//! SIGSYS is removed from masks before the kernel gets them, an action for SIGSYS is remembered and not installed, and
//! a program that is executed gets this library again, or is not executed.
//!
//! The handler begins with the program's own signal mask. If the thread has glibc's storage, the handler goes inside by
//! flag at once. Otherwise, and for calls that are not on futexes or timers, it blocks all signals except those of faults. A
//! signal that arrives before that counts as one that arrived before the call. So no handler of the program, and none of
//! libc's, runs on top of this one: libc's handler of cancellation looks whether the thread was interrupted at its system call.

use core::arch::naked_asm;
use core::cell::{Cell, UnsafeCell};
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

/// Whether system calls of this process are trapped.
pub static ON: AtomicBool = AtomicBool::new(false);

/// [`ON`].
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
    match filter::program(settings) {
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

/// The handler of SIGSYS. It may not use its stack before it has the rights for that: see `pkeys.rs`.
///
/// No other handler may run on top of it: the program's handlers, and those of libc's own signals, look where the thread was
/// interrupted. So it first goes inside by flag, or blocks all signals. A signal that arrives before that is handled as if
/// it had arrived before the call ([`settle`]).
///
/// Then it calls [`handle`], with the rights that the kernel has given it, or 0 if the program has not allocated a key.
#[unsafe(naked)]
unsafe extern "C-unwind" fn on_sigsys(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    naked_asm!(
        ".globl ufutex_trap_kept, ufutex_trap_entered",
        ".hidden ufutex_trap_kept, ufutex_trap_entered",
        ".cfi_startproc",
        "mov r12, rdx",
        "mov r13, rsi",
        "ufutex_trap_kept:",
        "xor ebx, ebx",
        "cmp dword ptr [rip + {offset}], 0",
        "je 2f",
        "xor ecx, ecx",
        ".byte 0x0f, 0x01, 0xee", // rdpkru: into eax, and 0 into edx
        "mov ebx, eax",
        "xor eax, eax",
        ".byte 0x0f, 0x01, 0xef", // wrpkru
        "2:",
        // The thread's gate, if it has one of its own. Finding it may fault.
        "cmp byte ptr [rip + {has_fsgsbase}], 0",
        "je 4f",
        "cmp byte ptr [rip + {raw_threads}], 0",
        "jne 4f",
        "test dword ptr [r12 + {mask}], {faults}",
        "jnz 4f",
        "rdfsbase rax",
        "test rax, rax",
        "jz 4f",
        "add rax, qword ptr [rip + ufutex_gate@GOTTPOFF]",
        "movabs rcx, {magic}",
        "3: cmp [rax], rcx",
        ".pushsection ufutex_fixups, \"aR\"",
        ".balign 4",
        ".long 3b - .",
        ".long 4f - .",
        ".long {waits}",
        ".popsection",
        "jne 4f",
        // It is busy if a debugger calls a function in a thread that it has stopped inside the engine.
        "cmp byte ptr [rax + {busy}], {outside}",
        "je 5f",
        "4:",
        "movabs r9, {cookie}",
        // Unless that call is the one that a filter of the program has stopped.
        "cmp qword ptr [r12 + {rax}], {sigprocmask}",
        "jne 3f",
        "cmp [r12 + {r9}], r9",
        "je 2f",
        "3:",
        "mov rax, [r12 + {mask}]",
        "and rax, {trap}",
        "movabs rcx, {all}",
        "or rax, rcx",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "mov eax, {sigprocmask}",
        "mov edi, {setmask}",
        "mov rsi, rsp",
        "xor edx, edx",
        "mov r10d, 8",
        "syscall",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "2:",
        "xor r9d, r9d",
        "xor ecx, ecx",
        "jmp 6f",
        "5:",
        "mov rcx, rax",
        "mov byte ptr [rcx + {busy}], {is_busy}",
        "ufutex_trap_entered:",
        "6:",
        "mov rdi, r13",
        "mov rsi, r12",
        "mov edx, ebx",
        "jmp {handle}",
        ".cfi_endproc",
        offset = sym pkeys::OFFSET,
        has_fsgsbase = sym gate::HAS_FSGSBASE,
        raw_threads = sym RAW_THREADS,
        mask = const signals::MASK_IN_CONTEXT,
        rax = const signals::in_context(libc::REG_RAX),
        r9 = const signals::in_context(libc::REG_R9),
        faults = const bit(libc::SIGSEGV) | bit(libc::SIGBUS),
        waits = const memory::WAITS,
        magic = const gate::MAGIC,
        busy = const gate::BUSY_AT,
        outside = const gate::OUTSIDE,
        is_busy = const gate::BUSY,
        trap = const gate::TRAP,
        all = const gate::ALL,
        sigprocmask = const libc::SYS_rt_sigprocmask,
        setmask = const libc::SIG_SETMASK,
        cookie = const raw::COOKIE,
        handle = sym handle,
    )
}

unsafe extern "C" {
    // Labels in `on_sigsys`, not functions.
    safe fn ufutex_trap_kept();
    safe fn ufutex_trap_entered();
}

/// Makes the context of a signal that has interrupted the handler of SIGSYS that of the trapped call, so that the program's
/// handler finds the thread there: if that handler has done nothing yet, the call is made again. Elsewhere signals are put
/// off.
pub fn settle(context: &Context) {
    end_sleep(context);
    let rip = context.register(libc::REG_RIP);
    let [begins, kept, ends] =
        [on_sigsys as *const (), ufutex_trap_kept as *const (), ufutex_trap_entered as *const ()].map(|at| at as u64);
    if !(begins..ends).contains(&rip) {
        return;
    }
    let registers = if rip < kept { [libc::REG_RSI, libc::REG_RDX] } else { [libc::REG_R13, libc::REG_R12] };
    let [info, trapped] = registers.map(|register| context.register(register) as usize);
    // SAFETY: at these instructions the registers hold the handler's second and third argument.
    let (code, trapped) = unsafe {
        let info: *const libc::siginfo_t = ptr::with_exposed_provenance(info);
        ((*info).si_code, Context::new(ptr::with_exposed_provenance_mut(trapped)))
    };
    // A SIGSYS that was sent does not come again.
    if code == SYS_SECCOMP {
        trapped.set_register(libc::REG_RIP, trapped.register(libc::REG_RIP) - CALL_BYTES);
        context.become_like(&trapped);
    }
}

/// The length of a `syscall` instruction. It takes the call's number from rax.
const CALL_BYTES: u64 = 2;

extern "C-unwind" fn handle(info: *mut libc::siginfo_t, context: *mut c_void, rights: u32, gate: *mut Gate) {
    // SAFETY: a handler's third argument.
    let context = unsafe { Context::new(context) };
    pkeys::enter(&context);
    back::complete(&context);
    // SAFETY: a handler's second argument. The call's number stands behind its address.
    let (code, tag, number) = unsafe { ((*info).si_code, (*info).si_errno, *info.cast::<i32>().add(6)) };
    let args = ARGUMENTS.map(|register| context.register(register));
    let gate = Cell::new((!gate.is_null()).then_some(gate));
    let trapped = Trapped { number: number.into(), args, context: &context, gate };
    let outcome = match code {
        SYS_SECCOMP if tag == i32::from(filter::TAG) => trapped.make(),
        SYS_SECCOMP if trapped.is_marked() => trapped.end(),
        _ => Outcome::NotOurs,
    };
    match outcome {
        Outcome::Result(result) => context.set_register(libc::REG_RAX, result as u64),
        Outcome::Again => {
            context.set_register(libc::REG_RIP, context.register(libc::REG_RIP) - CALL_BYTES);
            context.set_register(libc::REG_RAX, number as u64);
        }
        Outcome::NotOurs => {
            trapped.block();
            return not_ours(&context, info, rights);
        }
    }
    if let Some(gate) = trapped.gate.get() {
        // SAFETY: the context is this handler's own, the thread is inside by this gate, and its mask is the program's.
        unsafe { back::go(&context, gate) };
        trapped.block();
    }
}

/// What happens after a trapped call.
enum Outcome {
    Result(isize),
    /// Executes the instruction again, perhaps with other arguments.
    Again,
    /// A SIGSYS that our filter has not caused.
    NotOurs,
}

struct Trapped<'a> {
    number: i64,
    args: [u64; 6],
    context: &'a Context,
    /// The thread's gate, while it is inside by flag. `None` when it is inside by mask.
    gate: Cell<Option<*mut Gate>>,
}

impl Trapped<'_> {
    /// Goes from inside by flag to inside by mask, until the kernel restores the program's mask.
    fn block(&self) {
        if let Some(gate) = self.gate.take() {
            // SAFETY: the kernel keeps the mask there.
            gate::set_mask(gate::inside(unsafe { *self.context.mask() }));
            // SAFETY: this thread's own gate. A signal that was deferred comes when the kernel restores the mask.
            unsafe { Gate::leave(gate, gate::OUTSIDE) };
        }
    }

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
        if let Some(gate) = self.gate.take() {
            // SAFETY: this thread's own gate. The kernel restores the mask.
            unsafe { Gate::leave(gate, gate::OUTSIDE) };
        }
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
        let is_futex = [libc::SYS_futex, calls::SYS_FUTEX_WAITV, calls::SYS_FUTEX_WAKE, calls::SYS_FUTEX_WAIT];
        if is_futex.contains(&self.number) || self.number == calls::SYS_FUTEX_REQUEUE {
            return if mark::is_probe(self.number, &self.args) { Outcome::Result(PROBED) } else { self.futex() };
        }
        if timers::is_on() && self.is_of_timers() && !mark::is_probe(self.number, &self.args) {
            return self.inside(|inside| match self.number {
                libc::SYS_rt_sigtimedwait => wait::sigtimedwait(self.args, inside),
                number => timers::call(number, self.args),
            });
        }
        // The other calls change the mask, or take locks of ours for longer, or are made again by the program.
        self.block();
        let result = match self.number {
            number if mark::is_probe(number, &self.args) => PROBED,
            number if credentials::is_one(number, a) => credentials::call(number, self.args),
            libc::SYS_rt_sigtimedwait => return self.inside(|inside| wait::kernel(self.args, inside)),
            // Without `--timers` the filter was installed in a program that had `--timers` and executed this one.
            number if self.is_of_timers() => timers::kernel(number, self.args),
            // Returns the error of a kernel without this operation: otherwise our handler's system calls and its return
            // would be dispatched too.
            libc::SYS_prctl if a as u32 == PR_SET_SYSCALL_USER_DISPATCH as u32 => -(libc::EINVAL as isize),
            libc::SYS_prctl => engine::prctl(b, c, d),
            libc::SYS_rt_sigaction => signals::rt_sigaction(a, b, c, d),
            libc::SYS_rt_sigprocmask => self.sigprocmask(),
            libc::SYS_rt_sigsuspend => self.with_mask(0, b),
            libc::SYS_ppoll => self.with_mask(3, e),
            libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => self.with_mask(4, f),
            libc::SYS_pselect6 => self.pselect6(),
            libc::SYS_clone => {
                RAW_THREADS.store(true, Ordering::Relaxed);
                return self.again_marked();
            }
            // The program executes the call itself. If the handler made it, sigreturn would undo the change of the rights.
            libc::SYS_pkey_alloc => {
                pkeys::begin(self.context);
                return self.again_marked();
            }
            libc::SYS_clone3 => return self.clone3(),
            libc::SYS_execve => self.exec(None, [a, b, c], 0),
            // SAFETY: the program's own call, in which the kernel only says whether the file may be executed.
            libc::SYS_execveat if e & AT_EXECVE_CHECK != 0 => unsafe { raw::own(self.number, [a, b, c, d, e]) },
            libc::SYS_execveat => self.exec(Some(a), [b, c, d], e),
            libc::SYS_exit_group => {
                exit::report();
                // SAFETY: the program's own call.
                unsafe { raw::own(libc::SYS_exit_group, [a]) }
            }
            _ => return Outcome::NotOurs,
        };
        Outcome::Result(result)
    }

    /// Whether the engine makes the call with `--timers`, apart from calls that change credentials.
    fn is_of_timers(&self) -> bool {
        match self.number {
            libc::SYS_timer_create..=libc::SYS_timer_delete | libc::SYS_rt_sigtimedwait => true,
            libc::SYS_prctl => self.args[0] as u32 == timers::PR_TIMER_CREATE_RESTORE_IDS as u32,
            _ => false,
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

    fn futex(&self) -> Outcome {
        let (number, kind, may_sleep) = match calls::route_of(self.number, &self.args) {
            Route::Ours(number, kind, may_sleep) => (number, kind, may_sleep),
            Route::Kernel => {
                calls::count_kernel(self.number, &self.args);
                // The filter cannot read flags in memory, and stops some calls only so that they are counted or noted.
                return self.inside(|inside| mixed::kernel(self.number, self.args, inside));
            }
            Route::Mixed => return self.inside(|inside| mixed::waitv(self.args, inside)),
            Route::Refused => return Outcome::Result(-(libc::EINVAL as isize)),
        };
        calls::count_word(kind, self.args[0]);
        self.inside(|inside| mixed::call(number, self.args, may_sleep, inside))
    }

    /// Runs `f` inside the engine: see `gate.rs`.
    fn inside(&self, f: impl FnOnce(&Inside) -> isize) -> Outcome {
        let mut by_mask = Gate::new();
        // The context holds the program's mask, without SIGSYS.
        let (gate, mask) = match self.gate.get() {
            Some(gate) => (gate, ptr::null()),
            None => (&raw mut by_mask, self.context.mask().cast_const()),
        };
        let result = f(&Inside { gate, mask });
        // SAFETY: this thread's own gate.
        let Some(meanwhile) = (unsafe { Gate::meanwhile(gate) }) else { return Outcome::Result(result) };
        // The program's result of a call that a signal has interrupted. The signal is delivered when the kernel has restored
        // the mask.
        match ufutex::syscall::resume(result, Some(meanwhile.restarts)) {
            ufutex::syscall::Resume::Return(result) => Outcome::Result(result),
            ufutex::syscall::Resume::Again | ufutex::syscall::Resume::Continue => Outcome::Again,
        }
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

    /// Makes a call that sleeps with another mask, with SIGSYS removed from that mask.
    fn with_mask(&self, argument: usize, size: u64) -> isize {
        let mut args = self.args;
        let mask;
        if size == 8
            && let Ok(wanted) = memory::read::<u64>(args[argument])
        {
            mask = wanted & !bit(libc::SIGSYS);
            args[argument] = (&raw const mask) as u64;
        }
        self.sleep_with_mask(args)
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
        self.sleep_with_mask(args)
    }

    /// Makes the program's call with other arguments, marked so that it passes the filter. A handler of the program may end
    /// the sleep: [`end_sleep`].
    fn sleep_with_mask(&self, mut args: [u64; 6]) -> isize {
        mark::put(self.number, &mut args);
        // SAFETY: the program's own call, with arguments as valid as its own.
        unsafe { sleep_with_mask(self.number, &raw const args, self.context.as_ptr()) }
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

/// Makes the system call `number` in the handler whose context is `trapped`.
#[unsafe(naked)]
unsafe extern "C" fn sleep_with_mask(number: i64, args: *const [u64; 6], trapped: *mut c_void) -> isize {
    naked_asm!(
        ".globl ufutex_slept_with_mask",
        ".hidden ufutex_slept_with_mask",
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "mov rbx, rdx",
        "mov rax, rdi",
        "mov r11, rsi",
        "mov rdi, [r11]",
        "mov rsi, [r11 + 8]",
        "mov rdx, [r11 + 16]",
        "mov r10, [r11 + 24]",
        "mov r8, [r11 + 32]",
        "mov r9, [r11 + 40]",
        "syscall",
        "ufutex_slept_with_mask:",
        "xor r9d, r9d",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
    )
}

unsafe extern "C" {
    // A label in `sleep_with_mask`, not a function.
    safe fn ufutex_slept_with_mask();
}

/// If a signal has ended a sleep with another mask, makes its context that of the trapped call, which has returned `EINTR`:
/// the program's handler then runs with the mask of the sleep, returns to the program, and the mask from before the call is
/// restored, as in the kernel.
fn end_sleep(context: &Context) {
    // All signals are blocked but in the sleep.
    if context.register(libc::REG_RIP) != ufutex_slept_with_mask as *const () as u64 {
        return;
    }
    let trapped = ptr::with_exposed_provenance_mut(context.register(libc::REG_RBX) as usize);
    // SAFETY: at this instruction the register holds the context of the handler of SIGSYS.
    let trapped = unsafe { Context::new(trapped) };
    trapped.set_register(libc::REG_RAX, context.register(libc::REG_RAX));
    context.become_like(&trapped);
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
