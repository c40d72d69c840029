//! What a wake rings: a callback of the program, the `unpark` of its parker, or a thread that sleeps right here.
//!
//! The engine tells a waker after it has given the waiter its memory back, so a waker may be on its way while the waiter is
//! gone already. A C program has no reference counts: to it we promise that nothing is called any more once the function
//! that ended the wait has returned. So a bell counts its wakers, and the calls that are under way; who ends a wait
//! *disarms* it, which waits for calls of other threads to return.

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::task::{RawWaker, RawWakerVTable, Waker};
use std::cell::Cell;
use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
};

use crate::errno::Errno;
use crate::registry::boxed;
use crate::spin::Patience;

/// A count of calls under way, which one can wait for: except for those that the waiting thread is itself inside of.
#[derive(Default)]
pub(crate) struct Calls(AtomicU32);

/// A call of [`Calls`] under way on this thread.
struct Frame {
    calls: *const Calls,
    outer: *const Frame,
}

thread_local! {
    static FRAMES: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

impl Calls {
    /// Runs `f` as a call under way.
    pub fn run(&self, f: impl FnOnce()) {
        self.run_with(|| Some(()), |()| f());
    }

    /// Looks for something, and runs `f` with it as a call under way. If there is nothing, no thread-local storage is
    /// touched: signal handlers do this.
    pub fn run_with<T>(&self, look: impl FnOnce() -> Option<T>, f: impl FnOnce(T)) {
        self.0.fetch_add(1, SeqCst);
        if let Some(found) = look() {
            let frame = Frame { calls: self, outer: FRAMES.get() };
            FRAMES.set(&frame);
            f(found);
            FRAMES.set(frame.outer);
        }
        self.0.fetch_sub(1, Release); // [E]
    }

    /// Waits until no other thread is in a call. New ones are somebody else's to prevent.
    pub fn wait_for_others(&self) {
        let (mut own, mut frame) = (0, FRAMES.get());
        // SAFETY: frames lie on this thread's stack, further down.
        while let Some(inner) = unsafe { frame.as_ref() } {
            own += u32::from(ptr::eq(inner.calls, self));
            frame = inner.outer;
        }
        let mut patience = Patience::default();
        // [E]: what a call did has happened before whatever comes after this.
        while self.0.load(SeqCst) > own {
            patience.wait();
        }
    }
}

/// How a bell sounds.
#[derive(Clone, Copy)]
pub(crate) enum Sound {
    /// A function of the program.
    Call { function: unsafe extern "C" fn(*mut c_void), context: *mut c_void },
    /// A parker's `unpark`.
    Unpark { function: unsafe extern "C" fn(*mut c_void, *mut c_void), context: *mut c_void, thread: *mut c_void },
    /// A thread that sleeps on `rung`.
    Thread,
}

/// See the top of this file.
pub(crate) struct Bell {
    owners: AtomicUsize,
    /// 1 since it was rung, until somebody looks. A thread may sleep here.
    pub rung: AtomicU32,
    disarmed: AtomicU32,
    calls: Calls,
    sound: Sound,
}

// SAFETY: the program promises that its functions may be called by any thread; the rest are atomics.
unsafe impl Send for Bell {}
// SAFETY: as above.
unsafe impl Sync for Bell {}

impl Bell {
    /// Rings, unless it has been rung since somebody looked. Calls no lock and no allocator.
    pub fn ring(&self) {
        // [B1]: who looks sees everything before the wake.
        if self.rung.swap(1, AcqRel) == 1 {
            return;
        }
        self.calls.run(|| {
            // [B2] pairs with `disarm`: it sees this call, or this call sees it.
            if self.disarmed.load(SeqCst) == 0 {
                self.sound();
            }
        });
    }

    fn sound(&self) {
        match self.sound {
            // SAFETY: the program gave this function with this context, to be called by any thread.
            Sound::Call { function, context } => unsafe { function(context) },
            // SAFETY: as above.
            Sound::Unpark { function, context, thread } => unsafe { function(context, thread) },
            Sound::Thread => crate::park::wake(&self.rung),
        }
    }

    /// Whether it has been rung since the last look.
    pub fn take_ring(&self) -> bool {
        self.rung.swap(0, Acquire) != 0 // [B1]
    }
}

/// The waiter's own handle of a bell. Dropped, it is disarmed.
pub(crate) struct Handle(NonNull<Bell>);

// SAFETY: a counted reference to a bell, which is `Sync`.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// A bell that sounds like this.
    pub fn new(sound: Sound) -> Result<Self, Errno> {
        let bell = boxed(Bell {
            owners: AtomicUsize::new(1),
            rung: AtomicU32::new(0),
            disarmed: AtomicU32::new(0),
            calls: Calls::default(),
            sound,
        })?;
        Ok(Self(NonNull::from(Box::leak(bell))))
    }

    /// A waker that rings it.
    pub fn waker(&self) -> Waker {
        // SAFETY: the table's functions count references to the bell, as a waker's contract says.
        unsafe { Waker::from_raw(clone(self.0.as_ptr().cast())) }
    }

    /// Nothing is called any more, and nothing that was called is still under way in another thread.
    pub fn disarm(&self) {
        self.disarmed.store(1, SeqCst); // [B2]
        self.calls.wait_for_others();
    }
}

impl core::ops::Deref for Handle {
    type Target = Bell;

    fn deref(&self) -> &Bell {
        // SAFETY: it is freed by its last owner.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.disarm();
        // SAFETY: this handle is an owner.
        unsafe { release(self.0.as_ptr().cast()) };
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

fn clone(bell: *const ()) -> RawWaker {
    // SAFETY: whoever clones is an owner.
    let owners = unsafe { (*bell.cast::<Bell>()).owners.fetch_add(1, Relaxed) };
    // As with `Arc`: only leaked wakers get here.
    assert!(owners < isize::MAX as usize, "too many wakers of one wait");
    RawWaker::new(bell, &TABLE)
}

unsafe fn wake(bell: *const ()) {
    // SAFETY: the waker is an owner, until the next line.
    unsafe { wake_by_ref(bell) };
    // SAFETY: the waker is an owner.
    unsafe { release(bell) };
}

unsafe fn wake_by_ref(bell: *const ()) {
    // SAFETY: the waker is an owner.
    unsafe { (*bell.cast::<Bell>()).ring() };
}

unsafe fn release(bell: *const ()) {
    // SAFETY: the caller is an owner, and does nothing with it afterwards. [B3]: the last one sees all uses.
    unsafe {
        if (*bell.cast::<Bell>()).owners.fetch_sub(1, AcqRel) == 1 {
            drop(Box::from_raw(bell.cast::<Bell>().cast_mut()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    unsafe extern "C" fn count(context: *mut c_void) {
        // SAFETY: the tests give a counter.
        unsafe { (*context.cast::<AtomicUsize>()).fetch_add(1, SeqCst) };
    }

    #[test]
    fn bell_rings_once_until_somebody_looks_and_never_when_disarmed() {
        let counter = AtomicUsize::new(0);
        let sound = Sound::Call { function: count, context: ptr::from_ref(&counter).cast_mut().cast() };
        let bell = Handle::new(sound).unwrap();
        let waker = bell.waker();
        waker.wake_by_ref();
        let second = waker.clone();
        second.wake();
        assert_eq!(counter.load(SeqCst), 1);
        assert!(bell.take_ring() && !bell.take_ring());
        waker.wake_by_ref();
        assert_eq!(counter.load(SeqCst), 2);
        bell.take_ring();
        drop(bell);
        waker.wake();
        assert_eq!(counter.load(SeqCst), 2);
    }

    /// What a slow callback shares with its test.
    struct Slow {
        begun: AtomicBool,
        ended: AtomicBool,
    }

    unsafe extern "C" fn slow(context: *mut c_void) {
        // SAFETY: the test gives a `Slow`.
        let shared = unsafe { &*context.cast::<Slow>() };
        shared.begun.store(true, SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(20));
        shared.ended.store(true, SeqCst);
    }

    #[test]
    fn disarming_waits_for_a_call_of_another_thread() {
        let shared = Slow { begun: AtomicBool::new(false), ended: AtomicBool::new(false) };
        let sound = Sound::Call { function: slow, context: ptr::from_ref(&shared).cast_mut().cast() };
        let bell = Handle::new(sound).unwrap();
        let waker = bell.waker();
        std::thread::scope(|scope| {
            scope.spawn(move || waker.wake());
            while !shared.begun.load(SeqCst) {
                std::hint::spin_loop();
            }
            drop(bell);
            assert!(shared.ended.load(SeqCst), "the callback was still running");
        });
    }

    #[test]
    fn disarming_does_not_wait_for_the_call_that_it_is_inside_of() {
        let calls = Calls::default();
        calls.run(|| calls.run(|| calls.wait_for_others()));
        calls.wait_for_others();
    }
}
