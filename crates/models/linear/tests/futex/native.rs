// The engine's native interface. Included by `engine.rs` for each package, which is `ufutex` here.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use ufutex::platform::{AnyStd, Clock, Deadline, Host, Platform};
use ufutex::{
    Cause, Compare, SystemConfig, Domain, Error, Modify, DomainOptions, Policy, Requeue, System, Task, Timeout, Wait, WaitOptions,
    Waiter, WakeOp,
};
use ufutex_linear::Stopwatch;

use crate::generate::{Program, Theme};
use crate::ops::{DROPPED, How, Op};
use crate::program::WORKERS;
use crate::run::{Outcome, Target, random_histories_are_linearizable};
use crate::words::Words;

pub struct Engine {
    // Tasks end before their domain does.
    tasks: [Task; WORKERS],
    domain: Domain,
    priorities: [u8; WORKERS],
}

/// The TID of the first thread.
const FIRST: u32 = 1001;

fn errno<T>(result: Result<T, Error>, value: impl FnOnce(T) -> i64) -> i64 {
    result.map_or_else(|error| -i64::from(error.errno()), value)
}

fn micros(timeout: Option<u32>) -> Option<Duration> {
    timeout.map(|us| Duration::from_micros(us.into()))
}

/// Wakes a thread that waits as a task.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Engine {
    /// With options that follow from the number.
    pub fn new(system: &System, number: u64, program: &Program) -> Self {
        // In a table of two buckets keys collide. 0 is the system's table.
        let policies = [Policy::Fixed(2), Policy::Load, Policy::Fixed(64), Policy::Fixed(0)];
        let policy = policies[(number / 8 % 4) as usize];
        let options = DomainOptions::new().policy(policy).early_return((number / 32).is_multiple_of(2));
        let domain = Domain::with_options(system, options);
        let tasks = std::array::from_fn(|thread| domain.task(FIRST + thread as u32).expect("the TID is free"));
        Self { tasks, domain, priorities: program.priorities }
    }

    fn wait(&self, thread: usize, op: &Op, words: &Words, watch: Stopwatch) -> Outcome {
        let Op::Wait { word, expected, bitset, timeout, how } = *op else { unreachable!("{op:?} is no wait") };
        let bitset = NonZeroU32::new(bitset).expect("a bitset is not zero");
        let options = WaitOptions::new().bitset(bitset).realtime_priority(self.priorities[thread]);
        let options = options.maybe_timeout(micros(timeout));
        let word = words.word(word);
        match how {
            How::Thread => errno(self.domain.wait_with(word, expected, &options), |()| 0).into(),
            How::Prepared => {
                let mut waiter = pin!(Waiter::new());
                match self.domain.prepare(waiter.as_mut(), word, expected, &options) {
                    Ok(queued) => {
                        let time = watch.after();
                        Outcome { queued: Some(time), ..errno(queued.finish(), |()| 0).into() }
                    }
                    Err(error) => errno::<()>(Err(error), |()| 0).into(),
                }
            }
            How::Future(_) | How::Dropped(_) | How::Ended(_) => {
                poll(self.domain.wait_async(word, expected, &options), how, watch)
            }
        }
    }
}

/// Polls the future of a wait, and ends it as `how` says.
fn poll(wait: Wait<'_, &AtomicU32>, how: How, watch: Stopwatch) -> Outcome {
    let mut wait = pin!(wait);
    let mut poll = |waker: &Waker| match wait.as_mut().poll(&mut Context::from_waker(waker)) {
        Poll::Ready(result) => Some(errno(result, |()| 0)),
        Poll::Pending => None,
    };
    if let Some(result) = poll(Waker::noop()) {
        return result.into();
    }
    let queued = Some(watch.after());
    let (How::Future(turns) | How::Dropped(turns) | How::Ended(turns)) = how else { unreachable!("no future") };
    (0..turns).for_each(|_| std::hint::spin_loop());
    if let How::Future(_) = how {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            if let Some(result) = poll(&waker) {
                return Outcome { result, queued, gives_up: None };
            }
            std::thread::park();
        }
    }
    let gives_up = Some(watch.before());
    // Without `end`, the future is dropped when this function returns.
    let is_dropped = matches!(how, How::Dropped(_));
    let result = if is_dropped { DROPPED } else { errno(wait.end(Cause::Interrupted), |()| 0) };
    Outcome { result, queued, gives_up }
}

impl Target for Engine {
    fn tid(&self, thread: usize) -> u32 {
        self.tasks[thread].tid()
    }

    fn call(&self, thread: usize, op: &Op, words: &Words, watch: Stopwatch) -> Outcome {
        let (task, word) = (&self.tasks[thread], |word: usize| words.word(word));
        let result = match *op {
            Op::Wait { .. } => return self.wait(thread, op, words, watch),
            Op::Wake { word: of, count, bitset } => {
                self.domain.wake_bitset(word(of), count as usize, NonZeroU32::new(bitset).expect("not zero")) as i64
            }
            Op::WakeOp { words: [first, second], counts, value, old } => {
                let op = WakeOp { modify: Modify::Set(value), compare: Compare::Eq(old.cast_signed()) };
                let [count, second_count] = counts.map(|count| count as usize);
                errno(self.domain.wake_op(word(first), count, word(second), op, second_count), |woken| woken as i64)
            }
            Op::Requeue { from, to, expected, wake, requeue } => {
                let most = Requeue { wake: wake as usize, requeue: requeue as usize };
                let result = match expected {
                    Some(expected) => self.domain.cmp_requeue(word(from), expected, word(to), most),
                    None => self.domain.requeue(word(from), word(to), most),
                };
                errno(result, |done| {
                    // As many as it may are woken before one is moved.
                    let all = done.woken + done.requeued;
                    assert_eq!(done.woken, all.min(most.wake), "{done:?} by {op:?}");
                    all as i64
                })
            }
            Op::Lock { word: of, timeout } => {
                errno(self.domain.lock_pi_with(word(of), task, &WaitOptions::new().maybe_timeout(micros(timeout).map(Timeout::After))), |()| 0)
            }
            Op::TryLock(of) => errno(self.domain.try_lock_pi(word(of), task), |()| 0),
            Op::Unlock(of) => errno(self.domain.unlock_pi(word(of), task), |()| 0),
            Op::Load(_) | Op::Swap(..) | Op::Store(..) | Op::LockFast(_) | Op::UnlockFast(_) => {
                unreachable!("{op:?} is no call")
            }
        };
        result.into()
    }

    fn resize(&self, slots: usize) {
        // A scheme that never resizes refuses it.
        let _refused = set_slots(&self.domain, slots);
    }
}

pub fn system() -> System {
    system_on::<Host>()
}

fn system_on<P: Platform>() -> System {
    let config = SystemConfig::new().cpus(2).global_slots(64).hash_seed(1).platform::<P>();
    System::with_config(config).expect("there is memory")
}

/// An embedder's platform on which every other sleep ends for no reason.
struct Restless;

impl Platform for Restless {
    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        static SLEEPS: AtomicU32 = AtomicU32::new(0);
        if SLEEPS.fetch_add(1, Relaxed).is_multiple_of(2) {
            std::thread::yield_now();
        } else {
            Host::park(word, expected, deadline);
        }
    }
    fn unpark(word: *const AtomicU32, count: usize) -> usize {
        Host::unpark(word, count)
    }
    fn now(clock: Clock) -> Duration {
        Host::now(clock)
    }
}

fn run(name: &'static str) {
    let themes = [Theme::Waits, Theme::Futures, Theme::Priorities, Theme::Locks];
    let systems = [system(), system_on::<AnyStd>(), system_on::<Restless>()];
    random_histories_are_linearizable(name, &themes, &|number, program| {
        Box::new(Engine::new(&systems[(number % 3) as usize], number, program))
    });
}
