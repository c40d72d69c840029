//! The pages themselves: one memory for the kernel and for the engine, at the same addresses.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use ufutex::{Access, Fault, ObjectId, Scope, UserMemory, Width};

use crate::layout::{ALL_PAGES, Kind, Layout, PAGE, PAGES, TIME_OFFSET, VECTOR_OFFSET, WORDS};
use crate::program::Rights;
use crate::resolve::{Raw, Robust};

pub struct Memory {
    pub layout: Layout,
    rights: [AtomicU8; ALL_PAGES],
}

fn flags(rights: Rights) -> i32 {
    match rights {
        Rights::Nothing => libc::PROT_NONE,
        Rights::Read => libc::PROT_READ,
        Rights::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
    }
}

fn pointer<T>(address: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

impl Memory {
    pub fn new() -> Self {
        let length = ALL_PAGES * PAGE as usize;
        let (access, anonymous) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), length, access, anonymous, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED, "mmap of {length} bytes: {}", std::io::Error::last_os_error());
        let layout = Layout { base: base.expose_provenance() as u64 };
        map_object(layout);
        let this = Self { layout, rights: [const { AtomicU8::new(Rights::ReadWrite as u8) }; ALL_PAGES] };
        for (page, (_, rights)) in PAGES.iter().enumerate() {
            this.protect(page, *rights);
        }
        this
    }

    fn rights(&self, page: usize) -> u8 {
        self.rights[page].load(Ordering::Relaxed)
    }

    pub fn protect(&self, page: usize, rights: Rights) {
        if self.rights(page) == rights as u8 {
            return;
        }
        self.rights[page].store(rights as u8, Ordering::Relaxed);
        // SAFETY: a page of our own mapping, which is reached by atomics alone, after a look at its rights.
        let result = unsafe { libc::mprotect(pointer(self.layout.page(page)), PAGE as usize, flags(rights)) };
        assert_eq!(result, 0, "mprotect: {}", std::io::Error::last_os_error());
    }

    /// All words zero, all pages as they were at first.
    pub fn reset(&self) {
        for (page, (_, rights)) in PAGES.iter().enumerate() {
            self.protect(page, *rights);
        }
        for word in 0..WORDS.len() {
            self.store(word, 0);
        }
    }

    /// The value of a word, if it may be read.
    pub fn value(&self, word: usize) -> Option<u32> {
        let readable = self.rights(WORDS[word].0) >= Rights::Read as u8;
        readable.then(|| self.atomic(self.layout.word(word)).load(Ordering::SeqCst))
    }

    /// Writes a word, if it may be written.
    pub fn store(&self, word: usize, value: u32) {
        if self.rights(WORDS[word].0) == Rights::ReadWrite as u8 {
            self.atomic(self.layout.word(word)).store(value, Ordering::SeqCst);
        }
    }

    /// Puts what the arguments of a worker's call point to into its page.
    pub fn prepare(&self, worker: usize, raw: &Raw) {
        let words = |offset: u64, words: &[u64]| self.put(self.layout.scratch(worker) + offset, words);
        if let Some(time) = raw.time {
            words(TIME_OFFSET, &time.map(i64::cast_unsigned));
        }
        words(VECTOR_OFFSET, raw.vector.as_flattened());
        if !raw.vector.is_empty() && raw.vector.len() < 100 {
            // A call may take it for longer than it is, and must not find what an earlier call has left.
            words(VECTOR_OFFSET + 24 * raw.vector.len() as u64, &[0; 24]);
        }
    }

    /// Puts a robust list where it belongs.
    pub fn prepare_robust(&self, robust: &Robust) {
        self.put(robust.head, &robust.members);
        for [at, next] in &robust.links {
            self.put(*at, &[*next]);
        }
    }

    /// Writes to pages that are always writable.
    fn put(&self, address: u64, words: &[u64]) {
        for (i, word) in words.iter().enumerate() {
            // SAFETY: callers stay within the workers' pages, long enough for a vector of 129, and those of the lists.
            let at: &AtomicU64 = unsafe { &*pointer(address + 8 * i as u64) };
            at.store(*word, Ordering::Relaxed);
        }
    }

    fn atomic(&self, address: u64) -> &AtomicU32 {
        // SAFETY: callers have looked whether there is a page that can be read; word addresses are aligned.
        unsafe { &*pointer(address) }
    }

    /// The page of the word at `address`, if it may be used so.
    fn checked(&self, address: u64, width: Width, least: Rights) -> Result<usize, Fault> {
        let (page, _) = self.layout.find(address).ok_or(Fault)?;
        // A misaligned word is in pieces; only `read` may meet one, and it reads bytes.
        let allowed = self.rights(page) >= least as u8 && address.is_multiple_of(width.bytes());
        if allowed { Ok(page) } else { Err(Fault) }
    }
}

/// Maps the pages of the object over those of the anonymous mapping.
fn map_object(layout: Layout) {
    // SAFETY: the name is a C string; the descriptor is our own and closed below.
    unsafe {
        let object = libc::memfd_create(c"differential".as_ptr(), libc::MFD_CLOEXEC);
        assert!(object >= 0, "memfd_create: {}", std::io::Error::last_os_error());
        assert_eq!(libc::ftruncate(object, PAGES.len() as i64 * PAGE as i64), 0);
        for (page, (kind, _)) in PAGES.iter().enumerate() {
            if let Kind::Object(number) = kind {
                let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
                let at = pointer(layout.page(page));
                let mapped = libc::mmap(at, PAGE as usize, access, flags, object, (number * PAGE) as i64);
                assert_ne!(mapped, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
            }
        }
        libc::close(object);
    }
}

impl UserMemory for Memory {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        self.checked(address, width, Rights::Read)?;
        Ok(match width {
            // SAFETY: `checked` has found the page and its rights.
            Width::U8 => unsafe { AtomicU8::from_ptr(pointer(address)) }.load(Ordering::SeqCst).into(),
            Width::U32 => self.atomic(address).load(Ordering::SeqCst).into(),
            Width::U16 | Width::U64 => unreachable!("Linux has words of 32 bits alone"),
        })
    }

    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        self.checked(address, width, Rights::ReadWrite)?;
        assert_eq!(width, Width::U32, "Linux has words of 32 bits alone");
        let word = self.atomic(address);
        let result = word.compare_exchange(current as u32, new as u32, Ordering::SeqCst, Ordering::SeqCst);
        Ok(result.map(u64::from).map_err(u64::from))
    }

    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault> {
        let least = if access == Access::Read { Rights::Read } else { Rights::ReadWrite };
        self.checked(address, Width::U8, least).map(|_| ())
    }

    fn scope(&self, address: u64, access: Access) -> Result<Scope, Fault> {
        let (page, offset) = self.layout.find(address).ok_or(Fault)?;
        let kind = PAGES.get(page).map_or(Kind::Anonymous, |(kind, _)| *kind);
        // Anonymous memory must be writable for the kernel to find its page at all.
        let least = if access == Access::Read && kind != Kind::Anonymous { Rights::Read } else { Rights::ReadWrite };
        self.checked(address, Width::U8, least)?;
        Ok(match kind {
            Kind::Object(number) => {
                let id = ObjectId::new(1).expect("a small number");
                Scope::Object { id, offset: number * PAGE + offset }
            }
            Kind::Anonymous => Scope::AddressSpace,
        })
    }
}
