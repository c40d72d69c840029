//! Wakes.

use super::key::{Access, Key};
use super::{Answer, Kind, Model, errno};

impl Model {
    /// `FUTEX_WAKE_BITSET`, or with `is_strict` the newer `futex_wake`, for which a count of 0 means no waiter.
    pub(super) fn wake(&mut self, address: u64, is_private: bool, count: i32, mask: u32, is_strict: bool) -> Answer {
        if mask == 0 {
            return errno(libc::EINVAL);
        }
        let key = self.key(address, is_private, Access::Read)?;
        if is_strict && count == 0 {
            return Ok(0);
        }
        self.wake_key(key, count, mask)
    }

    /// Wakes up to `count` waiters, but at least one. Reaching a waiter for a PI futex is an error. Waiters that have
    /// been woken before it stay awake.
    pub(super) fn wake_key(&mut self, key: Key, count: i32, mask: u32) -> Answer {
        let mut woken = 0;
        let mut result = Ok(());
        let mut taken = Vec::new();
        for at in self.waiters(key) {
            if self.queue[at].kind != Kind::Plain {
                result = errno(libc::EINVAL);
                break;
            }
            if self.queue[at].bitset & mask == 0 {
                continue;
            }
            taken.push(at);
            woken += 1;
            if woken >= i64::from(count) {
                break;
            }
        }
        for at in taken.into_iter().rev() {
            self.wake_one(at);
        }
        result.map(|()| woken)
    }

    /// Removes the waiter at this index from the queue.
    pub(super) fn wake_one(&mut self, at: usize) {
        let entry = self.queue.remove(at);
        let highest = &mut self.woken[entry.worker];
        *highest = (*highest).max(Some(entry.index));
    }

    pub(super) fn wake_op(&mut self, addresses: [u64; 2], is_private: bool, counts: [i32; 2], encoded: u32) -> Answer {
        let first = self.key(addresses[0], is_private, Access::Read)?;
        let second = self.key(addresses[1], is_private, Access::Write)?;
        let is_second_woken = self.modify(addresses[1], encoded)?;
        let mut woken = self.wake_key(first, counts[0], u32::MAX)?;
        if is_second_woken {
            woken += self.wake_key(second, counts[1], u32::MAX)?;
        }
        Ok(woken)
    }

    /// Applies the operation of a `FUTEX_WAKE_OP` to the word, and compares the word's old value.
    fn modify(&mut self, address: u64, encoded: u32) -> Answer<bool> {
        let signed_12_bits = |value: u32| (value << 20).cast_signed() >> 20;
        let (op, cmp) = (encoded >> 28 & 7, encoded >> 24 & 15);
        let (mut arg, cmp_arg) = (signed_12_bits(encoded >> 12), signed_12_bits(encoded));
        if encoded >> 31 != 0 {
            arg = 1 << (arg & 31);
        }
        let arg = arg.cast_unsigned();
        let operation: fn(u32, u32) -> u32 = match op {
            0 => |_, arg| arg,
            1 => u32::wrapping_add,
            2 => |old, arg| old | arg,
            3 => |old, arg| old & !arg,
            4 => |old, arg| old ^ arg,
            _ => return errno(libc::ENOSYS),
        };
        let old = self.load(address)?;
        self.store(address, operation(old, arg))?;
        let old = old.cast_signed();
        Ok(match cmp {
            0 => old == cmp_arg,
            1 => old != cmp_arg,
            2 => old < cmp_arg,
            3 => old <= cmp_arg,
            4 => old > cmp_arg,
            5 => old >= cmp_arg,
            // The kernel has written the word before it finds the comparison invalid.
            _ => return errno(libc::ENOSYS),
        })
    }
}
