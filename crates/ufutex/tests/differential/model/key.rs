//! What makes two waiters meet.

use super::{Answer, Model, errno};
use crate::layout::{Kind, PAGES};
use crate::program::Rights;

/// The identity of a futex. The three kinds never meet, not even on one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// A private operation: the address, whatever lies there.
    Private(u64),
    /// A shared operation on memory that only this process has: the address.
    Anonymous(u64),
    /// A shared operation on an object: which page of it, and where in the page.
    Object(u64, u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Read,
    Write,
}

/// The first address that a program may not name: 47 bits without the last page, on x86-64.
const END_OF_USER: u64 = (1 << 47) - 4096;

impl Model {
    /// The key of `address`: private ones without a look at the memory.
    pub(super) fn key(&self, address: u64, is_private: bool, access: Access) -> Answer<Key> {
        if !address.is_multiple_of(4) {
            return errno(libc::EINVAL);
        }
        if address >= END_OF_USER {
            return errno(libc::EFAULT);
        }
        if is_private {
            return Ok(Key::Private(address));
        }
        let Some((page, offset)) = self.layout.find(address) else { return errno(libc::EFAULT) };
        let kind = PAGES.get(page).map_or(Kind::Anonymous, |(kind, _)| *kind);
        let least = match (kind, access) {
            // Read-only anonymous memory would never change.
            (Kind::Anonymous, _) | (_, Access::Write) => Rights::ReadWrite,
            (Kind::Object(_), Access::Read) => Rights::Read,
        };
        if self.rights(page) < least {
            return errno(libc::EFAULT);
        }
        Ok(match kind {
            Kind::Anonymous => Key::Anonymous(address),
            Kind::Object(number) => Key::Object(number, offset),
        })
    }

    /// The word at `address`.
    pub(super) fn load(&self, address: u64) -> Answer<u32> {
        // Addresses that a program may not name are in none of its pages.
        self.memory.load(address).or_else(|_| errno(libc::EFAULT))
    }

    pub(super) fn store(&mut self, address: u64, value: u32) -> Answer<()> {
        self.memory.store(address, value).or_else(|_| errno(libc::EFAULT))
    }
}
