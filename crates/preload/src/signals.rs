//! Puts a handler of ours, [`deliver`], before every handler that the program installs. It defers a signal
//! while its thread is inside the engine (see `gate.rs`). If the program asks for its handlers, it gets its own.

use core::arch::{global_asm, naked_asm};
use core::mem::{MaybeUninit, offset_of};
use core::sync::atomic::{AtomicU64, Ordering};

use crate::gate::{self, Gate};
use crate::process::process;
use crate::{back, exit, memory, patch, raw, settings, timers, trap};

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

pub const SA_RESTORER: u64 = 0x0400_0000;
pub const SA_ONSTACK: u64 = libc::SA_ONSTACK as u64;
const SA_SIGINFO: u64 = libc::SA_SIGINFO as u64;
const SA_RESTART: u64 = libc::SA_RESTART as u64;
const SA_NODEFER: u64 = libc::SA_NODEFER as u64;
const SA_RESETHAND: u64 = libc::SA_RESETHAND as u32 as u64;
const DFL: u64 = libc::SIG_DFL as u64;
const IGN: u64 = libc::SIG_IGN as u64;
const SIGNALS: usize = 64;
/// libc's signal for pthread_cancel(3).
const CANCEL: i32 = 32;

pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The program's handler for each signal, in one word, so that it is read atomically: the handler's address in the
/// lower 56 bits, and above it the flags that the kernel's action may not have.
static INSTALLED: [AtomicU64; SIGNALS + 1] = [const { AtomicU64::new(0) }; SIGNALS + 1];

const HANDLER: u64 = (1 << 56) - 1;
const RESTART: u64 = 1 << 63;
const RESETHAND: u64 = 1 << 62;
const SIGINFO: u64 = 1 << 61;
/// Set if the handler's mask contains SIGSYS, which we do not let the program block.
const MASKS_SIGSYS: u64 = 1 << 60;
const RESTORER: u64 = 1 << 59;
const ONSTACK: u64 = 1 << 58;
const NODEFER: u64 = 1 << 57;

/// The flags that `INSTALLED` stores, and the bit for each.
const KEPT_FLAGS: [(u64, u64); 6] = [
    (SA_RESTART, RESTART),
    (SA_RESETHAND, RESETHAND),
    (SA_SIGINFO, SIGINFO),
    (SA_RESTORER, RESTORER),
    (SA_ONSTACK, ONSTACK),
    (SA_NODEFER, NODEFER),
];

fn packed(action: &Action) -> u64 {
    let masks_sigsys = if action.mask & bit(libc::SIGSYS) != 0 { MASKS_SIGSYS } else { 0 };
    let flags = KEPT_FLAGS.iter().filter(|(flag, _)| action.flags & flag != 0).fold(0, |bits, (_, bit)| bits | bit);
    action.handler & HANDLER | flags | masks_sigsys
}

/// The flags that [`packed`] has stored in the word.
fn kept_flags(installed: u64) -> u64 {
    KEPT_FLAGS.iter().filter(|(_, bit)| installed & bit != 0).fold(0, |flags, (flag, _)| flags | flag)
}

/// Signals whose default action must not come before our handler: faults of our own accesses to the program's
/// addresses, and, with a report, signals that would end the program without a report.
fn is_kept(signal: i32) -> bool {
    match signal {
        libc::SIGSEGV | libc::SIGBUS => true,
        libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGUSR1 => settings::get().stats.is_some(),
        _ => false,
    }
}

/// Installs our handler for the signals that keep it whatever the program does, and in front of the handlers that are
/// installed already: glibc before 2.34 installs those of its own signals when it is loaded.
pub fn install() {
    let mask = gate::block_all();
    // Another library's constructor may have made threads.
    let locked = process().map(|process| process.actions.lock());
    for signal in 1..=SIGNALS as i32 {
        let mut old = Action::default();
        // With `--trap`, SIGSYS has our handler already. Others have it if a constructor has called `sigaction` before.
        let is_read = signal != libc::SIGSYS && rt_sigaction_raw(signal, None, Some(&mut old)) == 0;
        if !is_read || old.handler == deliver as *const () as u64 {
            continue;
        }
        if old.handler > IGN {
            let _ = change(signal, Some(&old));
        } else if is_kept(signal) && (old.handler == DFL || is_fault(signal)) {
            // nohup(1) and shells leave signals ignored on purpose. For a fault's signal our handler then ignores those
            // that were sent.
            INSTALLED[signal as usize].store(old.handler, Ordering::Relaxed);
            rt_sigaction_raw(signal, Some(&default_of_ours()), None);
        }
    }
    drop(locked);
    gate::set_mask(mask);
}

fn default_of_ours() -> Action {
    Action {
        handler: deliver as *const () as u64,
        flags: SA_SIGINFO | SA_ONSTACK | SA_RESTORER | SA_RESTART,
        restorer: restore as *const () as u64,
        mask: 0,
    }
}

fn rt_sigaction_raw(signal: i32, new: Option<&Action>, old: Option<&mut Action>) -> isize {
    let new = new.map_or(0, |new| core::ptr::from_ref(new) as u64);
    let old = old.map_or(0, |old| core::ptr::from_mut(old) as u64);
    // SAFETY: both are null or valid. The handlers that we install are written for their signals.
    unsafe { raw::own(libc::SYS_rt_sigaction, [signal as u64, new, old, 8]) }
}

/// rt_sigaction(2) for the program. Call with all signals blocked or deferred.
pub fn rt_sigaction(signal: u64, new: u64, old: u64, size: u64) -> isize {
    let Some(process) = process() else { return -(libc::EFAULT as isize) };
    let number = signal as i32;
    if size != 8 || !(1..=SIGNALS as i32).contains(&number) || number == libc::SIGKILL || number == libc::SIGSTOP {
        // The kernel returns its own error.
        // SAFETY: fails, or only reads.
        return unsafe { raw::own(libc::SYS_rt_sigaction, [signal, new, old, size]) };
    }
    let new = match (new != 0).then(|| memory::read::<Action>(new)).transpose() {
        Ok(new) => new,
        Err(_) => return -(libc::EFAULT as isize),
    };
    let before = if process.is_borrowed() {
        // vfork, posix_spawn: the kernel's actions are the child's own, but the table is its parent's.
        change_borrowed(number, new.as_ref())
    } else {
        let _locked = process.actions.lock();
        change(number, new.as_ref())
    };
    match before {
        Ok(before) if old != 0 && memory::write(old, &before).is_err() => -(libc::EFAULT as isize),
        Ok(_) => 0,
        Err(errno) => errno,
    }
}

/// Changes the action of a signal. Returns the previous one.
fn change(signal: i32, new: Option<&Action>) -> Result<Action, isize> {
    let installed = &INSTALLED[signal as usize];
    let was = installed.load(Ordering::Relaxed);
    if trap::is_on() && signal == libc::SIGSYS {
        let never = bit(libc::SIGKILL) | bit(libc::SIGSTOP);
        return Ok(trap::change_sigsys(new.map(|new| Action { mask: new.mask & !never, ..*new }).as_ref()));
    }
    let mut old = Action::default();
    let result = match new {
        None => rt_sigaction_raw(signal, None, Some(&mut old)),
        Some(new) if new.handler > IGN => {
            // The table first: a signal that arrives from now on may be for the new handler.
            installed.store(packed(new), Ordering::Relaxed);
            let result = rt_sigaction_raw(signal, Some(&as_kernel(new)), Some(&mut old));
            if result < 0 {
                installed.store(was, Ordering::Relaxed); // a filter of the program has refused it
            }
            result
        }
        Some(new) => {
            let ours = Action { mask: new.mask, ..default_of_ours() };
            let to_kernel = if is_kept(signal) && (new.handler == DFL || is_fault(signal)) { &ours } else { new };
            let result = rt_sigaction_raw(signal, Some(to_kernel), Some(&mut old));
            if result == 0 {
                installed.store(packed(new), Ordering::Relaxed);
            }
            result
        }
    };
    if result < 0 { Err(result) } else { Ok(as_program(&old, was)) }
}

/// Like [`change`], for a process that borrows its parent's table: the table stays as it is.
fn change_borrowed(signal: i32, new: Option<&Action>) -> Result<Action, isize> {
    let was = INSTALLED[signal as usize].load(Ordering::Relaxed);
    if trap::is_on() && signal == libc::SIGSYS {
        return Ok(trap::change_sigsys(None));
    }
    let mut old = Action::default();
    let result = rt_sigaction_raw(signal, new, Some(&mut old));
    if result < 0 { Err(result) } else { Ok(as_program(&old, was)) }
}

fn is_fault(signal: i32) -> bool {
    matches!(signal, libc::SIGSEGV | libc::SIGBUS)
}

/// Whether the program single-steps the calling thread itself: its handler for SIGTRAP runs after each instruction. Such a
/// handler may make futex calls, so none may run while the thread is inside.
#[inline(always)]
pub fn is_stepped() -> bool {
    INSTALLED[libc::SIGTRAP as usize].load(Ordering::Relaxed) & HANDLER > IGN && gate::has_trap_flag()
}

/// The function by which the program's handlers return: libc's. 0 if it is not known.
static LIBCS_RESTORER: AtomicU64 = AtomicU64::new(0);

/// Whether a handler returns to this address, where the stack pointer then points at its context.
pub fn is_restorer(at: u64) -> bool {
    at == restore as *const () as u64 || at == LIBCS_RESTORER.load(Ordering::Relaxed)
}

/// The kernel's action for a handler of the program.
fn as_kernel(new: &Action) -> Action {
    let has_restorer = new.flags & SA_RESTORER != 0;
    if has_restorer {
        LIBCS_RESTORER.store(new.restorer, Ordering::Relaxed);
    }
    Action {
        handler: deliver as *const () as u64,
        flags: (new.flags | SA_SIGINFO | SA_RESTORER) & !SA_RESETHAND,
        restorer: if has_restorer { new.restorer } else { restore as *const () as u64 },
        mask: if trap::is_on() { new.mask & !bit(libc::SIGSYS) } else { new.mask },
    }
}

/// The program's action, as the program installed it, from the kernel's action and the table.
fn as_program(kernel: &Action, installed: u64) -> Action {
    if kernel.handler != deliver as *const () as u64 {
        return *kernel;
    }
    let handler = installed & HANDLER;
    let masked = if installed & MASKS_SIGSYS != 0 { bit(libc::SIGSYS) } else { 0 };
    let restorer = if installed & RESTORER != 0 { kernel.restorer } else { 0 };
    let all = KEPT_FLAGS.iter().fold(0, |all, (flag, _)| all | flag);
    // If the program has no handler for the signal, the flags of the kernel's action are ours.
    let others = if handler <= IGN { 0 } else { kernel.flags & !all };
    Action { handler, flags: others | kept_flags(installed), restorer, mask: kernel.mask | masked }
}

/// The kernel's handler for each signal that the program handles, and for those of [`is_kept`]. It pops its frame before
/// it jumps to the program's handler. So that handler begins as if the kernel had called it, and an unwinder that starts
/// there finds no frame of this function.
///
/// If the signal interrupted `sleep`, all signals are blocked first. The kernel may deliver another one before that, at
/// the latest at `ufutex_deliver_blocked`. Its handler must find the context of this one, to see that the thread is
/// inside: the context is in rdx at the first instruction, and in r12 from the second on ([`earlier`]). All registers
/// are free here, because those of the interrupted code are in the context.
#[unsafe(naked)]
pub extern "C" fn deliver() {
    naked_asm!(
        ".globl ufutex_deliver_blocked",
        ".hidden ufutex_deliver_blocked",
        // Another signal may interrupt this, and unwind from there.
        ".cfi_startproc",
        "mov r12, rdx",
        "mov rax, [r12 + {rip}]",
        "lea rcx, [rip + ufutex_sleep_begins]",
        "cmp rax, rcx",
        "jb ufutex_deliver_blocked",
        "lea rcx, [rip + ufutex_sleep_ends_blocked]",
        "cmp rax, rcx",
        "jae ufutex_deliver_blocked",
        "mov r13, rdi",
        "mov r14, rsi",
        "mov eax, {sigprocmask}",
        "mov edi, {setmask}",
        "lea rsi, [rip + {everything}]",
        "xor edx, edx",
        "mov r10d, 8",
        "movabs r9, {cookie}",
        "syscall",
        "xor r9d, r9d",
        "mov rdi, r13",
        "mov rsi, r14",
        "mov rdx, r12",
        "ufutex_deliver_blocked:",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "call {decide}",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "test rax, rax",
        "jz 2f",
        // If a call of ours was interrupted, these registers may hold our mark. The handler's calls must not have it.
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r10d, r10d",
        "jmp rax",
        "2: ret",
        ".cfi_endproc",
        decide = sym decide,
        rip = const in_context(libc::REG_RIP),
        sigprocmask = const libc::SYS_rt_sigprocmask,
        setmask = const libc::SIG_SETMASK,
        everything = sym EVERYTHING,
        cookie = const raw::COOKIE,
    )
}

unsafe extern "C" {
    // A label in `deliver`, not a function.
    safe fn ufutex_deliver_blocked();
}

static EVERYTHING: u64 = u64::MAX;

/// Whether the signal came while the thread slept, or at the beginning of another signal's handler that interrupted the
/// sleep.
fn interrupted_sleep(context: &Context) -> bool {
    match earlier(context) {
        None => gate::sleeps_at(context.register(libc::REG_RIP)).is_some(),
        Some(earlier) => interrupted_sleep(&earlier),
    }
}

/// The context of the signal whose handler this signal has interrupted before `ufutex_deliver_blocked`. `None` if it has
/// interrupted something else.
fn earlier(context: &Context) -> Option<Context> {
    let window = deliver as *const () as u64..ufutex_deliver_blocked as *const () as u64;
    let rip = context.register(libc::REG_RIP);
    let register = if rip == window.start { libc::REG_RDX } else { libc::REG_R12 };
    let earlier = core::ptr::with_exposed_provenance_mut(context.register(register) as usize);
    // SAFETY: at these instructions the register holds the third argument of `deliver`.
    window.contains(&rip).then(|| unsafe { Context::new(earlier) })
}

/// Moves a thread out of a stub: see `patch/stub.rs`; out of the handler of SIGSYS: see `trap.rs`. Also moves the context of an earlier signal whose handler is at its
/// beginning, as it is if the kernel delivers two signals at once.
///
/// A handler is not at its beginning any more in the few instructions before its own call of this function. If another
/// signal comes there, the earlier context may still be in a stub, where an unwinder ends.
fn move_to_site(context: &Context) {
    patch::move_to_site(context);
    trap::settle(context);
    if let Some(earlier) = earlier(context) {
        move_to_site(&earlier);
    }
}

// Returns from a handler, as libc's `__restore_rt` does, with unwind information like its: each register is in the
// context, at which rsp points, and `DW_CFA_expression` (0x10) says where; `DW_CFA_def_cfa_expression` (0x0f) says that the
// interrupted rsp is there too. An unwinder looks up the byte before the return address: the `nop`.
global_asm!(
    ".pushsection .text.ufutex_restore, \"ax\", @progbits",
    ".macro ufutex_in_context register, offset",
    ".cfi_escape 0x10, \\register, 3, 0x77, (\\offset & 0x7f) | 0x80, \\offset >> 7",
    ".endm",
    ".cfi_startproc",
    ".cfi_signal_frame",
    ".cfi_escape 0x0f, 4, 0x77, ({rsp} & 0x7f) | 0x80, {rsp} >> 7, 0x06",
    "ufutex_in_context 0, {rax}",
    "ufutex_in_context 1, {rdx}",
    "ufutex_in_context 2, {rcx}",
    "ufutex_in_context 3, {rbx}",
    "ufutex_in_context 4, {rsi}",
    "ufutex_in_context 5, {rdi}",
    "ufutex_in_context 6, {rbp}",
    "ufutex_in_context 8, {r8}",
    "ufutex_in_context 9, {r9}",
    "ufutex_in_context 10, {r10}",
    "ufutex_in_context 11, {r11}",
    "ufutex_in_context 12, {r12}",
    "ufutex_in_context 13, {r13}",
    "ufutex_in_context 14, {r14}",
    "ufutex_in_context 15, {r15}",
    "ufutex_in_context 16, {rip}",
    "nop",
    ".globl ufutex_restore",
    ".hidden ufutex_restore",
    ".type ufutex_restore, @function",
    "ufutex_restore:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00", // the bytes by which debuggers recognise it
    "syscall",
    ".size ufutex_restore, . - ufutex_restore",
    ".cfi_endproc",
    ".purgem ufutex_in_context",
    ".popsection",
    rax = const in_context(libc::REG_RAX),
    rdx = const in_context(libc::REG_RDX),
    rcx = const in_context(libc::REG_RCX),
    rbx = const in_context(libc::REG_RBX),
    rsi = const in_context(libc::REG_RSI),
    rdi = const in_context(libc::REG_RDI),
    rbp = const in_context(libc::REG_RBP),
    rsp = const in_context(libc::REG_RSP),
    r8 = const in_context(libc::REG_R8),
    r9 = const in_context(libc::REG_R9),
    r10 = const in_context(libc::REG_R10),
    r11 = const in_context(libc::REG_R11),
    r12 = const in_context(libc::REG_R12),
    r13 = const in_context(libc::REG_R13),
    r14 = const in_context(libc::REG_R14),
    r15 = const in_context(libc::REG_R15),
    rip = const in_context(libc::REG_RIP),
);

/// The offset of a register in a context.
pub const fn in_context(register: i32) -> usize {
    offset_of!(libc::ucontext_t, uc_mcontext) + offset_of!(libc::mcontext_t, gregs) + register as usize * 8
}

unsafe extern "C" {
    #[link_name = "ufutex_restore"]
    pub safe fn restore();
}

/// The offset of the mask in a context.
pub const MASK_IN_CONTEXT: usize = offset_of!(libc::ucontext_t, uc_sigmask);

/// Offset of `struct _fpx_sw_bytes` in a frame's floating-point area. In it the kernel describes what the area
/// contains.
const SOFTWARE: usize = 464;
/// Offset of the bits that say which register sets the area contains.
pub const FEATURES: usize = SOFTWARE + 8;

/// The part of `ucontext_t` that the kernel writes and reads. libc's type has a larger mask.
pub struct Context(*mut libc::ucontext_t);

impl Context {
    /// # Safety
    /// `context` must be a handler's third argument.
    pub unsafe fn new(context: *mut libc::c_void) -> Self {
        Self(context.cast())
    }

    pub fn as_ptr(&self) -> *mut libc::c_void {
        self.0.cast()
    }

    pub fn register(&self, register: i32) -> u64 {
        // SAFETY: valid, as `new` requires.
        unsafe { (*self.0).uc_mcontext.gregs[register as usize] as u64 }
    }

    pub fn set_register(&self, register: i32, value: u64) {
        // SAFETY: valid, as `new` requires.
        unsafe { (*self.0).uc_mcontext.gregs[register as usize] = value as i64 };
    }

    /// The area that the kernel has filled by XSAVE, and the register sets that it contains. `None` if there is none.
    pub fn xsave_area(&self) -> Option<(*const u8, u64)> {
        /// The struct's first word, if the area was filled by XSAVE.
        const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
        // SAFETY: valid, as `new` requires.
        let area = unsafe { (*self.0).uc_mcontext.fpregs }.cast_const().cast::<u8>();
        if area.is_null() {
            return None;
        }
        // SAFETY: the area has at least 512 bytes, which include the struct.
        unsafe {
            let magic = area.add(SOFTWARE).cast::<u32>().read_unaligned();
            let features = area.add(FEATURES).cast::<u64>().read_unaligned();
            (magic == FP_XSTATE_MAGIC1).then_some((area, features))
        }
    }

    /// Makes this context, of a signal that has interrupted the handler of another, the other's: its registers, its mask and
    /// its alternate stack.
    pub fn become_like(&self, other: &Context) {
        for register in (libc::REG_R8..=libc::REG_RIP).chain([libc::REG_EFL]) {
            self.set_register(register, other.register(register));
        }
        // SAFETY: both are valid, as `new` requires.
        unsafe {
            *self.mask() = *other.mask();
            (*self.0).uc_stack = (*other.0).uc_stack;
        }
        // The kernel lays out all areas of a thread in the same way.
        if let (Some((from, _)), Some((to, _))) = (other.xsave_area(), self.xsave_area()) {
            const SIZE: usize = SOFTWARE + 4;
            // SAFETY: the area says its own size, the mark behind it included.
            unsafe {
                let size = |area: *const u8| area.add(SIZE).cast::<u32>().read_unaligned() as usize;
                core::ptr::copy_nonoverlapping(from, to.cast_mut(), size(from).min(size(to)));
            }
        }
    }

    /// The flags of the thread's alternate stack, as they were before the signal.
    pub fn alternate_stack_flags(&self) -> u32 {
        // SAFETY: valid, as `new` requires.
        unsafe { (*self.0).uc_stack.ss_flags as u32 }
    }

    /// The place of the mask that the kernel restores after the handler.
    pub fn mask(&self) -> *mut u64 {
        // SAFETY: valid, as `new` requires.
        unsafe { (&raw mut (*self.0).uc_sigmask).cast() }
    }
}

/// Decides about a signal. Returns the handler to jump to, or 0 if there is none.
///
/// The cancellation of a thread may interrupt this at any instruction, and unwinds from there. Rust's personality ends the
/// process at an instruction that a function's table of clean-ups does not name. So this function and those that it calls
/// before they block signals have nothing to clean up, and so no such table. It is `C-unwind`, because a function that may not
/// unwind has a table too.
///
/// # Safety
/// Called as a handler is called.
unsafe extern "C-unwind" fn decide(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) -> u64 {
    // SAFETY: a handler's third argument.
    let context = unsafe { Context::new(context) };
    // SAFETY: a handler's second argument.
    let code = unsafe { (*info).si_code };
    back::complete(&context);
    // SAFETY: a handler's second argument.
    if signal == libc::SIGBUS && is_mark(unsafe { &*info }) {
        if let Some(resume) = memory::interruption(context.register(libc::REG_RIP)) {
            context.set_register(libc::REG_RIP, resume);
        }
        return 0;
    }
    // The handler for a SIGSYS of the program's own filter gives the stopped call its result, so it cannot run later.
    let is_own_fault = code > 0
        && matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP | libc::SIGSYS);
    // A program that single-steps itself must get through a stub.
    if !is_own_fault {
        move_to_site(&context);
    }
    // A trap after a step says the address of the next instruction, which may be such an access too.
    if is_own_fault
        && is_fault(signal)
        && let Some(resume) = memory::fixup(context.register(libc::REG_RIP))
    {
        context.set_register(libc::REG_RIP, resume);
        return 0;
    }
    let installed = INSTALLED[signal as usize].load(Ordering::Relaxed);
    if !is_own_fault && is_deferred(signal, info, &context, installed) {
        return 0;
    }
    // SAFETY: a handler's second argument.
    if !is_own_fault && timers::is_on() && !unsafe { timers::arrive(signal, info) } {
        return 0;
    }
    // SAFETY: a handler's second argument.
    let reports = unsafe { asks_for_report(signal, info) };
    if reports {
        exit::report_now();
    }
    match installed & HANDLER {
        DFL => {
            if !reports {
                by_default(signal, info, is_own_fault);
            }
            0
        }
        IGN => {
            if is_own_fault {
                by_default(signal, info, is_own_fault);
            }
            0
        }
        handler => {
            if installed & RESETHAND != 0 {
                reset(signal);
            }
            handler
        }
    }
}

/// Defers a signal that came while its thread was inside the engine or was deferring another one. `false` if the
/// thread was outside, where the signal can be handled.
fn is_deferred(signal: i32, info: *mut libc::siginfo_t, context: &Context, installed: u64) -> bool {
    // SAFETY: the kernel reads the mask there.
    let mask = unsafe { &mut *context.mask() };
    if bit(signal) & gate::FAULTS != 0 && gate::blocks_all(*mask) {
        // Another thread sent it: this thread is inside by its mask, or has deferred another signal.
        gate::block(u64::MAX);
        send_again(signal, info);
        *mask |= bit(signal);
        return true;
    }
    if let Some(interrupted) = gate::sleeps_at(context.register(libc::REG_RIP)) {
        let gate = core::ptr::with_exposed_provenance_mut(context.register(libc::REG_RBX) as usize);
        context.set_register(libc::REG_RIP, interrupted);
        defer(signal, info, context, gate, installed);
        return true;
    }
    if interrupted_sleep(context) {
        // The interrupted handler goes on, with all signals blocked, and will defer its own signal.
        gate::block(u64::MAX);
        send_again(signal, info);
        *mask = gate::inside(*mask) | bit(signal);
        return true;
    }
    if signal == CANCEL && earlier(context).is_some() {
        // libc's handler would find the other handler interrupted, and not the wait. It comes when that one has returned.
        gate::block(u64::MAX);
        send_again(signal, info);
        *mask |= bit(signal);
        return true;
    }
    let Some(gate) = Gate::find() else { return false };
    // SAFETY: this thread's gate. Threads that share a gate are not inside by flag.
    let is_busy = unsafe { Gate::is_busy(gate) };
    if is_busy {
        defer(signal, info, context, gate, installed);
    }
    is_busy
}

/// Whether another process asks for a report: SIGUSR1 by kill(2) from outside. If a program sends SIGUSR1 to itself,
/// the signal is meant for its own handler, and may come any number of times.
///
/// # Safety
/// `info` must be a handler's second argument.
unsafe fn asks_for_report(signal: i32, info: *const libc::siginfo_t) -> bool {
    signal == libc::SIGUSR1
        && settings::get().stats.is_some()
        // SAFETY: the caller guarantees `info`. Signals with this code have a sender.
        && unsafe { (*info).si_code == libc::SI_USER && (*info).si_pid() != raw::pid() }
}

/// Defers a signal: sends it to its thread once more, where it stays pending until the thread is outside.
fn defer(signal: i32, info: *mut libc::siginfo_t, context: &Context, gate: *mut Gate, installed: u64) {
    let before = context.mask();
    // No fault happens in this code, so the faults' signals are blocked too.
    gate::block(u64::MAX);
    send_again(signal, info);
    // Without a handler the program does not notice the signal, so the call restarts.
    let restarts = installed & RESTART != 0 || installed & HANDLER <= IGN;
    // SAFETY: the caller guarantees that the gate is this thread's. The kernel reads the mask at `before`.
    unsafe {
        Gate::defer(gate, *before, restarts);
        *before = gate::inside(*before) | bit(signal);
    }
}

fn send_again(signal: i32, info: *mut libc::siginfo_t) {
    const FIRST_QUEUED: i32 = 32;
    let (pid, tid) = (raw::pid() as u64, raw::tid() as u64);
    // SAFETY: a thread may send itself any signal. The information came from the kernel, or is a mark.
    let send = |info: *const libc::siginfo_t| unsafe {
        raw::own(libc::SYS_rt_tgsigqueueinfo, [pid, tid, signal as u64, info as u64])
    };
    // Real-time signals are delivered in the order in which they were sent. This signal has to be the first: the ones
    // that are already pending are taken and sent once more after it, up to a mark that was sent before it.
    let mark = (signal >= FIRST_QUEUED && is_pending(signal)).then(mark);
    let is_marked = mark.is_some_and(|mark| send(&raw const mark) == 0);
    let sent = send(info);
    while is_marked && let Some(next) = take_pending(signal) {
        if is_mark(&next) {
            break;
        }
        send(&raw const next);
    }
    if sent != 0 {
        // Too many signals are pending. Without its information the signal needs no memory.
        // SAFETY: sent to the calling thread.
        unsafe { raw::own(libc::SYS_tgkill, [pid, tid, signal as u64]) };
    }
}

/// Whether a blocked signal is pending for this thread.
fn is_pending(signal: i32) -> bool {
    let mut pending = 0u64;
    // SAFETY: stores into `pending`.
    unsafe { raw::own(libc::SYS_rt_sigpending, [(&raw mut pending) as u64, 8]) };
    pending & bit(signal) != 0
}

/// Takes the first pending signal with this number. Those for this thread come before those for the process.
fn take_pending(signal: i32) -> Option<libc::siginfo_t> {
    let (set, no_time) = (bit(signal), libc::timespec { tv_sec: 0, tv_nsec: 0 });
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    let (set, time) = ((&raw const set) as u64, (&raw const no_time) as u64);
    // SAFETY: reads the set and the time, fills in the information if there is a signal.
    unsafe {
        let taken = raw::own(libc::SYS_rt_sigtimedwait, [set, info.as_mut_ptr() as u64, time, 8]);
        (taken == i64::from(signal) as isize).then(|| info.assume_init())
    }
}

/// A signal's information as the kernel lays it out, as far as marks need it.
#[repr(C)]
struct Information {
    signal: i32,
    errno: i32,
    code: i32,
    sender: [i32; 3],
    value: u64,
}

/// Makes a mark: the information of a signal that no program sends.
fn mark() -> libc::siginfo_t {
    // SAFETY: the struct consists of numbers, which may be zero.
    let mut info: libc::siginfo_t = unsafe { core::mem::zeroed() };
    let mark = (&raw mut info).cast::<Information>();
    // SAFETY: `Information` is the beginning of the struct.
    unsafe {
        (*mark).code = libc::SI_QUEUE;
        (*mark).value = raw::COOKIE;
    }
    info
}

/// Makes an access of a thread of this process fail if it waits for a page: see `stuck.rs`.
pub fn interrupt(thread: i32) {
    let mut action = Action::default();
    // Without our handler the signal would be the program's.
    if rt_sigaction_raw(libc::SIGBUS, None, Some(&mut action)) == 0 && action.handler == deliver as *const () as u64 {
        let mark = mark();
        let args = [raw::pid() as u64, thread as u64, libc::SIGBUS as u64, (&raw const mark) as u64];
        // SAFETY: a thread of this process, and a signal whose handler is ours.
        unsafe { raw::own(libc::SYS_rt_tgsigqueueinfo, args) };
    }
}

fn is_mark(info: &libc::siginfo_t) -> bool {
    // SAFETY: `Information` is the beginning of the struct.
    let information = unsafe { &*core::ptr::from_ref(info).cast::<Information>() };
    information.code == libc::SI_QUEUE && information.value == raw::COOKIE
}

/// Does what `SA_RESETHAND` asks for. The kernel's action does not have this flag.
fn reset(signal: i32) {
    let mask = gate::block_all();
    reset_blocked(signal);
    gate::set_mask(mask);
}

#[inline(never)]
fn reset_blocked(signal: i32) {
    let Some(process) = process() else { return };
    let _locked = process.actions.lock();
    if let Ok(action) = change(signal, None) {
        let _ = change(signal, Some(&Action { handler: DFL, ..action }));
    }
}

/// The program has no handler: does what the kernel would have done.
fn by_default(signal: i32, info: *mut libc::siginfo_t, is_own_fault: bool) {
    exit::report();
    rt_sigaction_raw(signal, Some(&Action::default()), None);
    // A call that a filter has stopped is not made again.
    if !is_own_fault || signal == libc::SIGSYS {
        send_again(signal, info);
    }
    // The kernel ends the process when we return: the fault happens again, or the signal is delivered.
}
