//! futex_waitv(2) on words of which some are private, and wait in the engine, and some may be shared, and wait in the kernel:
//! the thread sleeps in the kernel's futex_waitv on the shared ones and on the word of its seat, where the engine tells it.

use std::vec::Vec;

use ufutex::Cause;

use crate::calls::{SYS_FUTEX_WAITV, WAITV_MAX, Waitv};
use crate::engine::{self, Inside, Slept};
use crate::gate::{self, Gate, Sleep};
use crate::memory;
use crate::raw::COOKIE;

/// `FUTEX2_SIZE_U32 | FUTEX2_PRIVATE`: what a seat is to the kernel.
const SEAT: u32 = 2 | 128;

/// The kernel's futex_waitv for a thread that is inside; -512 if a signal came.
pub fn kernel_waitv(args: [u64; 6], inside: &Inside) -> isize {
    kernel_call(SYS_FUTEX_WAITV, args, inside)
}

/// The kernel's futex(2), a wait or a wake.
pub fn kernel_futex(args: [u64; 6], inside: &Inside) -> isize {
    let command = args[1] as i32 & !libc::FUTEX_CLOCK_REALTIME;
    let has_timeout = matches!(command, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET) && args[3] != 0;
    match kernel_call(libc::SYS_futex, args, inside) {
        // As the kernel does: what is left of the time would be lost.
        result if result == -ufutex::ERESTARTSYS && has_timeout => -(libc::EINTR as isize),
        result => result,
    }
}

fn kernel_call(number: i64, args: [u64; 6], inside: &Inside) -> isize {
    let sleep = Sleep { gate: inside.gate, mask: inside.mask, number: number as u64, args };
    // SAFETY: the program's own call, or one on lists of ours; our own gate and mask.
    match unsafe { (gate::sleep(&sleep), Gate::has_deferred(inside.gate)) } {
        (result, true) if result == -(libc::EINTR as isize) => -ufutex::ERESTARTSYS,
        (result, _) => result,
    }
}

/// The call on words of both kinds.
pub fn waitv([list, len, flags, timeout, clock, _]: [u64; 6], inside: &Inside) -> isize {
    let len = len as u32 as usize;
    debug_assert!(len <= WAITV_MAX);
    // Each with its index in the program's list.
    let (mut ours, mut kernels) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for index in 0..len {
        let Ok(word) = memory::read::<Waitv>(list + (index * size_of::<Waitv>()) as u64) else {
            return -(libc::EFAULT as isize);
        };
        let (words, indices) = if word.is_private() { &mut ours } else { &mut kernels };
        words.push(word);
        indices.push(index as isize);
    }
    // First: of several words that were woken the kernel names the last, and a seat may be told for nothing.
    kernels.0.insert(0, Waitv { val: 0, uaddr: 0, flags: SEAT, reserved: 0 });
    kernels.1.insert(0, -1);

    let mut kernel_result = None;
    let call = [ours.0.as_ptr() as u64, ours.0.len() as u64, flags, timeout, clock, 0];
    let result = engine::waitv(call, inside, &mut |seat| {
        kernels.0[0].uaddr = seat.address();
        if seat.was_told() {
            return Slept::Told;
        }
        let args = [kernels.0.as_ptr() as u64, kernels.0.len() as u64, flags, timeout, clock, COOKIE];
        let result = kernel_waitv(args, inside);
        if seat.was_told() && result < 0 || result == 0 {
            return Slept::Told;
        }
        kernel_result = Some(result);
        Slept::Ended(Cause::Interrupted)
    });
    match kernel_result {
        // The engine's word came first, or at the same time.
        _ if result >= 0 => ours.1[result as usize],
        Some(result) if result >= 0 => kernels.1[result as usize],
        Some(result) => result,
        None => result,
    }
}
