//! The time since boot, by the HPET: unlike the time stamp counter it says itself how fast it runs.

use core::time::Duration;

const HPET: usize = 0xfed0_0000;
/// Femtoseconds that the counter needs for a tick.
const PERIOD: usize = 0x04;
const CONFIGURATION: usize = 0x10;
const COUNTER: usize = 0xf0;

fn register(offset: usize) -> *mut u32 {
    (HPET + offset) as *mut u32
}

/// Starts the counter.
pub fn start() {
    // SAFETY: a register of the HPET, which the page tables map.
    unsafe { register(CONFIGURATION).write_volatile(1) };
}

/// The time since [`start`].
pub fn uptime() -> Duration {
    // SAFETY: registers of the HPET, which the page tables map.
    let read = |offset| unsafe { register(offset).read_volatile() };
    let ticks = loop {
        let (high, low) = (read(COUNTER + 4), read(COUNTER));
        if read(COUNTER + 4) == high {
            break u64::from(high) << 32 | u64::from(low);
        }
    };
    Duration::from_nanos((u128::from(ticks) * u128::from(read(PERIOD)) / 1_000_000) as u64)
}
