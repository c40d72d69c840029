//! The guest's memory, for the engine: the region, and the rest by system calls on the guest's process.

use ufutex::{Access, Fault, ObjectId, Scope, UserMemory, Width};

use crate::region::Region;

/// The memory of the process `pid`. Only words in the region can be compared and exchanged, since nothing else is
/// mapped here.
pub struct Memory {
    region: Region,
    pid: libc::pid_t,
}

impl Memory {
    pub fn new(region: Region, pid: libc::pid_t) -> Self {
        Self { region, pid }
    }
}

/// A part of the guest's memory, of `length` bytes.
fn remote(address: u64, length: usize) -> libc::iovec {
    libc::iovec { iov_base: std::ptr::without_provenance_mut(address as usize), iov_len: length }
}

impl UserMemory for Memory {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        self.region.load(address, width)
    }

    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        self.region.compare_exchange(address, width, current, new)
    }

    /// The region is always there.
    fn fault_in(&self, _address: u64, _access: Access) -> Result<(), Fault> {
        Err(Fault)
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let (local, length) = (into.as_mut_ptr().cast(), into.len());
        let local = libc::iovec { iov_base: local, iov_len: length };
        // SAFETY: the kernel writes to `into` alone, which is borrowed mutably.
        let copied = unsafe { libc::process_vm_readv(self.pid, &local, 1, &remote(address, length), 1, 0) };
        if copied == length as isize { Ok(()) } else { Err(Fault) }
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
        // SAFETY: the kernel reads `from`, and writes to the guest, which is another process.
        let copied = unsafe { libc::process_vm_writev(self.pid, &local, 1, &remote(address, from.len()), 1, 0) };
        if copied == from.len() as isize { Ok(()) } else { Err(Fault) }
    }

    fn scope(&self, address: u64, _access: Access) -> Result<Scope, Fault> {
        let offset = Region::offset(address).ok_or(Fault)?;
        Ok(Scope::Object { id: ObjectId::new(1).ok_or(Fault)?, offset })
    }
}
