//! For `ufutex locks`: records of each wait that sleeps, and of what wakes it, in a file that the command reads while the program
//! runs.
//!
//! The command looks up symbols, adds up times and finds deadlocks. Here a record is only written: the time, the thread, the word,
//! the CPU, and the number of the stack, whose return addresses are a record of their own.

mod frames;
mod modules;
mod vdso;

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use core::{mem, ptr};
use std::vec::Vec;

use ufutex::syscall::Number;
use ufutex_program::ring::{IN_KERNEL, Kind, Ring, TIMED};

use crate::calls::{WAITV_MAX, Waitv};
use crate::process::{Process, SpinLock, process};
use crate::{memory, patch, raw, settings};

/// A process's ring, and what its stacks are walked with. All zeroes at first.
pub struct Profile {
    /// Null until the process has written a record.
    ring: AtomicPtr<Ring>,
    /// Held while the ring is made.
    making: SpinLock,
    /// This process gets no ring.
    failed: AtomicBool,
    stacks: frames::Stacks,
    named: Named,
}

/// Makes the file of the process that `ufutex locks` has started, before the program begins.
pub fn begin() {
    if settings::get().profile.is_some() || settings::get().stats.is_some() {
        vdso::begin();
    }
    if let Some((process, ring)) = ring() {
        // The mappings are read now, before the program may have changed its root.
        process.profile.stacks.record(now(), ring);
    }
}

/// The process's ring, which is made now if there is none. `None` if no records are wanted of this process.
#[inline(always)]
fn ring() -> Option<(&'static Process, &'static Ring)> {
    settings::get().profile.and_then(made_ring)
}

fn made_ring(directory: &[u8]) -> Option<(&'static Process, &'static Ring)> {
    // The program's own filter may not know the calls that are made here.
    let process = process().filter(|_| !patch::is_filtered())?;
    let Profile { ring, making, failed, .. } = &process.profile;
    let mut made = ring.load(Ordering::Acquire); // [Po]
    if made.is_null() && !failed.load(Ordering::Relaxed) {
        let _locked = making.lock();
        made = ring.load(Ordering::Relaxed);
        // A child of vfork(2) has its parent's, and makes none.
        if made.is_null() && !process.is_borrowed() {
            match make(directory) {
                Some(new) => {
                    made = ptr::from_ref(new).cast_mut();
                    ring.store(made, Ordering::Release); // [Po]: a thread that loads the pointer sees the ring ready
                }
                None => failed.store(true, Ordering::Relaxed),
            }
        }
    }
    // SAFETY: null, or a mapping that is never unmapped.
    Some((process, unsafe { made.as_ref() }?))
}

/// Makes a file for this process: `PID.TIME` in the directory.
fn make(directory: &[u8]) -> Option<&'static Ring> {
    let settings = settings::get();
    if !settings.children && settings.process.is_some_and(|wanted| wanted != raw::pid()) {
        return None;
    }
    let len = size_of::<Ring>() as u64;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: stores into `limit`. A file beyond it would be a signal.
    unsafe { raw::own(libc::SYS_getrlimit, [libc::RLIMIT_FSIZE.into(), (&raw mut limit) as u64]) };
    if limit.rlim_cur < len {
        return None;
    }
    let now = now();
    let name = std::format!("/{}.{now}\0", raw::pid());
    let path: Vec<u8> = [directory, name.as_bytes()].concat();
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    // SAFETY: a string that ends with NUL.
    let file =
        unsafe { raw::own(libc::SYS_openat, [libc::AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0o600]) };
    if file < 0 {
        return None;
    }
    let file = file as u64;
    let (access, shared) = ((libc::PROT_READ | libc::PROT_WRITE) as u64, libc::MAP_SHARED as u64);
    // Its memory is taken now: a store to a page for which there is none would be a signal.
    // SAFETY: a file of our own, and new memory at an address that the kernel chooses.
    let at = unsafe {
        let at = match raw::own(libc::SYS_fallocate, [file, 0, 0, len]) {
            0 => raw::syscall6(libc::SYS_mmap, [0, len, access, shared, file, 0]),
            error => error,
        };
        raw::own(libc::SYS_close, [file]);
        at
    };
    if (-4095..0).contains(&at) {
        // SAFETY: as above.
        unsafe { raw::own(libc::SYS_unlinkat, [libc::AT_FDCWD as u64, path.as_ptr() as u64, 0]) };
        return None;
    }
    // SAFETY: mapped above with that length, never unmapped, and all zeroes are a valid ring.
    let ring: &Ring = unsafe { &*ptr::with_exposed_provenance(at as usize) };
    write(ring, Kind::Begins, &[&[now, raw::pid() as u64]]);
    ring.begin();
    Some(ring)
}

/// A thread that finds no room waits for the reader in naps of this length.
static NAP: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Naps without progress of the reader after which a record is dropped: the reader may be stopped, or dead.
const NAPS: u32 = 1000;

/// Waits until `is_done`. Returns `false` if the reader has taken nothing for [`NAPS`] naps, or the program has installed a filter
/// of its own, which may not know the call.
fn wait_for_reader(ring: &Ring, mut is_done: impl FnMut() -> bool) -> bool {
    let (mut tail, mut naps) = (ring.tail(), 0);
    while !is_done() {
        if ring.tail() != tail {
            (tail, naps) = (ring.tail(), 0);
        }
        if naps == NAPS || ring.was_given_up_at(tail) || patch::is_filtered() {
            ring.give_up_at(tail);
            return false;
        }
        // SAFETY: reads `NAP`.
        unsafe { raw::own(libc::SYS_nanosleep, [(&raw const NAP) as u64, 0]) };
        naps += 1;
    }
    true
}

/// Writes a record. If the ring is full, waits for the reader, so that a busy machine loses no records. Returns `false` if that was
/// in vain: then the record is dropped and counted.
fn write(ring: &Ring, kind: Kind, parts: &[&[u64]]) -> bool {
    counted(ring, wait_for_reader(ring, || ring.write(kind, parts)))
}

/// As [`write`], for a thread that holds a lock and must not wait. It has called [`wait_for_reader`] before.
fn write_now(ring: &Ring, kind: Kind, parts: &[&[u64]]) -> bool {
    counted(ring, ring.write(kind, parts))
}

/// Counts a record that is not written.
fn counted(ring: &Ring, is_written: bool) -> bool {
    if !is_written {
        ring.count_dropped();
    }
    is_written
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    vdso::clock_gettime(&mut time);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A TID, and a time in units of 2^28 ns, for each name that was written lately.
type Named = [AtomicU64; 256];

/// The calling thread's TID. Its name is written if it was not lately.
fn thread(process: &Process, ring: &Ring, now: u64) -> u64 {
    let tid = raw::tid() as u64;
    let named = tid << 32 | now >> 28 & 0xffff_ffff;
    let place = &process.profile.named[tid as usize % process.profile.named.len()];
    if place.swap(named, Ordering::Relaxed) != named {
        let mut name = [0u64; 2];
        // SAFETY: stores 16 bytes into `name`.
        unsafe { raw::own(libc::SYS_prctl, [libc::PR_GET_NAME as u64, (&raw mut name) as u64, 0, 0, 0]) };
        write(ring, Kind::Named, &[&[tid, name[0], name[1]]]);
    }
    tid
}

/// Notes that the calling thread is going to sleep at `seat` in this call. `None` if no record was written.
#[inline(always)]
pub fn sleeps(number: Number, args: &[u64; 6], seat: u64) -> Option<Asleep> {
    let (process, ring) = ring()?;
    let timed = |timeout: u64| if timeout == 0 { 0 } else { TIMED };
    let is_noted = match number {
        Number::FutexWaitv => note_sleep_for_any(process, ring, args[0], args[1], timed(args[3]), seat),
        Number::FutexWait => note_sleep(process, ring, (args[0], 2 << 32 | timed(args[4])), &[], seat),
        _ => note_sleep(process, ring, (args[0], args[1] & 0xffff_ffff | timed(args[3])), &[], seat),
    };
    is_noted.then_some(Asleep { ring, seat })
}

/// As [`sleeps`], for a wait in the kernel.
pub fn sleeps_in_kernel(number: Number, args: &[u64; 6]) -> Option<Asleep> {
    // Before gettid(2) is called, which a filter of the program's own may not permit.
    ring()?;
    sleeps(number, args, IN_KERNEL | raw::tid() as u64)
}

#[inline(never)]
fn note_sleep(
    process: &'static Process,
    ring: &'static Ring,
    (address, operation): (u64, u64),
    others: &[u64],
    seat: u64,
) -> bool {
    let now = now();
    let tid = thread(process, ring, now);
    // Not beyond the word's page, where there may be no memory.
    let around: [u64; 4] = core::array::from_fn(|i| {
        let at = address.wrapping_add(8 * i as u64);
        if at.wrapping_add(7) >> 12 == address >> 12 { memory::read(at).unwrap_or(0) } else { 0 }
    });
    let stack = process.profile.stacks.record(now, ring);
    write(ring, Kind::Sleeps, &[&[now, tid, address, operation, seat, stack], &around, others])
}

/// As [`note_sleep`], for futex_waitv(2).
#[inline(never)]
fn note_sleep_for_any(
    process: &'static Process,
    ring: &'static Ring,
    list: u64,
    len: u64,
    timed: u64,
    seat: u64,
) -> bool {
    let mut words = [0; WAITV_MAX];
    // A list that is too long is refused.
    let words = &mut words[..(len as u32 as usize).min(WAITV_MAX)];
    for (i, address) in words.iter_mut().enumerate() {
        let at = list.wrapping_add((i * size_of::<Waitv>()) as u64);
        *address = memory::read::<Waitv>(at).map_or(0, |word| word.uaddr);
    }
    let (first, others) = words.split_first().map_or((0, &[][..]), |(first, others)| (*first, others));
    note_sleep(process, ring, (first, 1 << 32 | timed), others, seat)
}

/// A thread that sleeps at a seat.
pub struct Asleep {
    ring: &'static Ring,
    seat: u64,
}

impl Asleep {
    /// Notes that the wait has ended, with this result of the call.
    pub fn ended(self, result: isize) {
        // Another thread may have installed a filter for this one. Or this is a child that a handler has made: the ring is the parent's.
        let is_own = process().is_some_and(|process| ptr::eq(process.profile.ring.load(Ordering::Relaxed), self.ring));
        if patch::is_filtered() || !is_own {
            return;
        }
        write(self.ring, Kind::Ended, &[&[now(), self.seat, result as u64, vdso::getcpu().into()]]);
    }
}

/// Notes that the calling thread wakes the one that sleeps at `seat`.
#[inline(always)]
pub fn wakes(seat: u64) {
    if let Some((process, ring)) = ring() {
        note_wake(process, ring, seat);
    }
}

#[inline(never)]
fn note_wake(process: &'static Process, ring: &'static Ring, seat: u64) {
    let now = now();
    let tid = thread(process, ring, now);
    let stack = process.profile.stacks.record(now, ring);
    write(ring, Kind::Wakes, &[&[now, tid, seat, stack, vdso::getcpu().into()]]);
}

/// Notes that the calling thread is going to ask the kernel to wake at most this many waiters for a word. Noted before, so that the
/// record comes before those of the waits that end.
pub fn wakes_in_kernel(address: u64, most: u32) {
    if let Some((process, ring)) = ring() {
        let now = now();
        let tid = thread(process, ring, now);
        let stack = process.profile.stacks.record(now, ring);
        write(ring, Kind::WakesInKernel, &[&[now, tid, address, stack, vdso::getcpu().into(), most.into()]]);
    }
}

/// Notes that the calling thread's last wake of this word in the kernel, noted before, has woken nobody.
pub fn woke_none_in_kernel(address: u64) {
    if let Some((_, ring)) = ring() {
        write(ring, Kind::WokeNoneInKernel, &[&[raw::tid() as u64, address]]);
    }
}

/// Notes that this many waiters were moved from this word to another.
pub fn requeued(address: u64, waiters: u64) {
    if waiters != 0
        && let Some((_, ring)) = ring()
    {
        write(ring, Kind::Requeued, &[&[address, waiters]]);
    }
}

const _: () = assert!(mem::align_of::<Ring>() <= 4096);
const _: () = assert!(2 + frames::MOST_FRAMES <= ufutex_program::ring::MOST_WORDS);
