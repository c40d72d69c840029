//! Calls that change what threads may do: their users and groups, capabilities, filters, namespaces.
//!
//! libc applies setuid(2) and its family to each thread that it knows of. It does not know the thread that waits for
//! the clocks (`alarm.rs`), which must never be able to do more than the program's own threads. So that thread ends
//! before such a call, and the thread that made the call starts it again afterwards: a new thread has all credentials
//! of its maker. No other thread starts it meanwhile. For this reason a process with one program thread can also enter
//! namespaces that only a process with one thread may enter.
//!
//! The child of vfork(2) shares its parent's memory, but has credentials of its own. A call there leaves the parent's
//! thread alone.

use core::ffi::{c_char, c_int, c_ulong, c_void};
use core::mem::transmute;
use core::sync::atomic::Ordering;

use crate::process::{Process, process};
use crate::real::REAL;
use crate::signals::bit;
use crate::{calls, file, gate, raw, timers, trap};

/// The system calls, except for those of prctl(2).
pub const CALLS: [i64; 15] = [
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setgroups,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_capset,
    libc::SYS_keyctl,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_seccomp,
    libc::SYS_landlock_restrict_self,
];

/// The operations of prctl(2) that change credentials.
pub const PRCTLS: [c_int; 6] = [
    libc::PR_SET_KEEPCAPS,
    libc::PR_SET_SECCOMP,
    libc::PR_CAPBSET_DROP,
    libc::PR_SET_SECUREBITS,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_CAP_AMBIENT,
];

/// `PRCTLS` as bits of a word, for the assembly of `entry.rs`.
pub const PRCTL_BITS: u64 = calls::bits(&PRCTLS);

/// Flags of unshare(2) that make namespaces for children only, or that change no privilege.
const OF_CHILDREN: u64 = (libc::CLONE_NEWPID | libc::CLONE_FILES | libc::CLONE_SYSVSEM) as u64 | CLONE_NEWTIME;
const CLONE_NEWTIME: u64 = 0x80;

/// The operation of keyctl(2) that gives its caller other keys.
const JOIN_SESSION_KEYRING: u32 = 1;

/// Whether a call is one of `CALLS` or `PRCTLS`.
pub fn is_one(number: i64, first: u64) -> bool {
    if number == libc::SYS_prctl { PRCTLS.contains(&(first as c_int)) } else { CALLS.contains(&number) }
}

/// Whether such a call, with this first argument, changes what its caller may do.
fn changes(number: i64, first: u64) -> bool {
    match number {
        libc::SYS_unshare => first & !OF_CHILDREN != 0,
        libc::SYS_keyctl => first as u32 == JOIN_SESSION_KEYRING,
        _ => true,
    }
}

/// Whether the call leaves its thread almost no system calls: seccomp(2)'s strict mode. The kernel refuses seccomp(2)
/// with other arguments, by which programs find out whether there is such a call.
fn is_strict(number: i64, args: &[u64; 6]) -> bool {
    match number {
        libc::SYS_prctl => args[0] as c_int == libc::PR_SET_SECCOMP && args[1] == u64::from(libc::SECCOMP_MODE_STRICT),
        libc::SYS_seccomp => args[0] as u32 == libc::SECCOMP_SET_MODE_STRICT && args[1] as u32 == 0 && args[2] == 0,
        _ => false,
    }
}

fn is_seccomp(number: i64, args: &[u64; 6]) -> bool {
    number == libc::SYS_seccomp || number == libc::SYS_prctl && args[0] as c_int == libc::PR_SET_SECCOMP
}

/// The number of filters of the calling thread. `None` if the kernel does not say, which it does from Linux 5.11 on.
fn filters() -> Option<u32> {
    let mut text = [0u8; 4096];
    let status = file::read(b"/proc/thread-self/status\0", &mut text)?;
    file::field(status, "Seccomp_filters")?.parse().ok()
}

/// Makes such a call by a system call of our own. Returns its result, or `-errno`.
pub fn call(number: i64, args: [u64; 6]) -> isize {
    let [a, b, c, d, e, _] = args;
    // SAFETY: the program's own call.
    let make = || unsafe { raw::own(number, [a, b, c, d, e]) };
    if is_strict(number, &args) && trap::is_on() {
        // The kernel refuses it to a thread with a filter. If that is the trap's alone, a program that does not look at
        // the result would go on unconfined.
        if filters().is_none_or(|filters| filters <= 1) {
            raw::die(&[
                "--trap cannot serve a program in the strict mode of seccomp(2), which the kernel refuses to a process with a filter",
            ]);
        }
        return make();
    }
    // The new filter would apply to the calls that follow here, too. A thread that starts the timers' thread later
    // passes its own filter on.
    let is_alone = is_seccomp(number, &args) && timers::timing().is_none();
    if is_alone || !timers::is_on() || !changes(number, a) {
        return make();
    }
    if is_strict(number, &args) {
        raw::die(&[
            "--timers cannot serve a program in the strict mode of seccomp(2), where its thread may make no call",
        ]);
    }
    around(make)
}

/// Runs `change`, which makes such a call, while the timers' thread does not exist.
fn around<R>(change: impl FnOnce() -> R) -> R {
    /// libc's signal by which it makes the other threads do the call.
    const SIGSETXID: i32 = 33;
    let Some(process) = process().filter(|_| timers::is_on()) else { return change() };
    if process.is_borrowed() {
        return change();
    }
    // No handler of the program may interrupt this and never return.
    let mask = gate::block_all();
    gate::set_mask(gate::inside(mask) & !bit(SIGSETXID));
    hold(process);
    let result = change();
    release(process);
    gate::set_mask(mask);
    result
}

/// Ends the timers' thread. It is not started until [`release`].
pub fn hold(process: &Process) {
    let _locked = process.making.lock();
    process.holds.fetch_add(1, Ordering::Relaxed);
    if let Some(timing) = timers::timing() {
        timing.alarm.end();
    }
}

fn release(process: &Process) {
    let _locked = process.making.lock();
    if process.holds.fetch_sub(1, Ordering::Relaxed) == 1
        && let Some(timing) = timers::timing()
        && !timing.alarm.release(timing)
    {
        raw::die(&["--timers: with its new credentials the program may make no thread, and timers wait for one"]);
    }
}

/// Functions of libc that make such calls.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            type Function = unsafe extern "C" fn($($kind),*) -> c_int;
            // SAFETY: libc's own, and of that type.
            let real: Function = unsafe { transmute(REAL.$name.load(Ordering::Relaxed)) };
            // SAFETY: as the program calls it.
            around(|| unsafe { real($($argument),*) })
        }
    )*};
}

functions! {
    /// `setuid(2)`.
    setuid(user: libc::uid_t);
    /// `setgid(2)`.
    setgid(group: libc::gid_t);
    /// `seteuid(2)`.
    seteuid(user: libc::uid_t);
    /// `setegid(2)`.
    setegid(group: libc::gid_t);
    /// `setreuid(2)`.
    setreuid(real: libc::uid_t, effective: libc::uid_t);
    /// `setregid(2)`.
    setregid(real: libc::gid_t, effective: libc::gid_t);
    /// `setresuid(2)`.
    setresuid(real: libc::uid_t, effective: libc::uid_t, saved: libc::uid_t);
    /// `setresgid(2)`.
    setresgid(real: libc::gid_t, effective: libc::gid_t, saved: libc::gid_t);
    /// `setgroups(2)`.
    setgroups(count: libc::size_t, groups: *const libc::gid_t);
    /// `initgroups(3)`.
    initgroups(user: *const c_char, group: libc::gid_t);
    /// `setfsuid(2)`.
    setfsuid(user: libc::uid_t);
    /// `setfsgid(2)`.
    setfsgid(group: libc::gid_t);
    /// `capset(2)`.
    capset(header: *mut c_void, data: *const c_void);
    /// `setns(2)`.
    setns(namespace: c_int, kind: c_int);
}

/// `unshare(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    // SAFETY: libc's own, and of that type.
    let real: unsafe extern "C" fn(c_int) -> c_int = unsafe { transmute(REAL.unshare.load(Ordering::Relaxed)) };
    // SAFETY: as the program calls it.
    let make = || unsafe { real(flags) };
    if changes(libc::SYS_unshare, c_ulong::from(flags.cast_unsigned())) { around(make) } else { make() }
}
