//! Arguments of the storm's calls: words, and functions for memory, clock and parker that fail at random.

use std::alloc::Layout;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use ufutex_capi::*;

use crate::accounts::Zone;
use crate::random::Random;

/// Words of a zone. Few, so that calls use the same ones.
pub const WORDS: u64 = 4;
/// The alignment of all tables that are allocated here.
const TABLE_ALIGNMENT: usize = 4096;
/// Bytes for the arguments of a thread.
const ARGUMENTS: u64 = 256;
const THREADS: usize = crate::THREADS + 1;

/// Memory that is never unmapped, so that a domain in the program's own memory may read it at any time.
#[repr(C, align(4096))]
struct Arena {
    zones: [[AtomicU32; WORDS as usize]; 3],
    /// The word of a waiter that is never woken.
    quiet: AtomicU64,
    /// The head of a robust list and its only entry, both constant.
    list: [AtomicU64; 4],
    arguments: [[AtomicU64; ARGUMENTS as usize / 8]; THREADS],
}

static ARENA: Arena = Arena {
    zones: [const { [const { AtomicU32::new(0) }; WORDS as usize] }; 3],
    quiet: AtomicU64::new(0),
    list: [const { AtomicU64::new(0) }; 4],
    arguments: [const { [const { AtomicU64::new(0) }; ARGUMENTS as usize / 8] }; THREADS],
};

fn address_of<T>(at: &T) -> u64 {
    std::ptr::from_ref(at).expose_provenance() as u64
}

/// The address of a word.
pub fn word(zone: Zone, number: usize) -> u64 {
    address_of(&ARENA.zones[zone as usize][number])
}

/// Writes a word as a program does.
pub fn write(zone: Zone, number: usize, value: u32) {
    ARENA.zones[zone as usize][number].store(value, SeqCst);
}

/// The address of the word that is never woken.
pub fn quiet() -> u64 {
    address_of(&ARENA.quiet)
}

/// The head of a robust list with one entry. Its lock is the first word of [`Zone::Any`].
pub fn robust_list() -> u64 {
    let [head, offset, _pending, entry] = ARENA.list.each_ref();
    head.store(address_of(entry), SeqCst);
    entry.store(address_of(head), SeqCst);
    offset.store(word(Zone::Any, 0).wrapping_sub(address_of(entry)), SeqCst);
    address_of(head)
}

/// Writes a thread's arguments and returns their address.
pub fn arguments(thread: usize, from: usize, values: &[u64]) -> u64 {
    let own = &ARENA.arguments[thread][from..];
    std::iter::zip(own, values).for_each(|(own, value)| own.store(*value, SeqCst));
    address_of(&own[0])
}

thread_local! {
    static CHANCE: Cell<u64> = const { Cell::new(1) };
}

/// A random number below `end` from the calling thread's generator.
fn chance(end: usize) -> usize {
    CHANCE.with(|state| {
        let mut random = Random::new(state.get());
        let number = random.below(1 << 30);
        state.set(state.get().wrapping_add(number as u64 | 1));
        number % end
    })
}

/// The 32-bit word at an address. `None` if the address is not in the arena.
fn find(address: u64) -> Option<&'static AtomicU32> {
    let begin = address_of(&ARENA);
    let in_arena = (begin..begin + size_of::<Arena>() as u64).contains(&address) && address.is_multiple_of(4);
    // SAFETY: the word is in the arena, which consists of atomics, and of padding that is accessed only here.
    in_arena.then(|| unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) })
}

unsafe extern "C" fn load(_: *mut c_void, address: u64, bytes: u32, value: *mut u64) -> c_int {
    let Some(word) = find(address & !3).filter(|_| chance(64) != 0) else { return -libc::EFAULT };
    let low = u64::from(word.load(SeqCst)) >> (address % 4 * 8);
    let whole = match bytes {
        1 => low & 0xff,
        2 => low & 0xffff,
        4 => low,
        _ => match find(address + 4) {
            Some(high) => low | u64::from(high.load(SeqCst)) << 32,
            None => return -libc::EFAULT,
        },
    };
    // SAFETY: the library passes a pointer to the result.
    unsafe { value.write(whole) };
    0
}

unsafe extern "C" fn compare_exchange(
    _: *mut c_void,
    address: u64,
    bytes: u32,
    current: *mut u64,
    desired: u64,
) -> c_int {
    let Some(word) = find(address).filter(|_| bytes == 4 && chance(64) != 0) else { return -libc::EFAULT };
    // SAFETY: the library passes a pointer to the expected value.
    let expected = unsafe { current.read() };
    match word.compare_exchange(expected as u32, desired as u32, SeqCst, SeqCst) {
        Ok(_) => 0,
        Err(now) => {
            // SAFETY: see above.
            unsafe { current.write(now.into()) };
            1
        }
    }
}

unsafe extern "C" fn fault_in(_: *mut c_void, address: u64, _access: u32) -> c_int {
    if chance(16) == 0 || find(address & !3).is_none() { -libc::EFAULT } else { 0 }
}

unsafe extern "C" fn scope(_: *mut c_void, address: u64, _: u32, object: *mut u64, offset: *mut u64) -> c_int {
    match chance(64) {
        0 => -libc::EFAULT,
        // An unknown scope, which counts as a fault.
        1 => 77,
        _ => {
            // SAFETY: the library passes pointers to both results.
            unsafe {
                object.write(7);
                offset.write(address.wrapping_sub(address_of(&ARENA)));
            }
            UFUTEX_SCOPE_OBJECT as c_int
        }
    }
}

/// Memory functions that may fail at each access.
pub fn memory() -> ufutex_memory {
    ufutex_memory {
        load: Some(load),
        compare_exchange: Some(compare_exchange),
        fault_in: Some(fault_in),
        scope: Some(scope),
        ..Default::default()
    }
}

unsafe extern "C" fn now(_: *mut c_void, _clock: u32) -> u64 {
    static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

pub fn clock() -> ufutex_clock {
    ufutex_clock { now: Some(now), ..Default::default() }
}

unsafe extern "C" fn current_node(_: *mut c_void) -> u32 {
    // Sometimes one that does not exist.
    chance(3) as u32
}

unsafe extern "C" fn allocate(_: *mut c_void, bytes: usize, alignment: usize, node: u32) -> *mut c_void {
    assert!(node < 2 && alignment <= TABLE_ALIGNMENT);
    match Layout::from_size_align(bytes, TABLE_ALIGNMENT) {
        // SAFETY: the library asks for no empty tables.
        Ok(layout) if chance(32) != 0 => unsafe { std::alloc::alloc_zeroed(layout) }.cast(),
        _ => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn free(_: *mut c_void, memory: *mut c_void, bytes: usize) {
    // SAFETY: allocated above with this layout.
    unsafe { std::alloc::dealloc(memory.cast(), Layout::from_size_align_unchecked(bytes, TABLE_ALIGNMENT)) };
}

/// Two nodes, with memory that runs out now and then.
pub fn topology() -> ufutex_topology {
    ufutex_topology {
        nodes: 2,
        current_node: Some(current_node),
        allocate: Some(allocate),
        free: Some(free),
        ..Default::default()
    }
}

/// Clocks of timers, which the storm's threads drive.
pub fn timer_clocks() -> ufutex_timer_clocks {
    ufutex_timer_clocks { now: Some(now), ..Default::default() }
}

thread_local! {
    /// Whether this thread was unparked since it last parked. Leaked, because an unpark may come late.
    static UNPARKED: &'static AtomicU32 = Box::leak(Box::default());
}

/// The calling thread's identity in the parker. One call in eight returns NULL: the thread is not the embedder's.
unsafe extern "C" fn current(_: *mut c_void) -> *mut c_void {
    let thread = UNPARKED.with(|unparked| std::ptr::from_ref::<AtomicU32>(unparked));
    if chance(8) == 0 { std::ptr::null_mut() } else { thread.cast_mut().cast() }
}

/// Sleeps for 20 µs, or returns at once if the thread was unparked. Now and then it ends the wait.
unsafe extern "C" fn park(_: *mut c_void, thread: *mut c_void, _clock: u32, _deadline: u64) -> c_int {
    // SAFETY: the pointer is from `current` and never freed.
    let unparked = unsafe { &*thread.cast::<AtomicU32>() };
    if unparked.swap(0, SeqCst) == 0 {
        std::thread::sleep(Duration::from_micros(20));
    }
    match chance(64) {
        0 => -libc::ETIMEDOUT,
        1 => -libc::EINTR,
        _ => 0,
    }
}

unsafe extern "C" fn unpark(_: *mut c_void, thread: *mut c_void) {
    // SAFETY: as in `park`.
    unsafe { (*thread.cast::<AtomicU32>()).store(1, SeqCst) };
}

pub fn parker() -> ufutex_parker {
    ufutex_parker { current: Some(current), park: Some(park), unpark: Some(unpark), ..Default::default() }
}
