//! What a static program takes that uses the engine: `.ci/sizes` builds it with one part after the other. It is not run.

#![no_std]
#![no_main]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The smallest allocator that there is, so that its own code does not count: it never frees.
struct Bump {
    used: AtomicUsize,
}

const HEAP_BYTES: usize = 1 << 20;
static mut HEAP: [u8; HEAP_BYTES] = [0; HEAP_BYTES];

// SAFETY: each call gets a piece of the heap of its own, or null.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let at = self.used.fetch_add(layout.size() + layout.align(), Relaxed);
        if at + layout.size() + layout.align() > HEAP_BYTES {
            return core::ptr::null_mut();
        }
        let start = &raw mut HEAP as usize + at;
        core::ptr::with_exposed_provenance_mut(start.next_multiple_of(layout.align()))
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Bump = Bump { used: AtomicUsize::new(0) };

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    #[cfg(feature = "words")]
    engine::use_it();
    // So that the empty program has an allocator, too.
    drop(core::hint::black_box(alloc::boxed::Box::new(1)));
    loop {
        core::hint::spin_loop();
    }
}

#[cfg(feature = "words")]
mod engine {
    use core::hint::black_box;
    use core::pin::pin;
    use core::sync::atomic::AtomicU32;
    use core::task::Waker;
    use ufutex::{Domain, System, WaitOptions, Waiter};

    pub fn use_it() {
        let Ok(system) = System::with_config(ufutex::SystemConfig::new()) else { return };
        let domain = Domain::new(&system);
        let word = AtomicU32::new(black_box(0));
        let waiter = pin!(Waiter::new());
        let queued = domain.prepare_with(waiter, &word, 0, &WaitOptions::new(), Waker::noop().clone());
        black_box(domain.wake(&word, 1));
        drop(queued);
        #[cfg(feature = "calls")]
        super::guest::calls(&domain);
        #[cfg(feature = "timers")]
        super::guest::timers(&system);
    }
}

#[cfg(any(feature = "calls", feature = "timers"))]
mod guest {
    use core::hint::black_box;
    use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use ufutex::{Access, Fault, UserMemory, Width};

    /// A guest with one word.
    struct Memory(AtomicU32);

    impl UserMemory for Memory {
        fn load(&self, _: u64, _: Width) -> Result<u64, Fault> {
            Ok(self.0.load(SeqCst).into())
        }
        fn compare_exchange(&self, _: u64, _: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
            let exchanged = self.0.compare_exchange(current as u32, new as u32, SeqCst, SeqCst);
            Ok(exchanged.map(u64::from).map_err(u64::from))
        }
        fn fault_in(&self, _: u64, _: Access) -> Result<(), Fault> {
            Err(Fault)
        }
    }

    #[cfg(feature = "calls")]
    pub fn calls(domain: &ufutex::Domain) {
        let memory = Memory(AtomicU32::new(0));
        let Ok(task) = domain.task(1) else { return };
        let Some(number) = ufutex::syscall::Number::x86_64(black_box(202)) else { return };
        black_box(domain.syscall(&task, &memory, number, black_box([0; 6])));
        let _ = black_box(domain.exit(&task, &memory));
    }

    #[cfg(feature = "timers")]
    pub fn timers(system: &ufutex::System) {
        use ufutex::timer::{Callback, Caller, Expired, TimerCall, Timers};
        let deliver = alloc::sync::Arc::new(Callback(|_: &Timers, expired: Expired| {
            black_box(expired);
        }));
        let Ok(timers) = Timers::new(system.driver(), deliver) else { return };
        let Some(call) = TimerCall::x86_64(black_box(222)) else { return };
        let caller = Caller { process: 1, thread: 1 };
        black_box(timers.syscall(caller, &Memory(AtomicU32::new(0)), call, black_box([0; 6])));
        black_box(system.driver().turn());
    }
}
