//! futex(2) itself: the oracle.

use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::call::Call;
use crate::common::arena::Arena;
use crate::common::asleep::{thread_id, until};
use crate::machine::{Interruption, Machine, Seat, Sharing, System};
use crate::tracer;

/// The kernel that this runs on.
pub fn machine(sharing: Sharing) -> Machine {
    Machine::new(Arc::new(Kernel), sharing)
}

struct Kernel;

/// How often each thread has handled a signal, by its number.
static HANDLED: [AtomicUsize; 1 << 16] = [const { AtomicUsize::new(0) }; 1 << 16];

fn handled(tid: i32) -> &'static AtomicUsize {
    &HANDLED[tid as usize % HANDLED.len()]
}

extern "C" fn handler(_signal: libc::c_int) {
    handled(thread_id()).fetch_add(1, AcqRel);
}

const PLAIN: libc::c_int = libc::SIGUSR1;
const RESTARTING: libc::c_int = libc::SIGUSR2;

fn set_handlers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (signal, flags) in [(PLAIN, 0), (RESTARTING, libc::SA_RESTART)] {
            // SAFETY: zero is a valid sigaction that blocks nothing; the handler only adds to an atomic.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
                action.sa_flags = flags;
                assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
            }
        }
    });
}

fn errno() -> std::io::Error {
    std::io::Error::last_os_error()
}

fn set_scheduler(tid: i32, priority: u8) -> std::io::Result<()> {
    let param = libc::sched_param { sched_priority: priority.into() };
    let policy = if priority == 0 { libc::SCHED_OTHER } else { libc::SCHED_FIFO };
    // SAFETY: `param` is valid for the read.
    if unsafe { libc::sched_setscheduler(tid, policy, &param) } == 0 { Ok(()) } else { Err(errno()) }
}

impl System for Kernel {
    fn enter(&self, _memory: &'static Arena) -> Arc<dyn Seat> {
        set_handlers();
        Arc::new(Caller { tid: thread_id() })
    }

    fn lacks_priorities(&self) -> Option<String> {
        let probe = std::thread::spawn(|| set_scheduler(0, 1));
        let error = probe.join().expect("the probe does not panic").err()?;
        Some(format!("sched_setscheduler(SCHED_FIFO) is not permitted here: {error}"))
    }

    fn kernel_thread(&self) -> Result<u32, String> {
        match std::fs::read_to_string("/proc/2/comm") {
            Ok(name) if name.trim() == "kthreadd" => Ok(2),
            _ => Err("process 2 is not the kernel's thread kthreadd here".to_owned()),
        }
    }

    fn lacks_stops(&self) -> Option<String> {
        tracer::lack()
    }
}

struct Caller {
    tid: i32,
}

impl Seat for Caller {
    fn call(&self, call: Call) -> isize {
        // SAFETY: what the calls of these tests write to lies in an arena, which is made for that and lives as long as the
        // process, or nowhere.
        unsafe { raw(call.number.native(), call.args) }
    }

    fn leave(&self) {
        // The kernel notices.
    }

    fn is_asleep_in(&self, call: Call) -> bool {
        sleeps_in(self.tid).is_some_and(|(number, args)| (number, args) == (call.number.native(), call.args))
    }

    fn is_asleep_again(&self) -> bool {
        sleeps_in(self.tid).is_some_and(|(number, _)| number == libc::SYS_restart_syscall)
    }

    fn interrupt(&self, how: Interruption) {
        let signal = match how {
            Interruption::Handler => PLAIN,
            Interruption::RestartingHandler => RESTARTING,
            Interruption::NoHandler => return tracer::stop_and_continue(self.tid),
        };
        let before = handled(self.tid).load(Acquire);
        // SAFETY: a signal to a thread of our own, which handles it.
        let result = unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), self.tid, signal) };
        assert_eq!(result, 0, "tgkill: {}", errno());
        until("the signal is handled", || handled(self.tid).load(Acquire) != before);
    }

    fn set_priority(&self, priority: u8) {
        set_scheduler(self.tid, priority).expect("it was permitted to a probe");
    }

    fn priority(&self) -> u8 {
        let path = format!("/proc/self/task/{}/stat", self.tid);
        let line = std::fs::read_to_string(path).expect("the thread is there");
        // The name, which comes second and may contain anything, ends with the last parenthesis.
        let after_name = line.rsplit_once(')').expect("a name in parentheses").1;
        let priority: i32 = after_name.split_ascii_whitespace().nth(15).expect("18 fields").parse().expect("a number");
        // -2 for real-time priority 1, -100 for 99; 0 and above for others.
        if priority < 0 { (-1 - priority) as u8 } else { 0 }
    }
}

/// The system call that a thread sleeps in, and its arguments; `None` while it runs. The kernel answers only once the
/// thread has really left its CPU.
fn sleeps_in(tid: i32) -> Option<(i64, [u64; 6])> {
    if !crate::common::asleep::is_interruptible(tid) {
        return None;
    }
    let line = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).ok()?;
    let mut fields = line.split_ascii_whitespace();
    let number = fields.next()?.parse().ok()?;
    let mut args = [0; 6];
    for arg in &mut args {
        *arg = u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok()?;
    }
    Some((number, args))
}

/// Makes a system call directly: libc's `syscall` can be replaced by a program that redirects futexes.
///
/// # Safety
/// What the call does must be sound in this process.
#[cfg(target_arch = "x86_64")]
unsafe fn raw(number: i64, args: [u64; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel preserves every register but rax, rcx and r11; the caller answers for what the call does.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn raw(number: i64, args: [u64; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    // SAFETY: by the caller.
    match unsafe { libc::syscall(number as libc::c_long, a, b, c, d, e, f) } {
        -1 => -(errno().raw_os_error().unwrap_or(0) as isize),
        result => result as isize,
    }
}
