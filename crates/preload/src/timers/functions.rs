//! The functions of libc for timers, and for waiting for signals, that this library replaces.

use core::arch::naked_asm;
use core::ffi::{c_int, c_void};
use core::mem::offset_of;

use super::wait::{self, Waiting};
use crate::entry::{fail, syscall};
use crate::real::{REAL, Real};
use crate::timers;

/// `timer_create(3)`: calls `syscall`, and gives the program the timer's ID as its `timer_t`. With `--trap` it is
/// libc's own function, whose system calls trap.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn timer_create(clock: c_int, event: *mut c_void, timer: *mut *mut c_void) -> c_int {
    naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {on}], 0",
        "jne 2f",
        "jmp qword ptr [rip + {real} + {offset}]",
        "2:",
        "test rsi, rsi",
        "jnz 3f",
        "lea rsi, [rip + {alarm}]",
        "3:",
        "cmp dword ptr [rsi + {notify}], {thread}",
        "je {calling}",
        "sub rsp, 24",
        ".cfi_adjust_cfa_offset 24",
        "mov [rsp], rdx",
        "mov dword ptr [rsp + 8], -1",
        "lea rcx, [rsp + 8]",
        "mov rdx, rsi",
        "movsxd rsi, edi",
        "mov edi, {create}",
        "call {syscall}",
        "test eax, eax",
        "jnz 4f",
        "mov rdx, [rsp]",
        "movsxd rcx, dword ptr [rsp + 8]",
        "mov [rdx], rcx",
        "4:",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "ret",
        ".cfi_endproc",
        on = sym timers::WAITS,
        real = sym REAL,
        offset = const offset_of!(Real, timer_create),
        alarm = sym timers::ALARM,
        notify = const offset_of!(timers::Event, notify),
        thread = const libc::SIGEV_THREAD,
        calling = sym timer_create_calling,
        create = const libc::SYS_timer_create,
        syscall = sym syscall,
    )
}

/// Like `timer_create`, with SIGEV_THREAD.
unsafe extern "C" fn timer_create_calling(clock: c_int, event: *const timers::Event, timer: *mut *mut c_void) -> c_int {
    // SAFETY: the program's pointer, which libc's function would read.
    let id = timers::create_calling(clock as u64, unsafe { &*event });
    if id < 0 {
        return fail(id);
    }
    // SAFETY: the program's pointer, which libc's function would write through.
    unsafe { *timer = core::ptr::without_provenance_mut(id as usize) };
    0
}

/// A function of timers: calls `syscall`. It calls libc's own function for all timers if `BY_ID` is false, and otherwise for
/// those that libc made, whose values are no IDs: with SIGEV_THREAD, and before 2.33 in a library's constructor.
macro_rules! timer_function {
    ($(#[$doc:meta])* $name:ident, $number:ident, $($shift:literal),*) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(timer: *mut c_void) -> c_int {
            naked_asm!(
                "cmp byte ptr [rip + {on}], 0",
                "je 2f",
                "mov eax, {most}",
                "cmp rdi, rax",
                "ja 2f",
                $($shift,)*
                "mov rsi, rdi",
                "mov edi, {number}",
                "jmp {syscall}",
                "2: jmp qword ptr [rip + {real} + {offset}]",
                on = sym timers::BY_ID,
                most = const i32::MAX,
                number = const libc::$number,
                syscall = sym syscall,
                real = sym REAL,
                offset = const offset_of!(Real, $name),
            )
        }
    };
}

timer_function!(
    /// `timer_settime(2)`.
    timer_settime, SYS_timer_settime, "mov r8, rcx", "mov rcx, rdx", "mov edx, esi");
timer_function!(
    /// `timer_gettime(2)`.
    timer_gettime, SYS_timer_gettime, "mov rdx, rsi");
timer_function!(
    /// `timer_getoverrun(2)`.
    timer_getoverrun, SYS_timer_getoverrun,);
timer_function!(
    /// `timer_delete(2)`.
    timer_delete, SYS_timer_delete,);

/// `sigtimedwait(2)`: calls libc's own function, in which a thread may be cancelled, until a signal arrives that the
/// program is to see.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn sigtimedwait(set: *const libc::sigset_t) -> c_int {
    naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {on}], 0",
        "jne 2f",
        "jmp qword ptr [rip + {real} + {offset}]",
        "2:",
        "sub rsp, {frame}",
        ".cfi_adjust_cfa_offset {frame}",
        "mov [rsp + {set}], rdi",
        "mov [rsp + {info}], rsi",
        "mov [rsp + {timeout}], rdx",
        "mov rdi, rsp",
        "call {begins}",
        "3:",
        "mov rdi, [rsp + {set}]",
        "lea rsi, [rsp + {told}]",
        "mov rdx, [rsp + {timeout}]",
        "call qword ptr [rip + {real} + {offset}]",
        "cmp eax, -1",
        "je 4f",
        "mov rdi, rsp",
        "mov esi, eax",
        "call {came}",
        "test eax, eax",
        "jz 3b",
        "4:",
        "add rsp, {frame}",
        ".cfi_adjust_cfa_offset -{frame}",
        "ret",
        ".cfi_endproc",
        on = sym timers::WAITS,
        real = sym REAL,
        offset = const offset_of!(Real, sigtimedwait),
        frame = const size_of::<Waiting>() + 8,
        set = const offset_of!(Waiting, set),
        info = const offset_of!(Waiting, info),
        timeout = const offset_of!(Waiting, timeout),
        told = const offset_of!(Waiting, told),
        begins = sym wait::begins,
        came = sym wait::came,
    )
}

const _: () = assert!(size_of::<Waiting>().is_multiple_of(16));

/// `sigwaitinfo(2)`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn sigwaitinfo(set: *const libc::sigset_t) -> c_int {
    naked_asm!(
        "cmp byte ptr [rip + {on}], 0",
        "jne 2f",
        "jmp qword ptr [rip + {real} + {offset}]",
        "2: xor edx, edx",
        "jmp {sigtimedwait}",
        on = sym timers::WAITS,
        real = sym REAL,
        offset = const offset_of!(Real, sigwaitinfo),
        sigtimedwait = sym sigtimedwait,
    )
}

/// `sigwait(3)`, which no handler interrupts.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn sigwait(set: *const libc::sigset_t) -> c_int {
    naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {on}], 0",
        "jne 2f",
        "jmp qword ptr [rip + {real} + {offset}]",
        "2:",
        "sub rsp, 24",
        ".cfi_adjust_cfa_offset 24",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "3:",
        "mov rdi, [rsp]",
        "xor esi, esi",
        "xor edx, edx",
        "call {sigtimedwait}",
        "cmp eax, -1",
        "je 4f",
        "mov rcx, [rsp + 8]",
        "mov [rcx], eax",
        "xor eax, eax",
        "jmp 5f",
        "4:",
        "call {errno}",
        "mov eax, [rax]",
        "cmp eax, {eintr}",
        "je 3b",
        "5:",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "ret",
        ".cfi_endproc",
        on = sym timers::WAITS,
        real = sym REAL,
        offset = const offset_of!(Real, sigwait),
        sigtimedwait = sym sigtimedwait,
        errno = sym libc::__errno_location,
        eintr = const libc::EINTR,
    )
}
