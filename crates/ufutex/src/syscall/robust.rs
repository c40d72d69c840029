//! `set_robust_list`, `get_robust_list` and `set_tid_address`: what is to happen when a task ends.

use super::{GuestCall, arguments};
use crate::error::Error;
use crate::futex::robust::Pointers;
use crate::sys::mem::UserMemory;

impl<M: UserMemory + ?Sized> GuestCall<'_, '_, '_, M> {
    pub fn set_robust_list(&self, pointers: Pointers, [head, length, ..]: [u64; 6]) -> Result<isize, Error> {
        self.task.set_robust_list(pointers, head, length)?;
        Ok(0)
    }

    pub fn get_robust_list(&self, pointers: Pointers, [pid, head_ptr, len_ptr, ..]: [u64; 6]) -> Result<isize, Error> {
        let pid = pid as u32;
        let head =
            if pid == 0 { self.task.robust_list(pointers) } else { self.domain.robust_list_of(pid, pointers)? };
        let bytes = pointers.bytes() as usize;
        arguments::write(self.memory, len_ptr, &pointers.head_bytes().to_le_bytes()[..bytes])?;
        arguments::write(self.memory, head_ptr, &head.to_le_bytes()[..bytes])?;
        Ok(0)
    }

    pub fn set_tid_address(&self, [address, ..]: [u64; 6]) -> isize {
        self.task.set_clear_child_tid(address);
        self.task.tid() as isize
    }
}
