//! The host's `PR_FUTEX_HASH`, called in a fresh child process for each script.

use std::sync::OnceLock;

use crate::common::kernel::syscall;
use crate::prctl::Call;

/// `PR_FUTEX_HASH`, which the libc crate does not define.
const PR_FUTEX_HASH: u64 = 78;

/// Maximum number of calls in one script.
const MOST_CALLS: usize = 16;

/// The reason why the host does not support the calls, `None` if it does.
pub fn lacks() -> Option<&'static str> {
    static LACKS: OnceLock<Option<&'static str>> = OnceLock::new();
    *LACKS.get_or_init(|| match run(&[(2, 0, 0), (3, 0, 0)])[..] {
        [slots, _] if slots < 0 => Some("this kernel has no PR_FUTEX_HASH"),
        [_, immutable] if immutable >= 0 => Some("this kernel is 6.16, which has the immutable flag"),
        _ => None,
    })
}

/// Makes the calls of `script` in a new child process and returns their results, `-errno` for a failure. A child starts
/// with one thread and without a private hash table.
pub fn run(script: &[Call]) -> Vec<isize> {
    assert!(script.len() <= MOST_CALLS);
    let results = SharedResults::new();
    // SAFETY: the child only makes system calls and writes to memory that is already mapped. It takes no lock that
    // another thread may have held during the fork.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
        if child == 0 {
            for (i, &(op, slots, flags)) in script.iter().enumerate() {
                results.set(i, syscall(libc::SYS_prctl, [PR_FUTEX_HASH, op, slots, flags, 0, 0]));
            }
            libc::_exit(0);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "the child ended with status {status:#x}");
    }
    results.first(script.len())
}

/// Memory that the child shares with its parent.
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
        // SAFETY: `run` checks that `index` is below MOST_CALLS. Only the child writes, before it exits.
        unsafe { self.0.add(index).write(result) }
    }

    fn first(&self, count: usize) -> Vec<isize> {
        // SAFETY: `run` checks that `count` is at most MOST_CALLS. The child has exited.
        (0..count).map(|i| unsafe { self.0.add(i).read() }).collect()
    }
}

impl Drop for SharedResults {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this size, and not used any more.
        unsafe { libc::munmap(self.0.cast(), size_of::<isize>() * MOST_CALLS) };
    }
}
