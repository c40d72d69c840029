//! The calling thread's stack, as return addresses.

use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::sync::atomic::{AtomicU64, Ordering};
use core::{mem, ptr};
use std::boxed::Box;
use std::vec::Vec;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64};
use framehop::{FrameAddress, MayAllocateDuringUnwind, Unwinder as _};
use ufutex::{UserMemory, Width};
use ufutex_program::ring::{Kind, Ring};

use super::modules::{self, Known, Modules};
use crate::memory::Native;
use crate::patch::call;
use crate::process::{Locked, SpinLock};
use crate::{gate, raw, signals, stack};

/// Deeper frames are left out.
pub const MOST_FRAMES: usize = 120;
const SHARDS: usize = 8;
/// Size of a walker's own stack: that of the program may have no room, as in a handler on an alternate stack.
const STACK: u64 = 256 << 10;
/// A cache has one entry for each address modulo this number.
const RULES: u64 = 509;
/// Number of sets in which a walker remembers stacks, by their stack pointers.
const SETS: usize = 32;
/// Stacks in a set.
const WAYS: usize = 4;
/// Nanoseconds for which a stack is remembered. A new walk then reads the mappings again if that is due: the program may have
/// mapped another file at an address of the stack.
const RECENT_FOR: u64 = 1_000_000_000;
/// A stack that depends on more words is not remembered.
const MOST_WORDS: usize = 128;
/// How far above the stack pointer a stack in no known mapping is read.
const MOST_STACK: u64 = 1 << 30;

/// The walkers of a process. All zeroes at first.
pub struct Stacks {
    shards: [Shard; SHARDS],
    modules: Modules,
    /// Numbers of stacks whose records have been written. A number's upper 12 bits are its index.
    written: [AtomicU64; 4096],
}

#[repr(C, align(64))]
struct Shard {
    lock: SpinLock,
    /// Null until it is used. Guarded by `lock`.
    walker: UnsafeCell<*mut Walker>,
}

/// What a stack is walked with.
struct Walker {
    /// The address behind its own stack.
    top: u64,
    known: Known,
    /// Unwinding rules. One cache has too few for a program's stacks.
    caches: [CacheX86_64<MayAllocateDuringUnwind>; 8],
    /// For steps from other registers than the thread's. If such a step fails, the unwinder may keep a wrong rule.
    trial: CacheX86_64<MayAllocateDuringUnwind>,
    frames: Vec<u64>,
    page: Page,
    /// What the last walk depends on.
    depends: Depends,
    /// [`SETS`] sets.
    recent: Vec<[Recent; WAYS]>,
}

/// Words on which the result of a walk depends, as addresses and values: return addresses, and registers that were saved and are then
/// used to find a frame. If they are as they were, a walk from the same stack pointer finds the same frames.
#[derive(Default)]
struct Depends {
    words: Vec<(u64, u64)>,
    /// Where `rbp` was saved last, and its value.
    saved_bp: Option<(u64, u64)>,
    /// It depends on something else, such as `rbp` at the beginning, or on too many words.
    on_more: bool,
}

/// A stack that was walked lately.
#[derive(Default)]
struct Recent {
    sp: u64,
    words: Vec<(u64, u64)>,
    number: u64,
    until: u64,
}

/// A copy of one page of a stack. The walker copies pages of a stack whose mapping it does not know yet, and all pages if the thread
/// is on its alternate stack: a load could fault there, and the handler of SIGSEGV would begin at the top of the alternate stack, over
/// the frames that are walked. process_vm_readv(2) makes the copy.
struct Page {
    /// 0: there is none.
    at: u64,
    words: [u64; WORDS],
}

const WORDS: usize = 512;
const BYTES: u64 = WORDS as u64 * 8;

/// Registers at a point of the calling function.
#[derive(Clone, Copy)]
struct Registers {
    ip: u64,
    sp: u64,
    bp: u64,
    /// The thread is on its alternate stack ([`Page`]).
    is_on_alternate: bool,
}

impl Stacks {
    /// The number of the calling thread's stack, from the program's innermost frame on. Writes its record first,
    /// if that is not written. 0 if all walkers are in use, there is no memory for one, no frame was found, or the record was dropped.
    /// Does not wait for another thread's walk, but waits for the reader if the ring is full.
    #[inline(never)]
    pub fn record(&self, now: u64, ring: &Ring) -> u64 {
        let (ip, sp, bp): (u64, u64, u64);
        // SAFETY: reads registers.
        unsafe {
            asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) ip, out(reg) sp, out(reg) bp,
                options(nostack, nomem, preserves_flags));
        }
        if let Some(number) = self.recent(sp, now) {
            return number;
        }
        // Before a lock is held, for which other threads would then have no stack.
        super::wait_for_reader(ring, || ring.has_room());
        // `run_on` requires that on the alternate stack.
        let is_on_alternate = is_on_alternate_stack();
        let mask = is_on_alternate.then(gate::block_all);
        let number = self.walk_and_record(Registers { ip, sp, bp, is_on_alternate }, now, ring);
        if let Some(mask) = mask {
            gate::set_mask(mask);
        }
        number
    }

    /// The number of the calling thread's stack if it was walked lately. Needs little room on the stack and makes no call.
    fn recent(&self, sp: u64, now: u64) -> Option<u64> {
        let shard = self.shard(sp, 0);
        let _locked = shard.lock.try_lock()?;
        // SAFETY: guarded by the lock that we hold. Null, or a box that is never freed.
        let walker = unsafe { (*shard.walker.get()).as_ref() }?;
        // The words are compared in the order in which the walk has read them: a word's address is valid if those before it are
        // unchanged.
        let is_as_it_was = |(at, value): &(u64, u64)| Native.load(*at, Width::U64) == Ok(*value);
        let is_same = |recent: &&Recent| recent.sp == sp && now < recent.until && recent.words.iter().all(is_as_it_was);
        walker.recent[set(sp)].iter().find(is_same).map(|recent| recent.number)
    }

    fn walk_and_record(&self, from: Registers, now: u64, ring: &Ring) -> u64 {
        let Some((_locked, walker)) = self.take(from.sp) else { return 0 };
        // SAFETY: guarded by the lock that we hold.
        let walker = unsafe { &mut *walker };
        let top = walker.top;
        let walk = || walker.walk(from, &self.modules, now, ring);
        // SAFETY: the walker's own stack, which only the holder of its lock uses. `record` has blocked signals if it must.
        unsafe { stack::run_on(top, walk) };
        let number = self.record_frames(&walker.frames, ring);
        if number != 0 && !walker.depends.on_more {
            let recent = &mut walker.recent[set(from.sp)][number as usize % WAYS];
            (recent.sp, recent.number, recent.until) = (from.sp, number, now + RECENT_FOR);
            mem::swap(&mut recent.words, &mut walker.depends.words);
        }
        number
    }

    /// The number of a stack. Its record is written if it was not.
    fn record_frames(&self, frames: &[u64], ring: &Ring) -> u64 {
        if frames.is_empty() {
            return 0;
        }
        // Stacks that differ in one frame have different numbers: each step can be undone.
        let mixed = |number: u64, at: &u64| (number.rotate_left(5) ^ at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let number = frames.iter().fold(0, mixed).max(1);
        let place = &self.written[number as usize >> 52];
        // [Pp]: the record of the stack has its place in the ring before those that name it.
        if place.load(Ordering::Acquire) != number {
            if !super::write_now(ring, Kind::Stack, &[&[number], frames]) {
                return 0;
            }
            place.store(number, Ordering::Release); // [Pp]
        }
        number
    }

    /// The shard to be tried first, or after others, by a thread with this stack pointer.
    fn shard(&self, sp: u64, tried: usize) -> &Shard {
        &self.shards[(spread(sp >> 12) + tried) % SHARDS]
    }

    /// A walker that no other thread uses while the lock is held.
    fn take(&self, sp: u64) -> Option<(Locked<'_>, *mut Walker)> {
        for i in 0..2 * SHARDS {
            let shard = self.shard(sp, i);
            let Some(locked) = shard.lock.try_lock() else { continue };
            // SAFETY: guarded by the lock that we hold. Null, or a box that is never freed.
            let walker = unsafe { &mut *shard.walker.get() };
            if walker.is_null() {
                let top = raw::map(STACK as usize)? + STACK;
                // SAFETY: mapped above. `record` has blocked signals if it must.
                unsafe { stack::run_on(top, || *walker = Box::into_raw(Box::new(Walker::new(top)))) };
            }
            return Some((locked, *walker));
        }
        None
    }
}

/// The set of stacks to which those with this stack pointer belong.
fn set(sp: u64) -> usize {
    spread(sp >> 4) % SETS
}

/// Spreads numbers that differ in few bits.
fn spread(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// Whether the calling thread runs on its alternate stack. `false` if the kernel has disabled it
/// (SS_AUTODISARM): then a handler runs on the thread's current stack.
fn is_on_alternate_stack() -> bool {
    let mut now = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: stores into `now`.
    unsafe { raw::own(libc::SYS_sigaltstack, [0, (&raw mut now) as u64]) };
    now.ss_flags & libc::SS_ONSTACK != 0
}

impl Walker {
    fn new(top: u64) -> Self {
        Self {
            top,
            known: Known::new(),
            caches: core::array::from_fn(|_| CacheX86_64::new()),
            trial: CacheX86_64::new(),
            frames: Vec::with_capacity(MOST_FRAMES),
            page: Page { at: 0, words: [0; WORDS] },
            depends: Depends::default(),
            recent: (0..SETS).map(|_| Default::default()).collect(),
        }
    }

    /// Fills in `frames`. If an address is in no known mapping, the mappings are read again.
    fn walk(&mut self, from: Registers, modules: &Modules, now: u64, ring: &Ring) {
        self.page.at = 0;
        // A stack in no known mapping costs a system call for each page, so the mappings are read again for it too.
        let mut is_known = self.try_walk(from) && self.known.memory_at(from.sp).is_some();
        if modules.refresh(&mut self.known, is_known, now, ring) {
            is_known = self.try_walk(from);
        }
        // The next walk may find more.
        self.depends.on_more |= !is_known;
    }

    /// Returns `false` if it met an address in no known mapping, at which it ends.
    fn try_walk(&mut self, Registers { ip, sp, bp, is_on_alternate }: Registers) -> bool {
        let Self { known, caches, trial, frames, page, depends, .. } = self;
        frames.clear();
        (depends.saved_bp, depends.on_more) = (None, false);
        depends.words.clear();
        // The first address that may be read, and the end of the memory there, if it is known.
        let stack = Cell::new((sp, known.memory_at(sp)));
        let is_cut = Cell::new(false);
        // A word has 8 bytes.
        let mut load = |at: u64| match stack.get() {
            (sp, Some(end)) if (sp..end - 7).contains(&at) && is_on_alternate => page.load(at).ok_or(()),
            (sp, Some(end)) if (sp..end - 7).contains(&at) => Native.load(at, Width::U64).map_err(drop),
            (sp, Some(_)) if (sp..sp.saturating_add(MOST_STACK)).contains(&at) => {
                is_cut.set(true); // the stack may have grown
                Err(())
            }
            (sp, None) if (sp..sp.saturating_add(MOST_STACK)).contains(&at) => page.load(at).ok_or(()),
            _ => Err(()),
        };
        let mut registers = UnwindRegsX86_64::new(ip, sp, bp);
        let mut address = FrameAddress::from_instruction_pointer(ip);
        // What the step to the next frame has read.
        let mut read = Vec::new();
        for _ in 0..MOST_FRAMES {
            let at = address.address();
            match modules::find(&known.modules, at) {
                None => return false,
                // Frames of this library are not the program's.
                Some(module) if module.is_ours => {}
                // The command takes each frame for a return address, and looks up the byte before it. The function by which a handler
                // returns and the one that the handler has interrupted have not made a call: theirs is the byte itself.
                Some(_) if signals::is_restorer(at) => frames.push(at + 1),
                Some(_) => frames.push(address.address_for_lookup() + 1),
            }
            let cache = &mut caches[(at / RULES) as usize % caches.len()];
            let before = registers;
            read.clear();
            let next = step(known, address, &mut registers, cache, &mut |at| {
                let value = load(at)?;
                read.push((at, value));
                Ok(value)
            });
            let again = |registers: &mut _| step(known, address, registers, trial, &mut load);
            depends.note(&before, &registers, next, &read, again);
            depends.on_more |= stack.get().1.is_none() || is_cut.get();
            let Some(next) = next else { break };
            if signals::is_restorer(at) {
                // The handler may have a stack of its own, the alternate one.
                stack.set((registers.sp(), known.memory_at(registers.sp())));
            }
            address = next;
        }
        true
    }
}

impl Depends {
    /// Notes a step from the registers `before` to the frame `next` with the registers `after`, which has read these words. `again` does
    /// the step from other registers.
    fn note(
        &mut self,
        before: &UnwindRegsX86_64,
        after: &UnwindRegsX86_64,
        next: Option<FrameAddress>,
        read: &[(u64, u64)],
        mut again: impl FnMut(&mut UnwindRegsX86_64) -> Option<FrameAddress>,
    ) {
        // The unwinder uses no other registers.
        let mut needs_bp = || {
            let mut others = UnwindRegsX86_64::new(before.ip(), before.sp(), 0);
            let is_same = again(&mut others) == next && others.sp() == after.sp();
            // `rbp` is restored from one word in both steps, or kept in both.
            !is_same || others.bp() != after.bp() && (others.bp() != 0 || after.bp() != before.bp())
        };
        // If the walk ends here, it may still go on with another `rbp` than these two.
        if !self.on_more && (next.is_none() || needs_bp()) {
            match self.saved_bp {
                Some(saved) if saved.1 == before.bp() => self.words.push(saved),
                _ => self.on_more = true,
            }
        }
        let goes_on_at = |value: u64| next.is_some_and(|next| next.address() == value) || after.sp() == value;
        for &(at, value) in read {
            // The value of a saved `rbp` matters only if a later step uses it.
            if value == after.bp() && next.is_some() && !goes_on_at(value) {
                self.saved_bp = Some((at, value));
            } else {
                self.words.push((at, value));
            }
        }
        self.on_more |= self.words.len() > MOST_WORDS;
    }
}

/// Changes the registers to those of the next frame, and returns where it goes on. `None` at the end of the stack.
fn step(
    known: &Known,
    address: FrameAddress,
    registers: &mut UnwindRegsX86_64,
    cache: &mut CacheX86_64<MayAllocateDuringUnwind>,
    load: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<FrameAddress> {
    let next = match address.address() {
        at if signals::is_restorer(at) => {
            let at = interrupted(registers, load).filter(|at| *at != 0)?;
            return Some(FrameAddress::from_instruction_pointer(at));
        }
        at if at == call::taken_from_stub as *const () as u64 => unwind_stub(registers, load),
        _ => known.unwinder.unwind_frame(address, registers, cache, load).ok().flatten(),
    };
    next.and_then(FrameAddress::from_return_address)
}

/// Goes on at the instruction that one of this library's handlers has interrupted, with the registers in the handler's context,
/// at which the stack pointer points.
fn interrupted(registers: &mut UnwindRegsX86_64, load: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<u64> {
    let context = registers.sp();
    let mut register = |register| load(context.wrapping_add(signals::in_context(register) as u64)).ok();
    let (ip, sp, bp) = (register(libc::REG_RIP)?, register(libc::REG_RSP)?, register(libc::REG_RBP)?);
    *registers = UnwindRegsX86_64::new(ip, sp, bp);
    Some(ip)
}

/// Unwinds from [`call::from_stub`] to the program's code after the replaced instruction. By its tables the unwinder would take some
/// ten times as long: it caches no rule for a frame whose return address is not directly below the caller's stack.
fn unwind_stub(registers: &mut UnwindRegsX86_64, load: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<u64> {
    let frame = registers.bp();
    let (bp, ip) = (load(frame).ok()?, load(frame.wrapping_add(8)).ok()?);
    *registers = UnwindRegsX86_64::new(ip, frame.wrapping_add(16 + call::RED_ZONE as u64), bp);
    Some(ip)
}

impl Page {
    /// The word at this address. `None` if it cannot be read.
    fn load(&mut self, at: u64) -> Option<u64> {
        if !at.is_multiple_of(8) {
            return None;
        }
        let page = at & !(BYTES - 1);
        if self.at != page {
            self.at = if self.copy(page) { page } else { 0 };
        }
        (self.at == page).then(|| self.words[(at % BYTES / 8) as usize])
    }

    fn copy(&mut self, page: u64) -> bool {
        let to = libc::iovec { iov_base: self.words.as_mut_ptr().cast(), iov_len: BYTES as usize };
        let from = libc::iovec { iov_base: ptr::with_exposed_provenance_mut(page as usize), iov_len: BYTES as usize };
        let (to, from) = (&raw const to as u64, &raw const from as u64);
        // SAFETY: stores into `words`. The kernel reads the addresses, and says so if it cannot.
        let copied = unsafe { raw::syscall6(libc::SYS_process_vm_readv, [raw::tid() as u64, to, 1, from, 1, 0]) };
        copied == BYTES as isize
    }
}
