//! Which copy of sharded data a thread uses: the host's addresses must not decide anything.

#[inline(always)]
pub fn thread_hint() -> u32 {
    ufutex_coherence::current::thread() as u32
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
