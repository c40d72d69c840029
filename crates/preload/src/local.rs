//! The functions of libc that this library calls, made here: those in std and in the engine too.
//!
//! A program may replace any function of libc. Allocators replace `malloc` and `mmap`, other preloaded libraries the
//! clocks, and what they put in its place may make the calls that we are serving. So none of them is called. The symbols
//! here are hidden: the linker resolves this library's references to them, and the program does not see them.
//! `tests/programs/undefined.rs` of the package `lab` lists what is left, and why.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::{asm, global_asm};
use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::heap::HEAP;
use crate::raw::{self, COOKIE};
use crate::{engine, file};

/// A function that is one system call, marked as ours in its sixth argument.
macro_rules! system_calls {
    ($($name:literal = $number:ident,)*) => {$(
        global_asm!(
            ".pushsection .text.ufutex_local, \"ax\", @progbits",
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            "mov eax, {number}",
            "jmp ufutex_local_call",
            ".popsection",
            number = const libc::$number,
        );
    )*};
}

/// A function of this file under its name in C.
macro_rules! functions {
    ($($name:literal = $function:ident,)*) => {$(
        global_asm!(
            ".pushsection .text.ufutex_local, \"ax\", @progbits",
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ": jmp {function}"),
            ".popsection",
            function = sym $function,
        );
    )*};
}

system_calls! {
    "read" = SYS_read,
    "write" = SYS_write,
    "writev" = SYS_writev,
    "pread" = SYS_pread64,
    "lseek64" = SYS_lseek,
    "open" = SYS_open,
    "open64" = SYS_open,
    "openat" = SYS_openat,
    "close" = SYS_close,
    "fcntl" = SYS_fcntl,
    "poll" = SYS_poll,
    "stat" = SYS_stat,
    "stat64" = SYS_stat,
    "fstat" = SYS_fstat,
    "fstat64" = SYS_fstat,
    "fstatat" = SYS_newfstatat,
    "statx" = SYS_statx,
    "faccessat" = SYS_faccessat2,
    "fgetxattr" = SYS_fgetxattr,
    "readlink" = SYS_readlink,
    "munmap" = SYS_munmap,
    "mremap" = SYS_mremap,
    "getpid" = SYS_getpid,
    "gettid" = SYS_gettid,
    "getuid" = SYS_getuid,
    "geteuid" = SYS_geteuid,
    "getgid" = SYS_getgid,
    "getegid" = SYS_getegid,
    "getrandom" = SYS_getrandom,
    "nanosleep" = SYS_nanosleep,
    "epoll_create1" = SYS_epoll_create1,
    "epoll_ctl" = SYS_epoll_ctl,
    "epoll_wait" = SYS_epoll_wait,
    "timerfd_create" = SYS_timerfd_create,
    "timerfd_settime" = SYS_timerfd_settime,
}

functions! {
    "clock_gettime" = clock_gettime,
    "sched_getaffinity" = sched_getaffinity,
    "sysconf" = sysconf,
    "fstatvfs" = fstatvfs,
    "pthread_sigmask" = pthread_sigmask,
    "sigfillset" = sigfillset,
    "getauxval" = auxiliary,
    "malloc" = malloc,
    "realloc" = realloc,
    "free" = free,
    "abort" = abort,
    "__xpg_strerror_r" = strerror_r,
    // std runs the destructors of its thread-local variables by these. In this library it has none that matter.
    "pthread_key_create" = key_create,
    "pthread_key_delete" = succeed,
    "pthread_setspecific" = succeed,
    "__cxa_thread_atexit_impl" = succeed,
    // What std asks when it prints a panic: environment variables and the current directory.
    "getenv" = nothing,
    "getcwd" = nothing,
    "realpath" = nothing,
}

global_asm!(
    ".pushsection .text.ufutex_local, \"ax\", @progbits",
    // A call whose number is in eax.
    ".type ufutex_local_call, @function",
    "ufutex_local_call:",
    ".cfi_startproc",
    "movabs r9, {cookie}",
    "2:",
    "mov r10, rcx",
    "syscall",
    "xor r9d, r9d",
    "cmp rax, -4095",
    "jae 3f",
    "ret",
    "3:",
    "neg eax",
    "push rax",
    ".cfi_adjust_cfa_offset 8",
    "call {errno}",
    "pop rcx",
    ".cfi_adjust_cfa_offset -8",
    "mov [rax], ecx",
    "mov rax, -1",
    "ret",
    // It uses all six arguments, and no filter of ours stops it.
    ".globl mmap, mmap64",
    ".hidden mmap, mmap64",
    ".type mmap, @function",
    ".type mmap64, @function",
    "mmap:",
    "mmap64:",
    "mov eax, {mmap}",
    "jmp 2b",
    ".cfi_endproc",
    // The first word of what `__tls_get_addr` is given is the number of a library, which can only be this one; the second
    // is the offset in its variables. libc's own may allocate.
    ".globl __tls_get_addr",
    ".hidden __tls_get_addr",
    ".type __tls_get_addr, @function",
    "__tls_get_addr:",
    "mov rax, qword ptr fs:[0]",
    "add rax, qword ptr [rip + ufutex_gate@GOTTPOFF]",
    "lea rcx, [ufutex_gate@DTPOFF]",
    "sub rax, rcx",
    "add rax, [rdi + 8]",
    "ret",
    // Up to 16 bytes by two moves that may overlap; more in steps of 16. Whatever a step stores has been loaded before.
    ".globl memcpy, memmove, memset, memcmp, bcmp, strlen",
    ".hidden memcpy, memmove, memset, memcmp, bcmp, strlen",
    ".type memcpy, @function",
    ".type memmove, @function",
    ".type memset, @function",
    ".type memcmp, @function",
    ".type bcmp, @function",
    ".type strlen, @function",
    "memcpy:",
    "memmove:",
    "mov rax, rdi",
    "cmp rdx, 16",
    "jb 5f",
    "movups xmm1, [rsi]",
    "movups xmm2, [rsi + rdx - 16]",
    "lea r8, [rdi + rdx - 16]",
    "mov rcx, rdi",
    "sub rcx, rsi",
    "cmp rcx, rdx",
    "jb 4f",
    // Upwards: the destination begins before the source or behind its end.
    "3:",
    "cmp rdi, r8",
    "jae 3f",
    "movups xmm0, [rsi]",
    "movups [rdi], xmm0",
    "add rsi, 16",
    "add rdi, 16",
    "jmp 3b",
    "3:",
    "movups [r8], xmm2",
    "ret",
    // Downwards.
    "4:",
    "lea rsi, [rsi + rdx - 16]",
    "3:",
    "cmp r8, rax",
    "jbe 3f",
    "movups xmm0, [rsi]",
    "movups [r8], xmm0",
    "sub rsi, 16",
    "sub r8, 16",
    "jmp 3b",
    "3:",
    "movups [rax], xmm1",
    "ret",
    "5:",
    "cmp edx, 8",
    "jb 6f",
    "mov rcx, [rsi]",
    "mov r8, [rsi + rdx - 8]",
    "mov [rdi], rcx",
    "mov [rdi + rdx - 8], r8",
    "ret",
    "6:",
    "cmp edx, 4",
    "jb 7f",
    "mov ecx, [rsi]",
    "mov r8d, [rsi + rdx - 4]",
    "mov [rdi], ecx",
    "mov [rdi + rdx - 4], r8d",
    "ret",
    "7:",
    "test edx, edx",
    "jz 8f",
    "movzx ecx, byte ptr [rsi + rdx - 1]",
    "movzx r8d, byte ptr [rsi]",
    "mov r9, rdx",
    "shr r9, 1",
    "movzx r10d, byte ptr [rsi + r9]",
    "mov [rdi], r8b",
    "mov [rdi + r9], r10b",
    "mov [rdi + rdx - 1], cl",
    "8: ret",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    "memcmp:",
    "bcmp:",
    "xor ecx, ecx",
    "xor eax, eax",
    "2:",
    "cmp rcx, rdx",
    "je 3f",
    "movzx eax, byte ptr [rdi + rcx]",
    "movzx r8d, byte ptr [rsi + rcx]",
    "inc rcx",
    "sub eax, r8d",
    "jz 2b",
    "3: ret",
    "strlen:",
    "mov rax, rdi",
    "2:",
    "cmp byte ptr [rax], 0",
    "je 3f",
    "inc rax",
    "jmp 2b",
    "3:",
    "sub rax, rdi",
    "ret",
    ".popsection",
    cookie = const COOKIE,
    mmap = const libc::SYS_mmap,
    errno = sym libc::__errno_location,
);

unsafe extern "C" fn succeed() -> c_int {
    0
}

/// A key must not be 0 for std.
unsafe extern "C" fn key_create(key: *mut libc::pthread_key_t) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { *key = 1 };
    0
}

unsafe extern "C" fn nothing() -> *mut c_void {
    ptr::null_mut()
}

/// The kernel's auxiliary vector: pairs of a kind and a value, which end with kind 0.
static AUXILIARY: AtomicPtr<[u64; 2]> = AtomicPtr::new(ptr::null_mut());
/// The vDSO's clock_gettime(2). 0 if there is none.
static CLOCK_GETTIME: AtomicU64 = AtomicU64::new(0);

/// Finds what the kernel has told the process. `environment` is the process's own at its start.
///
/// # Safety
/// Called while there is no other thread. The auxiliary vector follows the environment.
pub unsafe fn begin(mut environment: *const *const c_char) {
    // SAFETY: the caller guarantees it.
    unsafe {
        while !(*environment).is_null() {
            environment = environment.add(1);
        }
        AUXILIARY.store(environment.add(1).cast_mut().cast(), Ordering::Relaxed);
    }
    if let Some(clock) = in_vdso(c"__vdso_clock_gettime") {
        CLOCK_GETTIME.store(clock, Ordering::Relaxed);
    }
}

/// getauxval(3). 0 if the vector does not have this kind.
pub unsafe extern "C" fn auxiliary(kind: u64) -> u64 {
    let mut entry = AUXILIARY.load(Ordering::Relaxed).cast_const();
    // SAFETY: null before `begin`, and then the kernel's vector.
    unsafe {
        while !entry.is_null() && (*entry)[0] != 0 {
            if (*entry)[0] == kind {
                return (*entry)[1];
            }
            entry = entry.add(1);
        }
    }
    0
}

/// The address of a function of the vDSO, a small library that the kernel maps into every process.
fn in_vdso(name: &CStr) -> Option<u64> {
    // SAFETY: called from `begin`, after the vector has been found.
    let base = unsafe { auxiliary(libc::AT_SYSINFO_EHDR) };
    let at = |address: u64| ptr::with_exposed_provenance::<u8>(address as usize);
    if base == 0 {
        return None;
    }
    // SAFETY: the kernel's own library, which is well-formed and linked to address 0. Its table of symbols lies before the
    // table of their names.
    unsafe {
        let header = &*at(base).cast::<libc::Elf64_Ehdr>();
        let programs = at(base + header.e_phoff).cast::<libc::Elf64_Phdr>();
        let programs = core::slice::from_raw_parts(programs, header.e_phnum.into());
        let dynamic = programs.iter().find(|program| program.p_type == libc::PT_DYNAMIC)?;
        let dynamic = at(base + dynamic.p_vaddr).cast::<[u64; 2]>();
        let table =
            |kind: u64| (0..).map(|i| *dynamic.add(i)).take_while(|[tag, _]| *tag != 0).find(|[tag, _]| *tag == kind);
        const STRTAB: u64 = 5;
        const SYMTAB: u64 = 6;
        let ([_, names], [_, symbols]) = (table(STRTAB)?, table(SYMTAB)?);
        let count = names.saturating_sub(symbols) as usize / size_of::<libc::Elf64_Sym>();
        let symbols = core::slice::from_raw_parts(at(base + symbols).cast::<libc::Elf64_Sym>(), count);
        let is_it = |symbol: &&libc::Elf64_Sym| {
            CStr::from_ptr(at(base + names + u64::from(symbol.st_name)).cast()) == name && symbol.st_value != 0
        };
        symbols.iter().find(is_it).map(|symbol| base + symbol.st_value)
    }
}

/// clock_gettime(2) by the vDSO, without a system call.
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let vdso = CLOCK_GETTIME.load(Ordering::Relaxed);
    let result = if vdso == 0 {
        // SAFETY: the caller's pointer.
        unsafe { raw::own(libc::SYS_clock_gettime, [clock as u64, time as u64]) as c_int }
    } else {
        // SAFETY: the kernel's own function, of that type.
        unsafe {
            let function: extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int =
                core::mem::transmute(ptr::with_exposed_provenance::<c_void>(vdso as usize));
            function(clock, time)
        }
    };
    if result == 0 { 0 } else { crate::entry::fail(result as isize) }
}

unsafe extern "C" fn sched_getaffinity(thread: c_int, bytes: usize, set: *mut u8) -> c_int {
    // SAFETY: the caller passes a pointer with room for that number of bytes.
    unsafe {
        match raw::own(libc::SYS_sched_getaffinity, [thread as u64, bytes as u64, set as u64]) {
            written @ 0.. => {
                set.add(written as usize).write_bytes(0, bytes - written as usize);
                0
            }
            errno => crate::entry::fail(errno),
        }
    }
}

unsafe extern "C" fn sysconf(name: c_int) -> c_long {
    match name {
        libc::_SC_PAGESIZE => 4096,
        libc::_SC_NPROCESSORS_ONLN => engine::cpus() as c_long,
        libc::_SC_NPROCESSORS_CONF => possible_cpus().unwrap_or(1),
        _ => -1,
    }
}

/// One more than the greatest number that a CPU can have.
fn possible_cpus() -> Option<c_long> {
    let mut text = [0u8; 64];
    let list = file::read(b"/sys/devices/system/cpu/possible\0", &mut text)?;
    let last = list.trim_ascii().rsplit(|byte| matches!(byte, b'-' | b',')).next()?;
    core::str::from_utf8(last).ok()?.parse::<c_long>().ok().map(|last| last + 1)
}

/// fstatvfs(3), as far as it is used here: the flags.
unsafe extern "C" fn fstatvfs(file: c_int, to: *mut libc::statvfs) -> c_int {
    // The kernel's `struct statfs`, in words. The flags are the eleventh.
    let mut system = [0u64; 15];
    // SAFETY: room for the result; the caller's pointer.
    unsafe {
        let told = raw::own(libc::SYS_fstatfs, [file as u64, (&raw mut system) as u64]);
        if told != 0 {
            return crate::entry::fail(told);
        }
        to.write_bytes(0, 1);
        (*to).f_flag = system[10];
    }
    0
}

unsafe extern "C" fn pthread_sigmask(how: c_int, new: *const u64, old: *mut u64) -> c_int {
    // SAFETY: the caller's pointers. The kernel's mask is the first word of libc's.
    -unsafe { raw::own(libc::SYS_rt_sigprocmask, [how as u64, new as u64, old as u64, 8]) } as c_int
}

unsafe extern "C" fn sigfillset(set: *mut libc::sigset_t) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { set.write_bytes(u8::MAX, 1) };
    0
}

/// What stands before a block of [`malloc`]: its size. As long as blocks are aligned.
const BEFORE: usize = 16;

fn block(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(BEFORE)?, BEFORE).ok()
}

unsafe extern "C" fn malloc(size: usize) -> *mut u8 {
    let Some(layout) = block(size) else { return ptr::null_mut() };
    // SAFETY: the layout is not empty; the block has room for the size.
    unsafe {
        let base = HEAP.alloc(layout);
        if base.is_null() {
            return base;
        }
        base.cast::<usize>().write(size);
        base.add(BEFORE)
    }
}

unsafe extern "C" fn free(at: *mut u8) {
    if !at.is_null() {
        // SAFETY: `malloc` has written the size, which made this layout.
        unsafe {
            let base = at.sub(BEFORE);
            let size = base.cast::<usize>().read();
            HEAP.dealloc(base, Layout::from_size_align_unchecked(size + BEFORE, BEFORE));
        }
    }
}

unsafe extern "C" fn realloc(at: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: as for `free`; the shorter of both sizes is copied.
    unsafe {
        let new = malloc(size);
        if !at.is_null() && !new.is_null() {
            let before = at.sub(BEFORE).cast::<usize>().read();
            ptr::copy_nonoverlapping(at, new, before.min(size));
            free(at);
        }
        new
    }
}

unsafe extern "C" fn abort() -> ! {
    let default = crate::signals::Action::default();
    let abort = crate::signals::bit(libc::SIGABRT);
    // SAFETY: ends the process.
    unsafe {
        raw::own(libc::SYS_rt_sigaction, [libc::SIGABRT as u64, (&raw const default) as u64, 0, 8]);
        raw::own(libc::SYS_rt_sigprocmask, [libc::SIG_UNBLOCK as u64, (&raw const abort) as u64, 0, 8]);
        raw::own(libc::SYS_tgkill, [raw::pid() as u64, raw::tid() as u64, libc::SIGABRT as u64]);
        asm!("ud2", options(noreturn));
    }
}

/// strerror_r(3) for the errors that lines of this library name.
unsafe extern "C" fn strerror_r(errno: c_int, to: *mut u8, room: usize) -> c_int {
    let text: &[u8] = match errno {
        libc::EPERM => b"Operation not permitted\0",
        libc::ENOENT => b"No such file or directory\0",
        libc::EACCES => b"Permission denied\0",
        libc::EMFILE | libc::ENFILE => b"Too many open files\0",
        libc::ENOMEM => b"Cannot allocate memory\0",
        _ => b"error\0",
    };
    if room < text.len() {
        return libc::ERANGE;
    }
    // SAFETY: the caller's buffer, with room for the text.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr(), to, text.len()) };
    0
}
