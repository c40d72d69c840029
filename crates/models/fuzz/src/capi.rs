//! Calls of the C interface, with handles that are alive, freed, of another kind, or any number.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::ptr::{null, null_mut, without_provenance_mut};

use ufutex::{Access, UserMemory, Width};
use ufutex_capi::*;

use crate::bytes::Bytes;
use crate::errno::check;
use crate::memory::Memory;

/// What `ufutex.h` names for these calls. EINPROGRESS is the answer of a wait that has begun.
const ERRORS: &[i64] = &[1, 3, 4, 7, 9, 11, 12, 14, 16, 22, 35, 38, 95, 110, 115, 512, 513, 516];
const BAD_HANDLE: i64 = -(libc::EBADF as i64);
const INVALID: i64 = -(libc::EINVAL as i64);

/// The kinds of handles.
const KINDS: usize = 5;
const SYSTEM: usize = 0;
const DOMAIN: usize = 1;
const TASK: usize = 2;
const WAITER: usize = 3;
const TIMERS: usize = 4;

/// All handles of a run.
#[derive(Default)]
struct Handles {
    alive: [Vec<u64>; KINDS],
    freed: Vec<u64>,
}

/// A handle that was chosen, and whether it is alive and of the kind that was asked for.
#[derive(Clone, Copy)]
struct Chosen {
    number: u64,
    is_good: bool,
}

impl Chosen {
    fn pointer<T>(self) -> *mut T {
        without_provenance_mut(self.number as usize)
    }
}

impl Handles {
    fn choose(&self, kind: usize, bytes: &mut Bytes) -> Chosen {
        let number = match bytes.byte() {
            0..216 => pick(&self.alive[kind], bytes),
            216..232 => pick(&self.freed, bytes),
            232..244 => pick(&self.alive[bytes.below(KINDS)], bytes),
            244..248 => Some(0),
            _ => Some(bytes.any()),
        };
        let number = number.unwrap_or(0);
        Chosen { number, is_good: self.alive[kind].contains(&number) }
    }

    fn add<T>(&mut self, kind: usize, handle: *mut T) {
        let number = handle.addr() as u64;
        assert!(number != 0 && !self.freed.contains(&number), "a handle is never used again");
        assert!(self.alive.iter().all(|alive| !alive.contains(&number)));
        self.alive[kind].push(number);
    }

    fn remove(&mut self, kind: usize, handle: u64) {
        self.alive[kind].retain(|number| *number != handle);
        self.freed.push(handle);
    }
}

fn pick(of: &[u64], bytes: &mut Bytes) -> Option<u64> {
    let at = bytes.byte();
    of.get(usize::from(at) % of.len().max(1)).copied()
}

/// A bad handle is refused, and a good one is not called bad.
fn answers(result: impl Into<i64>, handles: &[Chosen], what: &str) -> i64 {
    let result = result.into();
    check(result, ERRORS, what);
    if handles.iter().all(|handle| handle.is_good) {
        assert_ne!(result, BAD_HANDLE, "{what}: the handles are alive");
    } else {
        assert!(result < 0, "{what} answers {result} to a bad handle");
    }
    result
}

/// A struct with a size, which is sometimes wrong, and otherwise zeroes.
fn options<T>(bytes: &mut Bytes) -> T {
    let size = if bytes.one_in(32) { bytes.number() as usize % size_of::<T>() } else { size_of::<T>() };
    // SAFETY: all structs of the interface may be zero, and begin with their size. A smaller one is valid for reading.
    unsafe {
        let mut options: T = std::mem::zeroed();
        (&raw mut options).cast::<usize>().write(size);
        options
    }
}

fn memory_of(context: *mut c_void) -> &'static Memory {
    // SAFETY: `run` leaks no context: the memory outlives all objects of the run, which are freed before it.
    unsafe { &*context.cast::<Memory>() }
}

fn width_of(bytes: u32) -> Width {
    match bytes {
        1 => Width::U8,
        2 => Width::U16,
        4 => Width::U32,
        8 => Width::U64,
        bytes => panic!("no word has {bytes} bytes"),
    }
}

unsafe extern "C" fn load(context: *mut c_void, address: u64, bytes: u32, value: *mut u64) -> c_int {
    let Ok(loaded) = memory_of(context).load(address, width_of(bytes)) else { return -libc::EFAULT };
    // SAFETY: the library passes room for the value.
    unsafe { value.write(loaded) };
    0
}

unsafe extern "C" fn compare_exchange(
    context: *mut c_void,
    address: u64,
    bytes: u32,
    current: *mut u64,
    new: u64,
) -> c_int {
    // SAFETY: the library passes the expected value.
    let expected = unsafe { current.read() };
    match memory_of(context).compare_exchange(address, width_of(bytes), expected, new) {
        Err(_) => -libc::EFAULT,
        Ok(Ok(_)) => 0,
        Ok(Err(now)) => {
            // SAFETY: as above.
            unsafe { current.write(now) };
            1
        }
    }
}

unsafe extern "C" fn fault_in(context: *mut c_void, address: u64, access: u32) -> c_int {
    let access = if access == UFUTEX_WRITE { Access::Write } else { Access::Read };
    if memory_of(context).fault_in(address, access).is_ok() { 0 } else { -libc::EFAULT }
}

unsafe extern "C" fn now(_: *mut c_void, _: u32) -> u64 {
    1_000_000_000
}

unsafe extern "C" fn called(_: *mut c_void) {}

/// Makes the calls that the input chooses. Bad handles are refused, good ones are not, and everything can be freed.
pub fn calls(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    let memory = Memory::new(None);
    let mut handles = Handles::default();
    while !bytes.is_empty() {
        // SAFETY: handles may be any numbers; all other pointers are null or valid.
        unsafe { step(&mut bytes, &memory, &mut handles) };
    }
    // What is alive can be freed, in this order. Then no waiter is left, and no handle is valid any more.
    for kind in [WAITER, TASK, DOMAIN, TIMERS, SYSTEM] {
        for handle in std::mem::take(&mut handles.alive[kind]) {
            if kind == DOMAIN {
                let mut counters: ufutex_counters = options(&mut Bytes::new(&[]));
                let counters = &raw mut counters;
                // SAFETY: a valid handle and struct.
                unsafe {
                    assert_eq!(ufutex_domain_get_counters(without_provenance_mut(handle as usize), counters), 0);
                    assert_eq!((*counters).waiting, 0);
                }
            }
            assert_eq!(free(kind, handle), 0);
            assert_eq!(free(kind, handle), BAD_HANDLE);
        }
    }
}

fn free(kind: usize, handle: u64) -> i64 {
    let at = handle as usize;
    // SAFETY: any number may be passed.
    let result = unsafe {
        match kind {
            SYSTEM => ufutex_system_free(without_provenance_mut(at)),
            DOMAIN => ufutex_domain_free(without_provenance_mut(at)),
            TASK => ufutex_task_free(without_provenance_mut(at)),
            WAITER => ufutex_waiter_free(without_provenance_mut(at)),
            _ => ufutex_timers_free(without_provenance_mut(at)),
        }
    };
    result.into()
}

/// # Safety
/// `memory` outlives all objects that are made.
unsafe fn step(bytes: &mut Bytes, memory: &Memory, handles: &mut Handles) {
    let kind = bytes.byte() % 24;
    let which = |kind, bytes: &mut Bytes| handles.choose(kind, bytes);
    // SAFETY: see above.
    unsafe {
        match kind {
            0 if handles.alive[SYSTEM].len() < 3 => make_system(bytes, handles),
            1 if handles.alive[DOMAIN].len() < 4 => make_domain(bytes, memory, handles),
            2 if handles.alive[TASK].len() < 6 => {
                let domain = which(DOMAIN, bytes);
                let task = Cell::new(null_mut());
                let (tid, flags) = (bytes.number() as u32, u32::from(bytes.one_in(8)) * bytes.number() as u32);
                if answers(ufutex_task_new(domain.pointer(), tid, flags, task.as_ptr()), &[domain], "task_new") == 0 {
                    handles.add(TASK, task.get());
                }
            }
            3 if handles.alive[TIMERS].len() < 3 => {
                let system = which(SYSTEM, bytes);
                let timers = Cell::new(null_mut());
                if answers(ufutex_timers_new(system.pointer(), null(), timers.as_ptr()), &[system], "timers_new") == 0 {
                    handles.add(TIMERS, timers.get());
                }
            }
            4..=8 => prepare(bytes, memory, handles),
            9 => {
                let kind = bytes.of(&[SYSTEM, DOMAIN, TASK, WAITER, WAITER, TIMERS]);
                let chosen = which(kind, bytes);
                if answers(free(kind, chosen.number), &[chosen], "free") == 0 {
                    handles.remove(kind, chosen.number);
                }
            }
            10 => {
                let waiter = which(WAITER, bytes);
                let result = match bytes.below(3) {
                    0 => ufutex_waiter_finish(waiter.pointer()),
                    cause => ufutex_waiter_end(waiter.pointer(), cause as u32 - 1),
                };
                // A wait that has ended has no handle any more.
                let refused = [INVALID, BAD_HANDLE, -i64::from(libc::EINPROGRESS), -i64::from(libc::EBUSY)];
                check(result, ERRORS, "finish");
                if waiter.is_good && !(refused[2..].contains(&result)) {
                    handles.remove(WAITER, waiter.number);
                } else if !waiter.is_good {
                    assert!(refused[..2].contains(&result), "{result}");
                }
            }
            _ => operate(kind, bytes, memory, handles),
        }
    }
}

/// Calls with handles that stay.
///
/// # Safety
/// As for `step`.
unsafe fn operate(kind: u8, bytes: &mut Bytes, memory: &Memory, handles: &Handles) {
    let which = |kind, bytes: &mut Bytes| handles.choose(kind, bytes);
    let word = |bytes: &mut Bytes| {
        if bytes.one_in(16) { Memory::pointer(bytes) } else { Memory::word(bytes.below(16)) }
    };
    let flags = |bytes: &mut Bytes| if bytes.one_in(8) { bytes.number() as u32 } else { UFUTEX_U32 };
    let any = UFUTEX_BITSET_ANY;
    // SAFETY: handles may be any numbers; all other pointers are valid.
    unsafe {
        match kind {
            11..=13 => {
                let domain = which(DOMAIN, bytes);
                let result = ufutex_wake(domain.pointer(), word(bytes), bytes.byte().into(), any, flags(bytes));
                answers(result, &[domain], "wake");
            }
            14 => {
                let domain = which(DOMAIN, bytes);
                let mut requeued = 0;
                let (wake, requeue) = (bytes.byte().into(), bytes.byte().into());
                let (from, to, flags) = (word(bytes), word(bytes), flags(bytes));
                let result = ufutex_requeue(domain.pointer(), from, to, wake, requeue, flags, &raw mut requeued);
                answers(result, &[domain], "requeue");
            }
            15 => {
                let (domain, task) = (which(DOMAIN, bytes), which(TASK, bytes));
                let (word, flags) = (word(bytes), flags(bytes));
                let result = if bytes.one_in(2) {
                    ufutex_trylock_pi(domain.pointer(), task.pointer(), word, flags)
                } else {
                    ufutex_unlock_pi(domain.pointer(), task.pointer(), word, flags)
                };
                check(result.into(), ERRORS, "lock");
                assert!(domain.is_good && task.is_good || result < 0);
            }
            16 => system_call(bytes, handles),
            17 => timer(bytes, handles),
            18 => {
                let domain = which(DOMAIN, bytes);
                let slots = bytes.of(&[0, 2, 16, 64, 3]);
                answers(ufutex_domain_set_slots(domain.pointer(), slots), &[domain], "set_slots");
                answers(ufutex_domain_slots(domain.pointer()), &[domain], "slots");
            }
            19 => {
                let task = which(TASK, bytes);
                answers(ufutex_task_set_priority(task.pointer(), bytes.byte().into()), &[task], "set_priority");
                answers(ufutex_task_interrupt(task.pointer()), &[task], "interrupt");
                answers(ufutex_task_clear_interrupt(task.pointer()), &[task], "clear_interrupt");
            }
            20 => memory.store(Memory::word(bytes.below(16)), bytes.number()),
            21 => memory.set_faults(bytes.any() & bytes.any(), bytes.any() & bytes.any() & bytes.any()),
            22 => {
                let system = which(SYSTEM, bytes);
                answers(ufutex_driver_turn(system.pointer()), &[system], "turn");
            }
            _ => {
                let domain = which(DOMAIN, bytes);
                // A deadline that has passed.
                let mut soon: ufutex_wait_options = options(bytes);
                soon.timeout = UFUTEX_AFTER;
                soon.bitset = any;
                if domain.is_good {
                    let (word, expected) = (word(bytes), u64::from(bytes.byte() % 4));
                    let result = ufutex_wait(domain.pointer(), word, expected, flags(bytes), &raw const soon);
                    check(result.into(), ERRORS, "wait");
                }
            }
        }
    }
}

/// Makes a call by its number that does not wait.
///
/// # Safety
/// As for `step`.
unsafe fn system_call(bytes: &mut Bytes, handles: &Handles) {
    let which = |kind, bytes: &mut Bytes| handles.choose(kind, bytes);
    let word = |bytes: &mut Bytes| {
        if bytes.one_in(16) { Memory::pointer(bytes) } else { Memory::word(bytes.below(16)) }
    };
    // SAFETY: handles may be any numbers; the arguments are valid.
    unsafe {
        let (domain, task) = (which(DOMAIN, bytes), which(TASK, bytes));
        let system_call = bytes.of(&[202, 449, 454, 456, 274, 1000]);
        // Operations that do not wait. FUTEX_WAKE, _REQUEUE, _CMP_REQUEUE, _WAKE_OP, _UNLOCK_PI, _TRYLOCK_PI
        let op = bytes.of(&[1, 3, 4, 5, 7, 8]) | 128;
        let args = [word(bytes), op, bytes.number(), bytes.number(), word(bytes), bytes.number()];
        if system_call != 449 {
            let (domain, task) = (domain.pointer(), task.pointer());
            check(ufutex_syscall(domain, task, null(), system_call, args.as_ptr()), ERRORS, "syscall");
        }
    }
}

unsafe fn make_system(bytes: &mut Bytes, handles: &mut Handles) {
    let mut clocks: ufutex_timer_clocks = options(bytes);
    clocks.now = Some(now);
    let mut config: ufutex_config = options(bytes);
    config.cpus = 1;
    config.max_waitv = 8;
    config.timer_clocks = &raw const clocks;
    if bytes.one_in(4) {
        config.default_slots = bytes.number() as usize;
        config.flags = bytes.byte().into();
    }
    let system = Cell::new(null_mut());
    // SAFETY: the structs are valid during the call.
    let result = unsafe { ufutex_system_new(&raw const config, system.as_ptr()) };
    if answers(result, &[], "system_new") == 0 {
        handles.add(SYSTEM, system.get());
    }
}

/// # Safety
/// As for `step`.
unsafe fn make_domain(bytes: &mut Bytes, memory: &Memory, handles: &mut Handles) {
    let mut functions: ufutex_memory = options(bytes);
    functions.context = std::ptr::from_ref(memory).cast_mut().cast();
    functions.load = Some(load);
    functions.compare_exchange = Some(compare_exchange);
    functions.fault_in = Some(fault_in);
    let mut said: ufutex_options = options(bytes);
    said.memory = &raw const functions;
    said.flags = bytes.of(&[0, UFUTEX_NEW_PID_NAMESPACE, UFUTEX_COUNT_OPERATIONS, 8]);
    said.max_waiters = bytes.of(&[0, 5]);
    let system = handles.choose(SYSTEM, bytes);
    let domain = Cell::new(null_mut());
    // SAFETY: the structs are valid during the call, and the memory outlives the domain.
    let result = unsafe { ufutex_domain_new(system.pointer(), &raw const said, domain.as_ptr()) };
    if answers(result, &[system], "domain_new") == 0 {
        handles.add(DOMAIN, domain.get());
    }
}

/// Begins a wait of some kind.
///
/// # Safety
/// As for `step`.
unsafe fn prepare(bytes: &mut Bytes, memory: &Memory, handles: &mut Handles) {
    if handles.alive[WAITER].len() >= 12 {
        return;
    }
    let (domain, task) = (handles.choose(DOMAIN, bytes), handles.choose(TASK, bytes));
    let waiter = Cell::new(null_mut());
    let at = waiter.as_ptr();
    let mut how: ufutex_wait_options = options(bytes);
    how.bitset = bytes.of(&[UFUTEX_BITSET_ANY, 1, 0]);
    how.priority = u32::from(bytes.byte()) % 101;
    let call: ufutex_callback = Some(called);
    let [first, second] = [(); 2].map(|()| Memory::word(bytes.below(16)));
    let (expected, flags) = (u64::from(bytes.byte() % 4), bytes.of(&[UFUTEX_U32, UFUTEX_U64, UFUTEX_U32, 0]));
    let words: Vec<_> = (0..4)
        .map(|_| ufutex_waitv_word { expected: 0, address: Memory::word(bytes.below(16)), flags, reserved: 0 })
        .collect();
    let (how, null) = (&raw const how, null_mut());
    let (in_domain, of_task) = (domain.pointer(), task.pointer());
    let which = bytes.below(5);
    // SAFETY: handles may be any numbers; the structs and words are valid during the call.
    let result: i64 = unsafe {
        match which {
            0 => ufutex_prepare_wait(in_domain, first, expected, flags, how, call, null, at),
            1 => ufutex_prepare_waitv(in_domain, words.as_ptr(), 4, how, call, null, at),
            2 => ufutex_prepare_lock_pi(in_domain, of_task, first, flags, how, call, null, at),
            3 => {
                ufutex_prepare_wait_requeue_pi(in_domain, of_task, first, expected, second, flags, how, call, null, at)
            }
            _ => {
                let number = bytes.of(&[202, 449, 455]);
                let args = [first, bytes.number(), expected, bytes.number(), second, bytes.number()];
                ufutex_prepare_syscall(in_domain, of_task, std::ptr::null(), number, args.as_ptr(), call, null, at)
            }
        }
    };
    memory.set_faults(0, 0);
    check(result, ERRORS, "prepare");
    if result == -i64::from(libc::EINPROGRESS) {
        assert!(domain.is_good);
        handles.add(WAITER, waiter.get());
    } else {
        assert!(waiter.get().is_null(), "{result} with a handle");
    }
}

/// # Safety
/// As for `step`.
unsafe fn timer(bytes: &mut Bytes, handles: &Handles) {
    let timers = handles.choose(TIMERS, bytes);
    let at = timers.pointer();
    let id = bytes.byte() as i32 % 8;
    let time = |bytes: &mut Bytes| ufutex_timespec {
        seconds: (bytes.byte() % 4).into(),
        nanoseconds: if bytes.one_in(8) { bytes.any() as i64 } else { bytes.byte().into() },
    };
    // SAFETY: handles may be any numbers; the structs are valid.
    unsafe {
        match bytes.below(6) {
            0 => {
                let mut made = -1;
                let result = ufutex_timers_create(at, bytes.of(&[0, 1, 7, 11, 2, 99]), null(), &raw mut made);
                assert_eq!(answers(result, &[timers], "create") == 0, made >= 0);
            }
            1 => drop(answers(ufutex_timers_create_as(at, id, 1, null()), &[timers], "create_as")),
            2 => {
                let setting = ufutex_itimerspec { interval: time(bytes), value: time(bytes) };
                let flags = bytes.byte().into();
                let result = ufutex_timers_settime(at, id, flags, &raw const setting, null_mut());
                answers(result, &[timers], "settime");
            }
            3 => drop(answers(ufutex_timers_delete(at, id), &[timers], "delete")),
            4 => drop(answers(ufutex_timers_getoverrun(at, id), &[timers], "getoverrun")),
            _ => {
                let mut expired = std::mem::zeroed();
                let result = ufutex_timers_receive(at, UFUTEX_AFTER, 0, &raw mut expired);
                answers(result, &[timers], "receive");
            }
        }
    }
}
