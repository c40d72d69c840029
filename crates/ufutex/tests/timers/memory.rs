//! The memory of the tests: sigevents, settings, timer IDs.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::common::arena::{Arena, PAGE, Rights};
use crate::common::libc;

const PAGES: u64 = 8;
/// The offset of the read-only page, which is followed by a page without access.
const READABLE: u64 = (PAGES - 2) * PAGE;
const NOTHING: u64 = (PAGES - 1) * PAGE;
/// The range of offsets that is handed out to tests.
const HANDED_OUT: std::ops::Range<u64> = 0..READABLE - PAGE;
/// The size of `struct sigevent`.
pub const EVENT: u64 = 64;
/// The size of `struct itimerspec`.
pub const SPEC: u64 = 32;

/// A `struct itimerspec`, which may be invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spec {
    pub interval: (i64, i64),
    pub value: (i64, i64),
}

impl Spec {
    /// A single expiry at this relative or absolute time.
    pub fn once(value: Duration) -> Self {
        Self::every(Duration::ZERO, value)
    }

    pub fn every(interval: Duration, value: Duration) -> Self {
        let pair = |time: Duration| (time.as_secs() as i64, time.subsec_nanos().into());
        Self { interval: pair(interval), value: pair(value) }
    }

    pub fn value(self) -> Duration {
        Duration::new(self.value.0 as u64, self.value.1 as u32)
    }

    pub fn interval(self) -> Duration {
        Duration::new(self.interval.0 as u64, self.interval.1 as u32)
    }
}

/// A `struct sigevent`, which may be invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    pub notify: i32,
    pub signal: i32,
    pub value: u64,
    pub thread: i32,
}

pub const NONE: Event = Event { notify: libc::SIGEV_NONE, signal: 0, value: 0, thread: 0 };

impl Event {
    pub fn signal(signal: i32, value: u64) -> Self {
        Self { notify: libc::SIGEV_SIGNAL, signal, value, thread: 0 }
    }

    pub fn thread(signal: i32, value: u64, thread: i32) -> Self {
        Self { notify: libc::SIGEV_THREAD_ID, signal, value, thread }
    }
}

pub struct Memory {
    arena: &'static Arena,
    next: AtomicU64,
}

impl Memory {
    pub fn new() -> Self {
        // Where a 32-bit program could name it.
        let arena = Arena::low(PAGES as usize);
        arena.protect(READABLE, Rights::Read);
        arena.protect(NOTHING, Rights::Nothing);
        Self { arena: Box::leak(Box::new(arena)), next: AtomicU64::new(HANDED_OUT.start) }
    }

    pub fn arena(&self) -> &'static Arena {
        self.arena
    }

    /// Memory for one call. It is reused much later.
    pub fn bytes(&self, length: u64) -> u64 {
        let offset = self.next.fetch_add(length.next_multiple_of(8), SeqCst) % (HANDED_OUT.end - EVENT);
        self.arena.at(offset)
    }

    /// The address of a read-only page, which is zero.
    pub fn read_only(&self) -> u64 {
        self.arena.at(READABLE)
    }

    /// An address that is not accessible.
    pub fn nothing(&self) -> u64 {
        self.arena.at(NOTHING)
    }

    /// An address at which exactly `bytes` bytes can be read.
    pub fn before_nothing(&self, bytes: u64) -> u64 {
        self.nothing() - bytes
    }

    /// An address at which exactly `bytes` bytes can be written.
    pub fn before_read_only(&self, bytes: u64) -> u64 {
        self.read_only() - bytes
    }

    pub fn put(&self, address: u64, bytes: &[u8]) {
        self.arena.write(address - self.arena.at(0), bytes);
    }

    pub fn put_i32(&self, address: u64, value: i32) {
        self.put(address, &value.to_ne_bytes());
    }

    pub fn get_i32(&self, address: u64) -> i32 {
        self.arena.word(address - self.arena.at(0)).load(SeqCst) as i32
    }

    pub fn put_event(&self, address: u64, event: Event) {
        self.put(address, &event.value.to_ne_bytes());
        self.put_i32(address + 8, event.signal);
        self.put_i32(address + 12, event.notify);
        self.put_i32(address + 16, event.thread);
    }

    /// Writes a sigevent to memory and returns its address.
    pub fn event(&self, event: Event) -> u64 {
        let at = self.bytes(EVENT);
        self.put_event(at, event);
        at
    }

    /// Writes an itimerspec to memory and returns its address.
    pub fn spec(&self, spec: Spec) -> u64 {
        let at = self.bytes(SPEC);
        let numbers = [spec.interval.0, spec.interval.1, spec.value.0, spec.value.1];
        numbers.iter().zip(0..).for_each(|(number, i)| self.put(at + 8 * i, &number.to_ne_bytes()));
        at
    }

    #[cfg(target_os = "linux")] // as its users
    /// Fills the memory for a setting with a value that no call writes, if `is_there`.
    pub fn put_spec_if(&self, is_there: bool, address: u64) {
        if is_there {
            self.put(address, &[0xaa; SPEC as usize]);
        }
    }

    pub fn get_spec(&self, address: u64) -> Spec {
        let number = |at: u64| {
            let half = |at| u64::from(self.get_i32(at) as u32);
            (half(at) | half(at + 4) << 32) as i64
        };
        let at = |i: u64| number(address + 8 * i);
        Spec { interval: (at(0), at(1)), value: (at(2), at(3)) }
    }
}
