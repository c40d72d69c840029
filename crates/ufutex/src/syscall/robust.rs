//! `set_robust_list` and `get_robust_list`.

use super::{Caller, arguments};
use crate::error::Error;
use crate::futex::robust::Pointers;
use crate::sys::mem::UserMemory;
use crate::table::layout::Layout;
use crate::table::refs::Scheme;

impl<M: UserMemory + ?Sized, S: Scheme<L>, L: Layout> Caller<'_, '_, '_, M, S, L> {
    pub fn set_robust_list(&self, [head, length, ..]: [u64; 6]) -> Result<isize, Error> {
        self.task.set_robust_list(Pointers::Wide, head, length)?;
        Ok(0)
    }

    pub fn get_robust_list(&self, [pid, head_ptr, len_ptr, ..]: [u64; 6]) -> Result<isize, Error> {
        let pid = pid as u32;
        let head = if pid == 0 { self.task.robust_list(Pointers::Wide) } else { self.domain.robust_list_of(pid)? };
        arguments::write(self.memory, len_ptr, &Pointers::Wide.head_bytes().to_le_bytes())?;
        arguments::write(self.memory, head_ptr, &head.to_le_bytes())?;
        Ok(0)
    }
}
