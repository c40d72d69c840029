//! Waiter objects: waits that call a function of the program when they are over, without a thread that sleeps.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_long, c_void};
use core::pin::Pin;
use core::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};

use engine::{Access, Cause, Timeout};

use super::HowToWait;
use super::syscall::{begin, number_of, own_memory, read_args};
use super::wait::read_words;
use crate::abi;
use crate::bell::{Handle, Sound};
use crate::errno::{Errno, done, int, long};
use crate::objects::{DomainObject, Interruptible, TaskObject};
use crate::operation::Operation;
use crate::platform::{Deadline, Memory, clock_number};
use crate::registry::{Counted, boxed, insert};
use crate::spin::Patience;
use crate::types::{
    UFUTEX_INTERRUPTED, UFUTEX_MONOTONIC, UFUTEX_NO_DEADLINE, UFUTEX_TIMED_OUT, ufutex_domain, ufutex_memory,
    ufutex_task, ufutex_wait_options, ufutex_waiter, ufutex_waitv_word,
};
use crate::word::Word;

/// A waiter's callback, called when the waiter should be checked. context is the pointer that was given with it.
pub type ufutex_callback = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// A wait in progress. Its fields are dropped in this order: the operation in `waiting` uses the fields after it.
pub(crate) struct WaiterObject {
    /// Whether a thread is using `waiting`. Stays set after the wait has ended.
    is_locked: AtomicBool,
    waiting: UnsafeCell<Waiting>,
    bell: Handle,
    deadline: Option<Deadline>,
    _memory: Option<OwnMemory>,
    _task: Option<Counted<TaskObject>>,
    _domain: Counted<DomainObject>,
}

/// The part that belongs to the thread that has set `is_locked`. Its fields are dropped in this order.
struct Waiting {
    operation: Operation<'static>,
    interruptible: Option<Interruptible<Counted<TaskObject>>>,
}

/// The memory of one operation, which points to it. Not a `Box`: moving a box asserts that there are no other pointers
/// to its contents.
struct OwnMemory(NonNull<Memory>);

impl OwnMemory {
    fn new(memory: Box<Memory>) -> Self {
        Self(NonNull::from(Box::leak(memory)))
    }
}

impl Drop for OwnMemory {
    fn drop(&mut self) {
        // SAFETY: made from a box, and dropped only once, after the operation: see the order of the fields in
        // `WaiterObject`.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// SAFETY: only the thread that has locked the object accesses `waiting`. Operations may be polled and dropped by any
// thread: they hold functions of the program that any thread may call.
unsafe impl Send for WaiterObject {}
// SAFETY: as above.
unsafe impl Sync for WaiterObject {}

impl WaiterObject {
    fn try_lock(&self) -> Result<Locked<'_>, Errno> {
        // [Cl]. AcqRel also when it fails: the holder's unlock must see the ring that sent this thread here.
        if self.is_locked.swap(true, AcqRel) { Err(Errno::BUSY) } else { Ok(Locked(self)) }
    }

    /// Checks whether the wait has ended. If it has, the waiter stays locked. Otherwise a later ring calls the
    /// callback. A callback may be running already.
    fn finish(&self) -> Result<c_long, Errno> {
        let mut patience = Patience::default();
        loop {
            let mut locked = self.try_lock()?;
            if self.bell.take_ring()
                && let Some(answer) = locked.waiting().poll(&self.bell)
            {
                locked.keep();
                return Ok(answer);
            }
            drop(locked);
            // The bell may have been rung since `take_ring`. The thread that its callback scheduled may have got EBUSY
            // from `try_lock`, and will not call again.
            if !self.bell.is_rung() {
                return Err(Errno::IN_PROGRESS);
            }
            // While a waker is about to wake this waiter, each poll rings again.
            patience.wait();
        }
    }
}

/// The right to use a waiter's `waiting`.
struct Locked<'w>(&'w WaiterObject);

impl Locked<'_> {
    fn waiting(&mut self) -> &mut Waiting {
        // SAFETY: this thread has locked it.
        unsafe { &mut *self.0.waiting.get() }
    }

    /// Keeps the lock for ever: the wait has ended, and no thread uses it any more.
    fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // [Cl]. An exchange and not a store: it acquires what a failed `try_lock` released.
        self.0.is_locked.swap(false, AcqRel);
    }
}

impl Waiting {
    fn operation(&mut self) -> Pin<&mut Operation<'static>> {
        // SAFETY: it lies on the heap, and is not moved until it is dropped.
        unsafe { Pin::new_unchecked(&mut self.operation) }
    }

    fn poll(&mut self, bell: &Handle) -> Option<c_long> {
        let waker = bell.waker();
        if let Some(answer) = self.operation().poll(&waker) {
            return Some(answer);
        }
        let is_interrupted = self.interruptible.as_ref().is_some_and(Interruptible::is_interrupted);
        is_interrupted.then(|| self.operation().end(Cause::Interrupted))
    }
}

/// The arguments that all functions which prepare a wait have.
struct Prepare {
    domain: Counted<DomainObject>,
    task: Option<Counted<TaskObject>>,
    memory: Option<Box<Memory>>,
    callback: ufutex_callback,
    context: *mut c_void,
    waiter: *mut *mut ufutex_waiter,
}

impl Prepare {
    /// With the options of a wait. A wait without a `task` has that of its options. If they are bad, the program gets no
    /// handle.
    ///
    /// # Safety
    /// As for [`Prepare::new`] and [`HowToWait::read`].
    unsafe fn with_options(
        domain: *mut ufutex_domain,
        task: Option<*mut ufutex_task>,
        options: *const ufutex_wait_options,
        callback: ufutex_callback,
        context: *mut c_void,
        waiter: *mut *mut ufutex_waiter,
    ) -> Result<(Self, HowToWait), Errno> {
        // SAFETY: the caller guarantees all.
        unsafe {
            abi::store(waiter, core::ptr::null_mut())?;
            let how = HowToWait::read(options)?;
            Ok((Self::new(domain, task.unwrap_or(how.task), callback, context, waiter)?, how))
        }
    }

    /// # Safety
    /// `waiter` is null, misaligned, or valid for a write. The callback does what `ufutex.h` requires.
    unsafe fn new(
        domain: *mut ufutex_domain,
        task: *mut ufutex_task,
        callback: ufutex_callback,
        context: *mut c_void,
        waiter: *mut *mut ufutex_waiter,
    ) -> Result<Self, Errno> {
        // SAFETY: the caller guarantees it.
        unsafe { abi::store(waiter, core::ptr::null_mut())? };
        if callback.is_none() {
            return Err(Errno::INVALID);
        }
        let domain = Counted::new(domain)?;
        let task = if task.is_null() { None } else { Some(Counted::new(task)?) };
        Ok(Self { domain, task, memory: None, callback, context, waiter })
    }

    /// Begins an operation. Returns its result, if it has ended at once. Otherwise fails with `IN_PROGRESS`, and stores
    /// a handle for the program.
    fn begin<F>(self, make: F) -> Result<c_long, Errno>
    where
        F: for<'a> FnOnce(
            &'a DomainObject,
            Option<&'a TaskObject>,
            &'a Memory,
        ) -> Result<(Operation<'a>, Option<Timeout>), Errno>,
    {
        let Self { domain, task, memory, callback, context, waiter } = self;
        let Some(function) = callback else { return Err(Errno::INVALID) };
        // SAFETY: the waiter below counts a use of the domain, and drops the operation first.
        let lasting: &'static DomainObject = unsafe { &*core::ptr::from_ref(&*domain) };
        // SAFETY: the same holds for the task.
        let lasting_task: Option<&'static TaskObject> =
            task.as_deref().map(|task| unsafe { &*core::ptr::from_ref(task) });
        let memory = memory.map(OwnMemory::new);
        let lasting_memory: &'static Memory = match &memory {
            // SAFETY: the waiter below owns it, and drops the operation first.
            Some(memory) => unsafe { memory.0.as_ref() },
            None => &lasting.memory,
        };
        let (operation, timeout) = make(lasting, lasting_task, lasting_memory)?;
        let deadline = timeout.map(|timeout| domain.time.begin(timeout));
        let bell = Handle::new(Sound::Call { function, context })?;
        let interruptible = task.clone().map(|task| Interruptible::new(task, &bell)).transpose()?;
        let mut object = boxed(WaiterObject {
            is_locked: AtomicBool::new(false),
            waiting: UnsafeCell::new(Waiting { operation, interruptible }),
            bell,
            deadline,
            _memory: memory,
            _task: task,
            _domain: domain,
        })?;
        let WaiterObject { waiting, bell, .. } = &mut *object;
        if let Some(answer) = waiting.get_mut().poll(bell) {
            return Ok(answer);
        }
        let handle = insert(object)?;
        // SAFETY: checked in `new`; the program guarantees that it is valid for a write.
        unsafe { abi::store(waiter, handle)? };
        Err(Errno::IN_PROGRESS)
    }
}

/// Like ufutex_wait(), but no thread sleeps: for schedulers. Queues a waiter if the word holds expected.
///
/// When the waiter should be checked, callback(context) is called: by any thread, perhaps before this function returns,
/// and at most once until the next ufutex_waiter_finish(). Call that afterwards, but not in the callback. The callback
/// must not wait and must not use this waiter: it only notifies a scheduler. When a function that has ended or freed the
/// waiter has returned, the callback is not called any more. That function waits for a call in progress, so do not hold
/// a lock that the callback takes. The caller has to watch the timeout: see ufutex_waiter_deadline(),
/// ufutex_waiter_end().
///
/// Returns -EINPROGRESS and stores the waiter's handle in *waiter. If the wait does not begin, returns the result of
/// ufutex_wait() and stores NULL.
///
/// Errors as for ufutex_wait(). -EINVAL: also if callback or waiter is NULL; -ENOMEM: also without memory for the waiter.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_prepare_wait(
    domain: *mut ufutex_domain,
    address: u64,
    expected: u64,
    flags: u32,
    options: *const ufutex_wait_options,
    callback: ufutex_callback,
    context: *mut c_void,
    waiter: *mut *mut ufutex_waiter,
) -> c_long {
    long(|| {
        // SAFETY: the program guarantees `waiter` and `callback`, and passes null, or options that are as large as they say.
        let (prepare, how) = unsafe { Prepare::with_options(domain, None, options, callback, context, waiter)? };
        prepare.begin(|domain, _, _| {
            let word = Word::new(domain, address, flags, Access::Read)?;
            Ok((Operation::Wait(domain.domain.wait_async(word, expected, &how.options)), how.timeout))
        })
    })
}

/// Like ufutex_waitv(), but no thread sleeps: see ufutex_prepare_wait(). The array is not used after the return.
///
/// Returns as ufutex_prepare_wait().
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_prepare_waitv(
    domain: *mut ufutex_domain,
    words: *const ufutex_waitv_word,
    count: u32,
    options: *const ufutex_wait_options,
    callback: ufutex_callback,
    context: *mut c_void,
    waiter: *mut *mut ufutex_waiter,
) -> c_long {
    long(|| {
        // SAFETY: the program guarantees `waiter` and `callback`, and passes null, or options that are as large as they say.
        let (prepare, how) = unsafe { Prepare::with_options(domain, None, options, callback, context, waiter)? };
        prepare.begin(|domain, _, _| {
            // SAFETY: the program passes `count` words.
            let words = unsafe { read_words(domain, words, count)? };
            Ok((Operation::WaitAny(domain.domain.wait_any_async(words, &how.options)), how.timeout))
        })
    })
}

/// Like ufutex_lock_pi(), but no thread sleeps: see ufutex_prepare_wait().
///
/// Returns as ufutex_prepare_wait().
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_prepare_lock_pi(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    address: u64,
    flags: u32,
    options: *const ufutex_wait_options,
    callback: ufutex_callback,
    context: *mut c_void,
    waiter: *mut *mut ufutex_waiter,
) -> c_long {
    long(|| {
        // SAFETY: the program guarantees `waiter` and `callback`, and passes null, or options that are as large as they say.
        let (prepare, how) = unsafe { Prepare::with_options(domain, Some(task), options, callback, context, waiter)? };
        prepare.begin(|domain, task, _| {
            let task = task.ok_or(Errno::INVALID)?;
            let word = Word::without_node(domain, address, flags, Access::Write)?;
            Ok((Operation::LockPi(domain.domain.lock_pi_async(word, &task.task, &how.options)), how.timeout))
        })
    })
}

/// Like ufutex_wait_requeue_pi(), but no thread sleeps: see ufutex_prepare_wait().
///
/// Returns as ufutex_prepare_wait().
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_prepare_wait_requeue_pi(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    from: u64,
    expected: u64,
    lock: u64,
    flags: u32,
    options: *const ufutex_wait_options,
    callback: ufutex_callback,
    context: *mut c_void,
    waiter: *mut *mut ufutex_waiter,
) -> c_long {
    long(|| {
        // SAFETY: the program guarantees `waiter` and `callback`, and passes null, or options that are as large as they say.
        let (prepare, how) = unsafe { Prepare::with_options(domain, Some(task), options, callback, context, waiter)? };
        prepare.begin(|domain, task, _| {
            let task = task.ok_or(Errno::INVALID)?;
            let from = Word::without_node(domain, from, flags, Access::Read)?;
            let lock = Word::without_node(domain, lock, flags, Access::Write)?;
            let wait = domain.domain.wait_requeue_pi_async(from, expected, lock, &task.task, &how.options);
            Ok((Operation::WaitRequeuePi(wait), how.timeout))
        })
    })
}

/// Like ufutex_syscall(), but no thread sleeps: see ufutex_prepare_wait(). A call that does not wait has been made on
/// return. The structs memory and args are not used after the return. The functions of memory are used as long as the
/// waiter exists.
///
/// Returns as ufutex_prepare_wait().
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_prepare_syscall(
    domain: *mut ufutex_domain,
    task: *mut ufutex_task,
    memory: *const ufutex_memory,
    number: u64,
    args: *const u64,
    callback: ufutex_callback,
    context: *mut c_void,
    waiter: *mut *mut ufutex_waiter,
) -> c_long {
    long(|| {
        // SAFETY: the program guarantees `waiter` and `callback`.
        let mut prepare = unsafe { Prepare::new(domain, task, callback, context, waiter)? };
        // SAFETY: the program passes a memory that is as large as it says, and six arguments.
        let (own_memory, number, args) = unsafe { (own_memory(memory)?, number_of(number)?, read_args(args)?) };
        prepare.memory = own_memory.map(boxed).transpose()?;
        prepare.begin(|domain, task, memory| {
            let task = task.ok_or(Errno::INVALID)?;
            let mut call = begin(domain, task, memory, number, args);
            let timeout = call.take_timeout();
            Ok((Operation::Syscall(call), timeout))
        })
    })
}

/// The deadline of a waiter: stores UFUTEX_MONOTONIC or UFUTEX_REALTIME in *clock, and in *deadline the time in
/// nanoseconds by that clock of the domain, or UFUTEX_NO_DEADLINE for none. Call ufutex_waiter_end() at that time.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_waiter_deadline(
    waiter: *mut ufutex_waiter,
    clock: *mut u32,
    deadline: *mut u64,
) -> c_int {
    done(|| {
        abi::check_out(clock)?;
        abi::check_out(deadline)?;
        let said = Counted::<WaiterObject>::new(waiter)?.deadline;
        let (number, ns) = said.map_or((UFUTEX_MONOTONIC, UFUTEX_NO_DEADLINE), |d| (clock_number(d.clock), d.ns));
        // SAFETY: checked above; the program guarantees that both are valid for a write.
        unsafe {
            abi::store(clock, number)?;
            abi::store(deadline, ns)
        }
    })
}

/// Checks whether a waiter's wait has ended. Call it after the callback was called, or at any time.
///
/// Returns the result that the blocking function would have returned, and frees the handle. -EINPROGRESS: the wait has
/// not ended, and the callback will be called; -EBUSY: another thread is in this function, or is ending or freeing the
/// waiter. Do not repeat the call: that thread notices each callback made before it.
///
/// The callback may be called by this thread before it returns -EINPROGRESS.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_waiter_finish(waiter: *mut ufutex_waiter) -> c_long {
    long(|| {
        let counted = Counted::<WaiterObject>::new(waiter)?;
        let answer = counted.finish()?;
        drop(counted.take()?);
        Ok(answer)
    })
}

/// Ends a waiter's wait. cause: UFUTEX_TIMED_OUT or UFUTEX_INTERRUPTED. If the wait has completed meanwhile, its own
/// result is returned.
///
/// Returns the result that the blocking function would have returned: -ETIMEDOUT or -EINTR, or a system call's result
/// for them. Frees the handle. -EINVAL: another cause; -EBUSY: another thread is using it. If that thread gets
/// -EINPROGRESS from ufutex_waiter_finish(), call this again.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_waiter_end(waiter: *mut ufutex_waiter, cause: u32) -> c_long {
    long(|| {
        let cause = match cause {
            UFUTEX_TIMED_OUT => Cause::TimedOut,
            UFUTEX_INTERRUPTED => Cause::Interrupted,
            _ => return Err(Errno::INVALID),
        };
        let counted = Counted::<WaiterObject>::new(waiter)?;
        let mut locked = counted.try_lock()?;
        let answer = locked.waiting().operation().end(cause);
        locked.keep();
        drop(counted.take()?);
        Ok(answer)
    })
}

/// Frees a waiter without a result. A wake that it has received goes to the next waiter. A lock that it has been handed
/// is unlocked.
///
/// Returns 0. -EBUSY: another thread is using it. If that thread gets -EINPROGRESS from ufutex_waiter_finish(), call
/// this again.
#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]
pub unsafe extern "C" fn ufutex_waiter_free(waiter: *mut ufutex_waiter) -> c_int {
    int(|| {
        let counted = Counted::<WaiterObject>::new(waiter)?;
        counted.try_lock()?.keep();
        drop(counted.take()?);
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::domain::{ufutex_domain_free, ufutex_domain_new};
    use crate::api::system::{ufutex_system_free, ufutex_system_new};
    use crate::api::wake::ufutex_wake;
    use crate::types::UFUTEX_U32;
    use core::ptr;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::time::{Duration, Instant};

    const IN_PROGRESS: c_long = -(libc::EINPROGRESS as c_long);
    const BUSY: c_long = -(libc::EBUSY as c_long);
    const ENDED: c_long = -(libc::EBADF as c_long);

    unsafe extern "C" fn tell(told: *mut c_void) {
        // SAFETY: the test passes a flag.
        unsafe { &*told.cast::<AtomicBool>() }.store(true, SeqCst);
    }

    /// Thread 1 calls `finish` in a loop until the callback has run. The main thread calls `finish` once after the
    /// callback. One of the two must get the result.
    #[test]
    fn finish_misses_no_callback() {
        let (mut system, mut domain) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the places are valid.
        unsafe {
            assert_eq!(ufutex_system_new(ptr::null(), &mut system), 0);
            assert_eq!(ufutex_domain_new(system, ptr::null(), &mut domain), 0);
        }
        let (word, told, is_looking) = (AtomicU32::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let address = ptr::from_ref(&word).addr() as u64;
        for round in 0..300 {
            let (mut waiter, context) = (ptr::null_mut(), ptr::from_ref(&told).cast_mut().cast());
            // SAFETY: the places, the word and the flag are valid until the waiter has ended.
            let begun = unsafe {
                ufutex_prepare_wait(domain, address, 0, UFUTEX_U32, ptr::null(), Some(tell), context, &mut waiter)
            };
            assert_eq!(begun, IN_PROGRESS);
            let (handle, owner) = (waiter.addr(), domain.addr());
            // SAFETY: any number may be passed as a handle.
            let finish = move || unsafe { ufutex_waiter_finish(ptr::without_provenance_mut(handle)) };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let begin = Instant::now();
                    while matches!(finish(), IN_PROGRESS | BUSY) {
                        is_looking.store(true, SeqCst);
                        // The main thread makes the last call.
                        if told.load(SeqCst) {
                            break;
                        }
                        assert!(begin.elapsed() < Duration::from_secs(60), "no callback in round {round}");
                    }
                    is_looking.store(true, SeqCst);
                });
                while !is_looking.load(SeqCst) {
                    std::thread::yield_now();
                }
                // SAFETY: as above.
                let woken =
                    unsafe { ufutex_wake(ptr::without_provenance_mut(owner), address, 1, u32::MAX, UFUTEX_U32) };
                assert!(woken == 1);
                if told.load(SeqCst) {
                    finish();
                }
            });
            // Neither thread would call again.
            assert_eq!(finish(), ENDED, "the callback's look was lost in round {round}");
            told.store(false, SeqCst);
            is_looking.store(false, SeqCst);
        }
        // SAFETY: as above.
        unsafe {
            assert_eq!(ufutex_domain_free(domain), 0);
            assert_eq!(ufutex_system_free(system), 0);
        }
    }
}
