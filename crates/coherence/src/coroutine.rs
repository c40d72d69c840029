//! A virtual thread: a closure with a stack of its own, which hands the host's thread back whenever it has to wait.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::io;

/// Enough for unoptimised code, such as the engine's tests. Only pages that are touched take memory.
const STACK_BYTES: usize = 256 << 10;

thread_local! {
    /// Suspends the running coroutine.
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
}

/// A coroutine. If it is dropped before its end, its stack is leaked: unwinding it would run destructors in the middle
/// of an operation, and other threads that they may need no longer run.
pub struct VirtualThread<'a> {
    coroutine: std::mem::ManuallyDrop<Coroutine<(), (), (), DefaultStack>>,
    lives: std::marker::PhantomData<&'a ()>,
}

impl<'a> VirtualThread<'a> {
    /// Fails if there is no memory for a stack.
    ///
    /// # Safety
    /// The values that `body` borrows outlive the result. The coroutine need not reach its end.
    pub unsafe fn new(body: Box<dyn FnOnce() + 'a>) -> io::Result<Self> {
        let stack = DefaultStack::new(STACK_BYTES)?;
        let run = move |yielder: &Yielder<(), ()>, ()| {
            YIELDER.set(yielder);
            body();
        };
        // SAFETY: a coroutine that is forgotten is never resumed again, so from then on it uses none of its borrows.
        // Until then they are valid: the caller guarantees it.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, run) };
        Ok(Self { coroutine: std::mem::ManuallyDrop::new(coroutine), lives: std::marker::PhantomData })
    }

    /// Runs the coroutine until it waits. Returns whether it has ended.
    pub fn resume(&mut self) -> bool {
        matches!(self.coroutine.resume(()), CoroutineResult::Return(()))
    }
}

impl Drop for VirtualThread<'_> {
    fn drop(&mut self) {
        if self.coroutine.done() {
            // SAFETY: dropped once, here.
            unsafe { std::mem::ManuallyDrop::drop(&mut self.coroutine) };
        }
    }
}

/// Hands the host's thread back until the running coroutine is resumed.
pub fn suspend() {
    let yielder = YIELDER.get();
    assert!(!yielder.is_null(), "only a virtual thread can wait");
    // SAFETY: the running coroutine has set the yielder, when it began or below after a `suspend`. It is on its stack.
    unsafe { (*yielder).suspend(()) };
    YIELDER.set(yielder);
}
