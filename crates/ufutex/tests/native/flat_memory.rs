//! Guest memory that is a piece of this program's.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use ufutex::{Access, Domain, Fault, FlatMemory, Task, UserMemory, Width, syscall::Number};

use crate::common::domains::{domain, on_domains};

const FIRST: u64 = 0x20_0000;
const BYTES: u64 = 64;

fn memory(words: &[AtomicU64; 8]) -> FlatMemory {
    // SAFETY: callers keep the words, and all accesses are atomic.
    unsafe { FlatMemory::new(words.as_ptr().cast_mut().cast(), FIRST, BYTES) }
}

#[test]
fn words_of_each_width_are_those_of_the_piece_and_nothing_around_it_is() {
    let words = [const { AtomicU64::new(0x8877_6655_4433_2211) }; 8];
    let memory = memory(&words);
    for (width, value) in [(Width::U8, 0x11), (Width::U16, 0x2211), (Width::U32, 0x4433_2211)] {
        assert_eq!(memory.load(FIRST, width), Ok(value), "{width:?} of a little-endian host");
        assert!(memory.load(FIRST + BYTES - width.bytes(), width).is_ok());
    }
    assert_eq!(memory.load(FIRST + 8, Width::U64), Ok(0x8877_6655_4433_2211));
    for (address, width) in [
        (FIRST - 1, Width::U8),
        (FIRST - 8, Width::U64),
        (FIRST + BYTES, Width::U8),
        (FIRST + BYTES - 4, Width::U64),
        (0, Width::U32),
        (u64::MAX - 7, Width::U64),
    ] {
        assert_eq!(memory.load(address, width), Err(Fault), "{address:#x}");
        assert_eq!(memory.compare_exchange(address, width, 0, 0), Err(Fault), "{address:#x}");
        assert_eq!(memory.fault_in(address, Access::Read), Err(Fault), "{address:#x}");
    }
    assert_eq!(memory.compare_exchange(FIRST + 17, Width::U8, 0x22, 0x99), Ok(Ok(0x22)));
    assert_eq!(memory.compare_exchange(FIRST + 17, Width::U8, 0x22, 0x77), Ok(Err(0x99)));
    assert_eq!(words[2].load(SeqCst), 0x8877_6655_4433_9911);
}

fn calls(domain: &Domain, task: &Task, memory: &FlatMemory, at: impl Fn(u64) -> u64) {
    const PRIVATE: u64 = 128;
    let futex = Number::x86_64(202).expect("futex(2)");
    let call = |args: [u64; 6]| domain.syscall(task, memory, futex, args);
    assert_eq!(call([at(0), PRIVATE, 1, 0, 0, 0]), -11, "FUTEX_WAIT: it is 0");
    // The first two words are a timespec of no time.
    assert_eq!(call([at(16), PRIVATE, 0, at(0), 0, 0]), -110, "FUTEX_WAIT times out");
    assert_eq!(call([at(0) + 1, PRIVATE, 0, 0, 0, 0]), -22, "misaligned");
    // FUTEX_WAKE_OP: sets the word to 7.
    assert_eq!(call([at(16), 5 | PRIVATE, 1, 1, at(24), 7 << 12]), 0);
    assert_eq!(call([at(24), PRIVATE, 8, 0, 0, 0]), -11);
    // get_robust_list writes a pointer and a length.
    let get_robust_list = Number::x86_64(274).expect("a call");
    assert_eq!(domain.syscall(task, memory, get_robust_list, [0, at(32), at(40), 0, 0, 0]), 0);
}

fn guest_calls_with_its_addresses() {
    let (domain, words) = (domain(), [const { AtomicU64::new(0) }; 8]);
    let (task, memory) = (domain.task(5).expect("a free TID"), memory(&words));
    calls(&domain, &task, &memory, |offset| FIRST + offset);
    assert_eq!((words[3].load(SeqCst), words[5].load(SeqCst)), (7, 24));
    let futex = Number::x86_64(202).expect("futex(2)");
    assert_eq!(domain.syscall(&task, &memory, futex, [FIRST + BYTES, 128, 0, 0, 0, 0]), -14, "behind it");
}

fn guest_calls_with_this_programs_addresses() {
    let (domain, words) = (domain(), [const { AtomicU64::new(0) }; 8]);
    let task = domain.task(5).expect("a free TID");
    // SAFETY: the words are there, and all accesses are atomic.
    let memory = unsafe { FlatMemory::of_this_program() };
    let first = words.as_ptr().expose_provenance() as u64;
    calls(&domain, &task, &memory, |offset| first + offset);
    assert_eq!((words[3].load(SeqCst), words[5].load(SeqCst)), (7, 24));
    let futex = Number::x86_64(202).expect("futex(2)");
    assert_eq!(domain.syscall(&task, &memory, futex, [0, 128, 0, 0, 0, 0]), -14, "no address");
}

on_domains![guest_calls_with_its_addresses, guest_calls_with_this_programs_addresses];
