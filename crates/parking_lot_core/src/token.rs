//! The types that both lines have, with the same names and fields.

/// How a park ended.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum ParkResult {
    /// Another thread unparked us, with this token.
    Unparked(UnparkToken),
    /// `validate` said no.
    Invalid,
    /// The timeout passed.
    TimedOut,
}

impl ParkResult {
    /// Whether another thread unparked us.
    #[inline]
    #[must_use]
    pub const fn is_unparked(self) -> bool {
        matches!(self, Self::Unparked(_))
    }
}

/// What `unpark_requeue` is to do.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum RequeueOp {
    /// Nothing.
    Abort,
    /// Unpark one thread and move all others to the second key.
    UnparkOneRequeueRest,
    /// Move all threads to the second key.
    RequeueAll,
    /// Unpark one thread and move nobody.
    UnparkOne,
    /// Move one thread to the second key.
    RequeueOne,
}

/// What `unpark_filter` is to do with a thread.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum FilterOp {
    /// Unpark it and go on.
    Unpark,
    /// Leave it parked and go on.
    Skip,
    /// Leave it parked, and all behind it.
    Stop,
}

/// What whoever unparks tells the thread.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub struct UnparkToken(pub usize);

/// What a parked thread says of itself, for `unpark_filter`.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub struct ParkToken(pub usize);

/// For those who have nothing to tell.
pub const DEFAULT_UNPARK_TOKEN: UnparkToken = UnparkToken(0);

/// For those who have nothing to say.
pub const DEFAULT_PARK_TOKEN: ParkToken = ParkToken(0);
