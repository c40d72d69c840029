//! The attacks. Each uses only the interface that any guest has.

use super::channels::Channels;
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use strum::{Display, EnumMessage, EnumString, IntoStaticStr, VariantArray};
use ufutex::timer::{Callback, Expired, Expiry, Notify, Setting, TimerClock, TimerOptions, Timers};
use ufutex::{
    At, Compare, Domain, DomainOptions, Error, Modify, ObjectId, SystemConfig, Target, Task, Timeout, WaitOptions,
    WakeOp,
};

/// An attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Attack {
    /// lock_pi at the end of a chain of lock owners, given up and repeated
    PiChain,
    /// lock_pi that the limit on such chains refuses
    ChainLimit,
    /// Timers with an interval of one nanosecond, always due
    Timers,
    /// Processes of one guest, each with 64 such timers
    Processes,
    /// Keys in the guest's global table; one after another waits again
    Keys,
    /// Keys in a domain that is resized from 0 slots to 2 and back
    Slots,
    /// Keys in a domain for which the guest requests 16 and 32 slots in turn
    Resizes,
    /// A domain that grows to its largest table and back, as the guest requests
    LargestTable,
    /// Waiters of priority 99 on one word; one of priority 50 comes and goes
    Priorities,
    /// Waiters on one shared word; all are woken and wait again
    Crowd,
    /// A waiter that is queued and woken on one shared word after another
    HandOff,
    /// A wait for many shared words at once, given up and repeated
    Waitv,
    /// FUTEX_WAKE_OP on two shared words
    WakeOp,
    /// Waits that the limit on the domain's waiters refuses
    WaiterLimit,
    /// Waits that spin as long as they can, in one new domain after another
    Spins,
}

/// Number of the first attacker's shared object. Greater than the neighbour's.
const FIRST_OBJECT: u64 = 1000;
/// Distance between two words, in bytes: a cache line.
const STRIDE: u64 = 64;
/// Interval at which an attacker checks for the end, if the driver's thread does the work of the attack.
const CHECK_EVERY: Duration = Duration::from_millis(1);
/// Timers of each of many processes.
const TIMERS_EACH: usize = 64;
/// `PR_FUTEX_HASH_SET_SLOTS`.
const SET_SLOTS: u64 = 1;

type Queued<'d> = Vec<Pin<Box<dyn Future<Output = Result<(), Error>> + 'd>>>;

impl Attack {
    /// The sizes of the attack by default.
    pub fn numbers(self) -> &'static [usize] {
        match self {
            Self::PiChain => &[1000],
            Self::ChainLimit => &[1024],
            Self::Timers => &[10_000, 100_000, 1_000_000],
            Self::Processes => &[5000],
            Self::Slots => &[1_000_000],
            Self::Keys | Self::Resizes | Self::Priorities => &[100_000],
            // The most that a guest may request by default.
            Self::LargestTable => &[1 << 20],
            Self::Crowd => &[2000, 100_000],
            Self::HandOff | Self::WakeOp => &[1000],
            Self::Waitv => &[128],
            Self::WaiterLimit => &[10_000],
            Self::Spins => &[200],
        }
    }

    /// The configuration of both systems.
    pub fn config(self, number: usize) -> SystemConfig {
        match self {
            // The default limit of 1024, or more if the chain is longer.
            Self::PiChain => SystemConfig::new().max_pi_depth(number.saturating_add(8).max(1024)),
            Self::ChainLimit => SystemConfig::new().max_pi_depth(number),
            // Two buckets, so that the neighbour's words would share one with the attacker's if they had one table.
            Self::Priorities => SystemConfig::new().global_slots(2),
            Self::Waitv => SystemConfig::new().max_waitv(number.max(128)),
            _ => SystemConfig::new(),
        }
    }

    /// The options of the attackers' domains.
    pub fn options(self, number: usize) -> DomainOptions {
        match self {
            Self::WaiterLimit => DomainOptions::new().max_waiters(number),
            _ => DomainOptions::new(),
        }
    }

    /// Sets the attack up, then carries out orders.
    pub fn perform(self, domain: &Domain, number: usize, index: usize, channels: &Channels) {
        if let Err(error) = self.attempt(domain, number, index, channels) {
            channels.fail(&error);
        }
    }

    fn attempt(self, domain: &Domain, number: usize, index: usize, channels: &Channels) -> Result<(), Error> {
        let word = AtomicU32::new(0);
        let object = ObjectId::new(FIRST_OBJECT + index as u64).ok_or(Error::Invalid)?;
        let at = |place: usize| At::object(&word, object, place as u64 * STRIDE);
        let ask = |slots: usize| match domain.prctl_futex_hash(SET_SLOTS, slots as u64, 0) {
            0 => Ok(()),
            _ => Err(Error::NoMemory),
        };
        match self {
            Self::PiChain => pi_chain(domain, number, false, channels),
            // The first wait of a chain does not count, and the last one is refused.
            Self::ChainLimit => pi_chain(domain, number + 2, true, channels),
            Self::Timers => timers(domain, 1, number, channels),
            Self::Processes => timers(domain, number, TIMERS_EACH, channels),
            Self::Keys => keys(domain, number, at, channels),
            Self::Slots => tables(domain, number, [2, 0], |slots| domain.set_slots(slots), channels),
            Self::Resizes => tables(domain, number, [16, 32], ask, channels),
            Self::LargestTable => tables(domain, 0, [2, number.next_power_of_two().max(4)], ask, channels),
            Self::Priorities => priorities(domain, number, at(0), channels),
            Self::Crowd => crowd(domain, number, at(0), channels),
            Self::HandOff => {
                let mut places = (0..number).cycle().map(at);
                let step = |target| {
                    let mut wait = pin!(domain.wait_async(target, 0, &WaitOptions::new()));
                    let _queued = poll(wait.as_mut());
                    domain.wake(target, 1);
                };
                channels.serve(|| {}, || places.next().into_iter().for_each(step), || {});
                Ok(())
            }
            Self::Waitv => {
                // Other words in each step, so that many buckets are locked one after another.
                let mut begins = (0..1 << 20).step_by(number).cycle();
                let step = |begin| {
                    let words: Vec<_> = (begin..begin + number).map(|place| (at(place), 0)).collect();
                    let _queued = poll(pin!(domain.wait_any_async(words, &WaitOptions::new())));
                };
                channels.serve(|| {}, || begins.next().into_iter().for_each(step), || {});
                Ok(())
            }
            Self::WakeOp => {
                let mut places = (0..number).cycle();
                let op = WakeOp { modify: Modify::Add(0), compare: Compare::Eq(1) };
                let step = |place| _ = domain.wake_op(at(place), 1, at(place + number), op, 1);
                channels.serve(|| {}, || places.next().into_iter().for_each(step), || {});
                Ok(())
            }
            Self::WaiterLimit => {
                let _waits = queued(domain, (0..number).map(at), WaitOptions::new())?;
                let mut places = (0..number).cycle().map(at);
                let step = |target| _ = poll(pin!(domain.wait_async(target, 0, &WaitOptions::new())));
                channels.serve(|| {}, || places.next().into_iter().for_each(step), || {});
                Ok(())
            }
            Self::Spins => {
                let length = Duration::from_micros(number as u64);
                let options = WaitOptions::new().timeout(Timeout::After(length));
                let (namespace, spins) = (domain.pid_namespace(), DomainOptions::new().spin(length));
                // A new domain does not know yet that its spins never pay.
                let step = || {
                    let _timed_out = Domain::in_namespace(&namespace, spins).wait_with(&word, 0, &options);
                };
                channels.serve(|| {}, step, || {});
                Ok(())
            }
        }
    }
}

fn poll<F: Future + ?Sized>(wait: Pin<&mut F>) -> Poll<F::Output> {
    wait.poll(&mut Context::from_waker(Waker::noop()))
}

/// Queues a waiter by polling its future once.
fn queue<'d>(
    mut future: Pin<Box<dyn Future<Output = Result<(), Error>> + 'd>>,
    queued: &mut Queued<'d>,
) -> Result<(), Error> {
    match poll(future.as_mut()) {
        Poll::Ready(result) => result.and(Err(Error::Again)),
        Poll::Pending => {
            queued.push(future);
            Ok(())
        }
    }
}

/// Queues a waiter on each of the words.
fn queued<'d, T: Target<Value = u32> + 'd>(
    domain: &'d Domain,
    words: impl Iterator<Item = T>,
    options: WaitOptions,
) -> Result<Queued<'d>, Error> {
    let mut waits = Queued::new();
    for word in words {
        queue(Box::pin(domain.wait_async(word, 0, &options)), &mut waits)?;
    }
    Ok(waits)
}

fn pi_chain(domain: &Domain, owners: usize, is_refused: bool, channels: &Channels) -> Result<(), Error> {
    let words: Vec<AtomicU32> = (0..owners).map(|_| AtomicU32::new(0)).collect();
    let tasks: Vec<Task> = (1..=owners as u32 + 1).map(|tid| domain.task(tid)).collect::<Result<_, _>>()?;
    let mut waits = Queued::new();
    for (word, task) in words.iter().zip(&tasks) {
        domain.try_lock_pi(word, task)?;
    }
    // Each task waits for the lock of the task before it. The last task is the end of the chain.
    for (word, task) in words.iter().zip(&tasks[1..owners]) {
        queue(Box::pin(domain.lock_pi_async(word, task, &WaitOptions::new())), &mut waits)?;
    }
    let (last_word, last_task) = (&words[owners - 1], &tasks[owners]);
    let wait = || poll(pin!(domain.lock_pi_async(last_word, last_task, &WaitOptions::new())));
    if wait().is_ready() != is_refused {
        return Err(Error::Invalid);
    }
    channels.serve(|| {}, || _ = wait(), || {});
    Ok(())
}

thread_local! {
    /// Whether this thread of a driver has been added to the attackers' threads.
    static IS_ADDED: Cell<bool> = const { Cell::new(false) };
}

fn timers(domain: &Domain, processes: usize, timers_each: usize, channels: &Channels) -> Result<(), Error> {
    let threads = channels.threads.clone();
    // The notice is taken at once. That arms the next interval, which has passed already.
    let deliver = Arc::new(Callback(move |_: &Timers, _: Expired| {
        if !IS_ADDED.replace(true) {
            threads.add();
        }
    }));
    let options = TimerOptions::new().max_timers(timers_each);
    let notify = Some(Notify::Signal { signal: 1, value: 0 });
    let mut all = Vec::new();
    for _ in 0..processes {
        let timers = Timers::with_options(domain.pid_namespace().driver(), deliver.clone(), options)?;
        let ids = (0..timers_each).map(|_| timers.create(TimerClock::Monotonic, notify));
        let ids: Vec<i32> = ids.collect::<Result<_, _>>()?;
        all.push((timers, ids));
    }
    let nanosecond = Duration::from_nanos(1);
    let set_all = |setting: Setting| {
        let each = all.iter().flat_map(|(timers, ids)| ids.iter().map(move |id| (timers, *id)));
        each.for_each(|(timers, id)| _ = timers.settime(id, Expiry::After(setting.value), setting.interval));
    };
    channels.serve(
        || set_all(Setting { value: nanosecond, interval: nanosecond }),
        || std::thread::sleep(CHECK_EVERY),
        || set_all(Setting::default()),
    );
    Ok(())
}

fn keys<'a, T: Target<Value = u32> + 'a>(
    domain: &'a Domain,
    keys: usize,
    at: impl Fn(usize) -> T,
    channels: &Channels,
) -> Result<(), Error> {
    let mut waits = queued(domain, (0..keys).map(&at), WaitOptions::new())?;
    let mut next = 0;
    let step = || {
        waits[next] = Box::pin(domain.wait_async(at(next), 0, &WaitOptions::new()));
        let _queued = poll(waits[next].as_mut());
        next = (next + 1) % keys;
    };
    channels.serve(|| {}, step, || {});
    Ok(())
}

/// Has the domain use tables of two sizes in turn, while it has a waiter on each of many words.
fn tables(
    domain: &Domain,
    keys: usize,
    sizes: [usize; 2],
    ask: impl Fn(usize) -> Result<(), Error>,
    channels: &Channels,
) -> Result<(), Error> {
    let words: Vec<AtomicU32> = (0..keys).map(|_| AtomicU32::new(0)).collect();
    // The waiters are queued in a table with room for all, which is fast.
    domain.set_slots(keys.next_power_of_two().max(2))?;
    let _waits = queued(domain, words.iter(), WaitOptions::new())?;
    sizes.into_iter().try_for_each(&ask)?;
    channels.serve(|| {}, || sizes.into_iter().for_each(|slots| _ = ask(slots)), || {});
    Ok(())
}

fn priorities<'a, T: Target<Value = u32> + Copy + 'a>(
    domain: &'a Domain,
    waiters: usize,
    word: T,
    channels: &Channels,
) -> Result<(), Error> {
    let of = |priority| WaitOptions::new().realtime_priority(priority);
    let _waits = queued(domain, (0..waiters).map(|_| word), of(99))?;
    // A waiter without priority at the end, so that the next one cannot simply be appended.
    let _last = queued(domain, [word].into_iter(), WaitOptions::new())?;
    channels.serve(|| {}, || _ = poll(pin!(domain.wait_async(word, 0, &of(50)))), || {});
    Ok(())
}

fn crowd<'a, T: Target<Value = u32> + Copy + 'a>(
    domain: &'a Domain,
    waiters: usize,
    word: T,
    channels: &Channels,
) -> Result<(), Error> {
    let mut waits = queued(domain, (0..waiters).map(|_| word), WaitOptions::new())?;
    let step = || {
        domain.wake(word, usize::MAX);
        for wait in &mut waits {
            *wait = Box::pin(domain.wait_async(word, 0, &WaitOptions::new()));
            let _queued = poll(wait.as_mut());
        }
    };
    channels.serve(|| {}, step, || {});
    Ok(())
}
