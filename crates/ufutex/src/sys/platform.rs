//! The trait [`Platform`], by which the engine lets threads sleep, reads clocks and announces locks to a scheduler, and
//! references to its implementations.

use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

use super::clock::{Clock, Deadline, Timeout};
use super::host;
use super::park::ParkEnd;
use super::unwind::Otherwise;

/// What the engine needs of an operating system. An embedder whose threads are not the host's, such as a kernel, implements it
/// and names it in [`SystemConfig::platform`](crate::SystemConfig::platform).
///
/// The functions have no `self`: a platform keeps its state where its scheduler finds it. They must not panic: that ends the
/// program, because the engine may be in the middle of taking a waiter out of a queue.
///
/// ```
/// use core::{sync::atomic::{AtomicU32, Ordering::Acquire}, time::Duration};
/// use ufutex::platform::{Clock, Deadline, Platform};
///
/// struct Mine;
///
/// impl Platform for Mine {
///     fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
///         if word.load(Acquire) == expected && deadline.is_none_or(|deadline| Self::now(deadline.clock) < deadline.at) {
///             std::thread::yield_now(); // to return too early is allowed
///         }
///     }
///     fn unpark(_: *const AtomicU32, _: usize) -> usize { 0 } // nobody sleeps
///     fn now(clock: Clock) -> Duration { ufutex::platform::AnyStd::now(clock) }
/// }
///
/// let system = ufutex::System::with_config(ufutex::SystemConfig::new().platform::<Mine>())?;
/// # let _ = system;
/// # Ok::<(), ufutex::Error>(())
/// ```
pub trait Platform: 'static {
    /// Puts the calling thread to sleep if `word` holds `expected`, until [`unpark`](Self::unpark) is called with the word's
    /// address or `deadline` has passed. It may also wake up for no reason: the engine checks `word` again.
    ///
    /// For `unpark`, the check of `word` and falling asleep must be one step: if a thread changes `word` and then calls
    /// `unpark`, either `park` sees the new value, or `unpark` wakes the thread that it has put to sleep.
    ///
    /// The engine calls it in a thread's wait; to wait for a lock, or for a table that another thread makes or resizes; and at
    /// the end of a wait of [`prepare_with`](crate::Domain::prepare_with), while its waker runs. So a wake calls it only if
    /// another thread holds the bucket, and never in a build without `std` where [`KEEPS_CPU`](Self::KEEPS_CPU) is `true`. It
    /// is never called between [`enter`](Self::enter) and [`leave`](Self::leave).
    ///
    /// Some calls have a deadline of the engine's own, because perhaps no thread calls `unpark` for them. A contender for a
    /// lock sleeps for a millisecond at first, and twice as long after each sleep that ends by its deadline. A thread that
    /// waits until a waker has returned sleeps for 20 to 640 microseconds at a time. So a `park` that ignores `deadline` may
    /// sleep for ever. If the platform's ticks are coarser, let `park` yield and return.
    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>);

    /// Wakes up to `count` threads that sleep on the word at this address, all for `usize::MAX`. Returns how many it woke, or 0
    /// if that is not known.
    ///
    /// It may be called between [`enter`](Self::enter) and [`leave`](Self::leave), in interrupt handlers that wake, and in
    /// signal handlers that raise an [`Interrupt`](crate::Interrupt).
    ///
    /// `word` must not be dereferenced: its memory may have been freed or reused. Whatever sleeps there by now may wake up.
    fn unpark(word: *const AtomicU32, count: usize) -> usize;

    /// The time since the epoch of `clock`. The monotonic clock does not go backwards.
    fn now(clock: Clock) -> Duration;

    /// Lets other threads run. Called after a thread has unlocked a bucket for which others slept. Default: does nothing.
    fn yield_now() {}

    /// Whether waiting threads may spin before they call [`park`](Self::park), for up to
    /// [`DomainOptions::spin`](crate::DomainOptions::spin). Set it to `true` if threads run on several CPUs at the same time, and
    /// to sleep and be woken takes tens of microseconds: not in a kernel whose idle CPUs poll. A thread that spins reads
    /// [`now`](Self::now) all the time. With a clock that moves in steps of more than 5 us it spins in vain. Default: `false`.
    const MAY_SPIN: bool = false;

    /// Whether a thread is neither preempted nor interrupted between [`enter`](Self::enter) and [`leave`](Self::leave). If
    /// `true`, a contender for the lock spins, also in an interrupt handler: the holder unlocks soon. If `false`, it sleeps by
    /// [`park`](Self::park), and `enter` and `leave` are not called. Default: `false`.
    ///
    /// Takes effect only without the feature `std`: a host's threads can be preempted at any time.
    const KEEPS_CPU: bool = false;

    /// Called where [`KEEPS_CPU`](Self::KEEPS_CPU) takes effect, before the engine tries to take a lock that is held for a
    /// short time: a kernel disables interrupts and preemption on this CPU. A thread may be in several sections at once, and
    /// leave them in any order, so a kernel counts them.
    ///
    /// Within a section the engine accesses guest memory only by functions that must not sleep, such as
    /// [`Target::load`](crate::Target::load). It may ask the global allocator for a little memory, never for a table, and may
    /// call a [`Scheduler`](crate::pi::Scheduler).
    fn enter() {}

    /// Ends what [`enter`](Self::enter) began. Called after the lock was released, or was not taken.
    fn leave() {}
}

struct Calls {
    park: fn(&AtomicU32, u32, Option<Deadline>),
    unpark: fn(*const AtomicU32, usize) -> usize,
    now: fn(Clock) -> Duration,
    yield_now: fn(),
    may_spin: bool,
    /// `enter` and `leave`, if locks are announced.
    section: Option<[fn(); 2]>,
    /// For locks that are held for longer, and not announced.
    long: Option<&'static Self>,
}

/// Rust lets no panic leave an `extern "C"` function, but ends the program: unwinding would free a queued waiter's memory.
#[inline(always)]
pub extern "C" fn without_unwinding<R>(f: impl FnOnce() -> R) -> R {
    f()
}

impl Calls {
    const fn for_long_locks<P: Platform>() -> Self {
        Self {
            park: |word, expected, deadline| without_unwinding(|| P::park(word, expected, deadline)),
            unpark: |word, count| without_unwinding(|| P::unpark(word, count)),
            now: |clock| without_unwinding(|| P::now(clock)),
            yield_now: || without_unwinding(P::yield_now),
            may_spin: P::MAY_SPIN,
            section: None,
            long: None,
        }
    }

    const fn of<P: Platform>() -> Self {
        let mut calls = Self::for_long_locks::<P>();
        if P::KEEPS_CPU {
            calls.section = Some([|| without_unwinding(P::enter), || without_unwinding(P::leave)]);
            calls.long = Some(const { &Self::for_long_locks::<P>() });
        }
        calls
    }
}

/// How [`PlatformRef::watch`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watched {
    /// `is_done` returned `true` when it was first called. The thread may have lost its CPU before.
    DoneBefore,
    /// `is_done` returned `true`. `looked` is the last reading of the clock before that.
    Done { looked: u64 },
    /// The time or the deadline has passed, or there is no clock.
    TimeIsUp,
    /// Two readings of the clock were so far apart that the thread probably did not run between them.
    CpuIsLost,
}

/// Whether a thread that read the clock at these times, in nanoseconds, has probably lost its CPU between them. A few looks at a
/// word take less than a microsecond, and another thread that gets the CPU keeps it for longer than this.
pub fn is_gap(before: u64, after: u64) -> bool {
    after.saturating_sub(before) > 5_000
}

/// The platform of a lock or a waiter, in one word. All zeroes, as in a new table, mean the host; without one threads spin.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct PlatformRef(Option<&'static Calls>);

/// Whether [`Platform::enter`] is called.
const ANNOUNCED: bool = !cfg!(feature = "std");

impl PlatformRef {
    pub const HOST: Self = Self(None);

    pub const fn of<P: Platform>() -> Self {
        Self(Some(const { &Calls::of::<P>() }))
    }

    pub const fn is_host(self) -> bool {
        self.0.is_none()
    }

    pub fn into_raw(self) -> *mut () {
        self.0.map_or(core::ptr::null_mut(), |calls| core::ptr::from_ref(calls).cast_mut().cast())
    }

    /// # Safety
    /// `raw` is what [`into_raw`](Self::into_raw) returned.
    pub unsafe fn from_raw(raw: *mut ()) -> Self {
        // SAFETY: null, or a static reference.
        Self(unsafe { raw.cast::<Calls>().as_ref() })
    }

    /// For a lock whose holder may sleep, allocate, or take its time.
    pub const fn for_long_locks(self) -> Self {
        match self.0 {
            Some(Calls { long: Some(long), .. }) => Self(Some(long)),
            _ => self,
        }
    }

    #[inline(always)]
    pub fn enter(self) {
        if ANNOUNCED && let Some(Calls { section: Some([enter, _]), .. }) = self.0 {
            enter();
        }
    }

    #[inline(always)]
    pub fn leave(self) {
        if ANNOUNCED && let Some(Calls { section: Some([_, leave]), .. }) = self.0 {
            leave();
        }
    }

    /// Has the calling thread keep its CPU until the result is dropped, if holders of locks do. It must not sleep meanwhile.
    pub fn section(self) -> Otherwise<impl FnOnce()> {
        self.enter();
        Otherwise::new(move || self.leave())
    }

    pub fn holders_keep_cpu(self) -> bool {
        ANNOUNCED && self.0.is_some_and(|calls| calls.section.is_some())
    }

    pub fn park(self, word: &AtomicU32, expected: u32, deadline: Option<&Deadline>) -> ParkEnd {
        let Some(calls) = self.0 else { return host::park(word, expected, deadline, NonZeroU32::MAX) };
        (calls.park)(word, expected, deadline.copied());
        if deadline.is_some_and(|deadline| self.has_passed(deadline)) { ParkEnd::TimedOut } else { ParkEnd::Awake }
    }

    /// As [`Platform::unpark`].
    pub fn unpark(self, word: *const AtomicU32, count: usize) -> usize {
        match self.0 {
            None => host::unpark(word, count, NonZeroU32::MAX),
            Some(calls) => (calls.unpark)(word, count),
        }
    }

    pub fn wakes_by_bits(self) -> bool {
        host::WAKES_BY_BITS && self.is_host()
    }

    pub fn now(self, clock: Clock) -> Option<Duration> {
        match self.0 {
            None => host::now(clock),
            Some(calls) => Some((calls.now)(clock)),
        }
    }

    /// By a clock that does not go backwards. `None` if there is none.
    pub fn monotonic_ns(self) -> Option<u64> {
        u64::try_from(self.now(Clock::Monotonic)?.as_nanos()).ok()
    }

    /// When `timeout` ends, if it begins now. Without a clock none ends.
    pub fn begin(self, timeout: Timeout) -> Deadline {
        match timeout {
            Timeout::At(clock, at) => Deadline { clock, at },
            Timeout::After(length) => {
                let now = self.now(Clock::Monotonic).unwrap_or_default();
                Deadline { clock: Clock::Monotonic, at: now.saturating_add(length) }
            }
        }
    }

    pub fn has_passed(self, deadline: &Deadline) -> bool {
        self.now(deadline.clock).is_some_and(|now| now >= deadline.at)
    }

    pub fn yield_now(self) {
        match self.0 {
            None => host::yield_now(),
            Some(calls) => (calls.yield_now)(),
        }
    }

    /// Whether a thread may spin before it sleeps: on a host, or as [`Platform::MAY_SPIN`] says.
    pub fn may_spin(self) -> bool {
        self.0.map_or(cfg!(feature = "std"), |calls| calls.may_spin)
    }

    /// Spins until `is_done` returns `true`, `ns` nanoseconds or the deadline have passed, or the thread has lost its CPU.
    pub fn watch(self, ns: u64, deadline: Option<&Deadline>, is_done: impl Fn() -> bool) -> Watched {
        /// Calls of `is_done` between two readings of the clock.
        const CHECKS: u32 = 16;
        if is_done() {
            return Watched::DoneBefore;
        }
        let Some(begin) = self.monotonic_ns() else { return Watched::TimeIsUp };
        let mut looked = begin;
        // The clock may stand still: a call takes more than a nanosecond.
        for _ in 0..=ns / u64::from(CHECKS) {
            for _ in 0..CHECKS {
                if is_done() {
                    return Watched::Done { looked };
                }
                crate::sync::spin_loop();
            }
            let now = self.monotonic_ns().unwrap_or(u64::MAX);
            if is_gap(looked, now) {
                return Watched::CpuIsLost;
            }
            if now.saturating_sub(begin) > ns || deadline.is_some_and(|deadline| self.has_passed(deadline)) {
                break;
            }
            looked = now;
        }
        Watched::TimeIsUp
    }

    /// Spins for some microseconds in all, then sleeps: a real-time thread that only yielded could keep others off its CPU.
    #[cold]
    pub fn wait_a_moment(self, round: &mut u32) {
        const SPINS: u32 = 100;
        crate::sync::spin_loop();
        if let Some(mut naps) = round.checked_sub(SPINS) {
            let _slept = self.nap(&mut naps); // without a way to sleep, in a model or without a platform, it spins
        }
        *round = round.saturating_add(1);
    }

    /// As `wait_a_moment`, for a thread that waits for a lock's holder. If holders keep their CPU, this spins: the caller may
    /// hold a lock, or be an interrupt handler.
    #[cold]
    pub fn wait_for_holder(self, round: &mut u32) {
        if self.holders_keep_cpu() {
            crate::sync::spin_loop();
        } else {
            self.wait_a_moment(round);
        }
    }

    /// Sleeps, twice as long each time up to a limit. Returns `false` if there is no way to sleep.
    pub fn nap(self, round: &mut u32) -> bool {
        let length = Duration::from_nanos(20_000 << (*round).min(5));
        *round = round.saturating_add(1);
        self.sleep(length)
    }

    /// Returns `false` if there is no way to sleep.
    #[inline(never)]
    pub fn sleep(self, length: Duration) -> bool {
        let Some(calls) = self.0 else { return host::sleep(length) };
        let word = AtomicU32::new(0);
        let deadline = self.begin(Timeout::After(length));
        (calls.park)(&word, 0, Some(deadline));
        true
    }
}

impl core::fmt::Debug for PlatformRef {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(if self.is_host() { "host" } else { "given" })
    }
}

#[cfg(feature = "std")]
impl Timeout {
    /// The point in time at which this timeout ends by the host's clock, if it begins now.
    #[must_use]
    pub fn begin(self) -> Deadline {
        PlatformRef::HOST.begin(self)
    }
}

#[cfg(test)]
pub(crate) use tests::Given;

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use std::thread_local;

    thread_local! {
        /// What the clock shows, in nanoseconds, and how far it moves with each reading.
        static CLOCK: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    }

    pub struct Given;

    impl Platform for Given {
        fn park(_: &AtomicU32, _: u32, _: Option<Deadline>) {}

        fn unpark(_: *const AtomicU32, _: usize) -> usize {
            0
        }

        fn now(_: Clock) -> Duration {
            let (now, step) = CLOCK.get();
            CLOCK.set((now + step, step));
            Duration::from_nanos(now)
        }
    }

    /// Watches with a clock that moves by `step`, until the look with this number has seen it done. Returns the number of looks too.
    fn watch(ns: u64, step: u64, deadline: Option<u64>, done_at: usize) -> (Watched, usize) {
        CLOCK.set((1_000_000, step));
        let looks = Cell::new(0);
        let is_done = || {
            looks.set(looks.get() + 1);
            looks.get() == done_at
        };
        let deadline =
            deadline.map(|ns| Deadline { clock: Clock::Monotonic, at: Duration::from_nanos(1_000_000 + ns) });
        (PlatformRef::of::<Given>().watch(ns, deadline.as_ref(), is_done), looks.get())
    }

    #[test]
    fn watch_ends_at_what_it_waits_for_and_says_when_it_had_looked_at_the_clock() {
        assert_eq!(watch(10_000, 100, None, 1), (Watched::DoneBefore, 1));
        assert_eq!(watch(10_000, 100, None, 2), (Watched::Done { looked: 1_000_000 }, 2));
        assert_eq!(watch(10_000, 100, None, 40), (Watched::Done { looked: 1_000_200 }, 40));
    }

    #[test]
    fn watch_ends_after_its_time_or_at_its_deadline() {
        const NEVER: usize = usize::MAX;
        let (watched, looks) = watch(10_000, 1000, None, NEVER);
        assert_eq!((watched, looks), (Watched::TimeIsUp, 1 + 11 * 16));
        // The deadline is a reading of its own.
        let (watched, looks) = watch(10_000, 1000, Some(3000), NEVER);
        assert_eq!((watched, looks), (Watched::TimeIsUp, 1 + 2 * 16));
        let (watched, looks) = watch(10_000, 0, None, NEVER);
        assert_eq!((watched, looks), (Watched::TimeIsUp, 1 + 626 * 16), "by a clock that stands still");
    }

    #[test]
    fn watch_ends_when_the_thread_has_lost_its_cpu() {
        assert_eq!(watch(100_000, 5_000, None, 64), (Watched::Done { looked: 1_015_000 }, 64));
        assert_eq!(watch(100_000, 5_001, None, 64), (Watched::CpuIsLost, 17));
    }
}
