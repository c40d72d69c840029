//! The embedder's memory, clock and threads, as the engine uses them.

use core::time::Duration;
use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire},
};

use engine::{Access, Clock, Fault, ObjectId, Scope, Timeout, UserMemory, Width};

use crate::abi;
use crate::errno::Errno;
use crate::types::{
    UFUTEX_MONOTONIC, UFUTEX_READ, UFUTEX_REALTIME, UFUTEX_SCOPE_ADDRESS_SPACE, UFUTEX_SCOPE_OBJECT, UFUTEX_WRITE,
    ufutex_clock, ufutex_memory, ufutex_parker,
};

/// No program has addresses below this one.
const FIRST_PAGE: u64 = 4096;
/// The last page in the lower half of x86-64's address space, which no program can map.
const LAST_PAGE: u64 = (1 << 47) - 4096;
/// The last page at which a program of the host can have memory. On aarch64 with 48-bit addresses the stack and
/// libraries are above 2^47. On x86-64 a program may ask mmap(2) for addresses above 2^47 on some machines; words there
/// are refused.
const LAST_OWN_PAGE: u64 = if cfg!(target_arch = "x86_64") {
    LAST_PAGE
} else if cfg!(target_arch = "aarch64") {
    (1 << 52) - 4096
} else {
    (1 << 56) - 4096
};
/// Bits that the processor ignores in an address: Armv8's top byte, which may hold a tag. Only the check below ignores
/// them. Addresses with different tags are different words.
const TAG: u64 = if cfg!(target_arch = "aarch64") { 0xff << 56 } else { 0 };

/// Whether the program may have memory of its own at `address`.
#[inline(always)]
fn may_be_own(address: u64) -> bool {
    (FIRST_PAGE..=LAST_OWN_PAGE).contains(&(address & !TAG))
}

/// The memory of a domain's words. `None` means the program's own memory.
#[derive(Clone, Copy)]
pub(crate) struct Memory(Option<ufutex_memory>);

// SAFETY: the program promises that any thread may call its functions.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Reads a program's struct. A null pointer means the program's own memory.
    ///
    /// # Safety
    /// As for [`abi::read`]. The functions do what `ufutex.h` requires, and are valid as long as the result is used.
    /// Addresses in the program's own memory are valid whenever an operation reads or writes them.
    pub unsafe fn read(from: *const ufutex_memory) -> Result<Self, Errno> {
        // SAFETY: the caller guarantees it.
        let Some(memory) = (unsafe { abi::read(from)? }) else { return Ok(Self(None)) };
        let given = [memory.load.is_some(), memory.compare_exchange.is_some(), memory.fault_in.is_some()];
        let is_own = given == [false; 3];
        if !is_own && given != [true; 3] { Err(Errno::INVALID) } else { Ok(Self(Some(memory))) }
    }

    /// The program's own memory.
    pub const OWN: Self = Self(None);

    /// Whether it is the program's own memory, without any function of the embedder.
    #[inline]
    pub fn is_native(&self) -> bool {
        self.0.is_none()
    }

    /// Whether there can be a word at `address`.
    #[inline]
    pub fn may_have(&self, address: u64, bytes: u64) -> bool {
        if self.is_native() { may_be_own(address) } else { self.access_ok(address, bytes) }
    }
}

/// The word at an address of the program's own memory.
macro_rules! own_word {
    ($address:expr, $width:expr, |$word:ident: $value:ident| $body:expr) => {{
        let address: u64 = $address;
        if address < FIRST_PAGE {
            return Err(Fault);
        }
        let pointer = core::ptr::with_exposed_provenance_mut::<()>(address as usize);
        // SAFETY: aligned, as `Word::new` has checked, or one byte wide; valid, as the program has promised.
        unsafe {
            match $width {
                Width::U8 => own_word!(@one pointer, AtomicU8, u8, |$word: $value| $body),
                Width::U16 => own_word!(@one pointer, AtomicU16, u16, |$word: $value| $body),
                Width::U32 => own_word!(@one pointer, AtomicU32, u32, |$word: $value| $body),
                Width::U64 => own_word!(@one pointer, AtomicU64, u64, |$word: $value| $body),
            }
        }
    }};
    (@one $pointer:ident, $atomic:ident, $type:ident, |$word:ident: $value:ident| $body:expr) => {{
        type $value = $type;
        let $word = $atomic::from_ptr($pointer.cast());
        $body
    }};
}

#[expect(clippy::useless_conversion, reason = "one of the four widths is 64 bits itself")]
#[inline(always)]
fn own_load(address: u64, width: Width) -> Result<u64, Fault> {
    // [Cm]: what the engine requires of `UserMemory::load`.
    own_word!(address, width, |word: Value| Ok(u64::from(word.load(Acquire) as Value)))
}

#[expect(clippy::useless_conversion, reason = "one of the four widths is 64 bits itself")]
fn own_compare_exchange(address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
    own_word!(address, width, |word: Value| {
        let result = word.compare_exchange(current as Value, new as Value, AcqRel, Acquire); // [Cm]
        Ok(result.map(u64::from).map_err(u64::from))
    })
}

/// The program's own memory, for calls that know it to be that: [`Memory`] would ask each time.
pub(crate) struct OwnMemory;

impl UserMemory for OwnMemory {
    #[inline(always)]
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        own_load(address, width)
    }
    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        own_compare_exchange(address, width, current, new)
    }
    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault> {
        Memory::OWN.fault_in(address, access)
    }
    /// Without the first page, where an access fails.
    #[inline(always)]
    fn access_ok(&self, address: u64, _bytes: u64) -> bool {
        may_be_own(address)
    }
}

fn access_number(access: Access) -> u32 {
    match access {
        Access::Read => UFUTEX_READ,
        Access::Write => UFUTEX_WRITE,
    }
}

// Each call below passes to a function of the program the arguments of its type, with the context that was given with
// it.
impl UserMemory for Memory {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        let Some(ufutex_memory { context, load: Some(load), .. }) = self.0 else { return own_load(address, width) };
        let mut value = 0;
        // SAFETY: see above.
        let result = unsafe { load(context, address, width.bytes() as u32, &mut value) };
        if result == 0 { Ok(value & width.max()) } else { Err(Fault) }
    }

    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let Some(ufutex_memory { context, compare_exchange: Some(exchange), .. }) = self.0 else {
            return own_compare_exchange(address, width, current, new);
        };
        let mut held = current;
        // SAFETY: see above.
        match unsafe { exchange(context, address, width.bytes() as u32, &mut held, new) } {
            0 => Ok(Ok(current)),
            1 => Ok(Err(held & width.max())),
            _ => Err(Fault),
        }
    }

    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault> {
        // The program's own memory need not be faulted in: an address that is invalid stays invalid.
        let Some(ufutex_memory { context, fault_in: Some(fault_in), .. }) = self.0 else { return Err(Fault) };
        // SAFETY: see above.
        if unsafe { fault_in(context, address, access_number(access)) } == 0 { Ok(()) } else { Err(Fault) }
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        if let Some(ufutex_memory { context, read: Some(read), .. }) = self.0 {
            // SAFETY: see above.
            let result = unsafe { read(context, address, into.as_mut_ptr().cast(), into.len()) };
            return if result == 0 { Ok(()) } else { Err(Fault) };
        }
        for (i, byte) in into.iter_mut().enumerate() {
            let at = address.checked_add(i as u64).ok_or(Fault)?;
            *byte = match self.load(at, Width::U8) {
                Ok(value) => value as u8,
                Err(Fault) => self.load_faulting(at)?,
            };
        }
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let Some(ufutex_memory { context, write: Some(write), .. }) = self.0 else {
            return self.write_by_words(address, from);
        };
        // SAFETY: see above.
        if unsafe { write(context, address, from.as_ptr().cast(), from.len()) } == 0 { Ok(()) } else { Err(Fault) }
    }

    fn policy_node(&self, address: u64) -> Option<u32> {
        let ufutex_memory { context, policy_node: Some(policy_node), .. } = self.0? else { return None };
        // SAFETY: see above.
        u32::try_from(unsafe { policy_node(context, address) }).ok()
    }

    fn access_ok(&self, address: u64, bytes: u64) -> bool {
        match self.0 {
            // SAFETY: see above.
            Some(ufutex_memory { context, access_ok: Some(ok), .. }) => unsafe { ok(context, address, bytes) != 0 },
            Some(ufutex_memory { load: Some(_), .. }) => address <= LAST_PAGE,
            // Addresses in the first page pass, as in the kernel. An access there fails.
            _ => address < FIRST_PAGE || may_be_own(address),
        }
    }

    fn scope(&self, address: u64, access: Access) -> Result<Scope, Fault> {
        let Some(ufutex_memory { context, scope: Some(scope), .. }) = self.0 else { return Ok(Scope::AddressSpace) };
        let (mut object, mut offset) = (0, 0);
        // SAFETY: see above.
        let result = unsafe { scope(context, address, access_number(access), &mut object, &mut offset) };
        match u32::try_from(result) {
            Ok(UFUTEX_SCOPE_ADDRESS_SPACE) => Ok(Scope::AddressSpace),
            Ok(UFUTEX_SCOPE_OBJECT) => Ok(Scope::Object { id: ObjectId::new(object).ok_or(Fault)?, offset }),
            _ => Err(Fault),
        }
    }
}

/// The same memory, with the engine's own way to write.
struct ByWords<'m>(&'m Memory);

impl UserMemory for ByWords<'_> {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        self.0.load(address, width)
    }
    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        self.0.compare_exchange(address, width, current, new)
    }
    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault> {
        self.0.fault_in(address, access)
    }
}

impl Memory {
    fn write_by_words(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        ByWords(self).write(address, from)
    }

    /// Loads a byte that has faulted: faults it in and retries, as often as the engine would.
    #[cold]
    fn load_faulting(&self, address: u64) -> Result<u8, Fault> {
        for _ in 0..1000 {
            self.fault_in(address, Access::Read)?;
            if let Ok(value) = self.load(address, Width::U8) {
                return Ok(value as u8);
            }
        }
        Err(Fault)
    }
}

/// The embedder's clock. `None` means the host's.
#[derive(Clone, Copy)]
pub(crate) struct Time(Option<ufutex_clock>);

/// A point in time, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Deadline {
    pub clock: Clock,
    pub ns: u64,
}

// SAFETY: the program promises that any thread may call its function.
unsafe impl Send for Time {}
// SAFETY: as above.
unsafe impl Sync for Time {}

impl Time {
    /// Reads a program's struct. A null pointer means the host's clocks.
    ///
    /// # Safety
    /// As for [`abi::read`], and the function does what `ufutex.h` requires.
    pub unsafe fn read(from: *const ufutex_clock) -> Result<Self, Errno> {
        // SAFETY: the caller guarantees it.
        match unsafe { abi::read(from)? } {
            Some(clock) if clock.now.is_none() => Err(Errno::INVALID),
            clock => Ok(Self(clock)),
        }
    }

    /// Whether it is the host's clocks.
    pub fn is_native(&self) -> bool {
        self.0.is_none()
    }

    /// The time of a clock in nanoseconds.
    pub fn now(&self, clock: Clock) -> u64 {
        if let Some(ufutex_clock { context, now: Some(now), .. }) = self.0 {
            // SAFETY: a function of the program, with the context that was given with it.
            return unsafe { now(context, clock_number(clock)) };
        }
        let id = match clock {
            Clock::Monotonic => libc::CLOCK_MONOTONIC,
            Clock::Realtime => libc::CLOCK_REALTIME,
        };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for the write.
        unsafe { libc::clock_gettime(id, &mut time) };
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
    }

    /// The point in time at which a timeout ends, if it begins now.
    pub fn begin(&self, timeout: Timeout) -> Deadline {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match timeout {
            Timeout::After(length) => {
                let clock = Clock::Monotonic;
                Deadline { clock, ns: self.now(clock).saturating_add(ns(length)) }
            }
            Timeout::At(clock, time) => Deadline { clock, ns: ns(time) },
        }
    }
}

/// The C number of a clock.
pub(crate) fn clock_number(clock: Clock) -> u32 {
    match clock {
        Clock::Realtime => UFUTEX_REALTIME,
        Clock::Monotonic => UFUTEX_MONOTONIC,
    }
}

/// The functions by which the embedder's threads sleep.
#[derive(Clone, Copy)]
pub(crate) struct Parker {
    pub context: *mut core::ffi::c_void,
    pub current: unsafe extern "C" fn(*mut core::ffi::c_void) -> *mut core::ffi::c_void,
    pub park: unsafe extern "C" fn(*mut core::ffi::c_void, *mut core::ffi::c_void, u32, u64) -> core::ffi::c_int,
    pub unpark: unsafe extern "C" fn(*mut core::ffi::c_void, *mut core::ffi::c_void),
}

// SAFETY: the program promises that any thread may call its functions.
unsafe impl Send for Parker {}
// SAFETY: as above.
unsafe impl Sync for Parker {}

impl Parker {
    /// Reads a program's struct. `None` for a null pointer.
    ///
    /// # Safety
    /// As for [`abi::read`], and the functions do what `ufutex.h` requires.
    pub unsafe fn read(from: *const ufutex_parker) -> Result<Option<Self>, Errno> {
        // SAFETY: the caller guarantees it.
        match unsafe { abi::read(from)? } {
            None => Ok(None),
            Some(ufutex_parker { context, current: Some(current), park: Some(park), unpark: Some(unpark), .. }) => {
                Ok(Some(Self { context, current, park, unpark }))
            }
            Some(_) => Err(Errno::INVALID),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_where_programs_of_this_processor_have_it() {
        let (own, first_foreign) = if cfg!(target_arch = "aarch64") {
            (vec![0xffff_ffff_f000, 0xb400_7fff_ffff_f000, (1 << 52) - 4096], 1 << 52)
        } else if cfg!(target_arch = "x86_64") {
            (vec![0x7fff_ffff_f000], 1 << 47)
        } else {
            (vec![0x7fff_ffff_f000], 1 << 56)
        };
        let here = core::ptr::from_ref(&own).addr() as u64;
        let on_the_heap = own.as_ptr().addr() as u64;
        for address in own.into_iter().chain([FIRST_PAGE, here, on_the_heap]) {
            assert!(Memory::OWN.may_have(address, 4) && Memory::OWN.access_ok(address, 4), "{address:#x}");
        }
        for address in [first_foreign, 0xffff_8000_0000_0000, 0xffff_ffff_ffff_fffc] {
            assert!(!Memory::OWN.may_have(address, 4) && !Memory::OWN.access_ok(address, 4), "{address:#x}");
        }
        // The kernel's calls may name it, and fail when they read it.
        assert!(Memory::OWN.access_ok(0, 4) && !Memory::OWN.may_have(0, 4));
    }
}
