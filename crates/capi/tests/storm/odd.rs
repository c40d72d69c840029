//! Structs of an invalid size or with unknown fields that are not 0, and pointers that are NULL or misaligned.

use std::ffi::c_long;
use std::mem::{offset_of, size_of};
use std::ptr;

use ufutex_capi::*;

use crate::accounts::Zone;
use crate::caller::Caller;
use crate::calls::handle;
use crate::embedder;
use crate::handles::Kind;

/// Memory for the largest struct that is accepted.
#[repr(C, align(8))]
struct Room([u64; 513]);

impl Caller<'_> {
    /// Calls a function with good handles and a struct that it must refuse.
    pub fn invalid_struct(&mut self) {
        let anchor = |kind| self.storm.history.anchor(kind);
        let (system, domain) = (handle(anchor(Kind::System)), handle(anchor(Kind::Domain)));
        let task = handle(self.storm.tasks_of_threads[self.thread].get().unwrap_or(0));
        let word = embedder::word(Zone::Any, 0);
        let (mut made_system, mut made_domain, mut made_timers) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let args = [0; 6];
        let call = self.random.below(7);
        // The size of the call's struct, and its size in the first version.
        let (known, first) = [
            (size_of::<ufutex_config>(), offset_of!(ufutex_config, max_table_bytes)),
            (size_of::<ufutex_options>(), offset_of!(ufutex_options, max_table_bytes)),
            (size_of::<ufutex_wait_options>(), size_of::<ufutex_wait_options>()),
            (size_of::<ufutex_memory>(), offset_of!(ufutex_memory, write)),
            (size_of::<ufutex_counters>(), offset_of!(ufutex_counters, refused_tables)),
            (size_of::<ufutex_system_counters>(), offset_of!(ufutex_system_counters, table_bytes)),
            (size_of::<ufutex_timers_options>(), size_of::<ufutex_timers_options>()),
        ][call];
        let is_filled_in = call == 4 || call == 5;
        let mut room = Room([0; 513]);
        let (size, errno) = match self.random.below(5) {
            0 => (self.random.below(first), libc::EINVAL),
            1 => (self.random.of(&[4097, usize::MAX, 1 << 40]), libc::E2BIG),
            2 => (known, libc::EINVAL),
            _ if is_filled_in => (4097, libc::E2BIG),
            // A field beyond the library's version is not 0.
            _ => (known + 8 * (1 + self.random.below((4096 - known) / 8)), libc::E2BIG),
        };
        room.0[0] = size as u64;
        if size > known && size <= 4096 {
            room.0[size / 8 - 1] = 1 << 63;
        }
        let skew = if size == known { 1 + self.random.below(7) } else { 0 };
        let at = (&raw mut room).cast::<u8>().wrapping_add(skew);
        // SAFETY: the library accesses only `room`: a struct has the size that it declares, at most 4096 bytes. It is
        // not accessed if it is misaligned or declares a larger size. The other arguments are valid.
        let answer: c_long = unsafe {
            match call {
                0 => ufutex_system_new(at.cast(), &mut made_system).into(),
                1 => ufutex_domain_new(system, at.cast(), &mut made_domain).into(),
                2 => ufutex_wait(domain, word, 0, UFUTEX_U32, at.cast()).into(),
                3 => ufutex_syscall(domain, task, at.cast(), 202, args.as_ptr()),
                4 => ufutex_domain_get_counters(domain, at.cast()).into(),
                6 => ufutex_timers_new(system, at.cast(), &mut made_timers).into(),
                _ => ufutex_system_get_counters(system, at.cast()).into(),
            }
        };
        let seed = self.storm.seed;
        assert_eq!(answer, -c_long::from(errno), "seed {seed}: struct {call} of {known} bytes says {size}");
        assert!(made_system.is_null() && made_domain.is_null() && made_timers.is_null());
        self.null_pointers();
    }

    /// Calls a function with NULL for its result.
    fn null_pointers(&mut self) {
        let domain = handle(self.storm.history.anchor(Kind::Domain));
        let system = handle(self.storm.history.anchor(Kind::System));
        // SAFETY: NULL is refused before anything is stored.
        let answer: c_long = unsafe {
            match self.random.below(8) {
                6 => ufutex_timers_new(system, ptr::null(), ptr::null_mut()).into(),
                7 => ufutex_driver_next(system, UFUTEX_MONOTONIC, ptr::null_mut()).into(),
                0 => ufutex_system_new(ptr::null(), ptr::null_mut()).into(),
                1 => ufutex_domain_new(system, ptr::null(), ptr::null_mut()).into(),
                2 => ufutex_task_new(domain, 1, 0, ptr::null_mut()).into(),
                3 => ufutex_domain_get_counters(domain, ptr::null_mut()).into(),
                4 => ufutex_resume(0, UFUTEX_NO_HANDLER, ptr::null_mut()).into(),
                _ => ufutex_waitv(domain, ptr::null(), 1, ptr::null()).into(),
            }
        };
        assert_eq!(answer, -c_long::from(libc::EINVAL), "seed {}: NULL", self.storm.seed);
    }
}
