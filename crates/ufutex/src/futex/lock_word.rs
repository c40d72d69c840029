//! What the word of a lock with an owner holds. Programs, the kernel and the engine agree on it.

/// In a lock's word: a task waits for the lock.
pub const WAITERS: u32 = 0x8000_0000;
/// In a lock's word: an owner has ended without unlocking it.
pub const OWNER_DIED: u32 = 0x4000_0000;
/// The bits of a lock's word that hold the owner's TID.
pub const TID_MASK: u32 = 0x3fff_ffff;
