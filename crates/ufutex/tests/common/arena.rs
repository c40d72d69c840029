//! Memory that the kernel and the engine both take for a guest's: pages of this process, at their own addresses, with
//! access rights that both respect.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use ufutex::{Access, Fault, ObjectId, Scope, UserMemory, Width};

/// The size of a page here.
pub const PAGE: u64 = 4096;

/// What may be done with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Rights {
    /// Nothing: every access faults.
    None,
    Read,
    ReadWrite,
}

/// Pages that are mapped together. Their addresses mean the same to futex(2) and to the engine.
pub struct Arena {
    base: u64,
    rights: Box<[AtomicU8]>,
    /// Mapped as shared memory, so that its words have the scope of an object.
    object: Option<ObjectId>,
    /// How many pages at the end are an object mapped twice, one mapping behind the other.
    twin_pages: u64,
}

impl Arena {
    /// Anonymous private pages, readable and writable, all zero.
    pub fn new(pages: usize) -> Self {
        Self::map(pages, libc::MAP_PRIVATE, None)
    }

    /// Anonymous shared pages, as `MAP_SHARED` gives them: the object `id`.
    pub fn shared(pages: usize, id: u64) -> Self {
        Self::map(pages, libc::MAP_SHARED, ObjectId::new(id))
    }

    /// Anonymous private pages, and behind them twice the object `id` of `twin_pages` pages.
    pub fn with_twins(pages: usize, twin_pages: usize, id: u64) -> Self {
        let mut arena = Self::map(pages + 2 * twin_pages, libc::MAP_PRIVATE, ObjectId::new(id));
        let length = twin_pages * PAGE as usize;
        // SAFETY: the name is a C string; a new file of our own, of that length.
        let file = unsafe { libc::memfd_create(c"twins".as_ptr(), 0) };
        assert!(file >= 0, "memfd_create: {}", std::io::Error::last_os_error());
        // SAFETY: as above.
        assert_eq!(unsafe { libc::ftruncate(file, length as libc::off_t) }, 0);
        for twin in 0..2 {
            let address = arena.base as usize + pages * PAGE as usize + twin * length;
            let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
            // SAFETY: it replaces pages of our own mapping, of which nobody knows yet.
            let at =
                unsafe { libc::mmap(std::ptr::with_exposed_provenance_mut(address), length, access, flags, file, 0) };
            assert_eq!(at.addr(), address, "mmap: {}", std::io::Error::last_os_error());
        }
        // SAFETY: our own file, which the mappings keep alive.
        unsafe { libc::close(file) };
        arena.twin_pages = twin_pages as u64;
        arena
    }

    fn map(pages: usize, flags: i32, object: Option<ObjectId>) -> Self {
        let length = pages * PAGE as usize;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED, "mmap of {length} bytes: {}", std::io::Error::last_os_error());
        let rights = (0..pages).map(|_| AtomicU8::new(Rights::ReadWrite as u8)).collect();
        Self { base: base.expose_provenance() as u64, rights, object, twin_pages: 0 }
    }

    /// The address of the byte at `offset`.
    pub fn at(&self, offset: u64) -> u64 {
        assert!(offset < self.rights.len() as u64 * PAGE, "offset {offset} is outside of the arena");
        self.base + offset
    }

    /// Changes what may be done with the page at `offset`.
    pub fn protect(&self, offset: u64, rights: Rights) {
        let page = offset / PAGE;
        let access = match rights {
            Rights::None => libc::PROT_NONE,
            Rights::Read => libc::PROT_READ,
            Rights::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        };
        self.rights[page as usize].store(rights as u8, Ordering::SeqCst);
        let address = std::ptr::with_exposed_provenance_mut((self.base + page * PAGE) as usize);
        // SAFETY: a page of our own mapping, which is reached by atomics alone, after a look at its rights.
        let result = unsafe { libc::mprotect(address, PAGE as usize, access) };
        assert_eq!(result, 0, "mprotect: {}", std::io::Error::last_os_error());
    }

    /// The 32-bit word at `offset`, which must be readable and writable when it is used.
    pub fn word(&self, offset: u64) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "offset {offset} is no word's");
        // SAFETY: within the mapping, which lives as long as the arena; aligned.
        unsafe { &*std::ptr::with_exposed_provenance(self.at(offset) as usize) }
    }

    /// Copies `bytes` to `offset`.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            let address = self.at(offset + i as u64);
            // SAFETY: within the mapping.
            let at: &AtomicU8 = unsafe { &*std::ptr::with_exposed_provenance(address as usize) };
            at.store(*byte, Ordering::SeqCst);
        }
    }

    /// Which object the byte at `address` belongs to, and where in it the byte lies.
    fn object_at(&self, address: u64) -> Option<(ObjectId, u64)> {
        let (id, offset) = (self.object?, address.checked_sub(self.base)?);
        if self.twin_pages == 0 {
            return Some((id, offset));
        }
        let twins = (self.rights.len() as u64 - 2 * self.twin_pages) * PAGE;
        Some((id, offset.checked_sub(twins)? % (self.twin_pages * PAGE)))
    }

    fn checked(&self, address: u64, width: Width, least: Rights) -> Result<usize, Fault> {
        let offset = address.checked_sub(self.base).ok_or(Fault)?;
        let last = offset.checked_add(width.bytes() - 1).ok_or(Fault)?;
        for page in [offset / PAGE, last / PAGE] {
            let rights = self.rights.get(page as usize).ok_or(Fault)?.load(Ordering::SeqCst);
            if rights < least as u8 {
                return Err(Fault);
            }
        }
        if address.is_multiple_of(width.bytes()) { Ok(address as usize) } else { Err(Fault) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let address = std::ptr::with_exposed_provenance_mut(self.base as usize);
        // SAFETY: our own mapping, and nobody borrows from it any more.
        unsafe { libc::munmap(address, self.rights.len() * PAGE as usize) };
    }
}

macro_rules! by_width {
    ($width:expr, $address:expr, $atomic:ident => $body:expr) => {
        // SAFETY: `checked` said that the word is there and aligned.
        unsafe {
            match $width {
                Width::U8 => {
                    let $atomic: &AtomicU8 = &*std::ptr::with_exposed_provenance($address);
                    $body
                }
                Width::U16 => {
                    let $atomic: &AtomicU16 = &*std::ptr::with_exposed_provenance($address);
                    $body
                }
                Width::U32 => {
                    let $atomic: &AtomicU32 = &*std::ptr::with_exposed_provenance($address);
                    $body
                }
                Width::U64 => {
                    let $atomic: &AtomicU64 = &*std::ptr::with_exposed_provenance($address);
                    $body
                }
            }
        }
    };
}

impl UserMemory for Arena {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        let address = self.checked(address, width, Rights::Read)?;
        #[allow(clippy::useless_conversion, reason = "for the widest")]
        let value = by_width!(width, address, word => word.load(Ordering::SeqCst).into());
        Ok(value)
    }

    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let address = self.checked(address, width, Rights::ReadWrite)?;
        #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "for the widest")]
        let result = by_width!(width, address, word => {
            let (current, new) = (current as _, new as _);
            let result = word.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst);
            result.map(|v| v as u64).map_err(|v| v as u64)
        });
        Ok(result)
    }

    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault> {
        let least = if access == Access::Read { Rights::Read } else { Rights::ReadWrite };
        self.checked(address, Width::U8, least).map(|_| ())
    }

    fn scope(&self, address: u64, access: Access) -> Result<Scope, Fault> {
        let object = self.object_at(address);
        // Anonymous private memory must be writable for the kernel to find its page at all.
        let least = if access == Access::Read && object.is_some() { Rights::Read } else { Rights::ReadWrite };
        self.checked(address, Width::U8, least)?;
        Ok(object.map_or(Scope::AddressSpace, |(id, offset)| Scope::Object { id, offset }))
    }
}
