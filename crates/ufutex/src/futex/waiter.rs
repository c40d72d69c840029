//! A wait in two steps: queue a waiter, then receive its wake or give up. All waits are built on it.

use core::cell::Cell;
use core::marker::PhantomPinned;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::Waker;

use super::domain::Domain;
use super::entry::Entry;
use super::key::Target;
use super::operation::{Cause, PollReceiver, WaitEnd};
use super::place::Place;
use super::spin::MaySpin;
use super::wait::WaitOptions;
use super::wake::{InPieces, Woken};
use crate::error::Error;
use crate::signal::group::Members;
use crate::signal::{GuardedWaker, Receiver, Signal};
use crate::sync::{UnsafeCell, wait_barrier};
use crate::sys::clock::Deadline;
use crate::sys::mem::{Access, Fault, Faults};
use crate::sys::probe::probe;
use crate::sys::setters::default_is_new;
use crate::table::bucket::{Bucket, Guard};
use crate::table::live::Locked;

/// Room for a queue entry, idle or busy as a [`Waiter`]. Other threads link to the entry, so the slot is pinned while busy.
pub(super) struct WaiterSlot<'d, E> {
    /// The domain in whose queues the entry may be; `None` if the slot is idle. Only the slot's owner uses it.
    domain: Cell<Option<&'d Domain>>,
    /// Initialised while busy.
    entry: UnsafeCell<MaybeUninit<E>>,
    _pinned: PhantomPinned,
}

// SAFETY: other threads access the entry in any case, under the locks that guard it. Its waker is `Send`.
unsafe impl<E> Send for WaiterSlot<'_, E> {}
// SAFETY: the owner of a slot is one thread at a time: a thread that waits, or that has a `Queued` or a future. A shared
// reference to these allows `Queued::is_woken`, which reads `domain` and an atomic, and nothing writes meanwhile.
unsafe impl<E> Sync for WaiterSlot<'_, E> {}

impl<'d, E> WaiterSlot<'d, E> {
    #[inline(always)]
    pub fn new() -> Self {
        Self { domain: Cell::new(None), entry: UnsafeCell::new(MaybeUninit::uninit()), _pinned: PhantomPinned }
    }

    pub fn is_busy(&self) -> bool {
        self.domain.get().is_some()
    }

    pub fn address(&self) -> NonNull<E> {
        // SAFETY: a field's address is not null.
        self.entry.with(|e| unsafe { NonNull::new_unchecked(e.cast_mut().cast()) })
    }

    pub fn busy(&self) -> Option<(&'d Domain, &E)> {
        // SAFETY: initialised while busy.
        self.domain.get().map(|domain| (domain, unsafe { self.address().as_ref() }))
    }

    /// Makes an idle slot busy. The caller queues the entry, or calls [`release`](Self::release).
    pub fn occupy(&self, domain: &'d Domain, entry: E) -> NonNull<E> {
        debug_assert!(!self.is_busy());
        // SAFETY: idle, so no other thread reaches the entry.
        self.entry.with_mut(|e| _ = unsafe { (*e).write(entry) });
        self.domain.set(Some(domain));
        self.address()
    }

    /// Makes the slot idle. The caller knows that no other thread can reach the entry any more. `end` is how the wait ended, if
    /// it was not woken; `None` if it never began. `of` returns the [`Entry`], and whether it was woken.
    pub fn release(&self, end: Option<WaitEnd>, of: impl Fn(&E) -> (&Entry, bool)) {
        let Some((domain, entry)) = self.busy() else { return };
        self.domain.set(None);
        domain.dismiss_waiter();
        if let Some(end) = end {
            // SAFETY: no other thread reaches the entry any more.
            let key = unsafe { of(entry).0.node.key() }.0;
            probe!(wait_end, key.address, of(entry).1);
            domain.observe(|observer| {
                // SAFETY: as above.
                let woken = of(entry).1.then(|| WaitEnd::Woken(of(entry).0.waker.with(|id| unsafe { *id })));
                observer.wait_ended(self.address().addr().get(), key.word(), woken.unwrap_or(end));
            });
        }
        // SAFETY: as above. It was initialised, since the slot was busy.
        self.entry.with_mut(|e| unsafe { (*e).assume_init_drop() });
    }
}

/// Room for one waiter: pin it to the stack, or put it in a future.
///
/// It is idle, or busy: queued, or woken and without having received the wake. If it is dropped while queued, it leaves its
/// queue. If it is dropped before it has received its wake, the wake goes to the next waiter, unless it was a wake of all.
pub struct Waiter<'d>(WaiterSlot<'d, Entry>);

const _: () = assert!(size_of::<Waiter<'_>>() <= 128);

default_is_new!(Waiter<'_>);

impl Waiter<'_> {
    /// An idle waiter.
    #[must_use]
    #[inline(always)]
    pub fn new() -> Self {
        Self(WaiterSlot::new())
    }

    pub(super) fn is_busy(&self) -> bool {
        self.0.is_busy()
    }

    fn release(&self, end: WaitEnd) {
        self.0.release(Some(end), |entry| (entry, entry.signal.is_woken()));
    }

    /// The domain that it waits in, also after a wake has taken it. `None` if it is idle.
    pub(super) fn domain(&self) -> Option<&Domain> {
        self.0.busy().map(|(domain, _)| domain)
    }

    /// Receives the wake if one has come, and returns whether it has. If not, a later wake notifies `receiver`.
    pub(super) fn try_receive(&self, receiver: PollReceiver<'_>) -> bool {
        let is_woken = self.poll_taken(receiver);
        if is_woken {
            self.wait_for_waker();
            self.release(WaitEnd::Cancelled);
        }
        is_woken
    }

    /// Whether a wake has come or, for a thread, has taken the entry. If not, a later wake notifies `receiver`.
    pub(super) fn poll_taken(&self, receiver: PollReceiver<'_>) -> bool {
        let Some((_, entry)) = self.0.busy() else { return false };
        if entry.signal.is_woken() {
            return true;
        }
        match receiver {
            PollReceiver::Task(waker) => {
                if !self.set_receiver(Receiver::Waker(GuardedWaker::of(waker.clone()))) {
                    // The wake wakes the previous waker, which may not be this task's any more. So make the task poll again.
                    waker.wake_by_ref();
                }
                false
            }
            PollReceiver::Thread(_) => entry.node.bucket().is_null(),
        }
    }

    /// Waits until the wake that has taken the entry has stored `WOKEN`.
    fn wait_for_waker(&self) {
        if let Some((domain, entry)) = self.0.busy() {
            entry.signal.wait_for_waker(domain.platform());
        }
    }

    /// Returns `false` if a wake has taken the entry already; that wake notifies the old receiver.
    fn set_receiver(&self, mut receiver: Receiver) -> bool {
        // `swap_receiver` leaves the old waker in `receiver`, which is dropped at the end, with the bucket unlocked: the drop
        // runs the embedder's code.
        let Some((domain, entry)) = self.0.busy() else { return false };
        // SAFETY: the guard proves that the entry is queued, and its bucket locked.
        domain.with_queued(entry, |_| unsafe { entry.signal.swap_receiver(&mut receiver) }).is_some()
    }

    /// Takes the entry off its queue. Returns `false` if a wake has taken it.
    fn unqueue(&self) -> bool {
        let Some((domain, entry)) = self.0.busy() else { return true };
        let node = self.0.address().cast();
        // SAFETY: the guard proves that the node is queued in its bucket.
        domain.with_queued(entry, |guard| unsafe { guard.remove(node) }).is_some()
    }

    /// As `unqueue`, and no other thread accesses the entry afterwards. After `false` the wake is to be received or passed on.
    fn leave(&self) -> bool {
        let removed = self.unqueue();
        if !removed {
            self.wait_for_waker();
        }
        removed
    }

    /// Leaves the queue, and returns `true` if no wake has come. One that has come counts as received.
    pub(super) fn give_up(&self, end: WaitEnd) -> bool {
        let removed = self.leave();
        self.release(end);
        removed
    }

    /// As `give_up`, but does not wait for a lent waker. Until that has returned the waiter is busy, and its drop waits for it.
    fn cancel(&self) -> bool {
        let removed = self.unqueue();
        if !removed && let Some((domain, entry)) = self.0.busy() {
            entry.signal.wait_for_notification(domain.platform());
            if !entry.signal.is_woken() {
                // SAFETY: notified.
                unsafe { entry.keep_wake() };
                return false;
            }
        }
        self.release(WaitEnd::Cancelled);
        removed
    }

    /// Leaves the queue. A wake that has come is passed on: it goes to the next of the waiters that were queued when it came.
    fn abandon(&self) {
        let Some((domain, entry)) = self.0.busy() else { return };
        if domain.system.is_abandoned() {
            return;
        }
        if self.leave() {
            return self.release(WaitEnd::Cancelled);
        }
        // SAFETY: the wake has been seen, so the entry is ours again.
        let ((key, hash), bitset, taken) = unsafe { (entry.node.key(), entry.bitset(), entry.since()) };
        // Idle before it passes the wake on: if the next waiter's waker panics, its drop must not pass the wake on again.
        self.release(WaitEnd::Cancelled);
        if let Some(bitset) = bitset {
            let (place, woken) = (&domain.place_of(key, hash), &mut { Woken::NOBODY });
            let Some(locked) = domain.lock(place) else { return };
            domain.wake_many(locked, InPieces { place, count: 1, bitset, began: Some(taken), woken });
        }
    }
}

impl Drop for Waiter<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_busy() {
            self.abandon();
        }
    }
}

impl Domain {
    /// Queues a waiter for the calling thread, if the word holds `expected`: the first half of [`wait_with`](Self::wait_with),
    /// whose second half is [`Queued::finish`]. A wake that comes in between is not lost.
    ///
    /// ```
    /// use std::{pin::pin, sync::atomic::AtomicU32};
    /// use ufutex::{Domain, System, WaitOptions, Waiter};
    ///
    /// let domain = Domain::new(&System::new());
    /// let word = AtomicU32::new(0);
    /// let mut waiter = pin!(Waiter::new());
    /// let queued = domain.prepare(waiter.as_mut(), &word, 0, &WaitOptions::new())?;
    /// assert_eq!(domain.wake(&word, 1), 1);
    /// queued.finish()?; // does not sleep: woken already
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Again`] if the word differs, [`Error::Fault`], [`Error::Invalid`] if the word cannot hold `expected`,
    /// [`Error::Busy`] if `waiter` is busy, [`Error::NoMemory`] as for [`wait`](Self::wait).
    // Its result is large: without inlining it is written to memory and read again, for 50 instructions.
    #[inline(always)]
    pub fn prepare<'w, 'd, T: Target>(
        &'d self,
        waiter: Pin<&'w mut Waiter<'d>>,
        target: T,
        expected: T::Value,
        options: &WaitOptions,
    ) -> Result<Queued<'w, 'd>, Error> {
        let deadline = options.timeout.map(|timeout| self.begin(timeout));
        let matched = self.lock_if_equal(&target, expected)?;
        let (signal, hash) = (Signal::new(Receiver::Thread(self.platform())), matched.place.hash);
        Ok(Queued::new(self.queue(matched, waiter.into_ref(), options, signal)?, deadline, Some(hash)))
    }

    /// Queues a waiter for an embedder's own scheduler, if the word holds `expected`. The wake that takes the waiter calls
    /// `waker.wake()` once, on the waking thread, with no lock held. After [`Queued::finish`] has been called, a wake wakes the
    /// thread that called it instead. It takes no timeout: a scheduler calls [`Queued::cancel`] when the time is up.
    ///
    /// ```
    /// use std::{pin::pin, sync::Arc, sync::atomic::AtomicU32, task::{Wake, Waker}};
    /// use ufutex::{Domain, System, WaitOptions, Waiter};
    ///
    /// struct Fiber; // with what its scheduler needs; made once
    /// impl Wake for Fiber {
    ///     fn wake(self: Arc<Self>) {} // puts it into the scheduler's queue
    /// }
    /// # let fiber = Arc::new(Fiber);
    /// let domain = Domain::new(&System::new());
    /// let word = AtomicU32::new(0);
    /// let mut waiter = pin!(Waiter::new());
    /// let waker = Waker::from(fiber.clone()); // counts up: a wait allocates nothing
    /// let mut queued = domain.prepare_with(waiter.as_mut(), &word, 0, &WaitOptions::new(), waker)?;
    /// assert!(!queued.is_woken());
    /// let is_woken = !queued.cancel();
    /// drop(queued); // if a wake came first, this waits until it has left the waker
    /// assert!(!is_woken);
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    ///
    /// # What the waker may rely on
    ///
    /// - When the wait has ended, the waker has returned, and is not called any more. The wait ends with
    ///   [`finish`](Queued::finish), when [`cancel`](Queued::cancel) returns `true`, and with the drop of the `Queued`:
    ///   `finish` and the drop wait for a running waker. So with [`Waker::from_raw`] it may point to the stack of the thread or
    ///   task that waits.
    /// - The engine stores that the wake has come before it calls the waker. So a thread that synchronises with the waker, as
    ///   by an exchange of a task's state, finds `is_woken` true, and sees all that the waking thread did before its wake.
    /// - No fence stands between that store and the call. A waker that only loads a task's state, to find out whether the task
    ///   is asleep, may read an old value, while the task that goes to sleep reads an old `is_woken`. Then nothing wakes the
    ///   task. So let both exchange the state, as every executor does. Or wrap the waker in one that first makes a
    ///   `fence(SeqCst)`, and let the task make another between its store of "I am going to sleep" and its `is_woken`.
    ///
    /// # What the waker may not do
    ///
    /// It may use the engine, with one limit, which holds for the wakers of tasks too: it must not end a wait of `prepare_with`
    /// that a wake has taken, nor wait for a thread that ends one. That end waits until the wait's own waker has returned: for
    /// ever, if the wake has not called that one yet. If a waker has to run its task, use [`wait_async`](Self::wait_async).
    ///
    /// # Errors
    /// As for [`prepare`](Self::prepare), and [`Error::Invalid`] if `options` has a timeout.
    pub fn prepare_with<'w, 'd, T: Target>(
        &'d self,
        waiter: Pin<&'w mut Waiter<'d>>,
        target: T,
        expected: T::Value,
        options: &WaitOptions,
        waker: Waker,
    ) -> Result<Queued<'w, 'd>, Error> {
        if options.timeout.is_some() {
            return Err(Error::Invalid);
        }
        let matched = self.lock_if_equal(&target, expected)?;
        let signal = Signal::new(Receiver::Lent(GuardedWaker::of(waker)));
        Ok(Queued::new(self.queue(matched, waiter.into_ref(), options, signal)?, None, None))
    }

    /// Locks the bucket of `target` if the word holds `expected`: the first part of every wait. Also returns the word's place.
    pub(super) fn lock_if_equal<T: Target>(&self, target: &T, expected: T::Value) -> Result<Matched<'_>, Error> {
        if !target.can_hold(expected) {
            return Err(Error::Invalid);
        }
        if self.differs(|| target.load(), expected) {
            return Err(Error::Again);
        }
        let matched = self.lock_and_compare(target, expected);
        if matched.as_ref().is_err_and(|error| *error == Error::Again) {
            self.count(|c| c.mismatches.add(1));
        }
        matched
    }

    /// The early return of a wait, if the domain has it: whether the word differs. Then the wait ends without having locked.
    #[inline(always)]
    pub(crate) fn differs<V: PartialEq>(&self, load: impl FnOnce() -> Result<V, Fault>, expected: V) -> bool {
        let differs = self.wait_path.has_early_return() && load().is_ok_and(|value| value != expected);
        if differs {
            self.count(|c| c.mismatches.add(1));
        }
        differs
    }

    /// The second part of `lock_if_equal`, without counting.
    #[inline(always)]
    pub(super) fn lock_and_compare<T: Target>(&self, target: &T, expected: T::Value) -> Result<Matched<'_>, Error> {
        let (place, line) = self.place_and_line(target);
        let mut faults = Faults::default();
        loop {
            let mut locked = self.lock_or_make(&place);
            let transfers = if place.is_private() { locked.note_use(line) } else { 0 };
            wait_barrier(); // [A] pairs with [B]
            match target.load() {
                Ok(value) if value == expected => return Ok(Matched { locked, place }),
                Ok(_) => {
                    drop(locked);
                    self.note_transfers(transfers);
                    return Err(Error::Again);
                }
                Err(Fault) => {
                    drop(locked);
                    faults.resolve(|| target.fault_in(Access::Read))?;
                }
            }
        }
    }

    pub(super) fn queue<'w, 'd>(
        &'d self,
        Matched { mut locked, place }: Matched<'d>,
        waiter: Pin<&'w Waiter<'d>>,
        options: &WaitOptions,
        signal: Signal,
    ) -> Result<Pin<&'w Waiter<'d>>, Error> {
        if waiter.is_busy() {
            return Err(Error::Busy);
        }
        self.admit_waiter(locked.waiters())?;
        let since = self.system.joins(options.priority);
        let entry = Entry::new(self.key(&place), place.hash, options.priority, Some(options.bitset), signal, since);
        let entry = waiter.get_ref().0.occupy(self, entry);
        // SAFETY: the entry is new and not queued. The waiter is pinned, and leaves the queue in its drop.
        let new_chain = unsafe { locked.insert(entry.cast()) };
        drop(locked);
        self.note_queued(&place, entry, new_chain);
        Ok(waiter)
    }

    /// Runs `f` with the bucket locked in which `entry` is queued now. `None` if it is not queued any more.
    pub(super) fn with_queued<R>(&self, entry: &Entry, f: impl FnOnce(&mut Guard<'_>) -> R) -> Option<R> {
        self.lock_queued(entry).map(|mut guard| f(&mut guard))
    }

    /// Locks the bucket in which `entry` is queued, whichever a resize has moved it to. `None` if it is not queued any more.
    #[inline(never)]
    pub(super) fn lock_queued(&self, entry: &Entry) -> Option<Guard<'_>> {
        let mut round = 0;
        loop {
            let address = entry.node.bucket();
            // SAFETY: null, or a bucket of a table of this domain, its namespace or its system, valid as long as the domain.
            let bucket: &Bucket = unsafe { address.cast::<Bucket>().as_ref() }?;
            if let Some(guard) = bucket.lock(&self.tables.store)
                && entry.node.bucket() == address
            {
                return Some(guard);
            }
            // A mover is taking the entry to a bucket that becomes live at the end of the mover's step.
            self.platform().wait_for_holder(&mut round);
        }
    }

    /// As `lock_queued`. `None` if the bucket is busy, or a mover is taking `entry` away; `Some(None)` if it is not queued.
    #[cold]
    pub(super) fn try_lock_queued(&self, entry: &Entry) -> Option<Option<Guard<'_>>> {
        let address = entry.node.bucket();
        // SAFETY: as in `lock_queued`.
        let Some(bucket) = (unsafe { address.cast::<Bucket>().as_ref() }) else { return Some(None) };
        bucket.try_lock().filter(|_locked| entry.node.bucket() == address).map(Some)
    }
}

/// A word that holds the expected value: its place, and that place's locked bucket. A struct, because a wait executes four
/// instructions more with a tuple.
pub(super) struct Matched<'d> {
    pub locked: Locked<'d>,
    pub place: Place,
}

/// A waiter that is queued, or has been woken and has not received the wake. The wait ends in one of three ways:
///
/// - [`finish`](Self::finish) receives the wake. It sleeps until then, unless [`is_woken`](Self::is_woken).
/// - [`cancel`](Self::cancel) receives the wake if one has come. It does not sleep for a waker.
/// - The drop cancels the wait, and a wake that has come goes to the next waiter. After `cancel` it passes nothing on.
///
/// `finish` and the drop wait until the waker of [`Domain::prepare_with`] has returned, if a wake has taken it. Then what it
/// points to may be freed. They sleep by [`Platform::park`](crate::platform::Platform::park), on every platform. Do not hold a
/// lock that this waker takes, or another waker of the same wake: a wake calls its wakers one after another.
#[must_use = "dropping it cancels the wait"]
pub struct Queued<'w, 'd> {
    waiter: Pin<&'w Waiter<'d>>,
    deadline: Option<Deadline>,
    /// What `cancel` has returned. The waiter may be idle since.
    cancelled: Option<bool>,
    /// The key's hash. `None` if the wait began with `prepare_with`: the thread does not spin, because a wake during the spin would
    /// still call the waker, and `finish` first makes the thread the receiver.
    spins: Option<u32>,
}

impl<'w, 'd> Queued<'w, 'd> {
    #[inline(always)]
    pub(super) fn new(waiter: Pin<&'w Waiter<'d>>, deadline: Option<Deadline>, spins: Option<u32>) -> Self {
        Self { waiter, deadline, cancelled: None, spins }
    }

    /// Whether a wake has come, which [`finish`](Self::finish) and [`cancel`](Self::cancel) receive, and the drop passes on.
    #[must_use]
    pub fn is_woken(&self) -> bool {
        self.cancelled == Some(false) || self.waiter.0.busy().is_some_and(|(_, entry)| entry.signal.is_notified())
    }

    /// Cancels the wait. Returns `true` if no wake has come; then none will come. Returns `false` if a wake has come, which
    /// then counts as received: the caller has to act on it. To pass such a wake on to the next waiter, drop the `Queued`
    /// without calling this. A second call returns what the first returned.
    ///
    /// It does not wait for the waker of [`Domain::prepare_with`], so a scheduler may hold a lock that the waker takes. After
    /// `false` that waker may be running, or about to run: release the lock, and then drop the `Queued`, which waits for it.
    /// After `true` it has been dropped. The call may sleep by [`Platform::park`](crate::platform::Platform::park) until a
    /// bucket is unlocked, or spin, with [`KEEPS_CPU`](crate::platform::Platform::KEEPS_CPU). So do not hold a lock that `park`
    /// or `unpark` takes.
    #[must_use = "if it returns `false`, this waiter has received a wake, and no other waiter gets it"]
    pub fn cancel(&mut self) -> bool {
        let waiter = &self.waiter;
        *self.cancelled.get_or_insert_with(|| waiter.cancel())
    }

    /// Sleeps until a wake comes or the deadline passes: the second half of a thread's wait.
    ///
    /// # Errors
    /// [`Error::TimedOut`].
    pub fn finish(self) -> Result<(), Error> {
        self.finish_in(None)
    }

    /// As `finish`. A thread that was queued as the member of a group sleeps as that member.
    pub(super) fn finish_in(self, member: Option<Members>) -> Result<(), Error> {
        if let Some(in_time) = self.cancelled {
            return if in_time { Err(Error::TimedOut) } else { Ok(()) };
        }
        let (deadline, spins) = (self.deadline, self.spins);
        let waiter = &*self.waiter;
        let Some((domain, Entry { signal, .. })) = waiter.0.busy() else { return Ok(()) };
        let on = domain.platform();
        let sleep = || {
            let in_group = member.map(|member| signal.sleep_in_group(member, deadline.as_ref()));
            // `Some(None)`: wakes of other members do not let it sleep there.
            let changes = spins.is_none() || in_group == Some(None);
            if changes && !waiter.set_receiver(Receiver::Thread(on)) {
                // A wake has taken the entry, and wakes the former receiver and not this thread.
                waiter.wait_for_waker();
            }
            let woken = in_group.flatten().unwrap_or_else(|| signal.sleep(on, deadline.as_ref()));
            if woken { Ok(()) } else { Err(()) }
        };
        let spin = |ns| signal.spin(on, ns, deadline.as_ref());
        let woken = MaySpin::sleep(spins.and_then(|hash| domain.may_spin(hash)), spin, sleep);
        if woken.is_ok() {
            waiter.release(WaitEnd::Cancelled);
            return Ok(());
        }
        // If a wake has taken the entry first, this is no timeout: the waker has counted this waiter as woken.
        if waiter.give_up(WaitEnd::GaveUp(Cause::TimedOut)) { Err(Error::TimedOut) } else { Ok(()) }
    }
}

impl Drop for Queued<'_, '_> {
    fn drop(&mut self) {
        if self.waiter.is_busy() {
            self.waiter.abandon();
        }
    }
}
