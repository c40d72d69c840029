//! Keeps the program's signal handlers out of a thread that is inside the engine. A handler that ran there may
//! make futex calls of its own, which would find a bucket locked by the interrupted thread; or it may never return
//! (siglongjmp, cancellation). So a signal that arrives inside is deferred until the thread is outside again. A signal
//! that arrives while the thread sleeps ends the sleep first, as in the kernel.
//!
//! There are two ways to be inside:
//!
//! - **By flag**: the thread's [`Gate`] says `busy`. It costs two stores. A signal handler finds the flag in the
//!   thread's own storage.
//! - **By mask**: all signals are blocked, for a trapped call of a thread without storage of its own. They are
//!   unblocked only around the sleep.
//!
//! In both cases the handler that every signal goes through (`signals.rs`) defers a signal: it blocks all signals,
//! sends the signal to its own thread once more, and continues. The kernel delivers it when the mask is restored,
//! outside of the engine.
//!
//! A handler that the program has installed by an instruction is not seen without `--trap`, and runs at once. If it makes
//! futex calls, it finds the flag: see `late.rs`. Other calls of the engine are made by mask, so it cannot interrupt them.

use core::arch::{asm, global_asm, naked_asm};
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};

use crate::late;
use crate::raw::{self, COOKIE};

/// Whether some threads share another thread's thread-local storage. If so, no thread is inside by flag any more.
pub static RAW_THREADS: AtomicBool = AtomicBool::new(false);

/// The signals that are never blocked inside. If they were, a bad address from the program would end the process in our
/// own access to it, and a trapped call in the trap.
const NEEDED: u64 = 1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1) | 1 << (libc::SIGSYS - 1);
/// Blocked inside only if the program blocks it. A program that single-steps itself steps through code with this mask, and
/// is ended if the signal is blocked there. A program that blocks it, to take it by sigwait(3), is ended if it is not.
pub const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
/// The signals that a thread causes by its own instructions.
pub const FAULTS: u64 = NEEDED | TRAP;
/// The signals that are always blocked inside.
pub const ALL: u64 = !FAULTS;

/// The first word of a gate.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ufx gate");

/// The state that a thread and its signal handlers share. Only one thread accesses it.
#[repr(C)]
pub struct Gate {
    /// Distinguishes a thread's storage from other data at that place.
    magic: u64,
    /// The thread's mask, to be restored. Valid if `deferred` is set.
    saved_mask: u64,
    /// Whether the thread is inside by flag: [`OUTSIDE`], [`BUSY`] or [`ASLEEP`].
    busy: u8,
    /// What has happened while the thread was inside: bits, from [`SIGNAL`] on.
    deferred: u8,
    /// Whether the program's handler for that signal was installed with `SA_RESTART`.
    restart: u8,
}

/// Outside.
pub const OUTSIDE: u8 = 0;
/// Inside. The thread may hold something.
pub const BUSY: u8 = 1;
/// Inside, in [`sleep`]. The thread holds nothing, so a handler that was not seen being installed may make calls.
const ASLEEP: u8 = 2;

/// A signal was deferred.
const SIGNAL: u8 = 1;
/// A handler that was not seen being installed has ended the sleep.
const INTERRUPTED: u8 = 2;
/// Such a handler has left calls: see `late.rs`.
const LATE: u8 = 4;

/// What has happened while a thread was inside.
pub struct Meanwhile {
    /// The mask that is to be restored, if a signal was deferred.
    pub mask: Option<u64>,
    /// Whether a call that was interrupted is made again.
    pub restarts: bool,
}

/// The offsets of two fields, for assembly.
pub const BUSY_AT: usize = offset_of!(Gate, busy);
pub const DEFERRED_AT: usize = offset_of!(Gate, deferred);

// The gate in each thread's storage. Written in assembly, because it must be reached by one load: compilers access a
// thread-local of a shared library through a function that may allocate.
global_asm!(
    ".pushsection .tdata,\"awT\",@progbits",
    ".balign 8",
    ".hidden ufutex_gate",
    ".globl ufutex_gate",
    ".type ufutex_gate,@object",
    ".size ufutex_gate, {size}",
    "ufutex_gate:",
    ".quad {magic}",
    ".zero {size} - 8",
    ".popsection",
    size = const size_of::<Gate>(),
    magic = const MAGIC,
);

/// The offset of the calling thread's gate from the start of its storage.
#[inline(always)]
fn gate_offset() -> u64 {
    let offset;
    // SAFETY: reads a word that the dynamic linker has filled in.
    unsafe {
        asm!("mov {}, qword ptr [rip + ufutex_gate@GOTTPOFF]", out(reg) offset, options(nostack, pure, readonly))
    };
    offset
}

/// Whether programs may read the address of their storage by an instruction. Otherwise it takes a system call, which is
/// slower, and which a program's own filter may forbid.
pub static HAS_FSGSBASE: AtomicBool = AtomicBool::new(false);

/// Finds out what the machine supports, before the program begins.
pub fn begin() {
    const HWCAP2_FSGSBASE: u64 = 1 << 1;
    // SAFETY: reads the kernel's auxiliary vector.
    let has = unsafe { libc::getauxval(libc::AT_HWCAP2) } & HWCAP2_FSGSBASE != 0;
    HAS_FSGSBASE.store(has, Ordering::Relaxed);
}

/// Notes the storage of the calling thread, the process's first.
pub fn note_first_thread() {
    FIRST_STORAGE.store(storage(), Ordering::Relaxed);
}

/// The address of the thread-local storage of the process's first thread.
static FIRST_STORAGE: AtomicU64 = AtomicU64::new(0);

/// Runs `f`, in which std may use thread-local storage. A thread without storage, or without glibc's, borrows the first
/// thread's. That is harmless: all that std keeps there for `f` are the keys of its hasher, which may have any value. A
/// borrowing thread is inside by mask.
pub fn with_storage(f: impl FnOnce()) {
    const ARCH_SET_FS: u64 = 0x1002;
    // SAFETY: sets the address of the thread's storage. Only `f` uses it before it is restored.
    let set = |base: u64| unsafe { raw::own(libc::SYS_arch_prctl, [ARCH_SET_FS, base]) };
    let own = Gate::find().is_none().then(storage);
    if own.is_some() {
        set(FIRST_STORAGE.load(Ordering::Relaxed));
    }
    f();
    if let Some(own) = own {
        set(own);
    }
}

/// The address of the calling thread's storage. 0 if it has none.
fn storage() -> u64 {
    const ARCH_GET_FS: u64 = 0x1003;
    let mut base = 0u64;
    if HAS_FSGSBASE.load(Ordering::Relaxed) {
        // SAFETY: reads a register; the kernel has reported that programs may read it.
        unsafe { asm!("rdfsbase {}", out(reg) base, options(nostack, nomem)) };
    } else {
        // SAFETY: stores the address of the thread's storage.
        unsafe { raw::own(libc::SYS_arch_prctl, [ARCH_GET_FS, (&raw mut base) as u64]) };
    }
    base
}

/// Whether [`Gate::find`] makes no system call.
pub fn is_found_without_a_call() -> bool {
    HAS_FSGSBASE.load(Ordering::Relaxed)
}

impl Gate {
    /// A gate for a thread that is inside by mask.
    pub const fn new() -> Self {
        Self { magic: MAGIC, saved_mask: 0, busy: OUTSIDE, deferred: 0, restart: 0 }
    }

    /// The calling thread's gate.
    ///
    /// # Safety
    /// The thread must have thread-local storage. A thread that calls a function of libc has it.
    #[inline(always)]
    pub unsafe fn of_this_thread() -> *mut Self {
        let base: u64;
        // SAFETY: the first word of the storage is its own address, by the ABI.
        unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) base, options(nostack, pure, readonly)) };
        ptr::with_exposed_provenance_mut(base.wrapping_add(gate_offset()) as usize)
    }

    /// Like [`of_this_thread`](Self::of_this_thread), for a thread that may have no storage, or none of glibc's. Used
    /// in handlers.
    pub fn find() -> Option<*mut Self> {
        let base = storage();
        let gate = base.wrapping_add(gate_offset());
        // If the thread has no storage, nothing is read: in a handler the signal of a fault may be blocked.
        (base != 0 && crate::memory::read(gate) == Ok(MAGIC)).then(|| ptr::with_exposed_provenance_mut(gate as usize))
    }

    /// Goes inside. Returns what `busy` was before, for [`leave`](Self::leave).
    ///
    /// # Safety
    /// `this` is the calling thread's own gate. The other functions here require this too.
    #[inline(always)]
    pub unsafe fn enter(this: *mut Self) -> u8 {
        // SAFETY: only this thread, and handlers in it, access the gate.
        let before = unsafe {
            let before = ptr::read_volatile(&raw const (*this).busy);
            ptr::write_volatile(&raw mut (*this).busy, BUSY);
            before
        };
        compiler_fence(Ordering::SeqCst); // [Ph]: nothing of the work inside is moved before the store
        before
    }

    /// Goes back to where the thread was before `enter`. `None`, as most times, if nothing has happened meanwhile.
    ///
    /// # Safety
    /// As for `enter`.
    #[inline(always)]
    pub unsafe fn leave(this: *mut Self, before: u8) -> Option<Meanwhile> {
        compiler_fence(Ordering::SeqCst); // [Ph]: nothing of the work inside is moved behind the store
        // SAFETY: as in `enter`. A signal that comes between the two accesses runs its handler at once, because the
        // thread is outside.
        unsafe {
            ptr::write_volatile(&raw mut (*this).busy, before);
            if ptr::read_volatile(&raw const (*this).deferred) == 0 { None } else { Some(Self::left(this, before)) }
        }
    }

    /// # Safety
    /// As for `enter`.
    #[cold]
    unsafe fn left(this: *mut Self, before: u8) -> Meanwhile {
        let mut bits = 0;
        // SAFETY: the caller guarantees it.
        unsafe {
            // [Ph]: volatile, so that it is read after `busy` is stored. A handler may leave a call just before that.
            while ptr::read_volatile(&raw const (*this).deferred) != 0 {
                let new = ptr::replace(&raw mut (*this).deferred, 0);
                bits |= new;
                if new & LATE != 0 {
                    Self::enter(this);
                    late::make(this);
                    ptr::write_volatile(&raw mut (*this).busy, before);
                }
            }
            Self::meanwhile_of(this, bits)
        }
    }

    /// What has happened so far, to a thread that is inside by mask.
    ///
    /// # Safety
    /// As for `enter`.
    pub unsafe fn meanwhile(this: *const Self) -> Option<Meanwhile> {
        // SAFETY: the caller guarantees it.
        unsafe {
            let bits = ptr::read_volatile(&raw const (*this).deferred);
            (bits != 0).then(|| Self::meanwhile_of(this, bits))
        }
    }

    /// # Safety
    /// As for `enter`.
    unsafe fn meanwhile_of(this: *const Self, bits: u8) -> Meanwhile {
        let has_signal = bits & SIGNAL != 0;
        // SAFETY: the caller guarantees it. [Ph]: volatile, so that they are read after `deferred`.
        let (mask, restart) = unsafe {
            (ptr::read_volatile(&raw const (*this).saved_mask), ptr::read_volatile(&raw const (*this).restart))
        };
        Meanwhile {
            mask: has_signal.then_some(mask),
            restarts: bits & INTERRUPTED == 0 && (!has_signal || restart != 0),
        }
    }

    /// Whether the thread is inside by flag, and may hold something.
    ///
    /// # Safety
    /// As for `enter`.
    pub unsafe fn is_busy(this: *const Self) -> bool {
        // SAFETY: the caller guarantees it.
        unsafe { ptr::read_volatile(&raw const (*this).busy) == BUSY }
    }

    /// Notes that a signal was deferred. `mask` is the mask that the thread had before.
    ///
    /// # Safety
    /// As for `enter`.
    pub unsafe fn defer(this: *mut Self, mask: u64, restart: bool) {
        // SAFETY: the caller guarantees it.
        unsafe {
            (*this).saved_mask = mask;
            (*this).restart = restart.into();
            Self::note(this, SIGNAL);
        }
    }

    /// Notes that a handler has left a call in `late.rs`.
    ///
    /// # Safety
    /// As for `enter`.
    pub unsafe fn note_late(this: *mut Self) {
        // SAFETY: the caller guarantees it.
        unsafe { Self::note(this, LATE) };
    }

    /// Notes that a handler that was not seen being installed has ended the sleep.
    ///
    /// # Safety
    /// As for `enter`.
    pub unsafe fn note_interrupted(this: *mut Self) {
        // SAFETY: the caller guarantees it.
        unsafe { Self::note(this, INTERRUPTED) };
    }

    /// Sets a bit. One instruction, because a handler may set another.
    ///
    /// # Safety
    /// As for `enter`.
    unsafe fn note(this: *mut Self, bit: u8) {
        // SAFETY: the caller guarantees it.
        unsafe { asm!("or byte ptr [{}], {}", in(reg) &raw mut (*this).deferred, in(reg_byte) bit, options(nostack)) };
    }

    /// # Safety
    /// As for `enter`.
    pub unsafe fn has_deferred(this: *const Self) -> bool {
        // SAFETY: the caller guarantees it.
        unsafe { ptr::read_volatile(&raw const (*this).deferred) != 0 }
    }
}

/// Whether `mask` is the mask of a thread that is inside. libc's functions never block libc's own two signals for the
/// program.
pub fn blocks_all(mask: u64) -> bool {
    const NEVER: u64 = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
    mask | NEVER | FAULTS == u64::MAX
}

/// The mask that a thread has inside by mask, if `mask` is the program's.
pub fn inside(mask: u64) -> u64 {
    ALL | mask & TRAP
}

/// Makes [`inside`] the calling thread's mask. Returns the previous one, to be restored with [`set_mask`].
pub fn block_all() -> u64 {
    // What the program blocks is known only after the call, and until then SIGTRAP must stay blocked if it was.
    let before = change(libc::SIG_BLOCK, ALL);
    if before & NEEDED != 0 {
        set_mask(inside(before));
    }
    before
}

/// Makes `mask` the calling thread's mask. Returns the previous one.
pub fn block(mask: u64) -> u64 {
    change(libc::SIG_SETMASK, mask)
}

fn change(how: i32, mask: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: changes the calling thread's mask, stores into `before`.
    unsafe {
        let (mask, before) = ((&raw const mask) as u64, (&raw mut before) as u64);
        raw::own(libc::SYS_rt_sigprocmask, [how as u64, mask, before, 8]);
    }
    before
}

/// Makes `mask` the calling thread's mask.
pub fn set_mask(mask: u64) {
    // SAFETY: changes the calling thread's mask.
    unsafe { raw::own(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as u64, (&raw const mask) as u64, 0, 8]) };
}

const TRAP_FLAG: u64 = 1 << 8;

/// Whether the processor raises SIGTRAP after each instruction of the calling thread.
pub fn has_trap_flag() -> bool {
    flags() & TRAP_FLAG != 0
}

/// The thread's flags. With unwind information at each step.
#[unsafe(naked)]
extern "C" fn flags() -> u64 {
    naked_asm!(
        ".cfi_startproc",
        "pushfq",
        ".cfi_adjust_cfa_offset 8",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
    )
}

/// Sets the flag of [`has_trap_flag`] if it is not set, and clears it if it is.
#[unsafe(naked)]
pub extern "C" fn invert_trap_flag() {
    naked_asm!(
        ".cfi_startproc",
        "pushfq",
        ".cfi_adjust_cfa_offset 8",
        "xor qword ptr [rsp], {trap_flag}",
        "popfq",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        trap_flag = const TRAP_FLAG,
    )
}

/// A system call that sleeps, made by a thread that is inside.
#[repr(C)]
pub struct Sleep {
    gate: *mut Gate,
    /// The mask outside, if the thread is inside by mask. Null if it is inside by flag.
    mask: *const u64,
    /// The mask inside, if the thread is inside by mask.
    inside: u64,
    number: u64,
    args: [u64; 6],
}

impl Sleep {
    /// The call `number` with `args`, of a thread that is inside with this gate and `mask`.
    ///
    /// # Safety
    /// `mask` is null or valid.
    pub unsafe fn new(gate: *mut Gate, mask: *const u64, number: i64, args: [u64; 6]) -> Self {
        // SAFETY: the caller guarantees it.
        let inside = unsafe { mask.as_ref() }.map_or(0, |mask| inside(*mask));
        Self { gate, mask, inside, number: number as u64, args }
    }
}

/// Makes the call. If a signal has been deferred, or is deferred before or during the call, the result is `-EINTR`. If
/// a signal is deferred after the call, the call's result stays: it may be a wake, which no other thread gets.
///
/// # Safety
/// The pointers of `sleep` must be valid.
#[unsafe(naked)]
pub unsafe extern "C" fn sleep(sleep: *const Sleep) -> isize {
    // From `begins` to `ends_blocked` a handler may put a signal off. Before `made` the thread then continues at
    // `interrupted`. After `made` it continues where it was, with all signals blocked. `defer` relies only on the
    // gate in rbx.
    naked_asm!(
        ".globl ufutex_sleep_begins, ufutex_sleep_made, ufutex_sleep_ends_blocked, ufutex_sleep_interrupted",
        ".hidden ufutex_sleep_begins, ufutex_sleep_made, ufutex_sleep_ends_blocked, ufutex_sleep_interrupted",
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "push r12",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r12, 0",
        "mov r12, rdi",
        "mov rbx, [r12 + {gate}]",
        "cmp qword ptr [r12 + {mask}], 0",
        "je ufutex_sleep_begins",
        "mov eax, {sigprocmask}",
        "mov edi, {setmask}",
        "mov rsi, [r12 + {mask}]",
        "xor edx, edx",
        "mov r10d, 8",
        "movabs r9, {cookie}",
        "syscall",
        "ufutex_sleep_begins:",
        "mov rax, [r12 + {number}]",
        "mov rdi, [r12 + {args}]",
        "mov rsi, [r12 + {args} + 8]",
        "mov rdx, [r12 + {args} + 16]",
        "mov r10, [r12 + {args} + 24]",
        "mov r8, [r12 + {args} + 32]",
        "mov r9, [r12 + {args} + 40]",
        "mov byte ptr [rbx + {busy}], {asleep}",
        "cmp byte ptr [rbx + {deferred}], 0",
        "jne ufutex_sleep_interrupted",
        "syscall",
        "ufutex_sleep_made:",
        "mov byte ptr [rbx + {busy}], {is_busy}",
        "cmp qword ptr [r12 + {mask}], 0",
        "je ufutex_sleep_ends",
        "lea rsi, [r12 + {inside}]",
        "mov r12, rax",
        "mov eax, {sigprocmask}",
        "mov edi, {setmask}",
        "xor edx, edx",
        "mov r10d, 8",
        "movabs r9, {cookie}",
        "syscall",
        "ufutex_sleep_ends_blocked:",
        "mov rax, r12",
        "ufutex_sleep_ends:",
        "xor r8d, r8d",
        "xor r9d, r9d",
        ".cfi_remember_state",
        "pop r12",
        ".cfi_adjust_cfa_offset -8",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_restore_state",
        "ufutex_sleep_interrupted:",
        "mov byte ptr [rbx + {busy}], {is_busy}",
        "mov rax, {eintr}",
        "jmp ufutex_sleep_ends",
        ".cfi_endproc",
        gate = const offset_of!(Sleep, gate),
        mask = const offset_of!(Sleep, mask),
        inside = const offset_of!(Sleep, inside),
        number = const offset_of!(Sleep, number),
        args = const offset_of!(Sleep, args),
        deferred = const DEFERRED_AT,
        busy = const BUSY_AT,
        asleep = const ASLEEP,
        is_busy = const BUSY,
        sigprocmask = const libc::SYS_rt_sigprocmask,
        setmask = const libc::SIG_SETMASK,
        cookie = const COOKIE,
        eintr = const -libc::EINTR,
    )
}

unsafe extern "C" {
    // Labels in `sleep`, not functions.
    safe fn ufutex_sleep_begins();
    safe fn ufutex_sleep_made();
    safe fn ufutex_sleep_ends_blocked();
    safe fn ufutex_sleep_interrupted();
}

/// Where a thread that a signal has interrupted at `rip` continues if the signal is deferred. `None` if the thread was
/// not in `sleep`.
pub fn sleeps_at(rip: u64) -> Option<u64> {
    let place = |label: extern "C" fn()| label as *const () as u64;
    let is_inside = (place(ufutex_sleep_begins)..place(ufutex_sleep_ends_blocked)).contains(&rip);
    // There, too, the thread still counts as asleep.
    if !is_inside && rip != place(ufutex_sleep_interrupted) {
        return None;
    }
    Some(if rip < place(ufutex_sleep_made) { place(ufutex_sleep_interrupted) } else { rip })
}
