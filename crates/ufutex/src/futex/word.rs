//! A guest's word as a system call names it.

use super::key::{At, GuestWord};
use crate::error::Error;
use crate::sys::mem::{Access, Scope, UserMemory, Width};

/// The 32-bit word at an address, with its scope and its node.
pub(crate) type Word<'m, M> = At<GuestWord<'m, M>>;

/// The word at `address`, for a private operation: [`Error::Invalid`] if misaligned, [`Error::Fault`] if it is not the guest's.
pub(crate) fn private<M: UserMemory + ?Sized>(memory: &M, address: u64) -> Result<Word<'_, M>, Error> {
    Ok(At::new(checked(memory, address)?, Scope::Private))
}

/// As [`private`], for an operation that is not private: [`Error::Fault`] also if the memory does not allow `access`.
pub(crate) fn shared<M: UserMemory + ?Sized>(memory: &M, address: u64, access: Access) -> Result<Word<'_, M>, Error> {
    Ok(checked(memory, address)?.shared(access)?)
}

fn checked<M: UserMemory + ?Sized>(memory: &M, address: u64) -> Result<GuestWord<'_, M>, Error> {
    let word = GuestWord::new(memory, address, Width::U32)?;
    if memory.access_ok(address, 4) { Ok(word) } else { Err(Error::Fault) }
}
