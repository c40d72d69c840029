//! A guest's memory for tests that make the same calls of the kernel and of the engine: pages of this process, at their
//! own addresses, with access rights that both respect. Where there is no such kernel, `pages.rs` does without
//! mappings.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::pages::Pages;
use ufutex::{Access, Fault, ObjectId, Scope, UserMemory, Width};

/// The size of a page here.
pub const PAGE: u64 = 4096;

/// Access rights of a page, in increasing order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
#[repr(u8)]
pub enum Rights {
    /// Every access faults.
    Nothing,
    Read,
    ReadWrite,
}

/// The memory behind a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// Anonymous, private to this process.
    Anonymous,
    /// The page of the arena's shared object with this number.
    Object(u64),
}

/// The memory policy of an address, as `UserMemory::policy_node` returns it.
pub type Policy = Box<dyn Fn(u64) -> Option<u32> + Send + Sync>;

/// Pages that are mapped together. On Linux futex(2) and the engine use the same addresses for them.
pub struct Arena {
    memory: Pages,
    pages: Box<[Page]>,
    rights: Box<[AtomicU8]>,
    /// The shared object.
    object: Option<ObjectId>,
    policy: Policy,
}

impl Arena {
    /// Anonymous private pages, readable and writable, all zero.
    pub fn new(pages: usize) -> Self {
        Self::of(&vec![Page::Anonymous; pages], 0)
    }

    /// `pages` pages of the object `id`, mapped once.
    pub fn shared(pages: usize, id: u64) -> Self {
        Self::of(&object(pages), id)
    }

    /// Anonymous private pages. Behind them the object `id` of `twin_pages` pages is mapped twice.
    pub fn with_twins(pages: usize, twin_pages: usize, id: u64) -> Self {
        Self::of(&[vec![Page::Anonymous; pages], object(twin_pages), object(twin_pages)].concat(), id)
    }

    /// As [`new`](Self::new), on x86-64 at addresses below 2 GiB, which a 32-bit program can name.
    pub fn low(pages: usize) -> Self {
        let pages = vec![Page::Anonymous; pages];
        Self::on(Pages::low(&pages), &pages, 0)
    }

    /// The given pages, readable and writable, all zero. `id` is the identity of the object.
    pub fn of(pages: &[Page], id: u64) -> Self {
        Self::on(Pages::new(pages), pages, id)
    }

    fn on(memory: Pages, pages: &[Page], id: u64) -> Self {
        let rights = pages.iter().map(|_| AtomicU8::new(Rights::ReadWrite as u8)).collect();
        Self { memory, pages: pages.into(), rights, object: ObjectId::new(id), policy: Box::new(|_| None) }
    }

    /// Sets the function that answers [`UserMemory::policy_node`].
    pub fn with_policy(mut self, policy: impl Fn(u64) -> Option<u32> + Send + Sync + 'static) -> Self {
        self.policy = Box::new(policy);
        self
    }

    /// The address of the byte at `offset`.
    pub fn at(&self, offset: u64) -> u64 {
        assert!(offset < self.rights.len() as u64 * PAGE, "offset {offset} is outside of the arena");
        self.memory.base + offset
    }

    /// The memory of the byte at `offset`.
    fn memory<T>(&self, offset: u64) -> *const T {
        std::ptr::with_exposed_provenance(self.memory.host_address(self.at(offset) - self.memory.base))
    }

    /// Changes the access rights of the page at `offset`, as mprotect(2) does.
    pub fn protect(&self, offset: u64, rights: Rights) {
        let page = offset / PAGE;
        if self.rights[page as usize].swap(rights as u8, Ordering::SeqCst) != rights as u8 {
            self.memory.protect(page, rights);
        }
    }

    /// The 32-bit word at `offset`, which must be readable and writable when it is used.
    pub fn word(&self, offset: u64) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "offset {offset} is no word's");
        // SAFETY: within the memory, which lives as long as the arena; aligned.
        unsafe { &*self.memory(offset) }
    }

    /// Copies `bytes` to `offset`.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            // SAFETY: within the memory.
            let at: &AtomicU8 = unsafe { &*self.memory(offset + i as u64) };
            at.store(*byte, Ordering::SeqCst);
        }
    }

    fn rights(&self, page: u64) -> Option<u8> {
        Some(self.rights.get(page as usize)?.load(Ordering::SeqCst))
    }

    /// Whether the page at `offset` has at least the rights `least`.
    pub fn allows(&self, offset: u64, least: Rights) -> bool {
        self.rights(offset / PAGE).is_some_and(|rights| rights >= least as u8)
    }

    /// The host address of a word whose page has at least the rights `least`.
    fn checked(&self, address: u64, width: Width, least: Rights) -> Result<usize, Fault> {
        let offset = address.checked_sub(self.memory.base).ok_or(Fault)?;
        let last = offset.checked_add(width.bytes() - 1).ok_or(Fault)?;
        for page in [offset / PAGE, last / PAGE] {
            if self.rights(page).ok_or(Fault)? < least as u8 {
                return Err(Fault);
            }
        }
        if address.is_multiple_of(width.bytes()) { Ok(self.memory.host_address(offset)) } else { Err(Fault) }
    }
}

/// The pages `0..pages` of an object.
fn object(pages: usize) -> Vec<Page> {
    (0..pages as u64).map(Page::Object).collect()
}

macro_rules! by_width {
    ($width:expr, $address:expr, $atomic:ident => $body:expr) => {
        // SAFETY: `checked` has found the word mapped and aligned.
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
        let offset = address.checked_sub(self.memory.base).ok_or(Fault)?;
        let page = self.pages.get((offset / PAGE) as usize).ok_or(Fault)?;
        let shared = match (page, self.object) {
            (Page::Object(number), Some(id)) => Some(Scope::Object { id, offset: number * PAGE + offset % PAGE }),
            _ => None,
        };
        // To find the page of a word in anonymous private memory, the kernel faults it in for writing.
        let least = if access == Access::Read && shared.is_some() { Rights::Read } else { Rights::ReadWrite };
        self.checked(address, Width::U8, least)?;
        Ok(shared.unwrap_or(Scope::AddressSpace))
    }

    fn policy_node(&self, address: u64) -> Option<u32> {
        (self.policy)(address)
    }
}
