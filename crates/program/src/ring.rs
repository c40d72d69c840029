//! The records that a program's threads pass to `ufutex locks` while the program runs, in a file that both map.
//!
//! Many threads write, and one process reads. A writer that finds no room decides itself whether it waits for the reader, or drops
//! the record and counts it.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

/// Words for records, a power of two: 2 MiB, all of which the writer allocates at the beginning.
/// The records of 10,700 waits fit, without their stacks.
pub const WORDS: u64 = 1 << 18;
/// Words that only [`Kind::Ended`] may use. The ends of 3,276 waits fit.
const FOR_ENDS: u64 = 1 << 14;
/// Words that besides [`Kind::Ended`] only [`Kind::Stack`] and [`Kind::Mapped`] may use. Their writers hold locks, cannot wait, and
/// have asked [`Ring::has_room`] before. As many writers as there are locks may have asked at once.
const FOR_LOCKED: u64 = 1 << 13;
/// Number that says that the file is ready, with a version.
const READY: u64 = u64::from_le_bytes(*b"ufxlock6");
/// Most words of a record.
pub const MOST_WORDS: usize = 256;

/// What a record says. Times are in nanoseconds of CLOCK_MONOTONIC, names as in `PR_GET_NAME`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A file is mapped: first address, end, inode, then the path.
    Mapped = 1,
    /// A thread has begun to wait: time, TID, address of the word, operation, seat, the stack's number, the 32 bytes at the address
    /// (four words), then the addresses of further words. The operation is that of futex(2), 2^32 for futex_waitv(2) and 2^33 for
    /// futex_wait(2), with [`TIMED`] if it has a timeout. The seat is that of the library, or for a wait in the kernel the TID with
    /// [`IN_KERNEL`].
    Sleeps = 2,
    /// A thread wakes the one at a seat: time, TID, seat, the stack's number, the CPU.
    Wakes = 3,
    /// The wait at a seat has ended: time, seat, the result of the call, the CPU.
    Ended = 4,
    /// The process has begun: time, PID.
    Begins = 5,
    /// A thread has this name: TID, name (two words).
    Named = 6,
    /// A stack has this number, by which later records name it: number, then the return addresses, the innermost first.
    Stack = 7,
    /// Waiters for a word were moved to another: address of the first, number of waiters.
    Requeued = 8,
    /// A thread asks the kernel to wake waiters: time, TID, address of the word, the stack's number, the CPU, how many at most.
    WakesInKernel = 9,
    /// The thread's last [`Kind::WakesInKernel`] for this word has woken nobody: TID, address of the word.
    WokeNoneInKernel = 10,
}

/// In a seat: the thread waits in the kernel.
pub const IN_KERNEL: u64 = 1 << 63;
/// In an operation: the wait has a timeout.
pub const TIMED: u64 = 1 << 63;

impl Kind {
    fn of(number: u64) -> Option<Self> {
        use Kind::{Begins, Ended, Mapped, Named, Requeued, Sleeps, Stack, Wakes, WakesInKernel, WokeNoneInKernel};
        let all = [Mapped, Sleeps, Wakes, Ended, Begins, Named, Stack, Requeued, WakesInKernel, WokeNoneInKernel];
        all.into_iter().find(|kind| *kind as u64 == number)
    }
}

/// A word in a cache line of its own.
#[repr(C, align(64))]
struct Alone(AtomicU64);

/// The file. All zeroes at first.
#[repr(C)]
pub struct Ring {
    ready: AtomicU64,
    dropped: AtomicU64,
    /// The complement of the last tail at which a writer gave up waiting for the reader. 0, its first value, stands for no tail.
    given_up_at: AtomicU64,
    /// Number of words that writers have reserved.
    head: Alone,
    /// Number of words that the reader has taken. It has zeroed them.
    tail: Alone,
    words: [AtomicU64; WORDS as usize],
}

/// A record that no writer can have written: the program has overwritten the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

impl Ring {
    /// Makes the ring ready for its reader.
    pub fn begin(&self) {
        self.ready.store(READY, Ordering::Release); // [Rc]
    }

    /// Whether a writer has made it ready.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) == READY // [Rc]
    }

    /// Number of records that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Counts a record that is not written.
    pub fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there is room for the longest record of any kind.
    pub fn has_room(&self) -> bool {
        let used = self.head().saturating_sub(self.tail.0.load(Ordering::Relaxed));
        used + MOST_WORDS as u64 <= WORDS - FOR_ENDS - FOR_LOCKED
    }

    /// Notes that a writer has waited in vain for the reader to go on from this tail.
    pub fn give_up_at(&self, tail: u64) {
        self.given_up_at.store(!tail, Ordering::Relaxed);
    }

    /// Whether a writer has waited in vain for the reader to go on from this tail.
    pub fn was_given_up_at(&self, tail: u64) -> bool {
        self.given_up_at.load(Ordering::Relaxed) == !tail
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[(at % WORDS) as usize]
    }

    /// Writes a record if there is room for it. Returns whether there was. May be called by any thread at any time.
    #[must_use]
    pub fn write(&self, kind: Kind, parts: &[&[u64]]) -> bool {
        let len = 1 + parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let room = match kind {
            // The end of a wait that was recorded finds room if nothing else does.
            Kind::Ended => WORDS,
            Kind::Stack | Kind::Mapped => WORDS - FOR_ENDS,
            _ => WORDS - FOR_ENDS - FOR_LOCKED,
        };
        let mut at = self.head.0.load(Ordering::Relaxed);
        loop {
            // [Ra]: Acquire pairs with the Release of `take`: the reader zeroed these words before.
            // The tail may be beyond a head that was read some time ago: then the exchange fails.
            if (at + len).saturating_sub(self.tail.0.load(Ordering::Acquire)) > room {
                return false;
            }
            match self.head.0.compare_exchange_weak(at, at + len, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => at = now,
            }
        }
        for (i, word) in parts.iter().copied().flatten().enumerate() {
            self.word(at + 1 + i as u64).store(*word, Ordering::Relaxed);
        }
        // [Rb]: Release pairs with the Acquire of `take`: a reader that loads the header sees the words behind it.
        self.word(at).store((kind as u64) << 32 | len, Ordering::Release);
        true
    }

    /// Number of words that writers have reserved. A reader that stops there ends even if writers go on.
    pub fn head(&self) -> u64 {
        self.head.0.load(Ordering::Relaxed)
    }

    /// How many words have been taken.
    pub fn tail(&self) -> u64 {
        self.tail.0.load(Ordering::Relaxed)
    }

    /// Takes the oldest record into `to`, without its header. `None` if there is none, or if its writer has not finished. For
    /// one reader at a time.
    ///
    /// # Errors
    /// The program has overwritten the ring.
    pub fn take(&self, to: &mut Vec<u64>) -> Result<Option<Kind>, Broken> {
        let at = self.tail.0.load(Ordering::Relaxed);
        let header = self.word(at).load(Ordering::Acquire); // [Rb]
        if header == 0 {
            return Ok(None);
        }
        let (kind, len) = (Kind::of(header >> 32).ok_or(Broken)?, header & 0xffff_ffff);
        if len == 0 || len > MOST_WORDS as u64 {
            return Err(Broken);
        }
        to.clear();
        // The program may have stored any tail.
        to.extend((1..len).map(|i| self.word(at.wrapping_add(i)).load(Ordering::Relaxed)));
        (0..len).for_each(|i| self.word(at.wrapping_add(i)).store(0, Ordering::Relaxed));
        self.tail.0.store(at.wrapping_add(len), Ordering::Release); // [Ra]
        Ok(Some(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::alloc::{Layout, alloc_zeroed};

    fn ring() -> &'static Ring {
        // SAFETY: all zeroes are a valid ring.
        unsafe { &*alloc_zeroed(Layout::new::<Ring>()).cast() }
    }

    #[test]
    fn records_come_out_as_they_went_in_over_the_end_of_the_ring() {
        let (ring, mut record) = (ring(), Vec::new());
        assert_eq!(ring.take(&mut record), Ok(None));
        for kind in [Kind::Mapped, Kind::Sleeps, Kind::Wakes, Kind::Ended, Kind::Begins, Kind::Named, Kind::Stack] {
            assert!(ring.write(kind, &[]));
            assert_eq!(ring.take(&mut record), Ok(Some(kind)));
        }
        for i in 0..3 * WORDS / 7 {
            assert!(ring.write(Kind::Wakes, &[&[i, 0], &[i, i + 1, 0], &[7]]));
            assert_eq!(ring.take(&mut record), Ok(Some(Kind::Wakes)));
            assert_eq!(record, [i, 0, i, i + 1, 0, 7]);
        }
        assert_eq!(ring.take(&mut record), Ok(None));
    }

    #[test]
    fn a_record_without_room_is_not_written() {
        let (ring, mut record) = (ring(), Vec::new());
        let words = [1; 7];
        let room = WORDS / 8;
        // Others leave room for those of writers with locks, and these for the records of ends.
        let mut before = (0..room).filter(|_| ring.write(Kind::Wakes, &[&words])).count() as u64;
        assert_eq!(before, room - FOR_ENDS / 8 - FOR_LOCKED / 8);
        assert!(!ring.has_room());
        before += (0..room).filter(|_| ring.write(Kind::Stack, &[&words])).count() as u64;
        assert_eq!(before, room - FOR_ENDS / 8);
        while ring.take(&mut record) != Ok(None) {}
        assert!((0..WORDS / 8).all(|_| ring.write(Kind::Ended, &[&words])));
        assert!(!ring.write(Kind::Ended, &[&words]));
        assert_eq!(ring.take(&mut record), Ok(Some(Kind::Ended)));
        assert!(ring.write(Kind::Ended, &[&[2; 7]]));
        assert!(!ring.write(Kind::Ended, &[&words]));
        let taken = core::iter::from_fn(|| ring.take(&mut record).unwrap()).count() as u64;
        assert_eq!(taken, room);
        assert_eq!(record, [2; 7]);
    }

    #[test]
    fn a_ring_that_the_program_has_overwritten_is_said_to_be_broken() {
        for header in [0xff << 32 | 2, 2 << 32, 2 << 32 | (MOST_WORDS as u64 + 1)] {
            let ring = ring();
            ring.words[0].store(header, Ordering::Relaxed);
            assert_eq!(ring.take(&mut Vec::new()), Err(Broken));
        }
    }

    #[test]
    fn each_record_of_many_threads_comes_out_once_and_whole() {
        const THREADS: u64 = 4;
        const EACH: u64 = 20_000;
        let ring = ring();
        let (mut record, mut next) = (Vec::new(), [0; THREADS as usize]);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    for i in 0..EACH {
                        let words = [thread; 9];
                        while !ring.write(Kind::Sleeps, &[&[thread, i], &words[..(i % 9) as usize]]) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            while next != [EACH; THREADS as usize] {
                if ring.take(&mut record).unwrap().is_none() {
                    std::thread::yield_now();
                    continue;
                }
                let (thread, i) = (record[0], record[1]);
                assert!(record[2..].iter().all(|word| *word == thread) && record.len() as u64 == 2 + i % 9);
                assert_eq!(next[thread as usize], i, "a thread's own records stay in order");
                next[thread as usize] += 1;
            }
        });
    }
}
