//! The attacks. Each uses only the interface that any guest has.

use super::channels::Channels;
use super::guest;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::task::{Context, Waker};
use std::time::Duration;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};
use ufutex::timer::{Callback, Expired, Expiry, Notify, Setting, TimerClock, TimerOptions, Timers};
use ufutex::{Config, Error, ObjectId, PidNamespace, Shared, System, Task, WaitOptions};

/// An attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Attack {
    /// lock_pi at the end of a chain of lock owners, given up and repeated
    PiChain,
    /// Timers with an interval of one nanosecond, always due
    Timers,
    /// Processes of one guest, each with 64 timers of one nanosecond
    Processes,
    /// Keys in the global table; one after another waits again
    Keys,
    /// Keys in a domain that is resized from 0 slots to 2 and back
    Slots,
    /// Waiters of priority 99 on one word; one of priority 50 comes and goes
    Priorities,
    /// Waiters on one shared word; all are woken and wait again
    Crowd,
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PiChain => "pi-chain",
            Self::Timers => "timers",
            Self::Processes => "processes",
            Self::Keys => "keys",
            Self::Slots => "slots",
            Self::Priorities => "priorities",
            Self::Crowd => "crowd",
        })
    }
}

/// Number of the first attacker's shared object. Greater than the neighbour's.
const FIRST_OBJECT: u64 = 1000;
/// Distance between two words, in bytes: a cache line.
const STRIDE: u64 = 64;
/// Interval at which an attacker checks for the end, if the driver's thread does the work of the attack.
const CHECK_EVERY: Duration = Duration::from_millis(1);

/// Timers of each of the `processes`: as many as a process is served in a turn before the next one is.
const TIMERS: usize = 64;

type Queued<'d> = Vec<Pin<Box<dyn Future<Output = Result<(), Error>> + 'd>>>;

impl Attack {
    /// The sizes of the attack by default.
    pub fn numbers(self) -> &'static [usize] {
        match self {
            Self::PiChain => &[1000],
            Self::Timers => &[10_000, 100_000, 1_000_000],
            Self::Processes => &[5000],
            Self::Slots => &[1_000_000],
            Self::Keys | Self::Priorities | Self::Crowd => &[100_000],
        }
    }

    /// The configuration of both systems.
    pub fn config(self, number: usize) -> Config {
        match self {
            // The default limit of 1024, or more if the chain is longer.
            Self::PiChain => Config::new().max_pi_depth(number.saturating_add(8).max(1024)),
            // Two buckets, so that the neighbour's words share one with the attacker's.
            Self::Priorities => Config::new().global_slots(2),
            _ => Config::new(),
        }
    }

    /// Sets the attack up, then carries out orders.
    pub fn perform(self, system: &System, number: usize, index: usize, channels: &Channels) {
        let built = match self {
            Self::PiChain => pi_chain(system, number, channels),
            Self::Timers => timers(system, 1, number, channels),
            Self::Processes => timers(system, number, TIMERS, channels),
            Self::Keys => keys(system, number, index, channels),
            Self::Slots => slots(system, number, channels),
            Self::Priorities => priorities(system, number, index, channels),
            Self::Crowd => crowd(system, number, index, channels),
        };
        if let Err(error) = built {
            channels.fail(&error);
        }
    }
}

/// Queues a waiter by polling its future once.
fn queue<'d>(
    mut future: Pin<Box<dyn Future<Output = Result<(), Error>> + 'd>>,
    queued: &mut Queued<'d>,
) -> Result<(), Error> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        std::task::Poll::Ready(result) => result.and(Err(Error::Again)),
        std::task::Poll::Pending => {
            queued.push(future);
            Ok(())
        }
    }
}

fn object(index: usize) -> Result<ObjectId, Error> {
    ObjectId::new(FIRST_OBJECT + index as u64).ok_or(Error::Invalid)
}

fn pi_chain(system: &System, owners: usize, channels: &Channels) -> Result<(), Error> {
    let domain = guest(system)?;
    let words: Vec<AtomicU32> = (0..owners).map(|_| AtomicU32::new(0)).collect();
    let tasks: Vec<Task> = (1..=owners as u32 + 1).map(|tid| domain.task(tid)).collect::<Result<_, _>>()?;
    let mut waits = Queued::new();
    for (word, task) in words.iter().zip(&tasks) {
        domain.try_lock_pi(word, task)?;
    }
    // Each task waits for the lock of the task before it. The last task is the end of the chain.
    for (word, task) in words.iter().zip(&tasks[1..owners]) {
        queue(Box::pin(domain.lock_pi_async(word, task)), &mut waits)?;
    }
    let (last_word, last_task) = (&words[owners - 1], &tasks[owners]);
    let step = || {
        let mut wait = std::pin::pin!(domain.lock_pi_async(last_word, last_task));
        let _queued = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    };
    channels.serve(|| {}, step, || {});
    Ok(())
}

/// Processes of one guest, each with `count` timers that are always due.
fn timers(system: &System, processes: usize, count: usize, channels: &Channels) -> Result<(), Error> {
    let guest = PidNamespace::new(system)?;
    let process = |_| {
        // The notice is taken at once. That arms the next interval, which has passed already.
        let deliver = Arc::new(Callback(|_: &Timers, _: Expired| {}));
        let timers = Timers::with_options(guest.driver(), deliver, TimerOptions::new().max_timers(count))?;
        let notify = Some(Notify::Signal { signal: 1, value: 0 });
        let ids = (0..count).map(|_| timers.create(TimerClock::Monotonic, notify)).collect::<Result<Vec<i32>, _>>()?;
        Ok((timers, ids))
    };
    let processes = (0..processes).map(process).collect::<Result<Vec<_>, Error>>()?;
    let nanosecond = Duration::from_nanos(1);
    let set_all = |setting: Setting| {
        for (timers, ids) in &processes {
            ids.iter().for_each(|id| _ = timers.settime(*id, Expiry::After(setting.value), setting.interval));
        }
    };
    channels.serve(
        || set_all(Setting { value: nanosecond, interval: nanosecond }),
        || std::thread::sleep(CHECK_EVERY),
        || set_all(Setting::default()),
    );
    Ok(())
}

fn keys(system: &System, keys: usize, index: usize, channels: &Channels) -> Result<(), Error> {
    let (domain, word, object) = (guest(system)?, AtomicU32::new(0), object(index)?);
    let at = |key: usize| Shared::object(&word, object, key as u64 * STRIDE);
    let mut waits = Queued::new();
    for key in 0..keys {
        queue(Box::pin(domain.wait_async(at(key), 0, WaitOptions::new())), &mut waits)?;
    }
    let mut next = 0;
    let step = || {
        waits[next] = Box::pin(domain.wait_async(at(next), 0, WaitOptions::new()));
        let _queued = waits[next].as_mut().poll(&mut Context::from_waker(Waker::noop()));
        next = (next + 1) % keys;
    };
    channels.serve(|| {}, step, || {});
    Ok(())
}

fn slots(system: &System, keys: usize, channels: &Channels) -> Result<(), Error> {
    let domain = guest(system)?;
    let words: Vec<AtomicU32> = (0..keys).map(|_| AtomicU32::new(0)).collect();
    let mut waits = Queued::new();
    // The waiters are queued in a table with room for all, which is fast.
    domain.set_slots(keys.next_power_of_two().max(2))?;
    for word in &words {
        queue(Box::pin(domain.wait_async(word, 0, WaitOptions::new())), &mut waits)?;
    }
    domain.set_slots(0)?;
    let step = || [2, 0].into_iter().for_each(|slots| _ = domain.set_slots(slots));
    channels.serve(|| {}, step, || {});
    Ok(())
}

fn priorities(system: &System, waiters: usize, index: usize, channels: &Channels) -> Result<(), Error> {
    let (domain, word, object) = (guest(system)?, AtomicU32::new(0), object(index)?);
    let shared = Shared::object(&word, object, 0);
    let mut waits = Queued::new();
    for _ in 0..waiters {
        queue(Box::pin(domain.wait_async(shared, 0, WaitOptions::new().realtime_priority(99))), &mut waits)?;
    }
    // A waiter without priority at the end, so that the next one cannot simply be appended.
    queue(Box::pin(domain.wait_async(shared, 0, WaitOptions::new())), &mut waits)?;
    let step = || {
        let mut wait = std::pin::pin!(domain.wait_async(shared, 0, WaitOptions::new().realtime_priority(50)));
        let _queued = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    };
    channels.serve(|| {}, step, || {});
    Ok(())
}

fn crowd(system: &System, waiters: usize, index: usize, channels: &Channels) -> Result<(), Error> {
    let (domain, word, object) = (guest(system)?, AtomicU32::new(0), object(index)?);
    let shared = Shared::object(&word, object, 0);
    let mut waits = Queued::new();
    for _ in 0..waiters {
        queue(Box::pin(domain.wait_async(shared, 0, WaitOptions::new())), &mut waits)?;
    }
    let step = || {
        domain.wake(shared, usize::MAX);
        for wait in &mut waits {
            *wait = Box::pin(domain.wait_async(shared, 0, WaitOptions::new()));
            let _queued = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    };
    channels.serve(|| {}, step, || {});
    Ok(())
}
