//! Which copy of sharded data a thread uses: a hint.

/// In a model, the number of shards of data that is sharded by thread: two if hints are random, otherwise one.
pub const MODEL_SHARDS: usize = if cfg!(ufutex_random_hints) { 2 } else { 1 };

/// A number that differs between threads that run at the same time, and rarely changes within a thread: the number of
/// the 64 KiB block of the stack that the caller's frame is in. It needs neither thread-local storage nor an operating
/// system.
///
/// **It is a hint.** Two calls in one operation may return different numbers: a thread's frames may lie on both sides
/// of a block's border, or a coroutine may be resumed on another thread. So an operation keeps what it has chosen by a
/// hint until it ends, and no result depends on the choice of the next operation. If compiled with `--cfg
/// ufutex_random_hints`, as by `.ci/random-hints`, each call returns another number.
#[inline(always)]
pub fn thread_hint() -> u32 {
    #[cfg(all(ufutex_random_hints, not(feature = "sim")))]
    return random_hints::draw();
    #[cfg(not(all(ufutex_random_hints, not(feature = "sim"))))]
    thread_by_its_stack()
}

#[cfg(not(all(ufutex_random_hints, not(feature = "sim"))))]
#[inline(always)]
fn thread_by_its_stack() -> u32 {
    if super::MODEL {
        return 0; // a model must behave the same each time
    }
    #[cfg(feature = "sim")]
    return ufutex_coherence::current::thread() as u32; // the host's addresses must not decide anything
    #[cfg(not(feature = "sim"))]
    {
        let here = 0u8;
        (core::ptr::addr_of!(here).addr() >> 16) as u32
    }
}

/// Hints for tests: the next number of a random sequence. All threads share one sequence. In a model, which must be
/// able to repeat a run, each thread has its own.
#[cfg(all(ufutex_random_hints, not(feature = "sim")))]
mod random_hints {
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    fn count() -> u32 {
        use core::sync::atomic::{AtomicU32, Ordering};
        static DRAWN: AtomicU32 = AtomicU32::new(0);
        DRAWN.fetch_add(1, Ordering::Relaxed)
    }

    #[cfg(any(feature = "loom", feature = "shuttle"))]
    fn count() -> u32 {
        #[cfg(feature = "loom")]
        use loom::thread_local;
        #[cfg(not(feature = "loom"))]
        use shuttle::thread_local;
        thread_local! {
            static DRAWN: core::cell::Cell<u32> = core::cell::Cell::new(0);
        }
        DRAWN.with(|drawn| drawn.replace(drawn.get().wrapping_add(1)))
    }

    pub fn draw() -> u32 {
        let mixed = count().wrapping_mul(0x85eb_ca6b);
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
