//! Faults that the models must catch.

use super::Ordering;

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
    /// A wake gives an entry back before it has called the waker that it was lent.
    ReturnsTooEarly,
    /// [J]: a wake gives an entry back without Release, after it has called the waker that it was lent.
    ReturnRelaxed,
    /// [Y]: a waiter loads the word of its group after it has checked its signal.
    GroupLoadedLate,
    /// [Y]: a wake counts in the group before it has stored `WOKEN`.
    GroupWokenEarly,
    /// [Y]: a wake counts in the group without Release.
    GroupCountRelaxed,
    /// A wait that is cancelled while the waker it has lent is called gives the entry's memory up at once.
    CancelForgetsCall,
    /// A wake that a cancelled wait has counted as received is passed on when the wait is settled.
    CancelPassesOn,
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
    /// A waiter with a real-time priority notes the same moment as those that it is placed ahead of.
    OvertakesUnnoticed,
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
    /// A thread that parks unlocks the queue between `validate` and the moment at which it joins the queue.
    ParkLetsGo,
    /// The callback of a park that has timed out runs after the queue has been unlocked.
    TimedOutUnlocked,
    /// A park that has timed out looks for other threads in its own bucket although some of them may be in another one,
    /// because a move is under way.
    TimedOutInPieces,
    /// An unpark stores its token after it has notified the thread.
    UnparkTokenLate,
    /// [N]: a waker sets `NOTIFIED` without Release.
    NotifyRelaxed,
    /// [N]: a thread that notifies a sleeper checks whether it spins before it sets `NOTIFIED`.
    NotifyLooksFirst,
    /// [N]: a thread that has spun in vain falls asleep while its sleeper still says that it spins.
    SpinnerStaysMarked,
    /// An interrupt that is cleared at once does not end the wait that is under way.
    ClearForgetsWait,
    /// A sleeper clears `NOTIFIED`, and sleeps nevertheless.
    SleeperForgets,
    /// A waker stores `WOKEN`, which gives the entry back, before it sets the sleeper's `NOTIFIED`.
    NotifiesTooLate,
    /// A wait on several words that finds a word changed reports that, although a waiter that it queued before has been
    /// woken meanwhile.
    WaitAnyForgetsWake,
    /// A waiter of a lock queues without setting the waiters' bit.
    LockHidesWaiter,
    /// Unlocking writes 0 if the emptiness check found no waiter, although the waiters' bit has been set since.
    UnlockTrustsEmptinessCheck,
    /// The death of a lock's owner wakes the heir before it marks it as the heir.
    HeirIsNotifiedFirst,
    /// The death of a lock's owner does not mark the heir.
    DeathNotifiesNobody,
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
    /// Two objects take one place.
    PlaceIsTakenTwice,
    /// The table of an object's place is replaced by one that another thread has made.
    ObjectTableIsReplaced,
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
    /// A shard is used without a check that its next ID is still that whose group was locked.
    ShardTrustsPeek,
    /// [Z]: a shard passes to the lock of another group without Release.
    ShardRelaxed,
    /// When IDs jump, the shards' blocks become void before the counter has jumped.
    JumpVoidsFirst,
    /// [Q]: a timer is published without Release.
    TimerRelaxed,
    /// [R]: a timer becomes the first of a chain without Release.
    HeadRelaxed,
    /// [S]: a table of IDs is published without Release.
    IdsRelaxed,
    /// An insertion does not check whether the ID is in use.
    InsertSkipsCheck,
    /// An expiry does not check that the timer is valid, and may read the state of a timer that another thread is
    /// making.
    ExpiryIgnoresWord,
    /// A notice that has been taken can be taken again.
    TakeKeepsNumber,
    /// A turn does not schedule the deadlines that are left in a queue.
    TurnForgetsRest,
    /// A deadline that becomes the earliest is armed without a notification.
    ArmNotifiesNobody,
    /// `Driver::next` does not raise `announced`: a deadline between an old answer and a later new one is armed without
    /// a notification.
    ToldKeepsEarlier,
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
    SleepFiresSilently,
    /// A sleep that ends is not marked as over.
    SleepGoesOn,
    /// A sleep that is polled with a new waker keeps the old one.
    SleepKeepsWaker,
    /// A poll checks whether a sleep is over before, and not after, it leaves its waker.
    SleepLooksFirst,
    /// [W]: a value that is made when it is needed is published without Release.
    LazyRelaxed,
    /// A sleep that is dropped stays armed.
    SleepStaysArmed,
}

/// `order`, but Relaxed in a mutant.
#[inline(always)]
pub fn relaxed_in(fault: Mutant, order: Ordering) -> Ordering {
    if mutant(fault) { Ordering::Relaxed } else { order }
}

#[cfg(not(any(feature = "loom", feature = "shuttle", ufutex_mutants)))]
#[inline(always)]
pub const fn mutant(_: Mutant) -> bool {
    false
}

#[cfg(all(ufutex_mutants, not(any(feature = "loom", feature = "shuttle"))))]
pub use named::mutant;

/// With `--cfg ufutex_mutants`, as by `.ci/switched-mutants`, real threads run the mutant that the environment names.
#[cfg(all(ufutex_mutants, not(any(feature = "loom", feature = "shuttle"))))]
mod named {
    use super::Mutant;
    use core::sync::atomic::{AtomicU8, Ordering};
    extern crate std;

    const UNKNOWN: u8 = 0;
    const OFF: u8 = 1;
    const ON: u8 = 2;

    /// By the number of the mutant.
    static STATES: [AtomicU8; 256] = [const { AtomicU8::new(UNKNOWN) }; 256];

    /// Whether `UFUTEX_MUTANT` is the name of `mutant`.
    pub fn mutant(mutant: Mutant) -> bool {
        let state = &STATES[mutant as usize];
        if state.load(Ordering::Relaxed) == UNKNOWN {
            let is_named = std::env::var("UFUTEX_MUTANT").is_ok_and(|name| name == std::format!("{mutant:?}"));
            state.store(if is_named { ON } else { OFF }, Ordering::Relaxed);
        }
        state.load(Ordering::Relaxed) == ON
    }
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use switch::{mutant, with_mutant};

#[cfg(any(feature = "loom", feature = "shuttle"))]
mod switch {
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
