//! What the C interface costs over the engine: waits that find another value, and wakes that find nobody, in nanoseconds,
//! by the functions for them and as system calls by number.
//!
//! `cargo run --release -p ufutex-capi --example cost [libufutex.so]`
//!
//! Samples of all are taken in turn, and medians are printed: by Rust, by the C functions linked statically, and by those of
//! a shared library if one is given.

use std::ffi::{CString, c_int, c_long, c_void};
use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::sync::atomic::AtomicU32;

use engine::{Domain, DomainOptions, Error, System};
use ufutex_capi::{
    UFUTEX_BITSET_ANY, UFUTEX_NO_EARLY_RETURN, UFUTEX_U32, ufutex_domain, ufutex_options, ufutex_system, ufutex_task,
    ufutex_wait_options,
};

/// Declares functions of the interface, which a library may have too.
macro_rules! functions {
    ($($field:ident = $name:ident($($argument:ty),+) -> $result:ty;)+) => {
        // As a C program calls them: by name.
        #[allow(improper_ctypes, reason = "handles are never looked into")]
        unsafe extern "C" {
            $(fn $name($(_: $argument),+) -> $result;)+
        }

        /// The functions of a library.
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),+) -> $result,)+
        }

        impl Functions {
            fn linked() -> Self {
                Self { $($field: $name,)+ }
            }

            fn load(path: &str) -> Self {
                let path = CString::new(path).expect("a path");
                // SAFETY: the library's functions are of these types, says ufutex.h. A name ends with a zero.
                unsafe {
                    let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
                    assert!(!library.is_null(), "{path:?} cannot be loaded");
                    let find = |name: &str| libc::dlsym(library, name.as_ptr().cast());
                    Self {
                        $($field: std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($argument),+) -> $result,
                        >(find(concat!(stringify!($name), "\0"))),)+
                    }
                }
            }
        }
    };
}

functions! {
    new_system = ufutex_system_new(*const c_void, *mut *mut ufutex_system) -> c_int;
    new_domain = ufutex_domain_new(*mut ufutex_system, *const ufutex_options, *mut *mut ufutex_domain) -> c_int;
    new_task = ufutex_task_new(*mut ufutex_domain, u32, u32, *mut *mut ufutex_task) -> c_int;
    wait = ufutex_wait(*mut ufutex_domain, u64, u64, u32, *const ufutex_wait_options) -> c_int;
    wake = ufutex_wake(*mut ufutex_domain, u64, u32, u32, u32) -> c_int;
    syscall = ufutex_syscall(*mut ufutex_domain, *mut ufutex_task, *const c_void, u64, *const u64) -> c_long;
}

/// A library, with two domains and a task in each. The second domain has no early return.
struct C {
    functions: Functions,
    domains: [(*mut ufutex_domain, *mut ufutex_task); 2],
}

/// Private waits and wakes, as the numbers of futex(2) and of its operations.
const FUTEX: u64 = 202;
const WAIT: u64 = 128;
const WAKE: u64 = 129;

impl C {
    fn new(functions: Functions) -> Self {
        let mut system = null_mut();
        let mut domains = [(null_mut(), null_mut()); 2];
        // SAFETY: the functions of one library, with arguments as ufutex.h says.
        unsafe {
            assert_eq!((functions.new_system)(null(), &mut system), 0);
            for (tid, ((domain, task), flags)) in (1..).zip(domains.iter_mut().zip([0, UFUTEX_NO_EARLY_RETURN])) {
                let options = ufutex_options { flags, ..Default::default() };
                assert_eq!((functions.new_domain)(system, &options, domain), 0);
                assert_eq!((functions.new_task)(*domain, tid, 0, task), 0);
            }
        }
        Self { functions, domains }
    }

    fn wait_ns(&self, i: usize, at: u64) -> f64 {
        let (domain, _) = self.domains[i];
        // SAFETY: a handle of that library, and a word that is there.
        let wait = || unsafe { (self.functions.wait)(domain, black_box(at), 1, UFUTEX_U32, null()) };
        ns(|| assert_eq!(wait(), -libc::EAGAIN))
    }

    fn wake_ns(&self, i: usize, at: u64) -> f64 {
        let (domain, _) = self.domains[i];
        // SAFETY: as above.
        let wake = || unsafe { (self.functions.wake)(domain, black_box(at), 1, UFUTEX_BITSET_ANY, UFUTEX_U32) };
        ns(|| assert_eq!(wake(), 0))
    }

    /// By number: `operation` is that of futex(2), with the value 1.
    fn call_ns(&self, i: usize, at: u64, operation: u64, result: c_int) -> f64 {
        let (domain, task) = self.domains[i];
        let call = || {
            let args = [black_box(at), operation, 1, 0, 0, 0];
            // SAFETY: handles of that library, six arguments, and a word that is there.
            unsafe { (self.functions.syscall)(domain, task, null(), FUTEX, args.as_ptr()) }
        };
        ns(|| assert_eq!(call(), result.into()))
    }
}

const CALLS: u32 = 200_000;
const SAMPLES: usize = 41;

/// What the calling thread has used: others may be running too.
fn thread_time_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn ns(mut call: impl FnMut()) -> f64 {
    let start = thread_time_ns();
    for _ in 0..CALLS {
        call();
    }
    (thread_time_ns() - start) as f64 / f64::from(CALLS)
}

fn main() {
    let system = System::new();
    let rust: [Domain; 2] = [true, false]
        .map(|early_return| Domain::with_options(&system, DomainOptions::new().early_return(early_return)));
    let mut rivals = vec![("C, static", C::new(Functions::linked()))];
    if let Some(path) = std::env::args().nth(1) {
        rivals.push(("C, shared", C::new(Functions::load(&path))));
    }
    let word = AtomicU32::new(0);
    let at = word.as_ptr().expose_provenance() as u64;
    for (case, i) in
        [("wait, early return", 0), ("wait, bucket", 1), ("wake", 0), ("wait by number", 0), ("wake by number", 0)]
    {
        let mut samples = vec![Vec::new(); 1 + rivals.len()];
        for _ in 0..SAMPLES {
            samples[0].push(match case {
                "wake" | "wake by number" => ns(|| assert_eq!(rust[i].wake(black_box(&word), 1), 0)),
                _ => ns(|| assert_eq!(rust[i].wait(black_box(&word), 1), Err(Error::Again))),
            });
            for ((_, c), samples) in rivals.iter().zip(&mut samples[1..]) {
                samples.push(match case {
                    "wake" => c.wake_ns(i, at),
                    "wait by number" => c.call_ns(i, at, WAIT, -libc::EAGAIN),
                    "wake by number" => c.call_ns(i, at, WAKE, 0),
                    _ => c.wait_ns(i, at),
                });
            }
        }
        let names = ["Rust"].into_iter().chain(rivals.iter().map(|(name, _)| *name));
        for (name, samples) in names.zip(&mut samples) {
            samples.sort_by(f64::total_cmp);
            println!("{case:20} {name:10} {:6.1} ns", samples[SAMPLES / 2]);
        }
    }
}
