//! System calls on futexes, of four threads of two guests.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ufutex::pi::Priority;
use ufutex::syscall::{Number, Syscall};
use ufutex::timer::{Base, Clocks};
use ufutex::{Callbacks, Cause, Domain, DomainOptions, PidNamespace, SharedObject, System, SystemConfig, Task};

use crate::bytes::Bytes;
use crate::errno::{OF_FUTEXES, check};
use crate::memory::Memory;

/// Clocks that show a number of nanoseconds.
pub struct Time(pub AtomicU64);

impl Clocks for Time {
    fn now(&self, _: Base) -> Duration {
        Duration::from_nanos(self.0.load(Relaxed))
    }

    fn changed(&self) {}
}

/// A system with such clocks.
pub fn system() -> (System, Callbacks<Time>) {
    let time = Callbacks::try_new(Time(AtomicU64::new(1))).expect("there is memory");
    let config = SystemConfig::new().cpus(2).global_slots(16).hash_seed(1).max_pi_depth(3).max_robust(8).max_waitv(8);
    (System::with_config(config.clocks(time.clone())).expect("there is memory"), time)
}

struct Guest {
    domain: Domain,
    memory: Memory,
}

const THREADS: usize = 4;

/// A call that has not returned yet.
struct Pending<'g> {
    call: Pin<Box<Syscall<'g, 'g, 'g, Memory>>>,
    guest: usize,
    thread: usize,
    number: Number,
    args: [u64; 6],
}

/// Makes the calls that the input chooses. They end or are dropped, each woken wait was counted, and no waiter is left.
pub fn calls(input: &[u8]) {
    run(input, false);
}

/// As `calls`, with a memory in which most calls meet faults.
pub fn calls_with_faults(input: &[u8]) {
    run(input, true);
}

fn run(input: &[u8], with_faults: bool) {
    let mut bytes = Bytes::new(input);
    let (system, time) = system();
    let object = SharedObject::new(&system).expect("there is memory");
    let shared = bytes.one_in(2).then_some(object.id());
    let options = DomainOptions::new().max_waiters(20);
    let domains = [
        Domain::with_options(&system, options),
        Domain::in_namespace(&PidNamespace::new(&system).expect("there is memory"), options),
    ];
    let guests = domains.map(|domain| Guest { domain, memory: Memory::new(shared) });
    let tasks: [[Task; THREADS]; 2] = guests
        .each_ref()
        .map(|guest| std::array::from_fn(|thread| guest.domain.task(thread as u32 + 1).expect("the TID is free")));
    let mut pending: Vec<Pending> = Vec::new();
    while !bytes.is_empty() {
        step(&mut bytes, with_faults, (&system, &time), (&guests, &tasks), &mut pending);
        poll_all(&mut pending, &guests);
    }
    // Nothing stays queued when the calls are dropped.
    drop(pending);
    for guest in &guests {
        assert_eq!(guest.domain.waiting(), 0);
        assert_eq!(guest.domain.who_waits(100).iter().count(), 0);
    }
    assert_eq!(system.who_waits(100).iter().count(), 0);
    for (guest, tasks) in guests.iter().zip(tasks) {
        for task in tasks {
            guest.memory.set_faults(0, 0);
            check(
                guest.domain.exit(&task, &guest.memory).map_or_else(|e| -i64::from(e.errno()), |()| 0),
                &[22],
                "exit",
            );
            drop(task);
        }
        assert_eq!(guest.domain.task(1).map(|task| task.tid()), Ok(1), "a task that has ended leaves its TID");
    }
}

fn step<'g>(
    bytes: &mut Bytes,
    with_faults: bool,
    (system, time): (&System, &Time),
    (guests, tasks): (&'g [Guest; 2], &'g [[Task; THREADS]; 2]),
    pending: &mut Vec<Pending<'g>>,
) {
    let (which, thread) = (bytes.below(2), bytes.below(THREADS));
    let (guest, task) = (&guests[which], &tasks[which][thread]);
    match bytes.byte() % 16 {
        0 => guest.memory.store(Memory::word(bytes.below(16)), value(bytes)),
        1 => guest.memory.store(Memory::argument(bytes.below(64)), argument(bytes)),
        2 => {
            time.0.fetch_add(bytes.number() % 5_000_000_000, Relaxed);
            system.driver().turn();
        }
        3 => {
            let at = bytes.below(8);
            if at < pending.len() {
                drop(pending.swap_remove(at));
            }
        }
        4 => {
            let at = bytes.below(8);
            let cause = bytes.of(&[Cause::Interrupted, Cause::TimedOut]);
            if let Some(one) = pending.get_mut(at) {
                check(one.call.as_mut().end(cause) as i64, OF_FUTEXES, (one.number, one.args));
                drop(pending.swap_remove(at));
            }
        }
        5 => {
            task.interrupt().raise();
            if bytes.one_in(2) {
                task.interrupt().clear();
            }
        }
        6 => task.set_priority(Priority::realtime(bytes.byte() % 100)),
        7 => {
            // Without memory, or with too many slots for the limit, the table stays.
            let _ = guest.domain.set_slots(bytes.of(&[0, 2, 16, 64]));
        }
        _ => {
            if with_faults {
                guest.memory.set_faults(bytes.any() & bytes.any(), bytes.any() & bytes.any() & bytes.any());
            }
            call(bytes, which, thread, (guest, task), pending);
            guest.memory.set_faults(0, 0);
        }
    }
}

/// The value of a futex word: mostly small, or a TID with flags.
fn value(bytes: &mut Bytes) -> u64 {
    match bytes.byte() {
        small @ 0..128 => u64::from(small % 4),
        tid @ 128..220 => u64::from(tid % 6) | bytes.of(&[0, 1 << 31, 1 << 30, 3 << 30]),
        _ => bytes.any(),
    }
}

/// Eight bytes of an argument: a pointer, a number, or two numbers of 32 bits.
fn argument(bytes: &mut Bytes) -> u64 {
    match bytes.byte() % 4 {
        0 => Memory::pointer(bytes),
        1 => Memory::word(bytes.below(16)) | u64::from(bytes.one_in(8)),
        2 => bytes.number() & 0xffff_ffff | bytes.number() << 32,
        _ => bytes.number(),
    }
}

fn number(bytes: &mut Bytes) -> Number {
    const NATIVE: [u64; 9] = [202, 202, 202, 202, 449, 454, 455, 456, 219];
    const LISTS: [u64; 2] = [273, 274];
    const I386: [u64; 9] = [240, 422, 449, 454, 455, 456, 311, 312, 0];
    let number = match bytes.byte() % 8 {
        0 => Number::i386(bytes.of(&I386)),
        1 => Number::x86_64(bytes.of(&LISTS)),
        _ => Number::x86_64(bytes.of(&NATIVE)),
    };
    number.expect("a call")
}

fn args(bytes: &mut Bytes, number: Number) -> [u64; 6] {
    let word = |bytes: &mut Bytes| {
        if bytes.one_in(16) { Memory::pointer(bytes) } else { Memory::word(bytes.below(16)) }
    };
    let op = |bytes: &mut Bytes| u64::from(bytes.byte() % 16) | bytes.of(&[128, 128, 128, 0, 256, 384]);
    let flags = |bytes: &mut Bytes| if bytes.one_in(16) { bytes.number() } else { bytes.of(&[0x82, 0x02, 0x86, 0x8a]) };
    match number {
        Number::Futex => {
            let (first, op, val) = (word(bytes), op(bytes), bytes.number());
            let third = if bytes.one_in(2) { bytes.number() } else { Memory::pointer(bytes) };
            [first, op, val, third, word(bytes), bytes.number()]
        }
        Number::FutexWake => [word(bytes), bytes.number(), bytes.number(), flags(bytes), 0, 0],
        Number::FutexWait => {
            [word(bytes), bytes.number(), bytes.number(), flags(bytes), Memory::pointer(bytes), bytes.number()]
        }
        _ => std::array::from_fn(|_| match bytes.byte() % 4 {
            0 => word(bytes),
            1 => Memory::pointer(bytes),
            2 => op(bytes),
            _ => bytes.number(),
        }),
    }
}

/// Whether the result of the call is a number of waiters that have been woken, and nothing else ends a wait.
fn counts_woken(number: Number, args: &[u64; 6]) -> bool {
    const WAKE: u64 = 1;
    const WAKE_OP: u64 = 5;
    const WAKE_BITSET: u64 = 10;
    match number {
        Number::Futex => [WAKE, WAKE_OP, WAKE_BITSET].contains(&(args[1] & 127)),
        number => number == Number::FutexWake,
    }
}

fn call<'g>(
    bytes: &mut Bytes,
    guest_number: usize,
    thread: usize,
    (guest, task): (&'g Guest, &'g Task),
    pending: &mut Vec<Pending<'g>>,
) {
    let number = number(bytes);
    let args = args(bytes, number);
    let mut call = Box::pin(guest.domain.syscall_async(task, &guest.memory, number, args));
    let result = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(result) = result else {
        return pending.push(Pending { call, guest: guest_number, thread, number, args });
    };
    check(result as i64, OF_FUTEXES, (number, args));
    if counts_woken(number, &args) {
        // Waits that the engine has ended return 0, or for several words an index. A wait for several words may have
        // been woken at several.
        let before = pending.len();
        let has_several = pending.iter().any(|one| is_waitv(one.number));
        let ended = poll_woken(pending);
        // FUTEX_WAKE ends with an error at a waiter for a lock, after it has woken those before.
        if result < 0 {
            return;
        }
        if has_several {
            assert!(ended <= result as usize, "{ended} of {before} waits have ended, {result} by {number:?}");
        } else {
            assert_eq!(ended, result as usize, "of {before} waits, by {number:?} {args:x?}");
        }
    }
}

fn is_waitv(number: Number) -> bool {
    !matches!(number, Number::Futex | Number::FutexWait)
}

/// Polls all calls that wait. Returns how many were woken.
fn poll_woken(pending: &mut Vec<Pending>) -> usize {
    let mut woken = 0;
    pending.retain_mut(|one| match one.call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => true,
        Poll::Ready(result) => {
            check(result as i64, OF_FUTEXES, (one.number, one.args));
            woken += usize::from(result >= 0);
            false
        }
    });
    woken
}

fn poll_all(pending: &mut Vec<Pending>, guests: &[Guest; 2]) {
    poll_woken(pending);
    // Each domain has as many waiters as its pending calls have words.
    for (number, guest) in guests.iter().enumerate() {
        let own = || pending.iter().filter(|one| one.guest == number);
        let most: usize = own().map(|one| if is_waitv(one.number) { 8 } else { 1 }).sum();
        let waiting = guest.domain.waiting();
        assert!((own().count()..=most).contains(&waiting), "{waiting} waiters, {} to {most} calls", own().count());
        assert!(own().all(|one| one.thread < THREADS));
    }
}
