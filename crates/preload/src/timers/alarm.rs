//! The clocks of the machine, and the thread that waits for them.
//!
//! libc does not know of this thread: it is not counted as one of the program's threads (the process ends with the last
//! of these), a fork does not wait for it, and it takes no memory of the program's. `setuid` does not signal it; it
//! ends before such a call and is started again after it (`credentials.rs`). It has no capabilities, and never gains
//! privileges by executing a program (no_new_privs). Its thread-local storage is its own and empty; a function of libc
//! may leave an `errno` there. It always blocks all signals, so it never runs a handler, and the kernel never chooses
//! it for a signal of the process. It has files open only for a moment, in a file table of its own: it uses up no file
//! numbers of the program, and the program may close any number.
//!
//! It waits for a signal that no other thread can get. One kernel timer for each clock sends that signal. Kernel timers
//! notice when a clock is set, and any thread may set them. So a thread that arms the earliest timer makes one system
//! call, and need not wake this thread.
//!
//! Some time passes between the clock's interrupt and the moment when this thread runs. The kernel's own signals do not
//! have that delay. So the kernel timers are set earlier than the deadlines, by a `lead` that is learned from the last
//! delays. If the thread wakes too early, it polls the clock until the deadline, and `lead` becomes smaller at once. If
//! it wakes late, `lead` becomes larger slowly. No timer expires early, because the clock is read after the wait.

use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use core::time::Duration;

use ufutex::timer::{Base, Clocks, CpuClock, Driver};

use super::{Timing, schedule};
use crate::process::{Process, SpinLock};
use crate::{engine, gate, raw};

/// The machine's clocks.
pub struct Host;

/// A time that never comes.
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
        // libc reads the clock without a system call. It does not fail, so it stores no error in storage that the
        // thread may not have.
        // SAFETY: stores into `time`.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    }

    fn cpu_time(&self, of: CpuClock) -> Option<Duration> {
        // The clock's number, as clock_getcpuclockid(3) and pthread_getcpuclockid(3) compute it.
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

/// The monotonic clock's time in nanoseconds.
pub fn now() -> u64 {
    nanoseconds(Host.now(Base::Monotonic))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER)
}

/// The signal of the kernel timers. It is one of libc's own two, so libc's functions let no program ignore it.
const SIGNAL: i32 = 32;
static SIGNALS: u64 = 1 << (SIGNAL - 1);
/// The size of the thread's memory, without the libraries' variables.
const BYTES: u64 = 256 << 10;
/// More than the size of libc's structure for a thread.
const LIBC: u64 = 8192;
/// The size of the libraries' variables in a thread's storage, down to the lowest variable that a function called here
/// may write: libc's `errno`.
static VARIABLES: AtomicU64 = AtomicU64::new(0);

/// Finds out how a thread's storage is laid out, before the program begins.
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
    /// The IDs of the kernel timers, one for each clock. Guarded by `lock`, like `programmed`.
    timers: [AtomicI32; 4],
    /// The deadline that each timer was last set for.
    programmed: [AtomicU64; 4],
    /// How much earlier the timers are set, in nanoseconds. A hint, which only this thread changes.
    lead: AtomicU64,
    lock: SpinLock,
    /// The latest time at which the thread checks its mail. Guarded by the mail's lock.
    next_check: AtomicU64,
    /// The thread's number, once the thread and its kernel timers exist; 0 before.
    thread: AtomicI32,
    /// The thread's number until the kernel has ended the thread and stores 0.
    alive: AtomicI32,
    /// The memory of the thread, which the next thread uses again; 0 before the first. Guarded by the process's
    /// `making`.
    memory: AtomicU64,
    /// Whether there are timers to wait for, so that the thread has to exist. Guarded by the process's `making`.
    is_wanted: AtomicBool,
    /// Makes the thread end.
    ends: AtomicBool,
}

impl Alarm {
    pub const fn new() -> Self {
        Self {
            timers: [const { AtomicI32::new(-1) }; 4],
            programmed: [const { AtomicU64::new(NEVER) }; 4],
            lead: AtomicU64::new(0),
            lock: SpinLock::new(),
            next_check: AtomicU64::new(NEVER),
            thread: AtomicI32::new(0),
            alive: AtomicI32::new(0),
            memory: AtomicU64::new(0),
            is_wanted: AtomicBool::new(false),
            ends: AtomicBool::new(false),
        }
    }

    /// Whether the calling thread is the one that waits for the clocks.
    pub fn is_this_thread(&self) -> bool {
        self.alive.load(Ordering::Relaxed) == raw::tid()
    }

    pub fn has_thread(&self) -> bool {
        self.thread.load(Ordering::Relaxed) != 0
    }

    /// Starts the thread, if it does not exist. Returns `false` if that is impossible. While another thread changes
    /// credentials, starting is left to [`release`](Self::release).
    pub fn start(&self, process: &Process, timing: &'static Timing) -> bool {
        if self.has_thread() {
            return true;
        }
        let _locked = process.making.lock();
        self.is_wanted.store(true, Ordering::Relaxed);
        self.has_thread() || process.holds.load(Ordering::Relaxed) != 0 || self.start_now(timing)
    }

    /// Called after credentials have been changed, by the thread that changed them: starts the thread again, if it
    /// existed. Returns `false` if it cannot be started and a timer waits for it. The caller holds the process's
    /// `making`.
    pub fn release(&self, timing: &'static Timing) -> bool {
        !self.is_wanted.load(Ordering::Relaxed)
            || self.start_now(timing)
            || BASES.iter().all(|(base, _)| timing.driver.next(*base).is_none())
    }

    /// The caller holds the process's `making`.
    fn start_now(&self, timing: &'static Timing) -> bool {
        let variables = VARIABLES.load(Ordering::Relaxed);
        let Some(memory) = self.memory(BYTES + variables) else { return false };
        // libc's structure for a thread lies above the storage's address, and the libraries' variables lie below it.
        let storage = memory + BYTES + variables - LIBC;
        let stack = storage - variables;
        for place in [0, 16] {
            // By the ABI the storage begins with its own address.
            // SAFETY: within the mapping.
            unsafe { *core::ptr::with_exposed_provenance_mut((storage + place) as usize) = storage };
        }
        self.ends.store(false, Ordering::Relaxed);
        let mask = gate::block(u64::MAX);
        let alive = self.alive.as_ptr() as u64;
        // SAFETY: no other thread uses the stack, since the previous thread has ended; the argument is never freed.
        let thread = unsafe { clone(THREAD, stack & !15, storage, core::ptr::from_ref(timing) as u64, run, alive) };
        gate::set_mask(mask);
        if thread <= 0 {
            return false;
        }
        if !self.make_timers(thread as i32) {
            self.end();
            return false;
        }
        {
            let _locked = self.lock.lock();
            self.programmed.iter().for_each(|programmed| programmed.store(NEVER, Ordering::Relaxed));
            self.thread.store(thread as i32, Ordering::Release); // [Pg]
        }
        self.program(&timing.driver);
        true
    }

    fn memory(&self, bytes: u64) -> Option<u64> {
        let memory = self.memory.load(Ordering::Relaxed);
        if memory != 0 {
            return Some(memory);
        }
        let memory = raw::map(bytes as usize)?;
        // SAFETY: our own mapping. A forked child does not have this thread, and does not need its memory.
        unsafe { raw::own(libc::SYS_madvise, [memory, bytes, libc::MADV_DONTFORK as u64]) };
        self.memory.store(memory, Ordering::Relaxed);
        Some(memory)
    }

    /// Ends the thread, if there is one, and waits until the kernel has removed it from the process. The caller holds
    /// the process's `making`, and no lock that the thread takes.
    pub fn end(&self) {
        self.thread.store(0, Ordering::Relaxed);
        let thread = self.alive.load(Ordering::Relaxed);
        if thread == 0 {
            return;
        }
        self.ends.store(true, Ordering::Release); // [Pg]: pairs with the load in `run`
        // [Pf]: pairs with the kernel's store when the thread has ended. Its memory is used again.
        while self.alive.load(Ordering::Acquire) != 0 {
            // Wakes the thread by its own kernel timer as well, whose signal needs no memory: the number of pending
            // signals is limited, and the program may have reached the limit.
            set(self.timers[0].load(Ordering::Relaxed), 1);
            send_wake(thread);
            rest(&self.alive, thread);
        }
        // The kernel stores the 0 before it removes the thread from the process, so wait for that too.
        // SAFETY: signal 0 is not sent.
        while unsafe { raw::own(libc::SYS_tgkill, [raw::pid() as u64, thread as u64, 0]) } == 0 {
            rest(&self.alive, 0);
        }
        self.delete_timers();
    }

    fn delete_timers(&self) {
        for timer in &self.timers {
            // SAFETY: a timer of ours, or none.
            unsafe { raw::own(libc::SYS_timer_delete, [timer.swap(-1, Ordering::Relaxed) as u64]) };
        }
    }

    fn make_timers(&self, thread: i32) -> bool {
        for (i, (_, clock)) in BASES.iter().enumerate() {
            // struct sigevent: value, signal, how, thread.
            let event = [i as u64, SIGNAL as u64 | (libc::SIGEV_THREAD_ID as u64) << 32, thread as u64, 0, 0, 0, 0, 0];
            let mut id = -1i32;
            let (event, id_at) = ((&raw const event) as u64, (&raw mut id) as u64);
            // SAFETY: reads the event, stores the ID.
            if unsafe { raw::own(libc::SYS_timer_create, [*clock as u64, event, id_at]) } != 0 {
                return false;
            }
            self.timers[i].store(id, Ordering::Relaxed);
        }
        true
    }

    /// Sets the kernel timers to the times at which the driver has something to do.
    pub fn program(&self, driver: &Driver) {
        let _locked = self.lock.lock();
        for (i, (base, _)) in BASES.iter().enumerate() {
            let at = driver.next(*base).map_or(NEVER, nanoseconds);
            if self.programmed[i].load(Ordering::Relaxed) != at {
                self.programmed[i].store(at, Ordering::Relaxed);
                let lead = if at == NEVER { 0 } else { self.lead.load(Ordering::Relaxed) };
                set(self.timers[i].load(Ordering::Relaxed), at.saturating_sub(lead));
            }
        }
    }

    /// Makes the thread check its mail at `at`. The caller holds the mail's lock.
    pub fn check_at(&self, at: u64) {
        if at < self.next_check.swap(at.min(self.next_check.load(Ordering::Relaxed)), Ordering::Relaxed) {
            // Not `thread`, which is stored after the thread has begun to wait.
            send_wake(self.alive.load(Ordering::Relaxed));
        }
    }

    /// Notes that the thread has checked its mail, and will check again at `at`. The caller holds the mail's lock.
    pub fn set_next_check(&self, at: u64) {
        self.next_check.store(at, Ordering::Relaxed);
    }

    /// Sleeps until a kernel timer fires, or until `at`.
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
            && let Some(programmed) = self.programmed.get(info[3] as usize)
        {
            // The timer has fired, and is not set any more. If another thread has set it since, it is set again.
            let deadline = {
                let _locked = self.lock.lock();
                programmed.swap(NEVER, Ordering::Relaxed)
            };
            self.meet(info[3] as usize, deadline);
        }
    }

    /// A clock's timer has fired for this deadline. Learns whether that was too early or too late, and polls the clock
    /// for the time that is left.
    fn meet(&self, clock: usize, deadline: u64) {
        let (base, _) = BASES[clock];
        let late = nanoseconds(Host.now(base)).cast_signed().saturating_sub_unsigned(deadline.min(i64::MAX as u64));
        if late.unsigned_abs() > UNUSUAL {
            return; // the timer has been set for another time, or there was no CPU
        }
        let lead = self.lead.load(Ordering::Relaxed);
        let learned =
            if late < 0 { lead.saturating_sub(late.unsigned_abs() / 2) } else { lead + late.unsigned_abs() / 16 };
        self.lead.store(learned.min(LONGEST_LEAD), Ordering::Relaxed);
        if late < 0 && late.unsigned_abs() <= LONGEST_LEAD {
            while nanoseconds(Host.now(base)) < deadline {
                core::hint::spin_loop();
            }
        }
    }
}

/// The greatest `lead`, and so the longest time for which the thread polls a clock.
const LONGEST_LEAD: u64 = 100_000;
/// If the thread wakes farther from the deadline than this, `lead` does not change.
const UNUSUAL: u64 = 1_000_000;

/// The flags of a thread of the program, but with storage of its own.
const THREAD: u64 = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID) as u64;

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

/// Sleeps while the word is `value`, but not for long.
fn rest(word: &AtomicI32, value: i32) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let time = if value == 0 { libc::timespec { tv_nsec: 20_000, ..time } } else { time };
    // Not private, because the kernel's wake when a thread ends is not private.
    let args = [word.as_ptr() as u64, libc::FUTEX_WAIT as u64, value as u64, (&raw const time) as u64, raw::COOKIE, 0];
    // SAFETY: reads the word and the time.
    unsafe { raw::syscall6(libc::SYS_futex, args) };
}

/// Gives up privileges that the thread may have from its maker. It needs none: it signals its own process and sets its
/// own timers.
fn drop_privileges() {
    const VERSION_3: u32 = 0x2008_0522;
    let (header, none) = ([VERSION_3, 0], [0u32; 6]);
    // SAFETY: reads what it is given; changes the calling thread alone.
    unsafe {
        raw::own(libc::SYS_capset, [(&raw const header) as u64, (&raw const none) as u64]);
        raw::own(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0]);
    }
}

/// The thread's function: runs until `ends` is set or the process ends.
unsafe extern "C" fn run(timing: *const Timing) -> ! {
    const CLOSE_RANGE_UNSHARE: u64 = 2;
    // SAFETY: a leaked box.
    let timing = unsafe { &*timing };
    // Unsharing the file table needs Linux 5.9. Without it, a file that this thread has open takes a number of the
    // program's.
    // SAFETY: closes the files in a table of this thread's own; names the thread.
    unsafe {
        raw::own(libc::SYS_close_range, [0, u64::from(u32::MAX), CLOSE_RANGE_UNSHARE]);
        raw::own(libc::SYS_prctl, [libc::PR_SET_NAME as u64, c"ufutex-timers".as_ptr() as u64]);
    }
    // Done first, because it may need a capability of the maker.
    schedule::like_an_interrupt();
    drop_privileges();
    // [Pg]: Acquire pairs with the Release in `end`.
    while !timing.alarm.ends.load(Ordering::Acquire) {
        timing.driver.turn();
        let check_at = timing.mail.check_bells(timing);
        if timing.alarm.has_thread() {
            timing.alarm.program(&timing.driver);
        }
        timing.alarm.wait(check_at);
    }
    loop {
        // The memory is not freed: the thread is using it as its stack, and the next thread will.
        // SAFETY: ends this thread.
        unsafe { raw::own(libc::SYS_exit, [0]) };
    }
}

/// clone(2): makes a thread that runs `function(argument)`. `word` holds the thread's number until it has ended.
///
/// # Safety
/// Only the new thread may use the stack, and `word` must never be freed.
#[unsafe(naked)]
unsafe extern "C" fn clone(
    flags: u64,
    stack: u64,
    storage: u64,
    argument: u64,
    function: unsafe extern "C" fn(*const Timing) -> !,
    word: u64,
) -> isize {
    naked_asm!(
        "push rbx",
        "push r12",
        "mov rbx, rcx",
        "mov r12, r8",
        "mov r8, rdx",
        "mov rdx, r9",
        "mov r10, r9",
        "xor r9d, r9d",
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
