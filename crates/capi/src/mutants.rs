//! Faults that the models of handles switch on.

/// Faults. A model has to find each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// A user enters its handle after it has checked the slot's state.
    EntersLate,
    /// A user that has counted itself does not check the state again.
    CountsLate,
    /// A free does not look for holders.
    ForgetsHolders,
    /// A free does not check the count after it has set the mark.
    ForgetsUsers,
    /// A free checks the count first, and then for holders.
    LooksAtUsersFirst,
    /// Two threads may take one record.
    SharesRecord,
    /// A slot that is used again has the same handle as before.
    KeepsGeneration,
    /// A free checks the slot's state and sets the mark in two steps, so two threads may free one object.
    ClosesInTwoSteps,
    /// A free gives the slot back before it has removed the handle.
    GivesBackEarly,
    /// The list of free slots does not count its changes.
    CountsNoChanges,
}
