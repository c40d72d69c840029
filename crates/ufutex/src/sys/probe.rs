//! Static probes (SDT), for SystemTap, bpftrace, perf and gdb: a `nop` in the code and a note in the binary that says where
//! it is and where its arguments are. They stand where somebody queues, is told or moves, and never on the way of a wait
//! that finds another value or a wake that finds nobody.

/// A probe of the provider `ufutex`: its name, and arguments that can be cast to `isize`.
#[cfg(all(
    feature = "probes",
    target_os = "linux",
    not(any(feature = "loom", feature = "shuttle", feature = "sim", miri))
))]
macro_rules! probe {
    // By the number of arguments, to have each evaluated here: the crate's macro does it within an `unsafe` block.
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

/// Without probes the arguments are looked at by the compiler alone.
#[cfg(not(all(
    feature = "probes",
    target_os = "linux",
    not(any(feature = "loom", feature = "shuttle", feature = "sim", miri))
)))]
macro_rules! probe {
    ($name:ident $(, $argument:expr)*) => {
        if false { let _ = ($($argument as isize,)*); }
    };
}

pub(crate) use probe;
