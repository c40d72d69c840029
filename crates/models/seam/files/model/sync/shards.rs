//! Which copy of sharded data a thread uses: always the same, because a model must behave the same each time. With
//! `--cfg ufutex_random_hints` each thread has a random sequence of its own.

/// The number of shards of data that is sharded by thread: two if hints are random, otherwise one.
pub const MODEL_SHARDS: usize = if cfg!(ufutex_random_hints) { 2 } else { 1 };

pub fn thread_hint() -> u32 {
    #[cfg(ufutex_random_hints)]
    return random_hints::draw();
    #[cfg(not(ufutex_random_hints))]
    0
}

#[cfg(ufutex_random_hints)]
mod random_hints {
    use crate::sync::thread_local;
    thread_local! {
        static DRAWN: core::cell::Cell<u32> = core::cell::Cell::new(0);
    }

    pub fn draw() -> u32 {
        let mixed = DRAWN.with(|drawn| drawn.replace(drawn.get().wrapping_add(1))).wrapping_mul(0x85eb_ca6b);
        (mixed ^ mixed >> 15).wrapping_mul(0xc2b2_ae35)
    }
}

/// The shard of the calling thread in `0..shards`. `shards` is at most 65,536. Data is sharded so that threads seldom
/// access the same cache line.
#[inline(always)]
pub fn thread_shard(shards: usize) -> usize {
    // Stacks are aligned to large powers of two, so the lower bits of the product are equal for all threads. Use the
    // upper bits.
    let mixed = thread_hint().wrapping_mul(0x9e37_79b9);
    ((mixed >> 16) as usize * shards) >> 16
}
