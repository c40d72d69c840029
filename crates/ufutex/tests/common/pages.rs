//! The pages of an arena. On Linux they are mappings, for system calls on them. On other hosts they lie on the heap,
//! and only the arena respects their rights.

#[cfg(not(target_os = "linux"))]
pub use heap::{Pages, host_address};
#[cfg(target_os = "linux")]
pub use mapped::{Pages, host_address};

#[cfg(target_os = "linux")]
mod mapped {
    use super::super::arena::{PAGE, Page, Rights};

    /// Pages at consecutive addresses.
    pub struct Pages {
        /// The address of the first page.
        pub base: u64,
        length: usize,
    }

    impl Pages {
        pub fn new(pages: &[Page]) -> Self {
            Self::mapped(pages, 0)
        }

        /// Below 2 GiB on x86-64, where a 32-bit program's calls can be made. Elsewhere at any address.
        pub fn low(pages: &[Page]) -> Self {
            #[cfg(target_arch = "x86_64")]
            let flags = libc::MAP_32BIT;
            #[cfg(not(target_arch = "x86_64"))]
            let flags = 0;
            Self::mapped(pages, flags)
        }

        fn mapped(pages: &[Page], flags: libc::c_int) -> Self {
            let length = pages.len() * PAGE as usize;
            let (access, anonymous) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a fresh mapping at an address of the kernel's choice.
            let base = unsafe { libc::mmap(std::ptr::null_mut(), length, access, anonymous | flags, -1, 0) };
            assert_ne!(base, libc::MAP_FAILED, "mmap of {length} bytes: {}", std::io::Error::last_os_error());
            let base = base.expose_provenance() as u64;
            map_object(base, pages);
            Self { base, length }
        }

        /// The host's address of the byte at `offset`.
        pub fn host_address(&self, offset: u64) -> usize {
            (self.base + offset) as usize
        }

        pub fn protect(&self, page: u64, rights: Rights) {
            let access = match rights {
                Rights::Nothing => libc::PROT_NONE,
                Rights::Read => libc::PROT_READ,
                Rights::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
            };
            let address = std::ptr::with_exposed_provenance_mut((self.base + page * PAGE) as usize);
            // SAFETY: a page of our own mapping. All accesses are atomic and check the rights first.
            let result = unsafe { libc::mprotect(address, PAGE as usize, access) };
            assert_eq!(result, 0, "mprotect: {}", std::io::Error::last_os_error());
        }
    }

    /// Where the memory is that an arena shows at `address`.
    pub fn host_address(address: u64) -> usize {
        address as usize
    }

    /// Maps the pages of a new object over those of the anonymous mapping at `base`.
    fn map_object(base: u64, pages: &[Page]) {
        let number = |page: &Page| if let Page::Object(number) = page { Some(*number) } else { None };
        let Some(last) = pages.iter().filter_map(number).max() else { return };
        // SAFETY: the name is a C string. The file is ours, and its mappings keep it alive. They replace pages of our
        // own mapping that are not in use yet.
        unsafe {
            let file = libc::memfd_create(c"arena".as_ptr(), libc::MFD_CLOEXEC);
            assert!(file >= 0, "memfd_create: {}", std::io::Error::last_os_error());
            assert_eq!(libc::ftruncate(file, ((last + 1) * PAGE) as libc::off_t), 0);
            for (at, number) in pages.iter().enumerate().filter_map(|(at, page)| Some((at as u64, number(page)?))) {
                let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
                let address = std::ptr::with_exposed_provenance_mut((base + at * PAGE) as usize);
                let mapped = libc::mmap(address, PAGE as usize, access, flags, file, (number * PAGE) as libc::off_t);
                assert_ne!(mapped, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
            }
            libc::close(file);
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            let address = std::ptr::with_exposed_provenance_mut(self.base as usize);
            // SAFETY: our own mapping, which nothing borrows from any more.
            unsafe { libc::munmap(address, self.length) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod heap {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use super::super::arena::{PAGE, Page, Rights};

    /// The contents of a page.
    #[repr(align(4096))]
    struct Contents([AtomicU64; PAGE as usize / 8]);

    /// Pages at consecutive addresses, which are numbers only. Twins are two pages that show one page's contents.
    pub struct Pages {
        /// The address of the first page.
        pub base: u64,
        /// For each page the address of its contents.
        shown: Arc<[usize]>,
        _contents: Box<[Contents]>,
    }

    /// The next address that has not been given to an arena, among those of a kind.
    static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
    static NEXT_LOW: AtomicU64 = AtomicU64::new(1 << 20);

    /// What the pages of each arena show, by the address of its first page.
    static SHOWN: Mutex<BTreeMap<u64, Arc<[usize]>>> = Mutex::new(BTreeMap::new());

    /// Where the memory is that an arena shows at `address`.
    pub fn host_address(address: u64) -> usize {
        let all = SHOWN.lock().expect("not poisoned");
        let (base, shown) = all.range(..=address).next_back().expect("the address is an arena's");
        at(shown, address - base)
    }

    fn at(shown: &[usize], offset: u64) -> usize {
        shown[(offset / PAGE) as usize] + (offset % PAGE) as usize
    }

    impl Pages {
        pub fn new(pages: &[Page]) -> Self {
            Self::behind(&NEXT, pages)
        }

        /// Below 2 GiB.
        pub fn low(pages: &[Page]) -> Self {
            Self::behind(&NEXT_LOW, pages)
        }

        fn behind(next: &AtomicU64, pages: &[Page]) -> Self {
            // A page that belongs to nothing lies behind each arena.
            let base = next.fetch_add((pages.len() as u64 + 1) * PAGE, Ordering::Relaxed);
            // The contents of anonymous pages come first, by the page's number, and those of the object behind them.
            let number = |(at, page): (usize, &Page)| match page {
                Page::Anonymous => at,
                Page::Object(number) => pages.len() + *number as usize,
            };
            let numbers: Vec<usize> = pages.iter().enumerate().map(number).collect();
            let count = numbers.iter().max().map_or(0, |last| last + 1);
            let empty = || Contents([const { AtomicU64::new(0) }; PAGE as usize / 8]);
            let contents: Box<[Contents]> = (0..count).map(|_| empty()).collect();
            let shown: Arc<[usize]> =
                numbers.iter().map(|&number| (&raw const contents[number]).expose_provenance()).collect();
            SHOWN.lock().expect("not poisoned").insert(base, shown.clone());
            Self { base, shown, _contents: contents }
        }

        /// The host's address of the byte at `offset`.
        pub fn host_address(&self, offset: u64) -> usize {
            at(&self.shown, offset)
        }

        /// The arena checks the rights at each access.
        pub fn protect(&self, _page: u64, _rights: Rights) {}
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            SHOWN.lock().expect("not poisoned").remove(&self.base);
        }
    }
}
