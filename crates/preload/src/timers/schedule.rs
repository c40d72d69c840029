//! How the thread of `alarm.rs` is scheduled.
//!
//! A thread inherits its scheduling policy, nice value and CPUs from the thread that makes it. Here that is any thread
//! that arms the first timer. But this thread works for all threads of the program, in place of the kernel's timer
//! interrupt, so it should run before them. Each setting is requested; one that the kernel refuses stays as it was.

use crate::raw;

/// The priority that the kernel gives its own interrupt threads (sched_set_fifo(), in kernel/sched/syscalls.c).
const INTERRUPTS: u32 = 50;
/// A thread with a short slice need not wait for the end of another thread's slice. Has no effect before Linux 6.12.
const SLICE_NS: u64 = 100_000;

/// `struct sched_attr` in its first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Gives the calling thread the real-time priority of interrupt threads, or the greatest that RLIMIT_RTPRIO allows, and
/// all CPUs of the process. If no real-time priority is allowed, the thread keeps a real-time policy that it has
/// inherited, and gets the default policy otherwise.
pub fn like_an_interrupt() {
    use_cpus_of_process();
    if realtime(INTERRUPTS) || realtime(allowed_priority().min(INTERRUPTS)) || now().is_realtime() {
        return;
    }
    let others = Attributes { policy: libc::SCHED_OTHER as u32, runtime: SLICE_NS, ..Attributes::default() };
    // With the maker's nice value, because a lower one may be refused.
    let as_nice = Attributes { nice: now().nice, runtime: SLICE_NS, ..Attributes::default() };
    let _ = set(others) || set(as_nice);
}

fn realtime(priority: u32) -> bool {
    priority != 0 && set(Attributes { policy: libc::SCHED_FIFO as u32, priority, ..Attributes::default() })
}

/// The greatest real-time priority that the process may have without privileges. 0 means none.
fn allowed_priority() -> u32 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for the result.
    unsafe { raw::own(libc::SYS_getrlimit, [libc::RLIMIT_RTPRIO as u64, (&raw mut limit) as u64]) };
    u32::try_from(limit.rlim_cur).unwrap_or(u32::MAX)
}

impl Attributes {
    fn is_realtime(&self) -> bool {
        [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&(self.policy as i32))
    }
}

fn set(attributes: Attributes) -> bool {
    let wanted = Attributes { size: size_of::<Attributes>() as u32, ..attributes };
    // SAFETY: reads `wanted`; changes only the calling thread.
    unsafe { raw::own(libc::SYS_sched_setattr, [0, (&raw const wanted) as u64, 0]) == 0 }
}

/// The calling thread's attributes.
fn now() -> Attributes {
    let mut now = Attributes::default();
    let (at, size) = ((&raw mut now) as u64, size_of::<Attributes>() as u64);
    // SAFETY: stores the calling thread's attributes.
    unsafe { raw::own(libc::SYS_sched_getattr, [0, at, size, 0]) };
    now
}

/// Allows the calling thread all CPUs of the process's main thread, which taskset(1) and service managers set.
fn use_cpus_of_process() {
    let mut cpus = [0u64; 128];
    let at = (&raw mut cpus) as u64;
    // SAFETY: stores at most as many bytes as `cpus` has; reads as many as were stored; changes only the calling
    // thread.
    unsafe {
        let bytes = raw::own(libc::SYS_sched_getaffinity, [raw::pid() as u64, size_of_val(&cpus) as u64, at]);
        if bytes > 0 {
            raw::own(libc::SYS_sched_setaffinity, [0, bytes as u64, at]);
        }
    }
}
