//! The machine under the lab: which CPUs it may use, pinning to them, and how far apart the first two are.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

pub use ufutex_designs::OwnLine;

/// Below this many nanoseconds one way, two CPUs count as near.
///
/// Cores of one socket pass a line in 20 to 50 ns; another socket, or a core complex behind the fabric, takes 80 to 200.
pub const NEAR_NS_MAX: f64 = 60.0;

/// The CPUs that this process may run on, smallest first.
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: `cpu_set_t` is a plain bit set: all zeroes is the empty set.
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

/// How many CPUs the machine may have, allowed or not: what the kernel sizes its own tables by.
pub fn cpus() -> usize {
    // SAFETY: the call takes a number and changes nothing.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(cpus).unwrap_or(1).max(1)
}

/// Pins the calling thread; a refusal (a container that changed meanwhile) leaves it where it was.
pub fn pin(cpu: usize) {
    pin_to(&[cpu]);
}

/// Lets the calling thread run on these CPUs only; on any where there are none.
pub fn pin_to(cpus: &[usize]) {
    if cpus.is_empty() {
        return;
    }
    // SAFETY: `cpu_set_t` is a plain bit set: all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the CPUs come from `allowed_cpus`, hence are below the set's capacity; the kernel only reads the set.
    unsafe {
        cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// The CPUs of each node, as far as this process may use them; nodes without any are left out.
pub fn nodes() -> Vec<Vec<usize>> {
    let allowed = allowed_cpus();
    let list = |node: usize| {
        let list = std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist")).ok()?;
        cpu_list(list.trim())
    };
    let nodes = (0..NODES_MAX).filter_map(list);
    let mine = nodes.map(|cpus| cpus.into_iter().filter(|cpu| allowed.contains(cpu)).collect());
    mine.filter(|cpus: &Vec<usize>| !cpus.is_empty()).collect()
}

/// The highest number of a CPU in a list.
const CPU_MAX: usize = 1023;

/// The CPUs of a list such as `0-3,8`, smallest first. `None` if it is no such list.
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

/// Linux is built for no more.
const NODES_MAX: usize = 1024;

/// What there is in all; as good as endless where nobody knows.
pub fn memory_bytes() -> usize {
    // SAFETY: the calls take a number and change nothing.
    let [pages, page] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    let known = usize::try_from(pages).ok().zip(usize::try_from(page).ok());
    known.map_or(usize::MAX, |(pages, page)| pages.saturating_mul(page))
}

/// perf's `-m`: no page of this process leaves memory, also of those to come.
pub fn lock_memory() -> anyhow::Result<()> {
    // SAFETY: the call takes flags and changes no memory.
    let failed = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0;
    anyhow::ensure!(!failed, "mlockall: {}", std::io::Error::last_os_error());
    Ok(())
}

/// How far apart two CPUs are.
#[derive(Clone, Copy, Debug)]
pub struct Distance {
    /// One way of a cache line, in nanoseconds.
    pub apart_ns: f64,
}

impl Distance {
    /// `near` or `far`, as [`NEAR_NS_MAX`] divides them.
    pub fn word(self) -> &'static str {
        if self.apart_ns < NEAR_NS_MAX { "near" } else { "far" }
    }

    /// Passes one line to and fro between two pinned threads; the median of several batches.
    pub fn between(first: usize, second: usize) -> Distance {
        const BATCHES: u64 = 15;
        const PASSES: u64 = 4000;
        let ball = OwnLine(AtomicU64::new(0));
        let mut one_way_ns = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(second);
                for odd in (1..2 * BATCHES * PASSES).step_by(2) {
                    wait_for(&ball.0, odd);
                    ball.0.store(odd + 1, Ordering::Release);
                }
            });
            let server = scope.spawn(|| {
                pin(first);
                serve(&ball.0, BATCHES, PASSES)
            });
            one_way_ns = server.join().unwrap_or_default();
        });
        Distance { apart_ns: crate::stats::median(&one_way_ns) }
    }
}

fn serve(ball: &AtomicU64, batches: u64, passes: u64) -> Vec<f64> {
    let mut even = 0;
    let mut one_way_ns = Vec::new();
    for _ in 0..batches {
        let start = Instant::now();
        for _ in 0..passes {
            ball.store(even + 1, Ordering::Release);
            even += 2;
            wait_for(ball, even);
        }
        one_way_ns.push(start.elapsed().as_nanos() as f64 / (2 * passes) as f64);
    }
    one_way_ns
}

fn wait_for(ball: &AtomicU64, value: u64) {
    let mut spins = 0u32;
    while ball.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
        spins += 1;
        if spins.is_multiple_of(1 << 16) {
            // The other side may have lost its CPU to somebody else's work.
            std::thread::yield_now();
        }
    }
}
