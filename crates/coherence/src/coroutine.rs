//! A virtual thread: a closure with a stack of its own, which gives the host's thread away whenever it has to wait.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::io;

/// Enough for unoptimised code, which the engine's tests are; only what is touched is memory.
const STACK_BYTES: usize = 256 << 10;

thread_local! {
    /// How the running coroutine gives up its turn.
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
}

/// A coroutine. Dropped before its end it is left as it is, stack and all: what it would unwind stands in the middle of
/// something, and the others that it would need are not running any more.
pub struct VirtualThread<'a> {
    coroutine: std::mem::ManuallyDrop<Coroutine<(), (), (), DefaultStack>>,
    lives: std::marker::PhantomData<&'a ()>,
}

impl<'a> VirtualThread<'a> {
    /// Fails where there is no memory for a stack.
    ///
    /// # Safety
    /// What `body` borrows outlives the result, whose end need not be reached.
    pub unsafe fn new(body: Box<dyn FnOnce() + 'a>) -> io::Result<Self> {
        let stack = DefaultStack::new(STACK_BYTES)?;
        let run = move |yielder: &Yielder<(), ()>, ()| {
            YIELDER.set(yielder);
            body();
        };
        // SAFETY: a coroutine that is forgotten is never resumed again, so it uses nothing that it borrows after that;
        // until then it lives, says the caller.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, run) };
        Ok(Self { coroutine: std::mem::ManuallyDrop::new(coroutine), lives: std::marker::PhantomData })
    }

    /// Goes on until it waits; whether it has ended.
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

/// Gives up the turn of the running coroutine until it is resumed.
pub fn suspend() {
    let yielder = YIELDER.get();
    assert!(!yielder.is_null(), "only a virtual thread can wait");
    // SAFETY: it was left by the running coroutine when it was resumed or has set it itself, and lives on its stack.
    unsafe { (*yielder).suspend(()) };
    YIELDER.set(yielder);
}
