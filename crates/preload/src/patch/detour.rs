//! Without `--trap`: libc's own `syscall` and `sigaction` jump to this library.
//!
//! This library's symbols do not cover every way to these functions. A library that is loaded with RTLD_DEEPBIND, or a
//! program that asks libc's handle (dlsym(3)), calls libc's function at once. So do libc's other functions, such as
//! signal(3) and pthread_cancel(3). Another preloaded library that replaces the same function calls the next one. All
//! these ways end in libc, where the function's first bytes are a jump from now on. With `--trap` there is no need for
//! that: the system calls trap.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::Ordering;
use core::{ptr, slice};

use super::{PAGE, make_writable, protect};
use crate::real::{self, REAL};
use crate::{entry, file, gate, settings};

/// `jmp [rip]`, behind which the target's address stands.
const JUMP: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];
/// The length of the jump with its target's address.
const JUMP_LEN: usize = JUMP.len() + size_of::<u64>();
/// `endbr64`: where an indirect call may arrive. It stays.
const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Writes the jumps, before the program begins. A function of libc stays as it is if its code may not be changed.
pub fn detour_libc() {
    if settings::get().trap {
        return;
    }
    // No other library defines these two. Before glibc 2.34, pthreads are a library with a `sigaction` of its own, and
    // `__libc_sigaction` is no exported name.
    let [libc, pthreads] = [c"gnu_get_libc_version", c"pthread_getconcurrency"].map(Library::with);
    let mask = gate::block_all();
    let detour_in = |library: Option<Library>, name: &CStr, target: u64| {
        library.and_then(|library| library.function(name)).filter(|at| detour(*at, target))
    };
    if detour_in(libc, c"__libc_sigaction", entry::sigaction_of_libc as *const () as u64).is_none() {
        let target = entry::sigaction_of_old_libc as *const () as u64;
        detour_in(libc, c"sigaction", target);
        if pthreads.map(|library| library.base) != libc.map(|library| library.base) {
            detour_in(pthreads, c"sigaction", target);
        }
    }
    if let Some(at) = detour_in(libc, c"syscall", entry::syscall_of_libc as *const () as u64) {
        // No other library is before libc: this library's own `syscall` need not go through the jump.
        let _ = REAL.syscall.compare_exchange(
            ptr::with_exposed_provenance_mut(at as usize),
            real::plain_syscall as *mut c_void,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }
    gate::set_mask(mask);
}

/// Writes a jump. Returns `false` if that is not possible.
///
/// No thread is likely to execute the function: the program has not begun. Constructors of other libraries may have made
/// threads; one that is asleep in it goes on behind the jump. Each function that is
/// passed here is longer than the jump.
fn detour(function: u64, target: u64) -> bool {
    let at = |address: u64| ptr::with_exposed_provenance_mut::<[u8; JUMP_LEN]>(address as usize);
    // SAFETY: the function's first bytes.
    let begins = unsafe { at(function).read() }.starts_with(&LANDING);
    let begin = function + if begins { LANDING.len() as u64 } else { 0 };
    let mut jump = [0; JUMP_LEN];
    jump[..JUMP.len()].copy_from_slice(&JUMP);
    jump[JUMP.len()..].copy_from_slice(&target.to_le_bytes());
    let pages = begin & !(PAGE - 1)..(begin + JUMP_LEN as u64).next_multiple_of(PAGE);
    if !make_writable(&pages) {
        // Slower, but a process may write its code there also if it may not make it writable. Some kernels can be told to
        // forbid that too.
        return file::write_at(b"/proc/self/mem\0", begin, &jump);
    }
    // SAFETY: code that was made writable.
    unsafe { at(begin).write(jump) };
    protect(&pages);
    true
}

/// A loaded library's table of symbols. All are addresses.
#[derive(Clone, Copy, Default)]
struct Library {
    /// An address in the library, by which it is found.
    contains: u64,
    base: u64,
    symbols: u64,
    names: u64,
    hashes: u64,
}

impl Library {
    /// The first library behind this one that exports the name.
    fn with(name: &CStr) -> Option<Self> {
        // SAFETY: a string, and the handle that means the libraries after this one.
        let contains = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }.addr() as u64;
        let mut library = Self { contains, ..Self::default() };
        // SAFETY: `look` gets `library`, for which it was written.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut library).cast()) };
        (library.hashes != 0).then_some(library)
    }

    /// The address of an exported function, found by its DT_GNU_HASH.
    fn function(&self, name: &CStr) -> Option<u64> {
        let word = |at: u64| {
            // SAFETY: within the loader's tables, which it keeps.
            unsafe { ptr::with_exposed_provenance::<u32>(at as usize).read() }
        };
        let hash =
            name.to_bytes().iter().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()));
        let [buckets, first, blooms] = [0, 1, 2].map(|i| word(self.hashes + 4 * i));
        let bucket = self.hashes + 16 + 8 * u64::from(blooms);
        let chain = bucket + 4 * u64::from(buckets);
        let mut index = word(bucket + 4 * u64::from(hash.checked_rem(buckets)?));
        while index >= first {
            let found = word(chain + 4 * u64::from(index - first));
            // SAFETY: a symbol of the table, and its name.
            let (symbol, called) = unsafe {
                let symbol = &*ptr::with_exposed_provenance::<libc::Elf64_Sym>(
                    self.symbols as usize + index as usize * size_of::<libc::Elf64_Sym>(),
                );
                let called = self.names as usize + symbol.st_name as usize;
                (symbol, CStr::from_ptr(ptr::with_exposed_provenance(called)))
            };
            if found | 1 == hash | 1 && called == name && symbol.st_value != 0 {
                return Some(self.base + symbol.st_value);
            }
            index = if found & 1 == 0 { index + 1 } else { 0 };
        }
        None
    }
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, library: *mut c_void) -> c_int {
    const DT_STRTAB: u64 = 5;
    const DT_SYMTAB: u64 = 6;
    const DT_GNU_HASH: u64 = 0x6fff_fef5;
    // SAFETY: the loader's description of a library, and the `library` of `with`.
    let (info, library) = unsafe { (&*info, &mut *library.cast::<Library>()) };
    // SAFETY: the loader's.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let of_kind = |kind| headers.iter().filter(move |header| header.p_type == kind);
    let contains = |header: &libc::Elf64_Phdr| {
        let begins = info.dlpi_addr + header.p_vaddr;
        (begins..begins + header.p_memsz).contains(&library.contains)
    };
    let (true, Some(dynamic)) = (of_kind(libc::PT_LOAD).any(contains), of_kind(libc::PT_DYNAMIC).next()) else {
        return 0;
    };
    library.base = info.dlpi_addr;
    let mut entry = ptr::with_exposed_provenance::<[u64; 2]>((info.dlpi_addr + dynamic.p_vaddr) as usize);
    loop {
        // SAFETY: the library's dynamic section, which ends with an entry of zeroes. The loader has relocated it.
        let [tag, value] = unsafe { *entry };
        match tag {
            0 => return 1,
            DT_STRTAB => library.names = value,
            DT_SYMTAB => library.symbols = value,
            DT_GNU_HASH => library.hashes = value,
            _ => {}
        }
        entry = entry.wrapping_add(1);
    }
}
