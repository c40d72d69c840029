//! System calls on timers, of 64-bit and 32-bit programs, beside a plain model of which timers there are.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use ufutex::Width;
use ufutex::timer::{Caller, CompatTimerCall, TimerCall, TimerOptions, Timers};

use crate::bytes::Bytes;
use crate::errno::{OF_TIMERS, check};
use crate::futex::system;
use crate::memory::Memory;

const MOST: usize = 12;

/// Makes the calls that the input chooses. There are the timers that calls have made, and only they expire.
pub fn calls(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    let (system, time) = system();
    let options = TimerOptions::new().max_timers(MOST).max_id(bytes.of(&[i32::MAX, 15, 1023]));
    let (timers, expiries) = Timers::channel(system.driver(), options).expect("there is memory");
    let memory = Memory::new(None);
    let mut live = BTreeSet::new();
    while !bytes.is_empty() {
        match bytes.byte() % 16 {
            0..4 => memory.store(Memory::argument(bytes.below(64)), argument(&mut bytes)),
            4 => {
                time.0.fetch_add(bytes.number() % 9_000_000_000, Relaxed);
                system.driver().turn();
            }
            5 => {
                while let Some(expired) = expiries.try_recv() {
                    assert!(live.contains(&expired.id), "{} has been deleted", expired.id);
                    assert!(expired.overrun >= -1);
                }
            }
            6 if bytes.one_in(4) => {
                timers.clear();
                live.clear();
            }
            _ => {
                if bytes.one_in(8) {
                    memory.set_faults(bytes.any() & bytes.any(), bytes.any() & bytes.any());
                }
                call(&mut bytes, &timers, &memory, &mut live);
                memory.set_faults(0, 0);
            }
        }
        assert_eq!(timers.count(), live.len(), "{live:?}");
        assert!(live.len() <= MOST);
    }
    for id in live {
        assert_eq!(timers.delete(id), Ok(()));
    }
    assert_eq!((timers.count(), expiries.try_recv()), (0, None));
    system.driver().turn();
}

fn argument(bytes: &mut Bytes) -> u64 {
    match bytes.byte() % 4 {
        0 => bytes.number() & 0xffff_ffff | bytes.number() << 32,
        1 => Memory::pointer(bytes),
        // Times of a second or less.
        2 => u64::from(bytes.byte()) << 22,
        _ => bytes.number(),
    }
}

fn call(bytes: &mut Bytes, timers: &Timers, memory: &Memory, live: &mut BTreeSet<i32>) {
    const NATIVE: [u64; 7] = [222, 223, 223, 224, 225, 226, 157];
    const I386: [u64; 8] = [259, 260, 261, 262, 263, 408, 409, 172];
    let number = if bytes.one_in(4) { TimerCall::i386(bytes.of(&I386)) } else { TimerCall::x86_64(bytes.of(&NATIVE)) };
    let number = number.expect("a call");
    let is_create = matches!(number, TimerCall::Create | TimerCall::Compat(CompatTimerCall::Create));
    let is_prctl = matches!(number, TimerCall::Prctl | TimerCall::Compat(CompatTimerCall::Prctl));
    let args = match number {
        _ if is_create => [clock(bytes), Memory::pointer(bytes), Memory::pointer(bytes), 0, 0, 0],
        // PR_TIMER_CREATE_RESTORE_IDS
        _ if is_prctl => [77, bytes.number() % 4, bytes.number() % 2, 0, 0, 0],
        _ => [id(bytes, live), bytes.number(), Memory::pointer(bytes), Memory::pointer(bytes), 0, 0],
    };
    let before = timers.count();
    let result = timers.syscall(Caller { process: 1, thread: 1 }, memory, number, args) as i64;
    check(result, OF_TIMERS, (number, args));
    if is_create {
        if result == 0 {
            // A 32-bit program's argument has no more than 32 bits.
            let is_compat = matches!(number, TimerCall::Compat(_));
            let at = if is_compat { args[2] & u64::from(u32::MAX) } else { args[2] };
            let byte = |i| memory.load_plainly(at + i, Width::U8).expect("it has been written") as u32;
            let id = (0..4).fold(0, |id, i| id | byte(i) << (8 * i)) as i32;
            assert!(id >= 0 && live.insert(id), "{id} has been made twice: {live:?}");
        } else {
            assert_eq!(timers.count(), before, "{result}");
        }
    } else if matches!(number, TimerCall::Delete) {
        assert_eq!(result == 0, live.remove(&(args[0] as i32)), "{args:?} of {live:?}");
    }
}

fn clock(bytes: &mut Bytes) -> u64 {
    match bytes.byte() {
        named @ 0..200 => u64::from(named % 12),
        _ => bytes.number(),
    }
}

fn id(bytes: &mut Bytes, live: &BTreeSet<i32>) -> u64 {
    if bytes.one_in(4) {
        return bytes.number();
    }
    let at = bytes.below(MOST);
    live.iter().nth(at).map_or(at as u64, |id| *id as u64)
}
