//! futex(2) itself: the oracle.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use ufutex::{Clock, Timeout};

use crate::common::asleep::Call;
use crate::futex::{Errno, Futex, How, Sharing};

struct Kernel(Sharing);

/// The kernel's futexes, with `FUTEX_PRIVATE_FLAG` or without.
pub fn kernel(sharing: Sharing) -> Arc<dyn Futex> {
    Arc::new(Kernel(sharing))
}

fn errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn flag(sharing: Sharing) -> i32 {
    match sharing {
        Sharing::Private => libc::FUTEX_PRIVATE_FLAG,
        Sharing::Shared => 0,
    }
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Gives the calling thread a real-time priority.
fn become_realtime(priority: u8) -> Result<(), Errno> {
    let param = libc::sched_param { sched_priority: priority.into() };
    // SAFETY: `param` is valid for the read; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

impl Futex for Kernel {
    fn sharing(&self) -> Sharing {
        self.0
    }

    fn wait_as(&self, sharing: Sharing, word: &AtomicU32, expected: u32, how: How) -> Result<(), Errno> {
        if how.priority != 0 {
            become_realtime(how.priority)?;
        }
        let (command, time) = match how.timeout {
            None => (libc::FUTEX_WAIT_BITSET, None),
            Some(Timeout::After(length)) => {
                assert_eq!(how.bitset, u32::MAX, "FUTEX_WAIT takes no bitset");
                (libc::FUTEX_WAIT, Some(timespec(length)))
            }
            Some(Timeout::At(Clock::Monotonic, at)) => (libc::FUTEX_WAIT_BITSET, Some(timespec(at))),
            Some(Timeout::At(Clock::Realtime, at)) => {
                (libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME, Some(timespec(at)))
            }
        };
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let none = std::ptr::null::<u32>();
        // SAFETY: the word and the time outlive the call, which writes to neither.
        let result = unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), command | flag(sharing), expected, time, none, how.bitset)
        };
        if result == 0 { Ok(()) } else { Err(errno()) }
    }

    fn wake_as(&self, sharing: Sharing, word: &AtomicU32, count: usize, bitset: u32) -> usize {
        let command = libc::FUTEX_WAKE_BITSET | flag(sharing);
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let none = std::ptr::null::<u32>();
        // SAFETY: a wake takes an address and writes nothing.
        let result = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), command, count, none, none, bitset) };
        usize::try_from(result).unwrap_or_else(|_| panic!("futex(2) cannot wake: errno {}", errno()))
    }

    fn sleeps_in(&self, call: Call, word: &AtomicU32) -> bool {
        call.is_on(word)
    }

    fn lacks_priorities(&self) -> Option<String> {
        let probe = std::thread::spawn(|| become_realtime(1));
        let error = probe.join().expect("the probe does not panic").err()?;
        Some(format!("sched_setscheduler(SCHED_FIFO) is not permitted here: errno {error}"))
    }
}
