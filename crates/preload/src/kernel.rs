//! `--kernel`: the kernel handles all futexes. Before the program begins, the library sets the number of slots in the
//! kernel. All our functions pass their calls on to libc's own.

use core::sync::atomic::{AtomicBool, Ordering};

use ufutex_program::slots::{FLAG_IMMUTABLE, GET_SLOTS, PR_FUTEX_HASH, SET_SLOTS, refusal};

use crate::{raw, settings};

/// Whether the library handles no calls at all. Read by the assembly of `entry.rs`.
pub static ON: AtomicBool = AtomicBool::new(false);

/// Sets the slots, if the program runs with `--kernel`. Returns whether it does.
pub fn begin() -> bool {
    let is_on = settings::get().kernel;
    ON.store(is_on, Ordering::Relaxed);
    if is_on {
        set_slots();
        // SAFETY: `child` takes no arguments. If there is no memory to register it, a forked child has the kernel's
        // default number of slots.
        unsafe { libc::pthread_atfork(None, None, Some(child)) };
    }
    is_on
}

/// Sets the slots of a forked child, which has no table of its own yet, and one thread.
unsafe extern "C" fn child() {
    set_slots();
}

fn set_slots() {
    let settings = settings::get();
    let Some(slots) = settings.slots else { return };
    let flags = if settings.immutable { FLAG_IMMUTABLE } else { 0 };
    let prctl = |op: u64, slots: u64, flags: u64| {
        // SAFETY: takes only numbers.
        unsafe { raw::own(libc::SYS_prctl, [PR_FUTEX_HASH as u64, op, slots, flags, 0]) }
    };
    let result = prctl(SET_SLOTS, slots as u64, flags);
    if result == 0 {
        return;
    }
    let why = refusal(slots, settings.immutable, -result as i32, prctl(GET_SLOTS, 0, 0) >= 0);
    if settings.process == Some(raw::pid()) {
        raw::die(&["--kernel ", &why]);
    }
    // A process that the program has made is not ended because of this, so that it can do its work.
    for part in ["ufutex: --kernel ", &why, "; this process goes on without\n"] {
        raw::write_all(2, part.as_bytes());
    }
}
