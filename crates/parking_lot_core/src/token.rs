//! The types of parking_lot_core that are the same in both lines.

/// How a park ended.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum ParkResult {
    /// Another thread unparked this thread, with this token.
    Unparked(UnparkToken),
    /// `validate` returned `false`.
    Invalid,
    /// The timeout passed.
    TimedOut,
}

impl ParkResult {
    /// Whether another thread unparked this thread.
    #[inline]
    #[must_use]
    pub const fn is_unparked(self) -> bool {
        matches!(self, Self::Unparked(_))
    }
}

/// What `unpark_requeue` has to do.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum RequeueOp {
    /// Nothing.
    Abort,
    /// Unpark one thread and move all others to the second key.
    UnparkOneRequeueRest,
    /// Move all threads to the second key.
    RequeueAll,
    /// Unpark one thread and move none.
    UnparkOne,
    /// Move one thread to the second key.
    RequeueOne,
}

/// What `unpark_filter` has to do with a thread.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum FilterOp {
    /// Unpark it and go on.
    Unpark,
    /// Leave it parked and go on.
    Skip,
    /// Leave this thread and all behind it parked.
    Stop,
}

/// A value that an unpark passes to the thread that it unparks.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub struct UnparkToken(pub usize);

/// A value that a parked thread shows to `unpark_filter`.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub struct ParkToken(pub usize);

/// For callers that have no value to pass.
pub const DEFAULT_UNPARK_TOKEN: UnparkToken = UnparkToken(0);

/// For threads that have no value to show.
pub const DEFAULT_PARK_TOKEN: ParkToken = ParkToken(0);
