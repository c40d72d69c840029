//! The host's `PR_FUTEX_HASH`, each time in a process that has made no use of it yet.

use std::sync::OnceLock;

use crate::prctl::Call;

/// `PR_FUTEX_HASH`, which the libc crate does not have.
const PR_FUTEX_HASH: libc::c_int = 78;

/// The most calls in one script.
const MOST_CALLS: usize = 16;

/// Why the host cannot be compared with, if it cannot.
pub fn lacks() -> Option<&'static str> {
    static LACKS: OnceLock<Option<&'static str>> = OnceLock::new();
    *LACKS.get_or_init(|| match run(&[(2, 0, 0), (3, 0, 0)])[..] {
        [slots, _] if slots < 0 => Some("this kernel has no PR_FUTEX_HASH"),
        [_, immutable] if immutable >= 0 => Some("this kernel is 6.16, which has the immutable flag"),
        _ => None,
    })
}

/// Makes the calls of `script` in a child of its own and answers their results, `-errno` for a failure. A child begins
/// with one thread and without a private table.
pub fn run(script: &[Call]) -> Vec<isize> {
    assert!(script.len() <= MOST_CALLS);
    let results = SharedResults::new();
    // SAFETY: the child makes system calls and writes to memory that is there already, and nothing else, so it needs no
    // lock that another thread may have held when we forked.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
        if child == 0 {
            for (i, &(op, slots, flags)) in script.iter().enumerate() {
                let result = libc::prctl(PR_FUTEX_HASH, op, slots, flags, 0u64);
                results.set(i, if result < 0 { -(*libc::__errno_location() as isize) } else { result as isize });
            }
            libc::_exit(0);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "the child ended with status {status:#x}");
    }
    results.first(script.len())
}

/// Memory that a child shares with us.
struct SharedResults(*mut isize);

impl SharedResults {
    fn new() -> Self {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let size = size_of::<isize>() * MOST_CALLS;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        Self(memory.cast())
    }

    fn set(&self, index: usize, result: isize) {
        // SAFETY: `index` is below MOST_CALLS, says `run`; the child alone writes, before it ends.
        unsafe { self.0.add(index).write(result) }
    }

    fn first(&self, count: usize) -> Vec<isize> {
        // SAFETY: `count` is at most MOST_CALLS, says `run`, and the child has ended.
        (0..count).map(|i| unsafe { self.0.add(i).read() }).collect()
    }
}

impl Drop for SharedResults {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with that size, and not used any more.
        unsafe { libc::munmap(self.0.cast(), size_of::<isize>() * MOST_CALLS) };
    }
}
