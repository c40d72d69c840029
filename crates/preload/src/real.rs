//! libc's own versions of the functions that this library replaces.

#![allow(non_snake_case, reason = "libc's names")]

use core::arch::naked_asm;
use core::ffi::{CStr, c_int, c_void};
use core::mem::{MaybeUninit, offset_of};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::raw;

macro_rules! real {
    ($($name:ident,)*) => {
        /// The addresses of libc's functions. Read by the assembly of the functions that replace them.
        #[repr(C)]
        pub struct Real {
            pub syscall: AtomicPtr<c_void>,
            $(pub $name: AtomicPtr<c_void>,)*
        }

        /// Before [`resolve`], functions that call it first: the constructor of another library may run before ours.
        pub static REAL: Real = Real {
            syscall: AtomicPtr::new(plain_syscall as *mut c_void),
            $($name: AtomicPtr::new(first::$name as *mut c_void),)*
        };

        /// Looks up all addresses.
        pub extern "C" fn resolve() {
            find("syscall\0", &REAL.syscall);
            $(find(concat!(stringify!($name), "\0"), &REAL.$name);)*
        }

        mod first {
            use super::*;

            $(#[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                naked_asm!(
                    "lea r11, [rip + {real} + {offset}]",
                    "jmp {resolve}",
                    real = sym REAL,
                    offset = const offset_of!(Real, $name),
                    resolve = sym resolve_and_call,
                )
            })*
        }
    };
}

real! {
    prctl,
    _exit,
    _Exit,
    clone,
    pthread_create,
    quick_exit,
    timer_create,
    timer_settime,
    timer_gettime,
    timer_getoverrun,
    timer_delete,
    sigtimedwait,
    sigwaitinfo,
    sigwait,
    setuid,
    setgid,
    seteuid,
    setegid,
    setreuid,
    setregid,
    setresuid,
    setresgid,
    setgroups,
    initgroups,
    setfsuid,
    setfsgid,
    capset,
    setns,
    unshare,
    ptrace,
    wait,
    wait3,
    wait4,
    waitpid,
    waitid,
}

const _: () = assert!(offset_of!(Real, syscall) == 0);

/// The version to ask for of a function of which glibc has older versions too: before 2.36, dlsym(3) with RTLD_NEXT finds the
/// oldest. `None` for other functions.
fn version_of(name: &str) -> Option<&'static CStr> {
    match name {
        "quick_exit\0" => Some(c"GLIBC_2.24"),
        _ if name.starts_with("timer_") => Some(c"GLIBC_2.3.3"),
        _ => None,
    }
}

/// Where the library is that contains this address; `None` if there is none.
fn library_of(address: *mut c_void) -> Option<*mut c_void> {
    let mut info = MaybeUninit::uninit();
    // SAFETY: stores to `info` if it returns anything but 0.
    unsafe { (libc::dladdr(address, info.as_mut_ptr()) != 0).then(|| info.assume_init().dli_fbase) }
}

fn find(name: &'static str, place: &AtomicPtr<c_void>) {
    let called = name.as_ptr().cast();
    // SAFETY: strings that end with NUL, and the handle that means the libraries after this one.
    let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, called) };
    if let Some(version) = version_of(name) {
        // SAFETY: as above.
        let versioned = unsafe { libc::dlvsym(libc::RTLD_NEXT, called, version.as_ptr()) };
        // Another preloaded library's function has no version, and is the next one nevertheless.
        if library_of(versioned) == library_of(found) {
            found = versioned;
        }
    }
    if found.is_null() {
        raw::die(&["libc has no ", name.trim_end_matches('\0')]);
    }
    place.store(found, Ordering::Relaxed);
}

/// Resolves, and goes on at the address that then stands where r11 says, with the arguments of the caller.
#[unsafe(naked)]
unsafe extern "C" fn resolve_and_call() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push r11",
        "call {resolve}",
        "pop r11",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp qword ptr [r11]",
        resolve = sym resolve,
    )
}

/// As libc's `syscall`: for calls before [`resolve`], and when that jumps to this library.
#[unsafe(naked)]
pub unsafe extern "C" fn plain_syscall() {
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
