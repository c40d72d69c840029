//! Traps of the instructions.

use ufutex::wasm::Trap::{OutOfBounds, Unaligned};
use ufutex::wasm::Waited::TimedOut;

use super::{Machine, Width};

pub fn wait_traps_when_the_address_is_unaligned<M: Machine, W: Width>() {
    let machine = M::new(1, 1);
    for address in 0..32 {
        let expected = if address % W::BYTES == 0 { Ok(TimedOut) } else { Err(Unaligned) };
        assert_eq!(W::wait(&machine, address, 0, 0), expected, "at {address}");
        // The alignment is checked before the word is compared.
        if expected.is_err() {
            assert_eq!(W::wait(&machine, address, 1, 0), expected, "at {address}");
        }
    }
}

pub fn wait_traps_when_the_word_is_out_of_bounds<M: Machine, W: Width>() {
    for pages in [0, 1, 3] {
        let machine = M::new(pages, 3);
        let end = pages * 65536;
        assert_eq!(machine.bytes(), end);
        if pages > 0 {
            assert_eq!(W::wait(&machine, end - W::BYTES, 0, 0), Ok(TimedOut), "the last word of {pages} pages");
        }
        for address in [end, end + 8, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 15, u64::MAX - 7] {
            assert_eq!(W::wait(&machine, address, 0, 0), Err(OutOfBounds), "at {address:#x} of {end:#x}");
            assert_eq!(W::wait(&machine, address, 1, 0), Err(OutOfBounds), "at {address:#x} of {end:#x}");
        }
    }
}

pub fn notify_traps_when_the_address_is_unaligned<M: Machine>() {
    let machine = M::new(1, 1);
    for address in 0..32 {
        let expected = if address % 4 == 0 { Ok(0) } else { Err(Unaligned) };
        for count in [0, 1, u32::MAX] {
            assert_eq!(machine.notify(address, count), expected, "{count} at {address}");
        }
    }
}

pub fn notify_traps_when_the_word_is_out_of_bounds<M: Machine>() {
    for pages in [0, 1, 3] {
        let machine = M::new(pages, 3);
        let end = pages * 65536;
        if pages > 0 {
            assert_eq!(machine.notify(end - 4, 1), Ok(0), "the last word of {pages} pages");
        }
        for address in [end, end + 4, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 7, u64::MAX - 3] {
            for count in [0, 1, u32::MAX] {
                assert_eq!(machine.notify(address, count), Err(OutOfBounds), "{count} at {address:#x} of {end:#x}");
            }
        }
    }
}
