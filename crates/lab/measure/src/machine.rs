//! The machine: the CPUs that this process may use, pinning, and the distance between two CPUs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

pub use ufutex_designs::OwnLine;

/// Two CPUs that are at most this many nanoseconds apart, one way, count as near.
///
/// Cores of one socket usually pass a cache line in 20 to 50 ns. Another socket or core complex takes 80 to 200 ns.
pub const NEAR_NS_MAX: f64 = 60.0;

/// The CPUs that this process may run on, smallest first.
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: `cpu_set_t` is a bit set. All zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most `size_of_val(&set)` bytes into `set`, which outlives the call.
    let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } != 0;
    if failed {
        return vec![0];
    }
    let capacity = 8 * size_of_val(&set);
    // SAFETY: every index is below the set's capacity.
    (0..capacity).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// Number of CPUs that the machine may have, allowed or not. The kernel sizes its tables by it.
pub fn cpus() -> usize {
    // SAFETY: the call takes a number and changes nothing.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(cpus).unwrap_or(1).max(1)
}

/// Pins the calling thread. If the kernel refuses, as when a container's CPUs have changed, nothing happens.
pub fn pin(cpu: usize) {
    pin_to(&[cpu]);
}

/// Restricts the calling thread to these CPUs. An empty list restricts nothing.
pub fn pin_to(cpus: &[usize]) {
    if cpus.is_empty() {
        return;
    }
    // SAFETY: `cpu_set_t` is a bit set. All zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the CPUs come from `allowed_cpus`, so they are below the set's capacity. The kernel only reads the set.
    unsafe {
        cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// The highest CPU number that a list may have: glibc's `cpu_set_t` has 1024 bits.
const CPU_MAX: usize = 1023;

/// The CPUs of a list such as `0-3,8`, smallest first. `None` if the text is not such a list.
pub fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let cpu = |text: &str| text.parse::<usize>().ok().filter(|cpu| *cpu <= CPU_MAX);
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (cpu(first)?, cpu(last)?);
        if first > last {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// The machine's memory. `usize::MAX` if it is not known.
pub fn memory_bytes() -> usize {
    // SAFETY: the calls take a number and change nothing.
    let [pages, page] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    let known = usize::try_from(pages).ok().zip(usize::try_from(page).ok());
    known.map_or(usize::MAX, |(pages, page)| pages.saturating_mul(page))
}

/// The distance of two CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Distance {
    /// Nanoseconds that a cache line takes from one CPU to the other.
    pub apart_ns: f64,
}

impl Distance {
    /// `near` or `far`, divided by [`NEAR_NS_MAX`].
    pub fn word(self) -> &'static str {
        if self.apart_ns < NEAR_NS_MAX { "near" } else { "far" }
    }

    /// Passes a cache line back and forth between two pinned threads. The result is the time of one way in the shortest
    /// of many batches, because other work on the two CPUs only makes a batch longer.
    pub fn between(first: usize, second: usize) -> Distance {
        const BATCHES: u64 = 200;
        const ROUND_TRIPS: u64 = 300;
        let ball = OwnLine(AtomicU64::new(0));
        let mut apart_ns = f64::NAN;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(second);
                for odd in (1..2 * BATCHES * ROUND_TRIPS).step_by(2) {
                    wait_for(&ball.0, odd);
                    ball.0.store(odd + 1, Ordering::Release); // [Lc]
                }
            });
            let server = scope.spawn(|| {
                pin(first);
                serve(&ball.0, BATCHES, ROUND_TRIPS)
            });
            apart_ns = server.join().unwrap_or(f64::NAN);
        });
        Distance { apart_ns }
    }
}

/// The nanoseconds of one way in the shortest batch.
fn serve(ball: &AtomicU64, batches: u64, round_trips: u64) -> f64 {
    let mut even = 0;
    let batch = |_| {
        let start = Instant::now();
        for _ in 0..round_trips {
            ball.store(even + 1, Ordering::Release); // [Lc]
            even += 2;
            wait_for(ball, even);
        }
        start.elapsed().as_nanos() as f64 / (2 * round_trips) as f64
    };
    (0..batches).map(batch).fold(f64::NAN, f64::min)
}

fn wait_for(ball: &AtomicU64, value: u64) {
    let mut spins = 0u32;
    // [Lc]
    while ball.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
        spins += 1;
        if spins.is_multiple_of(1 << 16) {
            // The other thread may have lost its CPU to another process.
            std::thread::yield_now();
        }
    }
}
