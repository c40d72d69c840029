//! The only file that names where atomics come from: `core`, a model checker's, or the virtual cores of `ufutex sim`.
//!
//! The packages in `crates/models` compile this crate's source with the feature `loom`, `shuttle` or `sim`, so the
//! models check and measure the code that ships, not a copy of it. All other files import their atomics, cells and
//! barriers from here.

#[cfg(not(any(feature = "loom", feature = "shuttle", feature = "sim")))]
mod backend {
    pub use core::hint::spin_loop;
    pub use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

    /// A cell that is guarded by a lock elsewhere. Every access is a closure, so a model checker knows when the access
    /// begins and ends, and can check for races.
    #[repr(transparent)]
    #[derive(Default)]
    pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub const fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }
        #[inline(always)]
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }
        #[inline(always)]
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

#[cfg(feature = "loom")]
mod backend {
    pub use loom::cell::UnsafeCell;
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use loom::sync::{Condvar, Mutex};
}

#[cfg(all(feature = "shuttle", not(feature = "loom")))]
mod backend {
    pub use shuttle::hint::spin_loop;
    pub use shuttle::sync::atomic::{
        AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use shuttle::sync::{Condvar, Mutex};

    /// A plain cell: shuttle runs one thread at a time, and does not check cells.
    pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

/// Virtual cores in virtual time. This is not a model checker: sizes, spinning and everything else are as in a normal
/// build.
#[cfg(feature = "sim")]
mod backend {
    pub use ufutex_coherence::atomic::{
        AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, UnsafeCell, fence, spin_loop,
    };
    pub use ufutex_coherence::objects;
}

pub use backend::*;

/// Whether a model checker's atomics are in use.
pub const MODEL: bool = cfg!(any(feature = "loom", feature = "shuttle"));

/// **[A]** A full barrier between the acquisition of a bucket's lock and the waiter's load of the futex word.
///
/// Pairs with **[B]**, [`wake_barrier`]. On x86-64 the locked instruction that took the lock is that barrier already,
/// so only the compiler must be kept from reordering. On Arm an acquiring compare-and-swap lets the later load pass its
/// store, and a model checker takes nothing but a fence for a full barrier. In both cases this function is a fence.
#[inline(always)]
pub fn wait_barrier() {
    if mutant(Mutant::NoWaitBarrier) {
        return;
    }
    if cfg!(all(target_arch = "x86_64", not(miri))) && !MODEL {
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// **[B]** A full barrier between the caller's store to the futex word and the waker's load of the bucket's state.
///
/// Pairs with **[A]**, [`wait_barrier`].
#[inline(always)]
pub fn wake_barrier() {
    if mutant(Mutant::NoWakeBarrier) {
        return;
    }
    fence(Ordering::SeqCst);
}

/// In a model, the number of shards of data that is sharded by thread: two if hints are random, otherwise one.
pub const MODEL_SHARES: usize = if cfg!(ufutex_random_hints) { 2 } else { 1 };

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
    if MODEL {
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

/// The shard of the calling thread among `shares` shards, at most 65,536. Data is sharded so that threads seldom access
/// the same cache line.
#[inline(always)]
pub fn thread_share(shares: usize) -> usize {
    // Stacks are aligned to large powers of two, so the lower bits of the product are equal for all threads. Use the
    // upper bits.
    let mixed = thread_hint().wrapping_mul(0x9e37_79b9);
    ((mixed >> 16) as usize * shares) >> 16
}

/// A member of objects that threads find without a lock. In a model it is a cell, and the model reports a thread that
/// finds the object before its initialisation is visible. In other builds it is empty.
pub struct Made(#[cfg(any(feature = "loom", feature = "shuttle"))] UnsafeCell<bool>);

#[cfg(any(feature = "loom", feature = "shuttle"))]
// SAFETY: only the thread that makes it writes it, before other threads can find it. A model reports a thread that
// finds it too early.
unsafe impl Sync for Made {}

impl Made {
    /// The object counts as initialised from now on or, if [`finish`](Self::finish) is called, from the first such call
    /// on.
    pub fn new() -> Self {
        Self(
            #[cfg(any(feature = "loom", feature = "shuttle"))]
            UnsafeCell::new(false),
        )
    }

    /// Call this right before the object is published, each time. In a model the object counts as initialised only from
    /// the first call on. Between `new` and this call a model executes fences that other builds do not have, and these
    /// fences would hide a missing Release.
    #[inline(always)]
    pub fn finish(&self) {
        #[cfg(any(feature = "loom", feature = "shuttle"))]
        // SAFETY: only its maker has it until it is finished. After that it is only read.
        if !self.0.with(|is_finished| unsafe { *is_finished }) {
            // SAFETY: only its maker writes, and no other thread has found it yet.
            self.0.with_mut(|is_finished| unsafe { *is_finished = true });
        }
    }

    /// Call this when the object has been found: in a model, checks that its initialisation is visible.
    #[inline(always)]
    pub fn see(&self) {
        #[cfg(any(feature = "loom", feature = "shuttle"))]
        self.0.with(|_| ());
    }
}

/// A statistics counter. It orders nothing: a reader learns nothing about other memory. So every access is relaxed, and
/// a model does not explore it, which would only multiply the executions. On virtual cores each access has its usual
/// cost.
#[derive(Default)]
pub struct Tally(TallyWord);

#[cfg(not(feature = "sim"))]
type TallyWord = core::sync::atomic::AtomicU64;
#[cfg(feature = "sim")]
type TallyWord = AtomicU64;

impl Tally {
    /// Starts at zero.
    pub const fn new() -> Self {
        Self(TallyWord::new(0))
    }

    /// Starts at `n`.
    pub const fn of(n: u64) -> Self {
        Self(TallyWord::new(n))
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, core::sync::atomic::Ordering::Relaxed);
    }

    /// Adds one. Returns the new value.
    pub fn add_one(&self) -> u64 {
        self.0.fetch_add(1, core::sync::atomic::Ordering::Relaxed).wrapping_add(1)
    }

    /// Subtracts `n` if the value is at least `n`. Returns whether it did.
    pub fn take(&self, n: u64) -> bool {
        let relaxed = core::sync::atomic::Ordering::Relaxed;
        self.0.fetch_update(relaxed, relaxed, |all| all.checked_sub(n)).is_ok()
    }

    /// Raises the counter to `value` if it is less.
    pub fn note_max(&self, value: u64) {
        // Most values are not greater. Then the cache line is not written.
        if value > self.get() {
            self.0.fetch_max(value, core::sync::atomic::Ordering::Relaxed);
        }
    }

    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.load(core::sync::atomic::Ordering::Relaxed)
    }
}

/// Faults that the model tests put into the engine to prove that a model can fail. In every other build
/// [`mutant`] is the constant `false`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code)] // each is named by the model test that must catch it
pub enum Mutant {
    /// [A] is left out.
    NoWaitBarrier,
    /// [B] is left out.
    NoWakeBarrier,
    /// The emptiness check ignores the live bit.
    EmptyIgnoresLive,
    /// The emptiness check ignores the locked bit.
    EmptyIgnoresLock,
    /// A mover leaves the source bucket live.
    SourceStaysLive,
    /// A mover makes the target live before it locks the source.
    TargetLiveEarly,
    /// A waiter that gives up trusts the first bucket that it reads from its entry, and does not check under that
    /// bucket's lock whether it has been moved.
    CancelSkipsRecheck,
    /// A future that was woken, but has not been polled since, is dropped without passing the wake on.
    DropLosesWake,
    /// A future being dropped does not wait for the waker that has taken its entry.
    DropSkipsHandover,
    /// An unlock of a bucket does not check for sleeping contenders.
    UnlockSkipsSleepers,
    /// A contender sleeps without the barrier of [C].
    NoContendedBarrier,
    /// An operation on the global table does not check again, under the bucket's lock, whether its key is still in that
    /// table.
    GlobalSkipsRecheck,
    /// An operation on the global table does not check whether a move has begun while it determined where its key is.
    GlobalIgnoresMoves,
    /// The emptiness check on the global table does not check whether a move has begun meanwhile.
    EmptySkipsGlobalRecheck,
    /// The emptiness check on the global table only checks that the same table is in use at its end, and misses moves
    /// that began and ended in between.
    EmptyTrustsSameTable,
    /// [D] is left out.
    NoUnlockBarrier,
    /// A move from the global table makes a private bucket live only after it has moved the waiters there.
    DrainsBeforeFlip,
    /// A move from or to the global table unlocks the private bucket between two pieces.
    MoverLetsGo,
    /// A wake in pieces begins before it has locked the bucket.
    BeginsUnlocked,
    /// An operation in pieces takes waiters that came after it had begun.
    LateComersAreTaken,
    /// An operation in pieces begins each piece with the first waiter of its key.
    PieceForgetsPlace,
    /// Operations that search for a key's waiters do not skip markers.
    MarkerIsWaiter,
    /// A wake stops at a marker, as it stops at a waiter of a lock.
    MarkerEndsWake,
    /// A move leaves markers behind, which still name the old bucket.
    MarkerIsNotMoved,
    /// A requeue does not note a new moment for the waiters that it moves.
    RequeueKeepsMoment,
    /// A contender that finds a contended bucket not live leaves without waking the sleepers.
    LeaverForgetsSleepers,
    /// A starving contender that gets the lock without a grant leaves `STARVING` behind, and the lock is granted to no
    /// thread.
    StarvingLeavesMark,
    /// A contender claims a granted lock by a load and a store: two contenders may do so.
    ClaimTrustsLook,
    /// [V]: the lock is granted without Release.
    GrantRelaxed,
    /// A thread that grants the lock unlocks it, too.
    GrantUnlocks,
    /// A thread that grants the lock wakes no contender.
    GrantIsSilent,
    /// The lock of a bucket that is not live is granted.
    GrantOfRetired,
    /// A contender that finds a contended bucket not live leaves, although the lock has been granted to it since.
    LeaverForgetsGrant,
    /// A wait reports that it has timed out although a waker has counted it as woken.
    TimeoutLosesWake,
    /// A future that is polled with a new waker keeps the old one.
    PollKeepsWaker,
    /// A poll that finds a wake under way, and so cannot leave its waker, does not wake that waker.
    LatePollIsSilent,
    /// A move that passed over a locked bucket does not come back to it.
    SkippedStepIsForgotten,
    /// A requeue sets a waiter's bucket to null between the queue that the waiter leaves and the queue that it joins,
    /// so the waiter looks woken.
    RequeueShowsTaken,
    /// A requeue unlocks the source bucket before the waiter is in the target's queue.
    RequeueLetsGo,
    /// An operation that has locked a first bucket and locks a second one in the global table does not check, under the
    /// second lock, whether its key is still in that table.
    SecondSkipsRecheck,
    /// [N]: a waker raises `TOLD` without Release.
    TellRelaxed,
    /// A sleeper takes `TOLD` down, and sleeps nevertheless.
    SleeperForgets,
    /// A waker stores `WOKEN`, which gives the entry back, before it raises the sleeper's `TOLD`.
    TellsTooLate,
    /// A wait on several words that finds a word changed reports that, although a waiter that it queued before has been
    /// woken meanwhile.
    WaitAnyForgetsWake,
    /// A waiter of a lock queues without setting the waiters' bit.
    LockHidesWaiter,
    /// Unlocking writes 0 if the emptiness check found no waiter, although the waiters' bit has been set since.
    UnlockTrustsGlance,
    /// The death of a lock's owner wakes the heir before it marks it as the heir.
    HeirIsToldFirst,
    /// The death of a lock's owner does not mark the heir.
    DeathTellsNobody,
    /// A dropped future that was given a lock keeps it.
    DropKeepsLock,
    /// A lock is handed to a waiter and stays its last owner's.
    HandOverKeepsOwner,
    /// A waiter that has inherited a lock gives up as if it had not.
    HeirLeaves,
    /// An operation that has locked a region does not check that the home still names it.
    RegionSkipsSecondLook,
    /// An operation that has waited for a region does not check, with the bucket locked, that it still needs this
    /// region.
    HeldRegionIsTrusted,
    /// An operation waits for a region with a bucket locked.
    BucketWaitsForRegion,
    /// A region includes another one without checking that its home is still in the same PID namespace.
    RegionTakesStrangers,
    /// [E]: the lock is released by a Relaxed store.
    UnlockRelaxed,
    /// [F]: a table is published without Release.
    PublishRelaxed,
    /// [G]: the number of moves is stored without Release.
    MovesRelaxed,
    /// `atomic` and `percpu`: a change of the table does not wait for the count of references to reach zero.
    PivotSkipsCount,
    /// `percpu`: a change of the table does not wait for restartable sequences in flight.
    PivotSkipsSections,
    /// A look-up that does not find a timer without a lock does not search again under the lock.
    LookUpTrustsMiss,
    /// A thread that has found and locked a timer does not check that the timer still has the ID.
    LookUpSkipsRecheck,
    /// A deleted timer keeps its ID and its valid bit.
    DeleteLeavesValid,
    /// An expiry does not check whether the timer has been set again meanwhile.
    ExpirySkipsRecheck,
    /// Disarming a timer does not change the timer's number.
    DisarmKeepsNumber,
    /// The growth of a table makes target groups live before the timers have been moved into them.
    GroupLiveEarly,
    /// The growth of a table leaves a source group live.
    GroupStaysLive,
    /// A deleted timer that its group keeps for reuse can be handed out twice.
    KeptStays,
    /// [Q]: a timer is published without Release.
    TimerRelaxed,
    /// [R]: a timer becomes the first of a chain without Release.
    HeadRelaxed,
    /// [R]: a timer in a chain gets a successor without Release.
    SuccessorRelaxed,
    /// [S]: a table of IDs is published without Release.
    IdsRelaxed,
    /// An insertion does not check whether the ID is in use.
    InsertSkipsCheck,
    /// An ID is taken without a check that it is still the next one.
    ClaimTrustsPeek,
    /// An expiry does not check that the timer is valid, and may read the state of a timer that another thread is
    /// making.
    ExpiryIgnoresWord,
    /// A notice that has been taken can be taken again.
    TakeKeepsNumber,
    /// A turn does not schedule the deadlines that are left in a queue.
    TurnForgetsRest,
    /// A deadline that becomes the earliest is armed without a notification.
    ArmTellsNobody,
    /// A caller that asked for the next deadline during a turn is not notified at its end.
    TurnIgnoresLooks,
    /// Disarming one of several deadlines of a queue unschedules the whole queue.
    DisarmSilencesOthers,
    /// The driver takes a handle of an owner that has no handles left and is being dropped.
    HoldRevives,
    /// An owner is freed while its queues are still in the driver's wheel.
    RetireForgets,
    /// A channel wakes its receivers before the notice is in the queue.
    BellRingsFirst,
    /// A task that receives from a channel checks for a notice before, and not after, it leaves its waker.
    RecvLooksFirst,
    /// A sleep that ends does not wake its task.
    SleepRingsSilently,
    /// A sleep that ends is not marked as over.
    SleepGoesOn,
    /// A sleep that is polled with a new waker keeps the old one.
    SleepKeepsWaker,
    /// A poll checks whether a sleep is over before, and not after, it leaves its waker.
    SleepLooksFirst,
    /// [W]: the sleeps of a domain are published without Release.
    SleepsRelaxed,
    /// A sleep that is dropped stays armed.
    SleepStaysArmed,
}

/// `order`, but Relaxed in a mutant.
#[inline(always)]
pub fn relaxed_in(fault: Mutant, order: Ordering) -> Ordering {
    if mutant(fault) { Ordering::Relaxed } else { order }
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
#[inline(always)]
pub const fn mutant(_: Mutant) -> bool {
    false
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use mutants::{mutant, with_mutant};

#[cfg(any(feature = "loom", feature = "shuttle"))]
mod mutants {
    use super::Mutant;
    extern crate std;

    // Both checkers run all threads of a model on the thread that started it, so a thread-local applies to one model.
    std::thread_local! {
        static ACTIVE: core::cell::Cell<Option<Mutant>> = const { core::cell::Cell::new(None) };
    }

    /// Whether `mutant` is switched on in the running model.
    pub fn mutant(mutant: Mutant) -> bool {
        ACTIVE.get() == Some(mutant)
    }

    /// Runs `model` with `mutant` switched on.
    pub fn with_mutant<R>(mutant: Mutant, model: impl FnOnce() -> R) -> R {
        struct Off;
        impl Drop for Off {
            fn drop(&mut self) {
                ACTIVE.set(None);
            }
        }
        ACTIVE.set(Some(mutant));
        let _off = Off;
        model()
    }
}
