//! The trait [`Platform`], by which the engine lets threads sleep, reads clocks and announces locks to a scheduler, and
//! references to its implementations.

use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

use super::clock::{Clock, Deadline, Timeout};
use super::host;
use super::park::ParkEnd;

/// What the engine needs of an operating system. A kernel implements it, or any other embedder whose threads are not
/// the host's, and names it in [`SystemConfig::platform`](crate::SystemConfig::platform).
///
/// The functions have no `self`. A platform keeps its state where its scheduler finds it, in statics or per CPU.
///
/// The functions must not panic: a panic in one of them ends the program, because the engine may be in the middle of
/// taking a waiter out of a queue.
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
///     fn unpark(_word: *const AtomicU32, _count: usize) -> usize {
///         0 // nobody sleeps
///     }
///     fn now(clock: Clock) -> Duration {
///         ufutex::platform::AnyStd::now(clock)
///     }
/// }
///
/// let system = ufutex::System::with_config(ufutex::SystemConfig::new().platform::<Mine>())?;
/// # let _ = system;
/// # Ok::<(), ufutex::Error>(())
/// ```
pub trait Platform: 'static {
    /// Puts the calling thread to sleep if `word` holds `expected`, until [`unpark`](Self::unpark) is called with the
    /// word's address or `deadline` has passed. It may also wake up for no reason: the engine checks `word` again.
    ///
    /// For `unpark`, the check of `word` and falling asleep must be one step: if a thread changes `word` and then calls
    /// `unpark`, either `park` sees the new value, or `unpark` wakes the thread that it has put to sleep.
    ///
    /// The engine calls it in a thread's wait; to wait for a lock, or for a table that another thread makes or resizes;
    /// and at the end of a wait of [`prepare_with`](crate::Domain::prepare_with), while its waker runs. So a wake calls it
    /// only if another thread holds the bucket, and never in a build without `std` where
    /// [`KEEPS_CPU`](Self::KEEPS_CPU) is `true`. It is never called between [`enter`](Self::enter) and
    /// [`leave`](Self::leave).
    ///
    /// Some calls have a deadline of the engine's own, because perhaps no thread calls `unpark` for them: a contender for a
    /// lock sleeps for a millisecond at first, and twice as long each time; a thread that waits for a waker sleeps for 20
    /// to 640 microseconds at a time. So a `park` that ignores `deadline` may sleep for ever. If the platform's ticks are
    /// coarser, let `park` yield and return without sleeping.
    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>);

    /// Wakes up to `count` threads that sleep on the word at this address, and returns how many, or 0 if that is not
    /// known. A `count` of `usize::MAX` stands for all.
    ///
    /// It may be called between [`enter`](Self::enter) and [`leave`](Self::leave), in interrupt handlers that wake, and
    /// in signal handlers that raise an [`Interrupt`](crate::Interrupt).
    ///
    /// `word` must not be dereferenced: the memory may have been freed, or be in use for something else. A thread that
    /// sleeps there by now then wakes up for no reason.
    fn unpark(word: *const AtomicU32, count: usize) -> usize;

    /// The time since the epoch of `clock`. The monotonic clock does not go backwards.
    fn now(clock: Clock) -> Duration;

    /// Lets other threads run. Called by a thread that has unlocked a bucket for which others have slept. By default it
    /// does nothing.
    fn yield_now() {}

    /// Whether a thread is neither preempted nor interrupted between [`enter`](Self::enter) and [`leave`](Self::leave).
    /// If `true`, a contender for the lock spins, also in an interrupt handler: the holder unlocks soon. If `false`,
    /// the contender sleeps by [`park`](Self::park), and `enter` and `leave` are not called. Default: `false`.
    ///
    /// Takes effect only in a build without the feature `std`: a host's threads can be preempted at any time.
    const KEEPS_CPU: bool = false;

    /// Called where [`KEEPS_CPU`](Self::KEEPS_CPU) takes effect, before the engine tries to take a lock that is held for
    /// a short time: a kernel disables interrupts and preemption on this CPU. A thread may be in several sections at
    /// once, and leave them in any order, so a kernel counts them.
    ///
    /// Within a section the engine accesses guest memory only by functions that must not sleep, such as
    /// [`Target::load`](crate::Target::load), may ask the global allocator for a little memory, and may call a
    /// [`Scheduler`](crate::pi::Scheduler). It allocates tables outside of sections.
    fn enter() {}

    /// Called after the lock was released, or was not taken: ends what [`enter`](Self::enter) began.
    fn leave() {}
}

/// The functions of a platform.
#[derive(Debug)]
struct Calls {
    park: fn(&AtomicU32, u32, Option<Deadline>),
    unpark: fn(*const AtomicU32, usize) -> usize,
    now: fn(Clock) -> Duration,
    yield_now: fn(),
    /// [`Platform::enter`] and `leave`, if locks are announced.
    section: Option<[fn(); 2]>,
    /// The same platform for locks that are held for longer, and not announced.
    long: Option<&'static Self>,
}

/// Calls `f`, and ends the program if it panics: Rust lets no panic leave an `extern "C"` function. Unwinding through a
/// thread whose waiter is queued would free that waiter's memory.
#[inline(always)]
extern "C" fn without_unwinding<R>(f: impl FnOnce() -> R) -> R {
    f()
}

impl Calls {
    const fn for_long_locks<P: Platform>() -> Self {
        Self {
            park: |word, expected, deadline| without_unwinding(|| P::park(word, expected, deadline)),
            unpark: |word, count| without_unwinding(|| P::unpark(word, count)),
            now: |clock| without_unwinding(|| P::now(clock)),
            yield_now: || without_unwinding(P::yield_now),
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

/// Which platform a lock or a waiter is on: one word. All zeroes mean the host, so zeroed memory of a new table needs no
/// initialisation. In a build without a host, no thread sleeps there, and contenders spin.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct PlatformRef(Option<&'static Calls>);

/// Whether [`Platform::enter`] is called.
const ANNOUNCED: bool = !cfg!(feature = "std");

impl PlatformRef {
    /// The host.
    pub const HOST: Self = Self(None);

    /// The platform `P`.
    pub const fn of<P: Platform>() -> Self {
        Self(Some(const { &Calls::of::<P>() }))
    }

    pub const fn is_host(self) -> bool {
        self.0.is_none()
    }

    /// A pointer for an atomic word, which [`from_raw`](Self::from_raw) turns back.
    pub fn into_raw(self) -> *mut () {
        self.0.map_or(core::ptr::null_mut(), |calls| core::ptr::from_ref(calls).cast_mut().cast())
    }

    /// # Safety
    /// `raw` is what [`into_raw`](Self::into_raw) returned.
    pub unsafe fn from_raw(raw: *mut ()) -> Self {
        // SAFETY: null, or a reference of static lifetime.
        Self(unsafe { raw.cast::<Calls>().as_ref() })
    }

    /// The same platform, for a lock whose holder may sleep, allocate, or take its time.
    pub const fn for_long_locks(self) -> Self {
        match self.0 {
            Some(Calls { long: Some(long), .. }) => Self(Some(long)),
            _ => self,
        }
    }

    /// Call this before a lock is taken.
    #[inline(always)]
    pub fn enter(self) {
        if ANNOUNCED && let Some(Calls { section: Some([enter, _]), .. }) = self.0 {
            enter();
        }
    }

    /// Call this after a lock was released, or was not taken.
    #[inline(always)]
    pub fn leave(self) {
        if ANNOUNCED && let Some(Calls { section: Some([_, leave]), .. }) = self.0 {
            leave();
        }
    }

    /// Has the calling thread keep its CPU until the result is dropped, if holders of locks do. It must not sleep
    /// meanwhile.
    pub fn section(self) -> Section {
        self.enter();
        Section(self)
    }

    /// Whether the holder of a lock keeps its CPU, so that contenders spin.
    pub fn holders_keep_cpu(self) -> bool {
        ANNOUNCED && self.0.is_some_and(|calls| calls.section.is_some())
    }

    /// Sleeps while `word` is `expected`, until `deadline` at the latest.
    pub fn park(self, word: &AtomicU32, expected: u32, deadline: Option<&Deadline>) -> ParkEnd {
        let Some(calls) = self.0 else { return host::park(word, expected, deadline) };
        (calls.park)(word, expected, deadline.copied());
        if deadline.is_some_and(|deadline| self.has_passed(deadline)) { ParkEnd::TimedOut } else { ParkEnd::Awake }
    }

    /// Wakes up to `count` threads that sleep on the word at `word`, which need not be mapped any more. Returns their
    /// number, or 0 if it is not known.
    pub fn unpark(self, word: *const AtomicU32, count: usize) -> usize {
        match self.0 {
            None => host::unpark(word, count),
            Some(calls) => (calls.unpark)(word, count),
        }
    }

    /// Whether threads sleep with bits by [`park_with`](Self::park_with), and wakes choose among them by those.
    pub fn wakes_by_bits(self) -> bool {
        host::WAKES_BY_BITS && self.is_host()
    }

    /// As `park`, with bits by which [`unpark_bits`](Self::unpark_bits) chooses. Elsewhere any wake wakes the thread.
    pub fn park_with(self, word: &AtomicU32, expected: u32, deadline: Option<&Deadline>, bits: NonZeroU32) -> ParkEnd {
        #[cfg(all(feature = "std", target_os = "linux"))]
        if self.is_host() {
            return host::park_with(word, expected, deadline, bits);
        }
        let _any_wake = bits;
        self.park(word, expected, deadline)
    }

    /// Wakes all threads that sleep on the word at `word` with one of these bits.
    pub fn unpark_bits(self, word: *const AtomicU32, bits: NonZeroU32) {
        #[cfg(all(feature = "std", target_os = "linux"))]
        if self.is_host() {
            return host::unpark_bits(word, bits);
        }
        let _all = bits;
        self.unpark(word, usize::MAX);
    }

    /// The time of `clock`. `None` if there is no clock.
    pub fn now(self, clock: Clock) -> Option<Duration> {
        match self.0 {
            None => host::now(clock),
            Some(calls) => Some((calls.now)(clock)),
        }
    }

    /// Nanoseconds on a clock that does not go backwards. `None` if there is no clock.
    pub fn monotonic_ns(self) -> Option<u64> {
        u64::try_from(self.now(Clock::Monotonic)?.as_nanos()).ok()
    }

    /// The point in time at which `timeout` ends, if it begins now. Without a clock no timeout ends.
    pub fn begin(self, timeout: Timeout) -> Deadline {
        match timeout {
            Timeout::At(clock, at) => Deadline { clock, at },
            Timeout::After(length) => {
                let now = self.now(Clock::Monotonic).unwrap_or_default();
                Deadline { clock: Clock::Monotonic, at: now.saturating_add(length) }
            }
        }
    }

    /// Whether the clock of `deadline` shows that time or a later one.
    pub fn has_passed(self, deadline: &Deadline) -> bool {
        self.now(deadline.clock).is_some_and(|now| now >= deadline.at)
    }

    /// Gives up the CPU to another thread.
    pub fn yield_now(self) {
        match self.0 {
            None => host::yield_now(),
            Some(calls) => (calls.yield_now)(),
        }
    }

    /// Waits a moment for another thread's progress: it first spins, for some microseconds in all, and sleeps from then
    /// on. If a thread with a real-time priority only yielded, it could keep a thread without one off its CPU for ever.
    #[cold]
    pub fn wait_a_moment(self, round: &mut u32) {
        const SPINS: u32 = 100;
        crate::sync::spin_loop();
        if let Some(mut naps) = round.checked_sub(SPINS) {
            let _slept = self.nap(&mut naps); // without a way to sleep, in a model or without a platform, it spins
        }
        *round = round.saturating_add(1);
    }

    /// As `wait_a_moment`, for the holder of a lock. If that keeps its CPU, it is soon done, and the caller may not
    /// sleep: it may hold a lock, or be an interrupt handler.
    #[cold]
    pub fn wait_for_holder(self, round: &mut u32) {
        if self.holders_keep_cpu() {
            crate::sync::spin_loop();
        } else {
            self.wait_a_moment(round);
        }
    }

    /// Sleeps for a moment, twice as long each time up to a limit. Returns `false` if there is no way to sleep.
    pub fn nap(self, round: &mut u32) -> bool {
        let length = Duration::from_nanos(20_000 << (*round).min(5));
        *round = round.saturating_add(1);
        self.sleep(length)
    }

    /// Sleeps for that long. Returns `false` if there is no way to sleep.
    pub fn sleep(self, length: Duration) -> bool {
        let Some(calls) = self.0 else { return host::sleep(length) };
        let word = AtomicU32::new(0);
        let deadline = self.begin(Timeout::After(length));
        (calls.park)(&word, 0, Some(deadline));
        true
    }
}

/// See [`PlatformRef::section`].
#[must_use = "it ends when it is dropped"]
pub struct Section(PlatformRef);

impl Drop for Section {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.leave();
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
