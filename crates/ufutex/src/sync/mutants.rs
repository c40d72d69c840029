//! Faults of the timers and of locks with an owner that the models must catch. The others are in
//! `crates/models/seam/mutants.toml`.

use super::Ordering;

/// Faults that the model tests put into the engine to prove that a model can fail. Here [`mutant`] is the constant
/// `false`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code)] // each is named by the model test that must catch it
pub enum Mutant {
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
    /// [R]: a timer in a chain gets a successor without Release.
    SuccessorRelaxed,
    /// [S]: a table of IDs is published without Release.
    IdsRelaxed,
    /// An insertion does not check whether the ID is in use.
    InsertSkipsCheck,
    /// An expiry does not check that the timer is valid, and may read the state of a timer that another thread is
    /// making.
    ExpiryIgnoresWord,
    /// A notice that has been taken can be taken again.
    TakeKeepsNumber,
    /// An owner is freed while its queues are still in the driver's wheel.
    RetireForgets,
    /// A channel wakes its receivers before the notice is in the queue.
    BellRingsFirst,
    /// A task that receives from a channel checks for a notice before, and not after, it leaves its waker.
    RecvLooksFirst,
    /// A wait reports that it has timed out although a waker has counted it as woken.
    TimeoutLosesWake,
}

/// `order`, but Relaxed in a mutant.
#[inline(always)]
pub fn relaxed_in(fault: Mutant, order: Ordering) -> Ordering {
    if mutant(fault) { Ordering::Relaxed } else { order }
}

#[inline(always)]
pub const fn mutant(_: Mutant) -> bool {
    false
}
