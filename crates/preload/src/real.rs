//! libc's own versions of the functions that this library replaces.

use core::arch::naked_asm;
use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::raw;

macro_rules! real {
    ($($name:ident = $before:expr,)*) => {
        /// The addresses of libc's functions. Read by the assembly of the functions that replace them.
        #[repr(C)]
        pub struct Real {
            $(pub $name: AtomicPtr<c_void>,)*
        }

        /// Not filled in before [`resolve`].
        pub static REAL: Real = Real { $($name: AtomicPtr::new($before),)* };

        /// Looks up all addresses.
        pub fn resolve() {
            $(find(concat!(stringify!($name), "\0"), &REAL.$name);)*
        }
    };
}

const NOT_KNOWN: *mut c_void = core::ptr::null_mut();

real! {
    syscall = plain_syscall as *mut c_void,
    prctl = NOT_KNOWN,
    sigaction = NOT_KNOWN,
    clone = NOT_KNOWN,
    pthread_cancel = NOT_KNOWN,
    pthread_create = NOT_KNOWN,
    quick_exit = NOT_KNOWN,
    timer_create = NOT_KNOWN,
    timer_settime = NOT_KNOWN,
    timer_gettime = NOT_KNOWN,
    timer_getoverrun = NOT_KNOWN,
    timer_delete = NOT_KNOWN,
    sigtimedwait = NOT_KNOWN,
    sigwaitinfo = NOT_KNOWN,
    sigwait = NOT_KNOWN,
    setuid = NOT_KNOWN,
    setgid = NOT_KNOWN,
    seteuid = NOT_KNOWN,
    setegid = NOT_KNOWN,
    setreuid = NOT_KNOWN,
    setregid = NOT_KNOWN,
    setresuid = NOT_KNOWN,
    setresgid = NOT_KNOWN,
    setgroups = NOT_KNOWN,
    initgroups = NOT_KNOWN,
    setfsuid = NOT_KNOWN,
    setfsgid = NOT_KNOWN,
    capset = NOT_KNOWN,
    setns = NOT_KNOWN,
    unshare = NOT_KNOWN,
    ptrace = NOT_KNOWN,
    wait = NOT_KNOWN,
    wait3 = NOT_KNOWN,
    wait4 = NOT_KNOWN,
    waitpid = NOT_KNOWN,
    waitid = NOT_KNOWN,
}

const _: () = assert!(offset_of!(Real, syscall) == 0);

fn find(name: &'static str, place: &AtomicPtr<c_void>) {
    // SAFETY: a string that ends with NUL, and the handle that means the libraries after this one.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) };
    if found.is_null() {
        raw::die(&["libc has no ", name.trim_end_matches('\0')]);
    }
    place.store(found, Ordering::Relaxed);
}

/// libc's `syscall`, for calls before [`resolve`].
#[unsafe(naked)]
unsafe extern "C" fn plain_syscall() {
    naked_asm!(
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "neg eax",
        "push rax",
        "call {errno}",
        "pop rcx",
        "mov [rax], ecx",
        "mov rax, -1",
        "ret",
        errno = sym libc::__errno_location,
    )
}

/// `pthread_create(3)`.
type CreateThread = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

/// libc's own `pthread_create`.
pub fn pthread_create() -> CreateThread {
    // SAFETY: libc's own, and of that type.
    unsafe { core::mem::transmute(REAL.pthread_create.load(Ordering::Relaxed)) }
}
