//! The files that are mapped into the process: what its stacks are walked with, and what the command needs to look up names.

use core::cell::UnsafeCell;
use core::ops::Range;
use core::str;
use std::boxed::Box;
use std::string::String;
use std::sync::Arc;
use std::vec::Vec;

use framehop::x86_64::UnwinderX86_64;
use framehop::{ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Unwinder as _};
use ufutex::UserMemory;
use ufutex_program::ring::{Kind, MOST_WORDS, Ring};

use crate::memory::{self, Native};
use crate::process::SpinLock;
use crate::{exit, file, gate, raw};

/// Least time between two readings of the mappings, in nanoseconds.
const READ_FROM: u64 = 5_000_000;
/// The first walk after this time reads the mappings again: another file may be where one was unmapped.
const READ_BY: u64 = 1_000_000_000;
/// Reading the mappings takes at most 1/`SHARE` of a CPU's time.
const SHARE: u64 = 32;
/// How often a thread that needs the newest mappings asks whether another one has read them.
const ROUNDS: u32 = 1000;
/// Larger tables are not used.
const MOST_TABLE: u64 = 64 << 20;

/// What is known of the process's mappings. All zeroes at first.
pub struct Modules {
    lock: SpinLock,
    /// Null until the mappings are read. Guarded by `lock`.
    newest: UnsafeCell<*mut Newest>,
}

struct Newest {
    known: Known,
    read_from: u64,
    read_by: u64,
}

/// What was found when the mappings were read.
#[derive(Clone)]
pub struct Known {
    /// Grows with each change.
    generation: u64,
    pub modules: Vec<Module>,
    /// Memory that may be read and written, in the order of addresses.
    writable: Vec<Range<u64>>,
    pub unwinder: UnwinderX86_64<Arc<[u8]>, MayAllocateDuringUnwind>,
}

/// Memory in which there is code.
#[derive(Clone, PartialEq, Eq)]
pub struct Module {
    start: u64,
    end: u64,
    /// 0 means of no file, such as code that the program has made itself.
    inode: u64,
    /// It is this library.
    pub is_ours: bool,
}

/// The module of an address.
pub fn find(modules: &[Module], at: u64) -> Option<&Module> {
    let behind = modules.partition_point(|module| module.start <= at);
    modules[..behind].last().filter(|module| at < module.end)
}

impl Known {
    pub fn new() -> Self {
        Self { generation: 0, modules: Vec::new(), writable: Vec::new(), unwinder: UnwinderX86_64::new() }
    }
}

impl Modules {
    /// Copies the newest mappings into `known`, after it has read them again if that is due. Returns whether anything has changed.
    pub fn refresh(&self, known: &mut Known, is_known: bool, now: u64, ring: &Ring) -> bool {
        // Another thread may be reading. It may also have lost its CPU for long, so that nobody waits for it for ever.
        let rounds = if is_known { 1 } else { ROUNDS };
        let locked = (0..rounds).find_map(|round| {
            if round > 0 {
                // SAFETY: takes no arguments and changes no memory.
                unsafe { raw::own(libc::SYS_sched_yield, []) };
            }
            self.lock.try_lock()
        });
        let Some(_locked) = locked else { return false };
        // SAFETY: guarded by the lock that we hold. Null, or a box that is never freed.
        let newest = unsafe { &mut *self.newest.get() };
        if newest.is_null() {
            *newest = Box::into_raw(Box::new(Newest { known: Known::new(), read_from: 0, read_by: 0 }));
        }
        // SAFETY: as above.
        let newest = unsafe { &mut **newest };
        if now >= if is_known { newest.read_by } else { newest.read_from } {
            // CPU time: if a preempted reader's waiting counted, the next reading, and with it newly mapped code, would come late.
            let spent = || exit::clock(libc::CLOCK_THREAD_CPUTIME_ID);
            let before = spent();
            newest.known.read(ring);
            let took = u64::try_from(spent().saturating_sub(before).as_nanos()).unwrap_or(u64::MAX / SHARE);
            newest.read_from = now + READ_FROM.max(SHARE * took);
            newest.read_by = now + READ_BY.max(SHARE * took);
        }
        let is_newer = newest.known.generation != known.generation;
        if is_newer {
            *known = newest.known.clone();
        }
        is_newer
    }
}

impl Known {
    /// The end of the memory that may be read and written at this address. `None` if none is known there.
    pub fn memory_at(&self, at: u64) -> Option<u64> {
        let behind = self.writable.partition_point(|memory| memory.start <= at);
        self.writable[..behind].last().filter(|memory| at < memory.end).map(|memory| memory.end)
    }

    /// Reads the mappings, and passes new files to the command.
    fn read(&mut self, ring: &Ring) {
        // The program may unmap a file while its tables are read. The fault is caught only if the thread has not blocked its signal.
        let mask = gate::block_all();
        self.read_undisturbed(ring);
        gate::set_mask(mask);
    }

    fn read_undisturbed(&mut self, ring: &Ring) {
        let Some(maps) = file::read_all(b"/proc/thread-self/maps\0") else { return };
        let (mut now, mut writable) = (Vec::new(), Vec::new());
        let mut before: Option<Mapping<'_>> = None;
        for line in maps.split(|byte| *byte == b'\n') {
            let Some(mapping) = Mapping::of(line) else { continue };
            if mapping.is_writable {
                writable.push(mapping.memory.clone());
            }
            match &mut before {
                Some(last) if last.goes_on_with(&mapping) => {
                    last.memory.end = mapping.memory.end;
                    last.has_code |= mapping.has_code;
                }
                _ => now.extend(before.replace(mapping)),
            }
        }
        now.extend(before);
        now.retain(|mapping| mapping.has_code);
        let found: Vec<Module> = now.iter().map(Mapping::module).collect();
        if writable != self.writable {
            (self.writable, self.generation) = (writable, self.generation + 1);
        }
        if found == self.modules {
            return;
        }
        // Both are in the order of addresses.
        let is_in = |all: &[Module], one: &Module| find(all, one.start).is_some_and(|other| other == one);
        for gone in self.modules.iter().filter(|module| !is_in(&found, module)) {
            self.unwinder.remove_module(gone.start);
        }
        for (mapping, module) in now.iter().zip(&found) {
            if mapping.is_of_file() && !is_in(&self.modules, module) {
                mapping.write_to(ring);
                if let Some(tables) = tables(&mapping.memory) {
                    let Range { start, end } = mapping.memory;
                    self.unwinder.add_module(framehop::Module::new(String::new(), start..end, start, tables));
                }
            }
        }
        self.modules = found;
        self.generation += 1;
    }
}

/// One or several lines of `/proc/PID/maps` that belong together.
struct Mapping<'m> {
    memory: Range<u64>,
    has_code: bool,
    is_writable: bool,
    offset: u64,
    inode: u64,
    path: &'m [u8],
}

impl<'m> Mapping<'m> {
    /// Parses `start-end access offset device inode   path`.
    fn of(line: &'m [u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let hexadecimal = |text: &[u8]| u64::from_str_radix(str::from_utf8(text).ok()?, 16).ok();
        let mut ends = fields.next()?.split(|byte| *byte == b'-');
        let memory = hexadecimal(ends.next()?)?..hexadecimal(ends.next()?)?;
        let access = fields.next()?;
        let (has_code, is_writable) = (access.get(2) == Some(&b'x'), access.starts_with(b"rw"));
        let offset = hexadecimal(fields.next()?)?;
        let inode = str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
        let path = fields.next().unwrap_or_default().trim_ascii_start();
        Some(Self { memory, has_code, is_writable, offset, inode, path })
    }

    fn is_of_file(&self) -> bool {
        self.path.starts_with(b"/")
    }

    /// Whether the next mapping is of the same file, or the anonymous memory right behind it, where the variables are that begin
    /// as zeroes.
    fn goes_on_with(&self, next: &Self) -> bool {
        let is_same_file = next.offset != 0 && (next.inode, next.path) == (self.inode, self.path);
        let is_behind = next.path.is_empty() && !next.has_code && next.memory.start == self.memory.end;
        self.is_of_file() && (is_same_file || is_behind)
    }

    fn module(&self) -> Module {
        let here = find as *const () as u64;
        let Range { start, end } = self.memory;
        Module { start, end, inode: self.inode, is_ours: self.memory.contains(&here) }
    }

    fn write_to(&self, ring: &Ring) {
        let mut path = Vec::new();
        for bytes in self.path.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            path.push(u64::from_ne_bytes(word));
        }
        path.truncate(MOST_WORDS - 4);
        super::write_now(ring, Kind::Mapped, &[&[self.memory.start, self.memory.end, self.inode], &path]);
    }
}

/// The tables of the file in this memory for its stack frames, `.eh_frame_hdr` and `.eh_frame`, copied from there: the program may
/// unload the file at any time. `None` if it has none.
fn tables(memory: &Range<u64>) -> Option<ExplicitModuleSectionInfo<Arc<[u8]>>> {
    const LOAD: u32 = 1;
    const EH_FRAME: u32 = 0x6474_e550;
    let start = memory.start;
    let header: [u8; 64] = memory::read(start).ok()?;
    let (first, count) = (number(&header[32..40]), number(&header[56..58]));
    if header[..5] != *b"\x7fELF\x02" || first > 4096 {
        return None;
    }
    let segments = (0..count).filter_map(|i| memory::read::<[u8; 56]>(start + first + i * 56).ok());
    let segments: Vec<_> = segments
        .map(|segment| (number(&segment[..4]) as u32, number(&segment[16..24]), number(&segment[32..40])))
        .collect();
    let base = segments.iter().find(|(kind, ..)| *kind == LOAD)?.1 & !0xfff;
    let &(_, hdr, hdr_len) = segments.iter().find(|(kind, ..)| *kind == EH_FRAME)?;
    let at = |address: u64| start.wrapping_add(address.wrapping_sub(base));
    // Version 1, and the pointer that follows as a signed distance of 32 bits from its own place, as linkers write it.
    let [version, encoding, _, _, distance @ ..]: [u8; 8] = memory::read(at(hdr)).ok()?;
    if (version, encoding) != (1, 0x1b) {
        return None;
    }
    let frames = (hdr + 4).wrapping_add_signed(i32::from_le_bytes(distance).into());
    let &(_, segment, len) =
        segments.iter().find(|(kind, from, len)| *kind == LOAD && (*from..from + len).contains(&frames))?;
    let frames_len = segment + len - frames;
    let copied = |address: u64, len: u64| {
        let begin = at(address);
        let is_inside = memory.contains(&begin) && begin.checked_add(len)? <= memory.end && len <= MOST_TABLE;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len as usize).ok().filter(|()| is_inside)?;
        bytes.resize(len as usize, 0);
        Native.read(begin, &mut bytes).ok()?;
        Some(Arc::<[u8]>::from(bytes))
    };
    Some(ExplicitModuleSectionInfo {
        base_svma: base,
        eh_frame_svma: Some(frames..frames + frames_len),
        eh_frame: Some(copied(frames, frames_len)?),
        eh_frame_hdr_svma: Some(hdr..hdr + hdr_len),
        eh_frame_hdr: Some(copied(hdr, hdr_len)?),
        ..Default::default()
    })
}

/// A number whose lowest byte is the first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
