//! What the C interface costs over the engine: waits that find another value, and wakes that find nobody, in nanoseconds.
//!
//! `cargo run --release -p ufutex-capi --example cost [libufutex.so]`
//!
//! Samples of all are taken in turn, and medians are printed: by Rust, by the C functions linked statically, and by those of
//! a shared library if one is given.

use std::ffi::{CString, c_int, c_void};
use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::sync::atomic::AtomicU32;

use engine::{Domain, Error, Options, System};
use ufutex_capi::{
    UFUTEX_BITSET_ANY, UFUTEX_NO_EARLY_RETURN, UFUTEX_U32, ufutex_domain, ufutex_options, ufutex_system,
    ufutex_wait_options,
};

type NewSystem = unsafe extern "C" fn(*const c_void, *mut *mut ufutex_system) -> c_int;
type NewDomain = unsafe extern "C" fn(*mut ufutex_system, *const ufutex_options, *mut *mut ufutex_domain) -> c_int;
type Wait = unsafe extern "C" fn(*mut ufutex_domain, u64, u64, u32, *const ufutex_wait_options) -> c_int;
type Wake = unsafe extern "C" fn(*mut ufutex_domain, u64, u32, u32, u32) -> c_int;

// As a C program calls them: by name.
#[allow(improper_ctypes, reason = "handles are never looked into")]
unsafe extern "C" {
    fn ufutex_system_new(config: *const c_void, system: *mut *mut ufutex_system) -> c_int;
    fn ufutex_domain_new(s: *mut ufutex_system, o: *const ufutex_options, d: *mut *mut ufutex_domain) -> c_int;
    fn ufutex_wait(d: *mut ufutex_domain, at: u64, expected: u64, flags: u32, o: *const ufutex_wait_options) -> c_int;
    fn ufutex_wake(d: *mut ufutex_domain, at: u64, count: u32, bitset: u32, flags: u32) -> c_int;
}

/// A library, and a domain in it.
struct C {
    wait: Wait,
    wake: Wake,
    domains: [*mut ufutex_domain; 2],
}

impl C {
    fn new(new_system: NewSystem, new_domain: NewDomain, wait: Wait, wake: Wake) -> Self {
        let mut system = null_mut();
        let mut domains = [null_mut(); 2];
        for (domain, flags) in domains.iter_mut().zip([0, UFUTEX_NO_EARLY_RETURN]) {
            // SAFETY: the functions of one library, with arguments as ufutex.h says.
            unsafe {
                let mut options: ufutex_options = std::mem::zeroed();
                options.size = size_of::<ufutex_options>();
                options.flags = flags;
                assert_eq!(new_system(null(), &mut system), 0);
                assert_eq!(new_domain(system, &options, domain), 0);
            }
        }
        Self { wait, wake, domains }
    }

    fn load(path: &str) -> Self {
        let path = CString::new(path).expect("a path");
        // SAFETY: the library's functions are of these types, says ufutex.h.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null(), "{path:?} cannot be loaded");
            let find = |name: &std::ffi::CStr| libc::dlsym(library, name.as_ptr());
            Self::new(
                std::mem::transmute::<*mut c_void, NewSystem>(find(c"ufutex_system_new")),
                std::mem::transmute::<*mut c_void, NewDomain>(find(c"ufutex_domain_new")),
                std::mem::transmute::<*mut c_void, Wait>(find(c"ufutex_wait")),
                std::mem::transmute::<*mut c_void, Wake>(find(c"ufutex_wake")),
            )
        }
    }
}

impl C {
    fn wait_ns(&self, i: usize, at: u64) -> f64 {
        // SAFETY: a handle of that library, and a word that is there.
        let wait = || unsafe { (self.wait)(self.domains[i], black_box(at), 1, UFUTEX_U32, null()) };
        ns(|| assert_eq!(wait(), -libc::EAGAIN))
    }

    fn wake_ns(&self, i: usize, at: u64) -> f64 {
        // SAFETY: as above.
        let wake = || unsafe { (self.wake)(self.domains[i], black_box(at), 1, UFUTEX_BITSET_ANY, UFUTEX_U32) };
        ns(|| assert_eq!(wake(), 0))
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
    let rust: [Domain; 2] =
        [true, false].map(|early_return| Domain::with_options(&system, Options::new().early_return(early_return)));
    let mut rivals = vec![("C, static", C::new(ufutex_system_new, ufutex_domain_new, ufutex_wait, ufutex_wake))];
    if let Some(path) = std::env::args().nth(1) {
        rivals.push(("C, shared", C::load(&path)));
    }
    let word = AtomicU32::new(0);
    let at = word.as_ptr().expose_provenance() as u64;
    for (case, i) in [("wait, early return", 0), ("wait, bucket", 1), ("wake", 0)] {
        let mut samples = vec![Vec::new(); 1 + rivals.len()];
        for _ in 0..SAMPLES {
            samples[0].push(match case {
                "wake" => ns(|| assert_eq!(rust[i].wake(black_box(&word), 1), 0)),
                _ => ns(|| assert_eq!(rust[i].wait(black_box(&word), 1), Err(Error::Again))),
            });
            for ((_, c), samples) in rivals.iter().zip(&mut samples[1..]) {
                samples.push(if case == "wake" { c.wake_ns(i, at) } else { c.wait_ns(i, at) });
            }
        }
        let names = ["Rust"].into_iter().chain(rivals.iter().map(|(name, _)| *name));
        for (name, samples) in names.zip(&mut samples) {
            samples.sort_by(f64::total_cmp);
            println!("{case:20} {name:10} {:6.1} ns", samples[SAMPLES / 2]);
        }
    }
}
