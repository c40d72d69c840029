//! The suite's target for futex(2), which is the oracle.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use ufutex::{Clock, Timeout};

use crate::common::asleep::Call;
use crate::common::kernel::{lacks_priorities, pointer, set_priority, succeeded, syscall};
use crate::futex::{Errno, Futex, How, Sharing};

struct Kernel(Sharing);

/// The kernel's futexes, with `FUTEX_PRIVATE_FLAG` or without.
pub fn kernel(sharing: Sharing) -> Arc<dyn Futex> {
    Arc::new(Kernel(sharing))
}

fn op(command: i32, sharing: Sharing) -> u64 {
    let flag = if sharing == Sharing::Private { libc::FUTEX_PRIVATE_FLAG } else { 0 };
    (command | flag) as u64
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos() as libc::c_long,
    }
}

impl Futex for Kernel {
    fn sharing(&self) -> Sharing {
        self.0
    }

    fn wait_as(&self, sharing: Sharing, word: &AtomicU32, expected: u32, how: How) -> Result<(), Errno> {
        if how.priority != 0 {
            set_priority(0, how.priority).map_err(|error| error.raw_os_error().unwrap_or(0))?;
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
        let time = time.as_ref().map_or(0, |time| pointer(time));
        let args = [pointer(word), op(command, sharing), expected.into(), time, 0, how.bitset.into()];
        // SAFETY: the word and the time outlive the call, which writes to neither of them.
        match unsafe { syscall(libc::SYS_futex, args) } {
            0 => Ok(()),
            error => Err(-error as Errno),
        }
    }

    fn wake_as(&self, sharing: Sharing, word: &AtomicU32, count: usize, bitset: u32) -> usize {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let args = [pointer(word), op(libc::FUTEX_WAKE_BITSET, sharing), count as u64, 0, 0, bitset.into()];
        // SAFETY: a wake takes an address and writes nothing.
        succeeded("FUTEX_WAKE_BITSET", unsafe { syscall(libc::SYS_futex, args) }) as usize
    }

    fn sleeps_in(&self, call: Call, word: &AtomicU32) -> bool {
        call.is_on(word)
    }

    fn lacks_priorities(&self) -> Option<String> {
        lacks_priorities()
    }
}
