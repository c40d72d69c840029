//! A bell: the waker of the engine's futures, which calls a callback of the program or its parker's `unpark`, or wakes
//! a sleeping thread of the host.
//!
//! The engine calls a waker after it has given the waiter's memory back, so a waker may still be running when the wait
//! has ended. A C program has no reference counts. It is promised instead that no callback is called any more once the
//! function that ended the wait has returned. So a bell counts its wakers, and the calls in progress. The thread that
//! ends a wait *disarms* the bell, which waits until the calls of other threads have returned.

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

/// Counts calls in progress. A thread can wait for all of them, except for those that it is itself inside of.
#[derive(Default)]
pub(crate) struct Calls(AtomicU32);

/// A call of [`Calls`] in progress on this thread.
struct Frame {
    calls: *const Calls,
    outer: *const Frame,
}

thread_local! {
    static FRAMES: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

impl Calls {
    /// Runs `f` as a call in progress.
    pub fn run(&self, f: impl FnOnce()) {
        self.run_with(|| Some(()), |()| f());
    }

    /// Runs `f` with the result of `look` as a call in progress. If `look` finds nothing, `f` is not run.
    pub fn run_with<T>(&self, look: impl FnOnce() -> Option<T>, f: impl FnOnce(T)) {
        // [Cb]: counted before `look` checks whether the calls have been stopped.
        self.0.fetch_add(1, SeqCst);
        if let Some(found) = look() {
            let frame = Frame { calls: self, outer: FRAMES.get() };
            FRAMES.set(&frame);
            f(found);
            FRAMES.set(frame.outer);
        }
        self.0.fetch_sub(1, Release); // [Cc]
    }

    /// Waits until no other thread is in a call. The caller must prevent new calls.
    pub fn wait_for_others(&self) {
        let (mut own, mut frame) = (0, FRAMES.get());
        // SAFETY: frames lie in outer stack frames of this thread.
        while let Some(inner) = unsafe { frame.as_ref() } {
            own += u32::from(ptr::eq(inner.calls, self));
            frame = inner.outer;
        }
        let mut patience = Patience::default();
        // [Cb]: comes after the caller's store that prevents new calls. [Cc]: the effects of a call happen before
        // whatever follows here.
        while self.0.load(SeqCst) > own {
            patience.wait();
        }
    }
}

/// Makes calls one at a time, also in signal handlers. If a call is in progress, a second caller returns at once, and the
/// thread that makes the call repeats it.
///
/// Unlike [`Calls`], it does not use thread-local storage. If the library was opened by dlopen(3), a thread's first
/// access to thread-local storage allocates memory, and a signal handler may have interrupted malloc.
///
/// The value is 0 if no call is in progress. Otherwise it is the thread that is calling, and perhaps [`AGAIN`].
#[derive(Default)]
pub(crate) struct OneByOne(AtomicUsize);

/// Set if another call was to be made while one was in progress.
const AGAIN: usize = 1;

/// A number that no other thread of the process has. It is not 0, and `AGAIN` is not set in it.
fn calling_thread() -> usize {
    // SAFETY: it only reads a register of the thread. POSIX lists it as async-signal-safe.
    let thread = unsafe { libc::pthread_self() } as usize;
    // It is the address of the thread's structure in libc. Two structures are at least the size of a pointer apart, so the
    // numbers differ without the lowest bit too.
    thread & !AGAIN
}

impl OneByOne {
    /// Calls `f`. If a call is in progress, its thread calls its own `f` once more, and this function returns at once.
    pub fn call(&self, f: impl Fn()) {
        let own = calling_thread();
        let enter = |state| Some(if state == 0 { own } else { state | AGAIN });
        // [Cb]: set before `f` looks for what to call. [Ce]: what precedes `AGAIN` is seen by the thread that calls.
        if self.0.fetch_update(SeqCst, SeqCst, enter) != Ok(0) {
            return;
        }
        loop {
            f();
            // [Cc]
            if self.0.compare_exchange(own, 0, Release, Relaxed).is_ok() {
                return;
            }
            self.0.fetch_and(!AGAIN, Acquire); // [Ce]
        }
    }

    /// Waits until no other thread is in a call. The caller must make sure that calls from now on find nothing to do.
    pub fn wait_for_others(&self) {
        let own = calling_thread();
        let mut patience = Patience::default();
        // [Cb]: comes after the caller's store by which calls find nothing to do. [Cc]: the effects of a call happen
        // before whatever follows here.
        while !matches!(self.0.load(SeqCst) & !AGAIN, calling if calling == 0 || calling == own) {
            patience.wait();
        }
    }
}

/// How a bell notifies.
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
    /// Set to 1 by a ring, and to 0 when the waiter checks it. A thread may sleep on it.
    pub rung: AtomicU32,
    disarmed: AtomicU32,
    calls: Calls,
    sound: Sound,
}

// SAFETY: the program promises that any thread may call its functions; the other fields are atomics.
unsafe impl Send for Bell {}
// SAFETY: as above.
unsafe impl Sync for Bell {}

impl Bell {
    /// Rings, unless the last ring has not been seen yet. Takes no lock and does not allocate.
    pub fn ring(&self) {
        // [Ca]: the waiter that sees the ring sees everything before the wake.
        if self.rung.swap(1, AcqRel) == 1 {
            return;
        }
        self.calls.run(|| {
            // [Cb] pairs with `disarm`: either it sees this call, or this call sees that the bell is disarmed.
            if self.disarmed.load(SeqCst) == 0 {
                self.sound();
            }
        });
    }

    /// Rings as [`ring`](Self::ring) does, but does not count the call in the bell and does not check `disarmed`, so that it
    /// needs no thread-local storage. The caller guarantees that no other thread disarms the bell meanwhile.
    pub fn ring_in_handler(&self) {
        // [Ca]: as in `ring`.
        if self.rung.swap(1, AcqRel) == 0 {
            self.sound();
        }
    }

    fn sound(&self) {
        match self.sound {
            // SAFETY: the program has given this function with this context, and any thread may call it.
            Sound::Call { function, context } => unsafe { function(context) },
            // SAFETY: as above.
            Sound::Unpark { function, context, thread } => unsafe { function(context, thread) },
            Sound::Thread => crate::park::wake(&self.rung),
        }
    }

    /// Whether the bell has been rung since the last [`take_ring`](Self::take_ring). It does not make visible what was
    /// written before the ring; `take_ring` does.
    pub fn is_rung(&self) -> bool {
        self.rung.load(Relaxed) != 0
    }

    /// Whether the bell has been rung since the last check.
    pub fn take_ring(&self) -> bool {
        self.rung.swap(0, Acquire) != 0 // [Ca]
    }
}

/// The waiter's own handle of a bell. Dropping it disarms the bell.
pub(crate) struct Handle(NonNull<Bell>);

// SAFETY: a counted reference to a bell, which is `Sync`.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// Makes a bell that notifies by `sound`.
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

    /// A waker that rings the bell.
    pub fn waker(&self) -> Waker {
        // SAFETY: the functions of the table count references to the bell, as a waker's contract requires.
        unsafe { Waker::from_raw(clone(self.0.as_ptr().cast())) }
    }

    /// Disarms the bell. On return no callback is called any more, and none is in progress in another thread.
    pub fn disarm(&self) {
        self.disarmed.store(1, SeqCst); // [Cb]
        self.calls.wait_for_others();
    }
}

impl core::ops::Deref for Handle {
    type Target = Bell;

    fn deref(&self) -> &Bell {
        // SAFETY: the bell is freed with its last owner, and this handle is one.
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
    // SAFETY: the waker that is cloned is an owner.
    let owners = unsafe { (*bell.cast::<Bell>()).owners.fetch_add(1, Relaxed) };
    // As with `Arc`: only leaked wakers can get here.
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
    // SAFETY: the caller is an owner, and does not use the bell afterwards.
    unsafe {
        // [Cd]: the last owner sees all uses.
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
        // SAFETY: the tests pass a counter.
        unsafe { (*context.cast::<AtomicUsize>()).fetch_add(1, SeqCst) };
    }

    #[test]
    fn bell_rings_once_until_the_next_poll_and_never_when_disarmed() {
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

    /// The state that a slow callback shares with its test.
    struct Slow {
        begun: AtomicBool,
        ended: AtomicBool,
    }

    unsafe extern "C" fn slow(context: *mut c_void) {
        // SAFETY: the test passes a `Slow`.
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

    #[test]
    fn call_that_comes_within_a_call_is_made_after_it() {
        let (calls, count, depth) = (OneByOne::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        calls.call(|| {
            assert_eq!(depth.fetch_add(1, SeqCst), 0, "two calls at a time");
            if count.fetch_add(1, SeqCst) < 2 {
                // As if a signal handler had interrupted this call.
                calls.call(|| unreachable!("the call in progress is made once more"));
            }
            calls.wait_for_others(); // not for itself
            depth.fetch_sub(1, SeqCst);
        });
        assert_eq!(count.load(SeqCst), 3);
        calls.wait_for_others();
    }

    #[test]
    fn call_of_another_thread_is_waited_for_and_left_to_it() {
        let (calls, count) = (OneByOne::default(), AtomicUsize::new(0));
        let (may_end, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let first = || {
            count.fetch_add(1, SeqCst);
            while !may_end.load(SeqCst) {
                std::thread::yield_now();
            }
            has_ended.store(count.load(SeqCst) == 2, SeqCst);
        };
        std::thread::scope(|scope| {
            scope.spawn(|| calls.call(first));
            while count.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            calls.call(|| unreachable!("another thread is calling"));
            assert_eq!(count.load(SeqCst), 1);
            scope.spawn(|| may_end.store(true, SeqCst));
            calls.wait_for_others();
            assert!(has_ended.load(SeqCst), "the second call was still running, or was not made");
        });
    }
}
