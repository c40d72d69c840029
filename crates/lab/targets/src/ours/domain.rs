//! Domains of one package as targets: their private and their shared keys.

use super::engine::{
    self, At, Domain, DomainOptions, Error, ObjectId, Requeue, System, SystemConfig, Task, WaitOptions, Waiter,
};
use crate::crowd::{self, Channels, Crowd};
use crate::ours::hash_seed;
use crate::{Futex, Name, Policy, Shape, Subject, Target, Waited};
use anyhow::anyhow;
use std::convert::identity;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::task::Poll;

/// The object of all shared words, which differ by offset.
pub(super) const OBJECT: ObjectId = ObjectId::new(7).unwrap();

/// A domain whose private keys are measured, in its own table or in the global table.
struct Private {
    domain: Domain,
    system: System,
    options: DomainOptions,
    global_slots: Option<usize>,
}

/// A domain whose shared keys are measured. They are in the namespace's global table.
struct SharedKeys {
    domain: Domain,
    global_slots: usize,
}

/// Makes a target in a system of its own.
pub fn build(name: Name, shape: &Shape) -> anyhow::Result<Arc<dyn Subject>> {
    let system = System::with_config(config()).map_err(|error| anyhow!("{name}: {error}"))?;
    let global = name == Name::Global || shape.policy == Policy::Fixed(0);
    let policy = if global { engine::Policy::Fixed(0) } else { engine_policy(shape.policy) };
    let options = DomainOptions::new().policy(policy).early_return(shape.early_return).spin(shape.spin);
    let domain = Domain::with_options(&system, options);
    let global_slots = system.global_slots();
    if shape.shared {
        return Ok(Arc::new(SharedKeys { domain, global_slots }));
    }
    Ok(Arc::new(Private { domain, system, options, global_slots: global.then_some(global_slots) }))
}

/// The configuration of all systems.
pub(super) fn config() -> SystemConfig {
    SystemConfig::new().hash_seed(hash_seed())
}

pub(super) fn engine_policy(policy: Policy) -> engine::Policy {
    match policy {
        Policy::Threads => engine::Policy::Threads,
        Policy::Load => engine::Policy::Load,
        Policy::Fixed(slots) => engine::Policy::Fixed(slots),
    }
}

#[inline(always)]
fn waited(result: Result<(), Error>) -> Waited {
    match result {
        Ok(()) => Waited::Woken,
        Err(Error::Again) => Waited::Differs,
        Err(_) => Waited::Failed,
    }
}

/// The operations on words. `$key` makes the key of a word: a private one, or a shared one.
macro_rules! on_words {
    ($key:path) => {
        #[inline(always)]
        fn wait(&self, word: &AtomicU32, expected: u32) -> Waited {
            waited(self.domain.wait($key(word), expected))
        }

        #[inline(always)]
        fn wake(&self, word: &AtomicU32) -> usize {
            self.domain.wake($key(word), 1)
        }

        #[inline(always)]
        fn wake_many(&self, word: &AtomicU32, count: usize) -> usize {
            self.domain.wake($key(word), count)
        }

        #[inline(always)]
        fn cmp_requeue(&self, from: &AtomicU32, to: &AtomicU32, count: usize) -> usize {
            self.domain
                .cmp_requeue($key(from), 0, $key(to), Requeue { wake: 0, requeue: count })
                .map_or(0, |done| done.requeued)
        }

        #[inline(always)]
        fn cmp_requeue_pi(&self, from: &AtomicU32, lock: &AtomicU32, count: usize) -> usize {
            // The call takes one waiter beyond its count.
            self.domain.cmp_requeue_pi($key(from), 0, $key(lock), count - 1).unwrap_or(0)
        }
    };
}

/// The operations on locks.
macro_rules! on_locks {
    ($key:path) => {
        type Task = Task;

        fn task(&self) -> Task {
            task(&self.domain)
        }

        #[inline(always)]
        fn lock_pi(&self, lock: &AtomicU32, task: &Task) -> bool {
            self.domain.lock_pi($key(lock), task).is_ok()
        }

        #[inline(always)]
        fn unlock_pi(&self, lock: &AtomicU32, task: &Task) -> bool {
            self.domain.unlock_pi($key(lock), task).is_ok()
        }

        fn wait_requeue_pi(&self, from: &AtomicU32, lock: &AtomicU32, task: &Task) -> bool {
            self.domain.wait_requeue_pi($key(from), 0, $key(lock), task, &WaitOptions::new()).is_ok()
        }
    };
}

impl Target for Private {
    on_words!(identity);

    fn wait_announced(&self, word: &AtomicU32, expected: u32, queued: &mut dyn FnMut()) -> Option<Waited> {
        let mut waiter = pin!(Waiter::new());
        let result = match self.domain.prepare(waiter.as_mut(), word, expected, &WaitOptions::new()) {
            Ok(wait) => {
                queued();
                wait.finish()
            }
            Err(error) => Err(error),
        };
        Some(waited(result))
    }

    fn buckets(&self) -> Option<usize> {
        Some(self.global_slots.unwrap_or_else(|| self.domain.slots()))
    }

    fn is_in_use(&self, slots: usize) -> bool {
        self.domain.slots() == slots
    }

    fn set_slots(&self, slots: usize, keep_trying: &mut dyn FnMut() -> bool) -> Result<bool, String> {
        match super::set_slots(&self.domain, slots, keep_trying) {
            Ok(()) => Ok(true),
            Err(Error::TimedOut) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }

    fn note_threads(&self, threads: usize) {
        self.domain.note_threads(threads);
    }

    fn host(&self, crowd: &Crowd, channels: &Channels) {
        let others: Vec<_> = (1..crowd.domains).map(|_| Domain::with_options(&self.system, self.options)).collect();
        let domains: Vec<_> = [&self.domain].into_iter().chain(&others).collect();
        crowd::host(&domains, crowd, channels);
    }
}

impl Futex for Private {
    on_locks!(identity);
}

impl crowd::Domain for Domain {
    fn wake(&self, word: &AtomicU32) -> usize {
        self.wake(word, 1)
    }

    async fn wait_as_future(&self, word: &AtomicU32) -> String {
        loop {
            if let Err(error) = self.wait_async(word, 0, &WaitOptions::new()).await {
                return error.to_string();
            }
        }
    }

    async fn wait_as_custom(&self, word: &AtomicU32) -> String {
        let mut waiter = pin!(Waiter::new());
        loop {
            match self.prepare_with(waiter.as_mut(), word, 0, &WaitOptions::new(), crowd::counting_waker()) {
                Ok(queued) => {
                    poll_fn(|_| if queued.is_woken() { Poll::Ready(()) } else { Poll::Pending }).await;
                    if let Err(error) = queued.finish() {
                        return error.to_string();
                    }
                }
                Err(error) => return error.to_string(),
            }
        }
    }
}

impl Target for SharedKeys {
    on_words!(shared);

    fn buckets(&self) -> Option<usize> {
        Some(self.global_slots)
    }
}

impl Futex for SharedKeys {
    on_locks!(shared);
}

/// The calling thread by its kernel TID, which no other thread has.
fn task(domain: &Domain) -> Task {
    // SAFETY: the call takes nothing and changes nothing.
    let tid = unsafe { libc::gettid() } as u32;
    domain.task(tid).expect("the TID is unused in this system")
}

#[inline(always)]
fn shared(word: &AtomicU32) -> At<&AtomicU32> {
    At::object(word, OBJECT, word.as_ptr() as u64)
}
