//! Which copy of sharded data a thread uses: a hint.

/// The number of the stack's 64 KiB block with the caller's frame: different in each running thread, where it rarely changes.
///
/// **It is a hint.** A thread's frames may lie on both sides of a block's border, or a coroutine may be resumed on another
/// thread. So an operation keeps what it has chosen, and no result depends on the next choice. `.ci/random-hints` draws hints.
#[inline(always)]
pub fn thread_hint() -> u32 {
    #[cfg(ufutex_random_hints)]
    {
        static DRAWN: super::AtomicU64 = super::AtomicU64::new(0);
        return crate::sys::random::mixed(DRAWN.fetch_add(1, super::Ordering::Relaxed)) as u32;
    }
    #[cfg(not(ufutex_random_hints))]
    {
        let here = 0u8;
        (core::ptr::addr_of!(here).addr() >> 16) as u32
    }
}

/// The shard of the calling thread in `0..shards`. `shards` is at most 65,536.
#[inline(always)]
pub fn thread_shard(shards: usize) -> usize {
    // Stacks are aligned to large powers of two, so the lower bits of the product are equal for all threads.
    let mixed = thread_hint().wrapping_mul(0x9e37_79b9);
    ((mixed >> 16) as usize * shards) >> 16
}
