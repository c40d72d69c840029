//! SIGEV_THREAD: for each expiry a function of the program is called, on a thread made for the call. libc itself
//! implements this, and here it is done in the same way: by a thread that the program does not see, which makes the
//! other threads. With `--trap` libc does it, and its system calls trap.

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::sync::atomic::{AtomicU32, Ordering};
use std::boxed::Box;
use std::collections::{BTreeMap, VecDeque};

use ufutex::timer::Notice;

use super::{Count, Timing, count, timing, timing_or_make};
use crate::process::{SpinLock, process};
use crate::{gate, raw, real};

/// The receiver of a timer that calls a function. No thread has this number.
pub const CALLER: i32 = i32::MIN;

/// A `struct sigevent`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Event {
    value: u64,
    _signal: i32,
    pub notify: i32,
    function: u64,
    attributes: *const libc::pthread_attr_t,
    _rest: [u64; 4],
}

const _: () = assert!(size_of::<Event>() == size_of::<libc::sigevent>());

impl Event {
    /// Whether this is the event of a timer with SIGEV_THREAD, as [`create`] passes it to the engine.
    pub const fn names_caller(&self) -> bool {
        // The thread's number takes the place of the lower half of the function's address.
        self.notify == libc::SIGEV_THREAD_ID && self.function as i32 == CALLER
    }

    /// Names the thread 0, which no process has.
    pub const fn name_no_thread(&mut self) {
        self.function = 0;
    }
}

/// The call that a timer makes.
struct Called {
    function: u64,
    value: u64,
    attributes: libc::pthread_attr_t,
}

/// No thread that makes the others.
const NONE: u32 = 0;
/// A thread is making it, which may fail.
const STARTING: u32 = 1;
/// It runs, until the process ends.
const STARTED: u32 = 2;

/// The timers that call functions, and the notices of those that have expired.
pub struct Callers {
    lock: SpinLock,
    /// Guarded by `lock`. Never dropped.
    inner: UnsafeCell<ManuallyDrop<Inner>>,
    /// The word that the thread which makes the other threads sleeps on. It counts the notices.
    bell: AtomicU32,
    /// [`NONE`], [`STARTING`] or [`STARTED`]: whether there is such a thread.
    started: AtomicU32,
    /// The number of timers that call functions. A hint for threads that do not hold the lock.
    timers: AtomicU32,
}

struct Inner {
    called: BTreeMap<i32, Called>,
    expired: VecDeque<Notice>,
}

// SAFETY: see the fields. The attributes consist of numbers, and are copies of the program's.
unsafe impl Sync for Callers {}
// SAFETY: as above.
unsafe impl Send for Callers {}

impl Callers {
    pub const fn new() -> Self {
        let inner = Inner { called: BTreeMap::new(), expired: VecDeque::new() };
        Self {
            lock: SpinLock::new(),
            inner: UnsafeCell::new(ManuallyDrop::new(inner)),
            bell: AtomicU32::new(0),
            started: AtomicU32::new(NONE),
            timers: AtomicU32::new(0),
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        let _locked = self.lock.lock();
        // SAFETY: guarded by the lock.
        f(unsafe { &mut *self.inner.get() })
    }

    /// Sleeps while `started` is this.
    fn wait_while(&self, state: u32) {
        let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
        let args = [self.started.as_ptr() as u64, wait, state.into(), 0, raw::COOKIE, 0];
        // SAFETY: reads the word.
        unsafe { raw::syscall6(libc::SYS_futex, args) };
    }

    fn set_started(&self, state: u32) {
        self.started.store(state, Ordering::Relaxed);
        let wake = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;
        let args = [self.started.as_ptr() as u64, wake, i32::MAX as u64, 0, raw::COOKIE, 0];
        // SAFETY: a private wake touches no memory.
        unsafe { raw::syscall6(libc::SYS_futex, args) };
    }

    /// Called when one of these timers has expired.
    pub fn put(&self, notice: Notice) {
        self.with(|inner| {
            if inner.expired.try_reserve(1).is_ok() {
                inner.expired.push_back(notice);
            }
        });
        self.bell.fetch_add(1, Ordering::Release); // [Pd]: pairs with the load in `run`
        let wake = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;
        // SAFETY: a private wake touches no memory.
        unsafe { raw::syscall6(libc::SYS_futex, [self.bell.as_ptr() as u64, wake, 1, 0, raw::COOKIE, 0]) };
    }

    /// Called when a timer was deleted. Removes it, if it was one of these.
    pub fn forget(&self, id: i32) {
        if self.timers.load(Ordering::Relaxed) != 0 && self.with(|inner| inner.called.remove(&id).is_some()) {
            self.timers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// timer_create(3) with SIGEV_THREAD. Returns the ID, or `-errno`. Called by a thread of libc's, whose signals are not
/// blocked.
pub fn create(clock: u64, event: &Event) -> isize {
    let no_memory = -(libc::EAGAIN as isize);
    let Some(process) = process() else { return no_memory };
    let mask = gate::block_all();
    let timing = if process.is_borrowed() { None } else { timing_or_make(process) };
    gate::set_mask(mask);
    let Some(timing) = timing else { return no_memory };
    let Some(attributes) = detached(event.attributes) else { return no_memory };
    if !start(timing) {
        return no_memory;
    }
    let ours =
        [event.value, 32 | (libc::SIGEV_THREAD_ID as u64) << 32, u64::from(CALLER.cast_unsigned()), 0, 0, 0, 0, 0];
    let mut id = -1i32;
    let mask = gate::block_all();
    let result =
        super::call_with(libc::SYS_timer_create, [clock, (&raw const ours) as u64, (&raw mut id) as u64, 0, 0, 0]);
    if result == 0 {
        let called = Called { function: event.function, value: event.value, attributes };
        timing.callers.with(|inner| inner.called.insert(id, called));
        timing.callers.timers.fetch_add(1, Ordering::Relaxed);
    }
    gate::set_mask(mask);
    if result == 0 { id as isize } else { result }
}

/// Copies the attributes, for detached threads.
fn detached(given: *const libc::pthread_attr_t) -> Option<libc::pthread_attr_t> {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: initialises attributes; the given ones are the program's, which libc's function would read.
    unsafe {
        if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let mut attributes = attributes.assume_init();
        let to = &raw mut attributes;
        if !given.is_null() {
            let (mut number, mut size, mut stack) = (0, 0usize, core::ptr::null_mut());
            let mut param = libc::sched_param { sched_priority: 0 };
            libc::pthread_attr_getguardsize(given, &raw mut size);
            libc::pthread_attr_setguardsize(to, size);
            libc::pthread_attr_getinheritsched(given, &raw mut number);
            libc::pthread_attr_setinheritsched(to, number);
            libc::pthread_attr_getschedpolicy(given, &raw mut number);
            libc::pthread_attr_setschedpolicy(to, number);
            libc::pthread_attr_getschedparam(given, &raw mut param);
            libc::pthread_attr_setschedparam(to, &raw const param);
            pthread_attr_getscope(given, &raw mut number);
            pthread_attr_setscope(to, number);
            libc::pthread_attr_getstack(given, &raw mut stack, &raw mut size);
            // If no stack was set, the address plus the size is 0.
            if (stack as usize).wrapping_add(size) == 0 || stack.is_null() {
                libc::pthread_attr_setstacksize(to, size);
            } else {
                pthread_attr_setstack(to, stack, size);
            }
        }
        libc::pthread_attr_setdetachstate(to, libc::PTHREAD_CREATE_DETACHED);
        Some(attributes)
    }
}

unsafe extern "C" {
    fn pthread_attr_getscope(attributes: *const libc::pthread_attr_t, scope: *mut libc::c_int) -> libc::c_int;
    fn pthread_attr_setscope(attributes: *mut libc::pthread_attr_t, scope: libc::c_int) -> libc::c_int;
    fn pthread_attr_setstack(
        attributes: *mut libc::pthread_attr_t,
        stack: *mut c_void,
        size: libc::size_t,
    ) -> libc::c_int;
}

/// Starts the thread that makes the other threads, if it does not run. It is made by libc, because it calls functions
/// of libc.
fn start(timing: &'static Timing) -> bool {
    /// libc's own two signals. libc sends them to all its threads, and only one of them ends a thread.
    const INTERNAL: u64 = 0b11 << 31;
    const STACK: usize = 256 << 10;
    let callers = &timing.callers;
    // Relaxed: the states guard no memory. What the thread needs was there before `timing`.
    let start = || callers.started.compare_exchange(NONE, STARTING, Ordering::Relaxed, Ordering::Relaxed);
    while let Err(state) = start() {
        if state == STARTED {
            return true;
        }
        // Another thread starts it, which may fail.
        callers.wait_while(STARTING);
    }
    let mask = gate::block(!INTERNAL);
    let mut thread = 0;
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: attributes of ours; `run` takes nothing.
    let made = unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
        let made = real::pthread_create()(&raw mut thread, attributes.as_ptr(), run, core::ptr::null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        made
    };
    gate::set_mask(mask);
    callers.set_started(if made == 0 { STARTED } else { NONE });
    made == 0
}

/// The function of that thread. It runs until the process ends.
extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let Some(timing) = timing() else { return core::ptr::null_mut() };
    let callers = &timing.callers;
    loop {
        let seen = callers.bell.load(Ordering::Acquire); // [Pd]: pairs with the increment in `put`
        while let Some(notice) = callers.with(|inner| inner.expired.pop_front()) {
            if let Some(expired) = timing.timers.take(notice) {
                count(Count::Delivered, 1);
                count(Count::Overruns, u64::try_from(expired.overrun).unwrap_or(0));
                call(callers, expired.id);
            }
        }
        let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
        let args = [callers.bell.as_ptr() as u64, wait, seen.into(), 0, raw::COOKIE, 0];
        // SAFETY: reads the word.
        unsafe { raw::syscall6(libc::SYS_futex, args) };
    }
}

/// The function and argument of a new thread.
#[repr(C)]
struct Start {
    function: u64,
    value: u64,
}

fn call(callers: &Callers, id: i32) {
    let called = callers.with(|inner| {
        let called = inner.called.get(&id)?;
        Some((Start { function: called.function, value: called.value }, called.attributes))
    });
    let Some((start, attributes)) = called else { return };
    let start = Box::into_raw(Box::new(start));
    let mut thread = 0;
    // SAFETY: `begin` takes a `Start`, and frees it.
    unsafe {
        let begin: extern "C" fn(*mut c_void) -> *mut c_void = core::mem::transmute(begin as *const ());
        if real::pthread_create()(&raw mut thread, &raw const attributes, begin, start.cast()) != 0 {
            drop(Box::from_raw(start)); // libc ignores the failure, too
        }
    }
}

/// The start of a new thread. It leaves no frame of ours on the stack, so the function may end the thread in any way. So may a
/// handler that runs when signals are let in.
#[unsafe(naked)]
unsafe extern "C" fn begin(start: *mut Start) {
    naked_asm!(
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        "call {prepare}",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        "mov rdi, rdx",
        "cmp byte ptr [rip + {unblocks}], 0",
        "je 2f",
        "push rax",
        "push rdi",
        "push 0",
        ".cfi_adjust_cfa_offset 24",
        "mov eax, {sigprocmask}",
        "mov edi, {set_mask}",
        "mov rsi, rsp",
        "xor edx, edx",
        "mov r10d, 8",
        "syscall",
        "add rsp, 8",
        "pop rdi",
        "pop rax",
        ".cfi_adjust_cfa_offset -24",
        "2:",
        "jmp rax",
        ".cfi_endproc",
        prepare = sym prepare,
        unblocks = sym super::UNBLOCKS,
        sigprocmask = const libc::SYS_rt_sigprocmask,
        set_mask = const libc::SIG_SETMASK,
    )
}

unsafe extern "C" fn prepare(start: *mut Start) -> Start {
    // SAFETY: `call` has made it for this thread alone. Signals are blocked here, so no handler can find the heap locked.
    *unsafe { Box::from_raw(start) }
}
