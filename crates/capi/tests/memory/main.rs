//! For every call of the C interface and every n: the n-th allocation fails, and then the n-th and all later ones. The
//! call returns what it returns with memory, or -ENOMEM, or, where it makes timers, -EAGAIN. When all handles have been
//! freed no memory is left.
//!
//! Promise: failed allocations

#[path = "../../../ufutex/tests/memory/allocator.rs"]
mod allocator;

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use ufutex_capi::*;

use allocator::{Memory, for_every_failure, scenarios};

fn main() {
    if let Some(n) = std::env::args().nth(1).as_deref().and_then(|argument| argument.strip_prefix(FIRST_CALLS)) {
        first_calls_fail_at(n.parse().expect("a number"));
    }
    allocator::run(scenarios![first_calls, systems, waits, waits_with_a_parker, waiters, locks, timers]);
    #[cfg(target_os = "linux")]
    allocator::run(scenarios![deliveries]);
}

/// The result of a call: `expected`. If it fails for lack of memory, tries again with memory.
fn returns<R: Into<i64>>(memory: &mut Memory, expected: i64, call: impl Fn() -> R) {
    let result = memory.during(&call).into();
    if result != expected {
        let without = [-libc::ENOMEM, -libc::EAGAIN].map(i64::from);
        assert!(memory.has_just_failed() && without.contains(&result), "{result}");
        assert_eq!(call().into(), expected);
    }
}

/// Makes an object, and returns its handle.
fn made<T>(memory: &mut Memory, make: impl Fn(*mut *mut T) -> c_int) -> *mut T {
    made_as(memory, 0, make)
}

fn made_as<T, R: Into<i64>>(memory: &mut Memory, expected: i64, make: impl Fn(*mut *mut T) -> R) -> *mut T {
    let handle = std::cell::Cell::new(null_mut());
    returns(memory, expected, || make(handle.as_ptr()));
    handle.get()
}

fn address(word: &AtomicU32) -> u64 {
    std::ptr::from_ref(word).expose_provenance() as u64
}

static NOW: AtomicU64 = AtomicU64::new(1);

unsafe extern "C" fn now(_: *mut c_void, _: u32) -> u64 {
    NOW.load(Relaxed)
}

unsafe extern "C" fn node(_: *mut c_void) -> u32 {
    1
}

unsafe extern "C" fn set_priority(_: *mut c_void, _: u32, _: u32) {}

unsafe extern "C" fn expired(_: *mut c_void, _: *mut ufutex_timers, _: *const ufutex_notice) {}

unsafe extern "C" fn woken(_: *mut c_void) {}

unsafe extern "C" fn current(_: *mut c_void) -> *mut c_void {
    std::ptr::dangling_mut()
}

/// Never sleeps, so that each wait ends by its timeout.
unsafe extern "C" fn park(_: *mut c_void, _: *mut c_void, _: u32, _: u64) -> c_int {
    -libc::ETIMEDOUT
}

unsafe extern "C" fn unpark(_: *mut c_void, _: *mut c_void) {}

/// A system with an embedder's nodes, clocks, scheduler and CPUs of the driver's thread.
fn system(memory: &mut Memory) -> *mut ufutex_system {
    let nodes = ufutex_topology { nodes: 2, current_node: Some(node), ..Default::default() };
    let clocks = ufutex_timer_clocks { now: Some(now), ..Default::default() };
    let cpus = [0, 1, 8191];
    let thread = ufutex_driver_thread { cpus: cpus.as_ptr(), cpu_count: cpus.len(), ..Default::default() };
    let config = ufutex_config {
        set_priority: Some(set_priority),
        topology: &raw const nodes,
        timer_clocks: &raw const clocks,
        driver_thread: &raw const thread,
        ..Default::default()
    };
    // SAFETY: all structs are valid during the call.
    made(memory, |system| unsafe { ufutex_system_new(&raw const config, system) })
}

fn domain(memory: &mut Memory, system: *mut ufutex_system) -> *mut ufutex_domain {
    let options = ufutex_options { flags: UFUTEX_COUNT_OPERATIONS | UFUTEX_NEW_PID_NAMESPACE, ..Default::default() };
    // SAFETY: the struct is valid during the call.
    made(memory, |domain| unsafe { ufutex_domain_new(system, &raw const options, domain) })
}

fn free(memory: &mut Memory, system: *mut ufutex_system, domain: *mut ufutex_domain) {
    // SAFETY: any handle may be passed.
    assert_eq!(memory.during(|| unsafe { (ufutex_domain_free(domain), ufutex_system_free(system)) }), (0, 0));
}

/// The first calls of a process also make the table of handles and the thread's record, which are never freed. So each
/// failure has a process of its own. Returns the number of allocations.
fn first_calls() -> usize {
    let program = std::env::current_exe().expect("a program has a path");
    let succeeds = |n: &usize| {
        let ended = std::process::Command::new(&program).arg(format!("{FIRST_CALLS}{n}")).status().expect("it runs");
        assert!(ended.success() || ended.code() == Some(NONE_FAILED), "with failure {n}: {ended}");
        ended.success()
    };
    (0..).take_while(succeeds).count()
}

/// The argument of a process whose first calls are to fail, before the number of the failure.
const FIRST_CALLS: &str = "--first-calls=";
/// The exit status of a process that makes fewer allocations.
const NONE_FAILED: i32 = 3;

fn first_calls_fail_at(n: usize) -> ! {
    let mut memory = Memory::failing_at(n);
    let system = system(&mut memory);
    let domain = domain(&mut memory, system);
    free(&mut memory, system, domain);
    std::process::exit(if memory.has_failed() { 0 } else { NONE_FAILED })
}

/// Runs a scenario with a domain and a word.
fn in_a_domain(scenario: impl Fn(&mut Memory, *mut ufutex_domain, &AtomicU32)) -> usize {
    for_every_failure(|memory| {
        let system = system(memory);
        let domain = domain(memory, system);
        scenario(memory, domain, &AtomicU32::new(0));
        free(memory, system, domain);
    })
}

fn systems() -> usize {
    in_a_domain(|memory, domain, _| {
        // SAFETY: valid handles.
        unsafe {
            let beside = made(memory, |beside| ufutex_domain_new_beside(domain, null(), beside));
            returns(memory, 0, || ufutex_domain_set_slots(beside, 64));
            returns(memory, 0, || ufutex_prctl_futex_hash(beside, 1, 32, 0));
            returns(memory, 0, || ufutex_domain_note_threads(beside, 64));
            returns(memory, 0, || ufutex_domain_who_waits(domain, null_mut(), size_of::<ufutex_waited_word>(), 0));
            assert_eq!(ufutex_domain_free(beside), 0);
        }
    })
}

/// A wait that times out, in the ways of `flags`.
fn times_out(memory: &mut Memory, domain: *mut ufutex_domain, word: &AtomicU32) {
    let soon = ufutex_wait_options {
        timeout: UFUTEX_AFTER,
        nanoseconds: 1000,
        bitset: UFUTEX_BITSET_ANY,
        ..Default::default()
    };
    let timed_out = i64::from(-libc::ETIMEDOUT);
    let words: Vec<_> = (0..20)
        .map(|_| ufutex_waitv_word { expected: 0, address: address(word), flags: UFUTEX_U32, reserved: 0 })
        .collect();
    // SAFETY: valid handles, words and options.
    unsafe {
        for flags in [UFUTEX_U32, UFUTEX_U32 | UFUTEX_SHARED] {
            returns(memory, timed_out, || ufutex_wait(domain, address(word), 0, flags, &raw const soon));
            returns(memory, 0, || ufutex_wake(domain, address(word), 1, UFUTEX_BITSET_ANY, flags));
        }
        returns(memory, timed_out, || ufutex_waitv(domain, words.as_ptr(), 20, &raw const soon));
    }
}

fn waits() -> usize {
    in_a_domain(times_out)
}

fn waits_with_a_parker() -> usize {
    for_every_failure(|memory| {
        let (system, word) = (system(memory), AtomicU32::new(0));
        let parker =
            ufutex_parker { current: Some(current), park: Some(park), unpark: Some(unpark), ..Default::default() };
        let options = ufutex_options { parker: &raw const parker, ..Default::default() };
        // SAFETY: the struct is valid during the call.
        let domain = made(memory, |domain| unsafe { ufutex_domain_new(system, &raw const options, domain) });
        times_out(memory, domain, &word);
        free(memory, system, domain);
    })
}

fn waiters() -> usize {
    in_a_domain(|memory, domain, word| {
        let in_progress = -i64::from(libc::EINPROGRESS);
        // SAFETY: valid handles, words and functions.
        unsafe {
            let waiters: Vec<_> = (0..40)
                .map(|_| {
                    made_as(memory, in_progress, |waiter| {
                        let call: ufutex_callback = Some(woken);
                        ufutex_prepare_wait(domain, address(word), 0, UFUTEX_U32, null(), call, null_mut(), waiter)
                    })
                })
                .collect();
            returns(memory, 39, || ufutex_wake(domain, address(word), 39, UFUTEX_BITSET_ANY, UFUTEX_U32));
            let (last, woken) = waiters.split_last().expect("there are 40");
            for &waiter in woken {
                assert_eq!(memory.during(|| ufutex_waiter_finish(waiter)), 0);
            }
            assert_eq!(memory.during(|| ufutex_waiter_free(*last)), 0);
            assert_eq!(ufutex_wake(domain, address(word), 1, UFUTEX_BITSET_ANY, UFUTEX_U32), 0);
        }
    })
}

fn locks() -> usize {
    in_a_domain(|memory, domain, word| {
        let in_progress = -i64::from(libc::EINPROGRESS);
        // SAFETY: valid handles, words and functions.
        unsafe {
            let [first, second] = [1, 2].map(|tid| made(memory, |task| ufutex_task_new(domain, tid, 0, task)));
            returns(memory, 0, || ufutex_lock_pi(domain, first, address(word), UFUTEX_U32, null()));
            returns(memory, 0, || ufutex_task_set_priority(second, 7));
            let waiter = made_as(memory, in_progress, |waiter| {
                let call: ufutex_callback = Some(woken);
                ufutex_prepare_lock_pi(domain, second, address(word), UFUTEX_U32, null(), call, null_mut(), waiter)
            });
            assert_eq!(memory.during(|| ufutex_unlock_pi(domain, first, address(word), UFUTEX_U32)), 0);
            assert_eq!(memory.during(|| ufutex_waiter_finish(waiter)), 0);
            assert_eq!(memory.during(|| ufutex_unlock_pi(domain, second, address(word), UFUTEX_U32)), 0);
            assert_eq!(memory.during(|| (ufutex_task_free(first), ufutex_task_free(second))), (0, 0));
        }
    })
}

fn timers() -> usize {
    for_every_failure(|memory| {
        NOW.store(1, Relaxed);
        let system = system(memory);
        let call =
            ufutex_timers_options { delivery: UFUTEX_DELIVER_CALL, expired: Some(expired), ..Default::default() };
        let soon = ufutex_itimerspec {
            interval: ufutex_timespec { seconds: 0, nanoseconds: 0 },
            value: ufutex_timespec { seconds: 1, nanoseconds: 0 },
        };
        // SAFETY: valid handles and structs.
        unsafe {
            for delivery in [&raw const call, null()] {
                let timers = made(memory, |timers| ufutex_timers_new(system, delivery, timers));
                let mut id = 0;
                let at = &raw mut id;
                returns(memory, 0, || ufutex_timers_create(timers, 1, null(), at));
                returns(memory, 0, || ufutex_timers_settime(timers, id, 0, &raw const soon, null_mut()));
                returns(memory, 0, || ufutex_timers_create_as(timers, 70, 1, null()));
                let mut now = soon;
                let left = &raw mut now;
                returns(memory, 0, || ufutex_timers_gettime(timers, id, left));
                NOW.fetch_add(5_000_000_000, Relaxed);
                assert_eq!(memory.during(|| ufutex_driver_turn(system)), 1);
                assert_eq!(memory.during(|| ufutex_timers_free(timers)), 0);
            }
            assert_eq!(memory.during(|| ufutex_system_free(system)), 0);
        }
    })
}

/// By the host's clocks, with a thread of the driver.
fn deliveries() -> usize {
    // SAFETY: makes a file.
    let file = unsafe { libc::eventfd(0, 0) };
    let failures = for_every_failure(|memory| {
        // SAFETY: valid handles and structs.
        unsafe {
            let system = made(memory, |system| ufutex_system_new(null(), system));
            returns(memory, 0, || ufutex_driver_start(system));
            let to = |delivery| ufutex_timers_options { delivery, eventfd: file, ..Default::default() };
            let [signals, files] = [UFUTEX_DELIVER_SIGNALS, UFUTEX_DELIVER_EVENTFD].map(to);
            for delivery in [&raw const signals, &raw const files, null()] {
                let timers = made(memory, |timers| ufutex_timers_new(system, delivery, timers));
                let mut id = 0;
                let at = &raw mut id;
                returns(memory, 0, || ufutex_timers_create(timers, 1, null(), at));
                assert_eq!(memory.during(|| ufutex_timers_free(timers)), 0);
            }
            assert_eq!(memory.during(|| ufutex_system_free(system)), 0);
        }
    });
    // SAFETY: the file was made above.
    unsafe { libc::close(file) };
    failures
}
