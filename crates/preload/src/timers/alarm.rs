//! The clocks of the machine, and the thread that waits for them.
//!
//! The thread belongs to us alone. libc does not know of it: it is not counted as one of the program's threads (the process
//! ends with the last of these), a fork does not wait for it, `setuid` does not signal it, and it takes no memory of the
//! program's. It has thread-local storage of its own with nothing in it, in which a function of libc's may leave an
//! `errno`. All signals are blocked in it for good, so that it never runs a handler, and the kernel never chooses it for
//! a signal of the process. It has no open files but for a moment, in a table of its own: no number of the program's
//! is taken, and a program may close what it likes.
//!
//! It waits for a signal that nobody else can get, sent by one timer of the kernel's for each clock: these know when a clock
//! is set, and anybody may set them. So who arms the earliest timer makes one system call, and wakes nobody.

use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use core::time::Duration;

use ufutex::timer::{Base, Clocks, CpuClock, Driver};

use super::Timing;
use crate::process::{Process, SpinLock};
use crate::{engine, gate, raw};

/// The machine's clocks.
pub struct Host;

/// Never.
pub const NEVER: u64 = u64::MAX;

const BASES: [(Base, libc::clockid_t); 4] = [
    (Base::Monotonic, libc::CLOCK_MONOTONIC),
    (Base::Realtime, libc::CLOCK_REALTIME),
    (Base::Boottime, libc::CLOCK_BOOTTIME),
    (Base::Tai, libc::CLOCK_TAI),
];

impl Clocks for Host {
    fn now(&self, base: Base) -> Duration {
        let clock = BASES.iter().find(|(known, _)| *known == base).map_or(libc::CLOCK_MONOTONIC, |(_, clock)| *clock);
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // Without a system call, by libc. It does not fail, and so leaves no error in storage that need not be there.
        // SAFETY: stores into `time`.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    }

    fn cpu_time(&self, of: CpuClock) -> Option<Duration> {
        // As clock_getcpuclockid(3) and pthread_getcpuclockid(3) make them.
        let clock = match of {
            CpuClock::Process(process) => !process << 3 | 2,
            CpuClock::Thread(thread) => !thread << 3 | 6,
        };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: stores into `time`.
        let told = unsafe { raw::own(libc::SYS_clock_gettime, [clock as u64, (&raw mut time) as u64]) };
        (told == 0).then(|| Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32))
    }

    fn cpus(&self) -> usize {
        engine::cpus()
    }

    fn changed(&self) {
        if let Some(timing) = super::timing() {
            timing.alarm.program(&timing.driver);
        }
    }
}

/// What the monotonic clock shows, in nanoseconds.
pub fn now() -> u64 {
    nanoseconds(Host.now(Base::Monotonic))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER)
}

/// What rings: a signal that functions of libc let nobody ignore, since it is libc's own.
const SIGNAL: i32 = 32;
static SIGNALS: u64 = 1 << (SIGNAL - 1);
/// The thread's memory, without variables.
const BYTES: u64 = 256 << 10;
/// More than libc has of a thread.
const LIBC: u64 = 8192;
/// How much the variables of libraries take of a thread's storage, as far down as anything that we call could write: libc's
/// `errno`.
static VARIABLES: AtomicU64 = AtomicU64::new(0);

/// Looks how a thread's storage is laid out, before the program begins.
pub fn begin() {
    let base: u64;
    // SAFETY: the first word of the storage is its own address, by the ABI.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) base, options(nostack, pure, readonly)) };
    // SAFETY: a function of libc.
    let errno = unsafe { libc::__errno_location() } as u64;
    VARIABLES.store(base.saturating_sub(errno).next_multiple_of(4096) + 4096, Ordering::Relaxed);
}

/// See the top of this file.
pub struct Alarm {
    /// Of the kernel's timers, by their clocks. Guarded by `lock`, as what follows.
    timers: [AtomicI32; 4],
    /// What each is set to.
    told: [AtomicU64; 4],
    lock: SpinLock,
    /// When the thread looks at its mail at the latest. Guarded by the mail's lock.
    looks_at: AtomicU64,
    /// The thread, once it is there.
    thread: AtomicI32,
    /// Its timers could not be had.
    is_over: AtomicBool,
}

impl Alarm {
    pub const fn new() -> Self {
        Self {
            timers: [const { AtomicI32::new(-1) }; 4],
            told: [const { AtomicU64::new(NEVER) }; 4],
            lock: SpinLock::new(),
            looks_at: AtomicU64::new(NEVER),
            thread: AtomicI32::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    pub fn has_thread(&self) -> bool {
        self.thread.load(Ordering::Relaxed) != 0
    }

    /// Starts the thread, if there is none; false if it cannot be.
    pub fn start(&self, process: &Process, timing: &'static Timing) -> bool {
        if self.has_thread() {
            return true;
        }
        let _locked = process.making.lock();
        self.has_thread() || self.start_now(timing)
    }

    fn start_now(&self, timing: &'static Timing) -> bool {
        let variables = VARIABLES.load(Ordering::Relaxed);
        let bytes = BYTES + variables;
        let Some(memory) = raw::map(bytes as usize) else { return false };
        // SAFETY: our own mapping. A forked child has no such thread, and no use for its memory.
        unsafe { raw::own(libc::SYS_madvise, [memory, bytes, libc::MADV_DONTFORK as u64]) };
        // Above the storage's address there is what libc knows of a thread; below, its libraries' variables.
        let storage = memory + bytes - LIBC;
        let stack = storage - variables;
        for place in [0, 16] {
            // By the ABI the storage begins with its own address.
            // SAFETY: within the mapping.
            unsafe { *core::ptr::with_exposed_provenance_mut((storage + place) as usize) = storage };
        }
        self.is_over.store(false, Ordering::Relaxed);
        let mask = gate::block(u64::MAX);
        // SAFETY: a stack that nobody else uses; the thread runs for as long as the process.
        let thread = unsafe { clone(THREAD, stack & !15, storage, core::ptr::from_ref(timing) as u64, run) };
        gate::set_mask(mask);
        if thread <= 0 {
            // SAFETY: nobody uses it.
            unsafe { raw::own(libc::SYS_munmap, [memory, bytes]) };
            return false;
        }
        if !self.make_timers(thread as i32) {
            self.is_over.store(true, Ordering::Relaxed);
            send_wake(thread as i32);
            return false;
        }
        self.thread.store(thread as i32, Ordering::Release);
        true
    }

    fn make_timers(&self, thread: i32) -> bool {
        for (i, (_, clock)) in BASES.iter().enumerate() {
            // struct sigevent: value, signal, how, thread.
            let event = [i as u64, SIGNAL as u64 | (libc::SIGEV_THREAD_ID as u64) << 32, thread as u64, 0, 0, 0, 0, 0];
            let mut id = -1i32;
            let (event, id_at) = ((&raw const event) as u64, (&raw mut id) as u64);
            // SAFETY: reads the event, stores the ID.
            if unsafe { raw::own(libc::SYS_timer_create, [*clock as u64, event, id_at]) } != 0 {
                for timer in &self.timers {
                    // SAFETY: a timer of ours, or none.
                    unsafe { raw::own(libc::SYS_timer_delete, [timer.swap(-1, Ordering::Relaxed) as u64]) };
                }
                return false;
            }
            self.timers[i].store(id, Ordering::Relaxed);
        }
        true
    }

    /// Sets the kernel's timers to when the driver has something to do.
    pub fn program(&self, driver: &Driver) {
        let _locked = self.lock.lock();
        for (i, (base, _)) in BASES.iter().enumerate() {
            let at = driver.next(*base).map_or(NEVER, nanoseconds);
            if self.told[i].load(Ordering::Relaxed) != at {
                self.told[i].store(at, Ordering::Relaxed);
                set(self.timers[i].load(Ordering::Relaxed), at);
            }
        }
    }

    /// The thread is to look at its mail at that time. By whoever has locked the mail.
    pub fn look_at(&self, at: u64) {
        if at < self.looks_at.swap(at.min(self.looks_at.load(Ordering::Relaxed)), Ordering::Relaxed) {
            send_wake(self.thread.load(Ordering::Relaxed));
        }
    }

    /// The thread has looked, and will again at that time. By whoever has locked the mail.
    pub fn looks_at(&self, at: u64) {
        self.looks_at.store(at, Ordering::Relaxed);
    }

    /// Sleeps until a clock rings, or until `at`.
    fn wait(&self, at: u64) {
        let left = at.saturating_sub(now());
        let time = libc::timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
        let time = if at == NEVER { 0 } else { (&raw const time) as u64 };
        let mut info = [0u64; 16];
        let (set, info_at) = ((&raw const SIGNALS) as u64, (&raw mut info) as u64);
        // SAFETY: reads set and time, fills in the information.
        let signal = unsafe { raw::own(libc::SYS_rt_sigtimedwait, [set, info_at, time, 8]) };
        let code = info[1] as i32;
        if signal == SIGNAL as isize
            && code == libc::SI_TIMER
            && let Some(told) = self.told.get(info[3] as usize)
        {
            // It has rung, and is set no longer; if somebody has set it since, it is set again.
            let _locked = self.lock.lock();
            told.store(NEVER, Ordering::Relaxed);
        }
    }
}

/// As a thread of the program's, but for the storage.
const THREAD: u64 = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS) as u64;

fn set(timer: i32, at: u64) {
    let at = if at == NEVER { 0 } else { at.clamp(1, i64::MAX as u64) };
    let setting = [0, 0, at / 1_000_000_000, at % 1_000_000_000];
    let setting = (&raw const setting) as u64;
    // SAFETY: reads the setting.
    unsafe { raw::own(libc::SYS_timer_settime, [timer as u64, libc::TIMER_ABSTIME as u64, setting, 0]) };
}

fn send_wake(thread: i32) {
    // SAFETY: to our own thread.
    unsafe { raw::own(libc::SYS_tgkill, [raw::pid() as u64, thread as u64, SIGNAL as u64]) };
}

/// What the thread does, until the process ends.
unsafe extern "C" fn run(timing: *const Timing) -> ! {
    const CLOSE_RANGE_UNSHARE: u64 = 2;
    // SAFETY: a leaked box.
    let timing = unsafe { &*timing };
    // Without that, which Linux has since 5.9, files are the program's for as long as one is open.
    // SAFETY: closes what is open in a table of this thread's own; names the thread.
    unsafe {
        raw::own(libc::SYS_close_range, [0, u64::from(u32::MAX), CLOSE_RANGE_UNSHARE]);
        raw::own(libc::SYS_prctl, [libc::PR_SET_NAME as u64, c"ufutex-timers".as_ptr() as u64]);
    }
    while !timing.alarm.is_over.load(Ordering::Relaxed) {
        timing.driver.turn();
        let look_at = timing.mail.look(timing);
        if timing.alarm.has_thread() {
            timing.alarm.program(&timing.driver);
        }
        timing.alarm.wait(look_at);
    }
    loop {
        // Its memory stays: it is on it.
        // SAFETY: ends this thread.
        unsafe { raw::own(libc::SYS_exit, [0]) };
    }
}

/// clone(2): its thread runs `function(argument)`.
///
/// # Safety
/// The stack must be the thread's alone.
#[unsafe(naked)]
unsafe extern "C" fn clone(
    flags: u64,
    stack: u64,
    storage: u64,
    argument: u64,
    function: unsafe extern "C" fn(*const Timing) -> !,
) -> isize {
    naked_asm!(
        "push rbx",
        "push r12",
        "mov rbx, rcx",
        "mov r12, r8",
        "mov r8, rdx",
        "xor edx, edx",
        "xor r10d, r10d",
        "mov eax, {clone}",
        "syscall",
        "test rax, rax",
        "jz 2f",
        "xor r8d, r8d",
        "pop r12",
        "pop rbx",
        "ret",
        "2:",
        "xor ebp, ebp",
        "mov rdi, rbx",
        "call r12",
        "ud2",
        clone = const libc::SYS_clone,
    )
}
