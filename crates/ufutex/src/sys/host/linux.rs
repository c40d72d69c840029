//! Linux: futex(2) itself, by system calls made directly. Calls through libc's `syscall` could be interposed: where a program's
//! futex calls are redirected to this engine, its own must not be.

use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

use super::super::clock::{Clock, Deadline};
use super::super::park::ParkEnd;

/// A wake concerns the thread if it has one of these bits.
pub fn park(word: &AtomicU32, expected: u32, deadline: Option<&Deadline>, bits: NonZeroU32) -> ParkEnd {
    let mut op = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    let mut until = core::ptr::null();
    let time;
    if let Some(deadline) = deadline {
        if deadline.clock == Clock::Realtime {
            op |= libc::FUTEX_CLOCK_REALTIME;
        }
        time = timespec(deadline.at);
        until = &raw const time;
    }
    // SAFETY: the word and `time` outlive the call, which writes to neither.
    let result = unsafe {
        syscall5(
            libc::SYS_futex,
            word.as_ptr().expose_provenance(),
            op as usize,
            expected as usize,
            until.expose_provenance(),
            bits.get(),
        )
    };
    if result == -(libc::ETIMEDOUT as isize) { ParkEnd::TimedOut } else { ParkEnd::Awake }
}

/// The word need not be mapped any more: futex(2) never reads the word of a private wake. If a seccomp filter forbids wakes by
/// bits, it wakes all.
pub fn unpark(word: *const AtomicU32, count: usize, bits: NonZeroU32) -> usize {
    let all = bits == NonZeroU32::MAX;
    let op = libc::FUTEX_PRIVATE_FLAG | if all { libc::FUTEX_WAKE } else { libc::FUTEX_WAKE_BITSET };
    // The kernel's count is an `int`.
    let count = count.min(i32::MAX as usize);
    // SAFETY: a private wake touches no memory of ours.
    let woken = unsafe { syscall5(libc::SYS_futex, word.expose_provenance(), op as usize, count, 0, bits.get()) };
    match usize::try_from(woken) {
        Ok(woken) => woken,
        Err(_) if all => 0,
        Err(_) => unpark(word, usize::MAX, NonZeroU32::MAX),
    }
}

pub fn yield_now() {
    // SAFETY: sched_yield takes nothing and changes nothing.
    let _always_0 = unsafe { syscall5(libc::SYS_sched_yield, 0, 0, 0, 0, 0) };
}

/// libc's sleep is a cancellation point of the thread.
pub fn sleep(length: Duration) -> bool {
    let length = timespec(length);
    // SAFETY: `length` outlives the call.
    unsafe { syscall5(libc::SYS_nanosleep, (&raw const length).expose_provenance(), 0, 0, 0, 0) };
    true
}

/// The CPUs that this thread may run on. Unlike the standard library it allocates nothing, and ignores cgroups' quotas.
pub fn online() -> usize {
    let mut mask = [0u64; 8192 / 64]; // a kernel cannot be built for more CPUs
    // SAFETY: writes at most the given length.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) } != 0 {
        // SAFETY: returns a number, or -1. A seccomp filter may refuse the call above.
        return usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1).max(1);
    }
    mask.iter().map(|word| word.count_ones() as usize).sum()
}

pub fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos() as libc::c_long,
    }
}

/// The `uaddr2` of the engine's own calls of futex(2), which the kernel ignores in waits and wakes. A seccomp filter that hands
/// a program's futex calls to the engine lets calls with it through.
pub const OWN_CALL: u64 = u64::from_le_bytes(*b"ufutex\xf7\x0f");

/// Issues a system call with `a` to `d`, [`OWN_CALL`] (futex(2)'s second word) and `bits`. Returns `-errno` if it fails.
///
/// # Safety
/// The arguments are valid for that call, and its effect is sound in this process. The provenance of pointers is exposed.
#[inline]
pub unsafe fn syscall5(number: libc::c_long, a: usize, b: usize, c: usize, d: usize, bits: u32) -> isize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let result: isize;
        // SAFETY: the kernel changes only rax, rcx and r11, and uses no stack of ours. The caller answers for the effect.
        unsafe {
            core::arch::asm!(
                "syscall",
                "xor r8d, r8d", // otherwise the program's next call would carry `OWN_CALL`
                inlateout("rax") number as isize => result,
                in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
                inlateout("r8") OWN_CALL => _, in("r9") bits as usize,
                lateout("rcx") _, lateout("r11") _,
                options(nostack),
            );
        }
        result
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let result: isize;
        // SAFETY: the kernel preserves every register but x0. The caller answers for the effect of the call.
        unsafe {
            core::arch::asm!(
                "svc 0",
                in("x8") number,
                inlateout("x0") a as isize => result,
                in("x1") b, in("x2") c, in("x3") d,
                in("x4") OWN_CALL, in("x5") bits as usize,
                options(nostack),
            );
        }
        result
    }
    #[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
    {
        // SAFETY: the caller guarantees it.
        let result = unsafe { libc_syscall(number, a, b, c, d, bits) };
        // SAFETY: a thread's errno may always be read.
        if result >= 0 { result as isize } else { -(unsafe { *libc::__errno_location() } as isize) }
    }
}

/// By libc. Miri knows these calls. It wants arguments of their C types, and zero where the kernel ignores one.
///
/// # Safety
/// As for [`syscall5`].
#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
unsafe fn libc_syscall(number: libc::c_long, a: usize, b: usize, c: usize, d: usize, bits: u32) -> libc::c_long {
    use core::ptr::{null_mut, with_exposed_provenance as pointer, without_provenance};
    // SAFETY: the caller guarantees it.
    unsafe {
        match number {
            libc::SYS_futex => {
                let (word, time) = (pointer::<u32>(a), pointer::<libc::timespec>(d));
                let own = without_provenance::<u32>(if cfg!(miri) { 0 } else { OWN_CALL as usize });
                libc::syscall(number, word, b as libc::c_int, c as u32, time, own, bits)
            }
            libc::SYS_sched_yield if cfg!(miri) => libc::sched_yield().into(),
            libc::SYS_nanosleep if cfg!(miri) => libc::nanosleep(pointer(a), null_mut()).into(),
            _ => libc::syscall(number, a, b, c, d, OWN_CALL as usize, bits as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_those_that_the_first_thread_to_need_the_number_may_use() {
        let all = online();
        assert!(all >= 1);
        let [of_all, of_one] = [(); 2].map(|()| crate::System::new());
        let cpus = |system: &crate::System| system.globals().cpus();
        assert_eq!(cpus(&of_all), all);
        let on_one = std::thread::spawn(move || {
            let mut mask = [0u64; 16];
            // SAFETY: writes at most the length that is given.
            let read = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
            assert_eq!(read, 0, "{}", std::io::Error::last_os_error());
            let first = mask.iter().position(|&word| word != 0).expect("the thread runs on a CPU");
            let one = mask[first] & mask[first].wrapping_neg();
            mask = [0; 16];
            mask[first] = one;
            // SAFETY: reads the mask, and keeps this thread on one of its CPUs.
            let set = unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
            assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
            assert_eq!([online(), cpus(&of_one), cpus(&of_all)], [1, 1, all]);
            of_one
        });
        let of_one = on_one.join().expect("it does not panic");
        assert_eq!(cpus(&of_one), 1, "the first thread to need the number has decided it");
    }
}
