//! Static probes (SDT), for SystemTap, bpftrace, perf and gdb: a `nop` in the code, and a note in the binary with the addresses
//! of the `nop` and its arguments. They stand where a waiter is queued, woken or moved.

/// A probe of the provider `ufutex`: its name, and arguments that can be cast to `isize`.
#[cfg(all(feature = "probes", target_os = "linux", not(miri)))]
macro_rules! probe {
    // One rule for each number of arguments: the crate's macro would evaluate them in an `unsafe` block.
    ($name:ident, $a:expr) => {{
        let a = $a as isize;
        ::probe::probe!(ufutex, $name, a)
    }};
    ($name:ident, $a:expr, $b:expr) => {{
        let (a, b) = ($a as isize, $b as isize);
        ::probe::probe!(ufutex, $name, a, b)
    }};
    ($name:ident, $a:expr, $b:expr, $c:expr, $d:expr) => {{
        let (a, b, c, d) = ($a as isize, $b as isize, $c as isize, $d as isize);
        ::probe::probe!(ufutex, $name, a, b, c, d)
    }};
}

/// Without probes the arguments are type-checked and never evaluated.
#[cfg(not(all(feature = "probes", target_os = "linux", not(miri))))]
macro_rules! probe {
    ($name:ident $(, $argument:expr)*) => {
        if false { let _ = ($($argument as isize,)*); }
    };
}

pub(crate) use probe;
