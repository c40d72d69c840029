//! Makes the program's domain on its first futex call, makes calls on it, and lets its threads sleep.

use core::mem::ManuallyDrop;
use core::pin::{Pin, pin};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::boxed::Box;
use std::sync::Arc;

use ufutex::{
    Access, Cause, Clock, Domain, DomainOptions, GuestWord, Requeue, System, SystemConfig, Task, Timeout, UserMemory,
    WaitOptions, Width,
    observe::Counters,
    pi::Priority,
    platform::Deadline,
    syscall::{Number, Syscall},
};

use crate::calls::{self, Waitv};
use crate::gate::{self, Gate, Sleep};
use crate::memory::{self, Native};
use crate::process::{self, Process, process};
use crate::settings::Policy;
use crate::stuck::Threads;
use crate::timers::Host;
use crate::{nodes, profile, raw, seat, settings, stack, timers};

const CMP_REQUEUE_PRIVATE: u32 = (libc::FUTEX_CMP_REQUEUE | libc::FUTEX_PRIVATE_FLAG) as u32;
/// The highest address that the kernel accepts from a program.
const USER_END: u64 = (1 << 47) - 4096;

/// DomainOptions of waits that must not sleep.
fn at_once() -> WaitOptions {
    WaitOptions::new().timeout(Timeout::At(Clock::Monotonic, Duration::ZERO))
}

/// A domain, and tasks to call it with: one for each priority, because a waiter's place in a queue depends on its
/// task's priority.
pub struct Engine {
    // Declared before the domain, so that the tasks are dropped first.
    tasks: [AtomicPtr<Task>; 100],
    domain: Domain,
}

/// The process's engine, which is made now if there is none. `None` if there is no memory for it.
#[inline(always)]
pub fn engine() -> Option<&'static Engine> {
    let process = process()?;
    // [Pa]: Acquire pairs with the Release of `make`.
    let engine = process.engine.load(Ordering::Acquire);
    // SAFETY: null or a leaked box.
    unsafe { engine.as_ref() }.or_else(|| make(process))
}

#[cold]
fn make(process: &'static Process) -> Option<&'static Engine> {
    let _locked = process.making.lock();
    let mut engine = process.engine.load(Ordering::Relaxed);
    if engine.is_null() {
        let mut new = || engine = Engine::new().map_or(ptr::null_mut(), |engine| Box::into_raw(Box::new(engine)));
        gate::with_storage(|| stack::run(&mut new));
        process.engine.store(engine, Ordering::Release); // [Pa]
    }
    // SAFETY: a leaked box.
    unsafe { engine.as_ref() }
}

/// Makes the engine before the program begins, if its settings may be wrong or a report is wanted in any case.
/// Otherwise the first futex call makes it, since most programs that a shell starts make no such call.
pub fn make_early() {
    let settings = settings::get();
    let Some(process) = process() else { return };
    if (settings.stats.is_some() || settings.watch || settings.slots.is_some()) && make(process).is_none() {
        raw::die(&["no memory for the engine, or its slots cannot be had"]);
    }
}

/// The number of CPUs that this process may use.
pub fn cpus() -> usize {
    let mut mask = [0u64; 128];
    // SAFETY: the kernel writes at most the given number of bytes.
    let bytes =
        unsafe { raw::own(libc::SYS_sched_getaffinity, [0, size_of_val(&mask) as u64, (&raw mut mask) as u64]) };
    if bytes <= 0 { 1 } else { mask.iter().map(|word| word.count_ones() as usize).sum::<usize>().max(1) }
}

/// A number that other programs cannot guess.
fn seed() -> u64 {
    let mut seed = 0u64;
    // SAFETY: stores into `seed`.
    let got = unsafe { raw::own(libc::SYS_getrandom, [(&raw mut seed) as u64, 8, libc::GRND_NONBLOCK as u64]) };
    // Early at boot there may be no random bytes. Then the address of the stack, which the kernel has chosen, is the
    // next best.
    if got == 8 { seed } else { (&raw const seed) as u64 ^ raw::pid() as u64 }
}

impl Engine {
    fn new() -> Result<Self, ufutex::Error> {
        let settings = settings::get();
        let policy = match settings.policy {
            Policy::Load => ufutex::Policy::Load,
            Policy::Threads => ufutex::Policy::Threads,
            Policy::Fixed(slots) => ufutex::Policy::Fixed(slots),
        };
        // Everything is found out by system calls of our own: std needs thread-local storage and opens files.
        let config = SystemConfig::new().cpus(cpus()).hash_seed(seed()).clocks(Arc::new(Host)).platform::<Threads>();
        let system = System::with_config(match nodes::one() {
            Some(one) => config.topology(one),
            None => config,
        })?;
        // With `watch` the program's calls must meet what they would meet in the kernel, where every wait locks its
        // bucket.
        let options = DomainOptions::new()
            .policy(policy)
            .counters(settings.stats.is_some())
            .early_return(!settings.watch)
            .spin(settings.spin);
        let is_observed = settings.profile.is_some() || settings.stats.is_some();
        let options = if is_observed { options.observer(&calls::Observed) } else { options };
        let domain = Domain::with_options(&system, options);
        if let Some(slots) = settings.slots {
            // As if the program had asked for it. 0 then means the global table for good.
            const SET_SLOTS: u64 = 1;
            if domain.prctl_futex_hash(SET_SLOTS, slots as u64, settings.immutable.into()) != 0 {
                return Err(ufutex::Error::NoMemory);
            }
        }
        if settings.watch {
            // A wait with no time to sleep makes the table.
            let _ = domain.wait_with(&AtomicU32::new(0), 0, &at_once());
        }
        let this = Self { tasks: [const { AtomicPtr::new(ptr::null_mut()) }; 100], domain };
        this.task(0).ok_or(ufutex::Error::NoMemory)?;
        Ok(this)
    }

    /// The task of a priority: 0, or the priority of a real-time thread from 1 to 99.
    fn task(&self, priority: usize) -> Option<&Task> {
        let place = &self.tasks[priority];
        let mut task = place.load(Ordering::Acquire); // [Pa]: pairs with the Release below
        if task.is_null() {
            let new = self.domain.kernel_task(priority as u32 + 1).ok()?;
            if let Some(priority) = (priority > 0).then(|| Priority::realtime(priority as u8)) {
                new.set_priority(priority);
            }
            let new = Box::into_raw(Box::new(new));
            // [Pa]
            task = match place.compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Acquire) {
                Ok(_) => new,
                Err(other) => {
                    // SAFETY: made above, and not shared.
                    drop(unsafe { Box::from_raw(new) });
                    other
                }
            };
        }
        // SAFETY: a leaked box.
        unsafe { task.as_ref() }
    }

    #[inline(always)]
    fn call(&self, number: Number, args: [u64; 6], may_sleep: bool, inside: &Inside) -> isize {
        match self.call_briefly(number, &args) {
            Some(result) => result,
            None => self.call_any(number, args, may_sleep, inside),
        }
    }

    /// Makes the most frequent calls if they end at once. `None` means that [`call_any`](Self::call_any) has to make the
    /// call.
    #[inline(always)]
    fn call_briefly(&self, number: Number, args: &[u64; 6]) -> Option<isize> {
        let [address, op, ..] = *args;
        if number != Number::Futex || !is_user(address) {
            return None;
        }
        match op as u32 {
            CMP_REQUEUE_PRIVATE => self.cmp_requeue(GuestWord::new(&Native, address, Width::U32).ok()?, args),
            _ => self.domain.syscall_at_once(&Native, number, args),
        }
    }

    /// Less frequent than the other calls, but often made by a thread that has just slept, and so finds none of the
    /// code in a cache. So the code must be short.
    fn cmp_requeue(
        &self,
        from: GuestWord<'_, Native>,
        &[address, _, wake, requeue, to, expected]: &[u64; 6],
    ) -> Option<isize> {
        let (wake, requeue) = (usize::try_from(wake as i32).ok()?, usize::try_from(requeue as i32).ok()?);
        if to > USER_END {
            return None;
        }
        let to = GuestWord::new(&Native, to, Width::U32).ok()?;
        bring_in(address);
        match self.domain.cmp_requeue(from, u64::from(expected as u32), to, Requeue { wake, requeue }) {
            Ok(done) => Some((done.woken + done.requeued) as isize),
            Err(error) => Some(-(error.errno() as isize)),
        }
    }

    #[inline(never)]
    fn call_any(&self, number: Number, args: [u64; 6], may_sleep: bool, inside: &Inside) -> isize {
        if !may_sleep {
            bring_in_words(number, &args);
            let Some(task) = self.task(0) else { return -(libc::ENOMEM as isize) };
            let mut call = pin!(self.domain.syscall_async(task, &Native, number, args));
            return match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => result,
                Poll::Pending => call.end(Cause::Interrupted), // not reached: the call does not sleep
            };
        }
        self.call_and_sleep(number, args, inside, None)
    }

    /// Like `call_any`, for a call that will probably sleep. `otherwise` sleeps in place of [`Inside::sleep`].
    #[inline(never)]
    fn call_and_sleep(
        &self,
        number: Number,
        args: [u64; 6],
        inside: &Inside,
        otherwise: Option<&mut SleepAt<'_>>,
    ) -> isize {
        let no_memory = -(libc::ENOMEM as isize);
        let Some(task) = self.task(realtime_priority()).or_else(|| self.task(0)) else { return no_memory };
        let Some(taken) = seat::seats().and_then(seat::Seats::take) else { return no_memory };
        // Dropping a waker does nothing.
        let waker = ManuallyDrop::new(taken.seat.waker());
        let mut call = taken.put(self.domain.syscall_async(task, &Native, number, args));
        let mut asleep = None;
        let mut since = None;
        let mut begins = || {
            since = since.or_else(|| calls::sleeps(number, args[0]));
            asleep = asleep.take().or_else(|| profile::sleeps(number, &args, taken.seat.address()));
        };
        let result = inside.sleep_until_done(call.pin(), taken.seat, &waker, otherwise, &mut begins);
        if let Some(asleep) = asleep {
            asleep.ended(result);
        }
        if let Some(since) = since {
            calls::slept(args[0], since);
        }
        result
    }
}

/// Brings in the page of a word that the engine is going to read with buckets locked. The program itself may serve the
/// page (userfaultfd(2)), and its thread that does so may need one of these buckets. If the address is bad, the engine
/// returns the error.
#[inline(always)]
fn bring_in(address: u64) {
    if is_user(address) {
        let _ = Native.load(address, Width::U32);
    }
}

/// As [`bring_in`], for the word that a call reads or changes with buckets locked, if there is one. A wait reads its
/// word before it locks, except with the setting `watch`.
#[cold]
fn bring_in_words(number: Number, &[first, op, .., second, _]: &[u64; 6]) {
    const FLAGS: u64 = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as u64;
    match number {
        Number::Futex => match (op & !FLAGS) as i32 {
            libc::FUTEX_CMP_REQUEUE | libc::FUTEX_CMP_REQUEUE_PI => bring_in(first),
            libc::FUTEX_WAKE_OP if is_user(second) => drop(Native.fault_in(second, Access::Write)),
            _ => {}
        },
        Number::FutexRequeue => drop(memory::read::<Waitv>(first).map(|from| bring_in(from.uaddr))),
        _ => {}
    }
}

/// Whether a word may be at this address.
#[inline(always)]
fn is_user(address: u64) -> bool {
    address <= USER_END && address.is_multiple_of(4)
}

/// futex_waitv(2) on words that are all private. `sleep` puts the thread to sleep at a seat, which wakes notify, and
/// may end the wait for another reason.
pub fn waitv(args: [u64; 6], inside: &Inside, sleep: &mut SleepAt<'_>) -> isize {
    match engine() {
        Some(engine) => engine.call_and_sleep(Number::FutexWaitv, args, inside, Some(sleep)),
        None => -(libc::ENOMEM as isize),
    }
}

/// Whether a thread of this process may have a real-time priority. Most processes may not, and then need not ask the
/// kernel each time.
static MAY_BE_REALTIME: AtomicBool = AtomicBool::new(true);

/// Sets `MAY_BE_REALTIME`, before the program begins: if the process has such a priority, may give itself one, or has
/// the capability.
pub fn begin() {
    const CAP_SYS_NICE: u32 = 23;
    const VERSION_3: u32 = 0x2008_0522;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let header = [VERSION_3, 0];
    let mut sets = [u32::MAX; 6];
    // SAFETY: these calls only ask about this process, and store into memory that has room.
    let policy = unsafe {
        raw::own(libc::SYS_getrlimit, [libc::RLIMIT_RTPRIO.into(), (&raw mut limit) as u64]);
        raw::own(libc::SYS_capget, [(&raw const header) as u64, (&raw mut sets) as u64]);
        raw::own(libc::SYS_sched_getscheduler, [0])
    };
    let may = policy != libc::SCHED_OTHER as isize || limit.rlim_max != 0 || sets[0] >> CAP_SYS_NICE & 1 != 0;
    MAY_BE_REALTIME.store(may, Ordering::Relaxed);
}

/// The calling thread's real-time priority. 0 if it has none.
fn realtime_priority() -> usize {
    if !MAY_BE_REALTIME.load(Ordering::Relaxed) {
        return 0;
    }
    // SAFETY: asks about the calling thread.
    let policy = unsafe { raw::own(libc::SYS_sched_getscheduler, [0]) } as i32 & !libc::SCHED_RESET_ON_FORK;
    if policy != libc::SCHED_FIFO && policy != libc::SCHED_RR {
        return 0;
    }
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: stores into `param`.
    unsafe { raw::own(libc::SYS_sched_getparam, [0, (&raw mut param) as u64]) };
    usize::try_from(param.sched_priority).unwrap_or(0).min(99)
}

/// How the calling thread is inside the engine: see `gate.rs`.
pub struct Inside {
    pub gate: *mut Gate,
    /// If the thread is inside by mask, its mask outside. Null if it is inside by flag.
    pub mask: *const u64,
}

impl Inside {
    fn sleep_until_done(
        &self,
        mut call: Pin<&mut Syscall<'_, '_, '_, Native>>,
        seat: &seat::Seat,
        waker: &Waker,
        mut otherwise: Option<&mut SleepAt<'_>>,
        begins: &mut dyn FnMut(),
    ) -> isize {
        // SAFETY: the call is not moved.
        let timeout = unsafe { call.as_mut().get_unchecked_mut() }.take_timeout();
        let until = timeout.map(absolute);
        let deadline = until.map(as_futex_takes_it);
        let mut context = Context::from_waker(waker);
        loop {
            if let Poll::Ready(result) = call.as_mut().poll(&mut context) {
                return result;
            }
            begins();
            // SAFETY: this thread's own gate. `sleep` looks for a signal that has been put off.
            let is_awake = || seat.watch() || unsafe { Gate::has_deferred(self.gate) };
            let slept = calls::while_waiting(|| match &mut otherwise {
                // A thread that has its signals blocked takes none while it spins.
                None if self.mask.is_null() => {
                    call.as_mut().sleep(until.as_ref(), is_awake, || self.sleep(seat, deadline.as_ref()))
                }
                None => self.sleep(seat, deadline.as_ref()),
                Some(sleep) => sleep(seat),
            });
            if let Err(cause) = slept {
                return call.end(cause);
            }
        }
    }

    fn sleep(&self, seat: &seat::Seat, deadline: Option<&(bool, libc::timespec)>) -> Result<(), Cause> {
        let (is_realtime, at) = deadline.map_or((false, 0), |(realtime, at)| (*realtime, ptr::from_ref(at) as u64));
        let args = seat.sleep_call(at, is_realtime);
        // SAFETY: the mask is null or valid as long as `self`.
        let sleep = unsafe { Sleep::new(self.gate, self.mask, libc::SYS_futex, args) };
        loop {
            if seat.was_notified() {
                return Ok(());
            }
            // SAFETY: the pointers are valid as long as `self` and `deadline`.
            let result = unsafe { gate::sleep(&sleep) };
            if seat.was_notified() {
                return Ok(());
            }
            // SAFETY: this thread's own gate.
            if unsafe { Gate::has_deferred(self.gate) } {
                return Err(Cause::Interrupted);
            }
            match -result as i32 {
                libc::ETIMEDOUT => return Err(Cause::TimedOut),
                libc::EINTR => {
                    // SAFETY: as above.
                    unsafe { Gate::note_interrupted(self.gate) };
                    return Err(Cause::Interrupted);
                }
                0 | libc::EAGAIN => {}
                _ => {
                    raw::die(&["the kernel refuses futex(2) to a thread that waits (a seccomp filter of the program?)"])
                }
            }
        }
    }
}

/// A sleep at a seat. `Ok` if a waker has notified it.
type SleepAt<'a> = dyn FnMut(&seat::Seat) -> Result<(), Cause> + 'a;

fn absolute(timeout: Timeout) -> Deadline {
    match timeout {
        Timeout::At(clock, at) => Deadline { clock, at },
        // The engine has already made relative ones absolute.
        Timeout::After(length) => Deadline { clock: Clock::Monotonic, at: now().saturating_add(length) },
    }
}

/// As futex(2) takes it: whether it is measured by the realtime clock, and the point in time.
fn as_futex_takes_it(Deadline { clock, at }: Deadline) -> (bool, libc::timespec) {
    let seconds = libc::time_t::try_from(at.as_secs()).unwrap_or(libc::time_t::MAX);
    (clock == Clock::Realtime, libc::timespec { tv_sec: seconds, tv_nsec: at.subsec_nanos().into() })
}

fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: stores into `time`.
    unsafe { raw::own(libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC as u64, (&raw mut time) as u64]) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Makes a futex call of the program. The result may be one of the kernel's internal codes (`ufutex::syscall::resume`).
#[inline(always)]
pub fn call(number: Number, args: [u64; 6], may_sleep: bool, inside: &Inside) -> isize {
    match engine() {
        Some(engine) => engine.call(number, args, may_sleep, inside),
        None => -(libc::ENOMEM as isize),
    }
}

/// `prctl(PR_FUTEX_HASH, …)`.
pub fn prctl(op: u64, slots: u64, flags: u64) -> isize {
    match engine() {
        Some(engine) => engine.domain.prctl_futex_hash(op, slots, flags),
        None => -(libc::ENOMEM as isize),
    }
}

/// An engine's figures for the report.
pub struct Told {
    pub counters: Counters,
    pub slots: usize,
    pub table_bytes: usize,
}

/// The figures of the engine, if there is one.
pub fn told() -> Option<Told> {
    // [Pa]
    // SAFETY: null or a leaked box.
    let engine = unsafe { process()?.engine.load(Ordering::Acquire).as_ref() }?;
    Some(Told {
        counters: engine.domain.counters(),
        slots: engine.domain.slots(),
        table_bytes: engine.domain.table_bytes(),
    })
}

/// Notes that the program has made a thread.
pub fn note_threads() {
    let Some(threads) = process::threads() else { return };
    let threads = threads.saturating_sub(timers::own_threads());
    calls::note_threads(threads);
    if settings::get().policy == Policy::Threads
        && let Some(engine) = engine()
    {
        engine.domain.note_threads(threads);
    }
}
