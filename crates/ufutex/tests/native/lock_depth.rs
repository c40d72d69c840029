//! The limit on the length of chains of blocked lock owners, under random steps. The expected lengths are computed from
//! the words and the waits. Some worlds have domains of two PID namespaces; a chain never leaves its namespace.
//!
//! Promise: PID namespaces
//! Promise: short chains

use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use ufutex::{
    At, Cause, Domain, DomainOptions, Error, ObjectId, PidNamespace, SharedObject, System, SystemConfig, Task,
    WaitOptions,
    pi::{LockPi, Priority, TID_MASK, WaitRequeuePi},
};

use crate::common::domains::on_domains;
use crate::common::futures::{Boxed, pending, poll};
use crate::common::guest_memory::GuestMemory;
use crate::common::places::{Word, forever, words};
use crate::common::random::Random;
use crate::scheduler::Log;

const TASKS: usize = 12;
const WORDS: usize = 8;
const DOMAINS: usize = 3;

type Lock = At<Word>;

/// The wait of a task.
enum Wait {
    Lock(Boxed<LockPi<'static, 'static, Lock>>),
    Condition(Boxed<WaitRequeuePi<'static, 'static, Lock, Lock>>),
}

impl Wait {
    fn poll(&mut self) -> Poll<Result<(), Error>> {
        match self {
            Self::Lock(wait) => poll(wait),
            Self::Condition(wait) => poll(wait),
        }
    }

    fn end(&mut self, cause: Cause) -> Result<(), Error> {
        match self {
            Self::Lock(wait) => wait.as_mut().end(cause),
            Self::Condition(wait) => wait.as_mut().end(cause),
        }
    }
}

struct World {
    max_depth: usize,
    system: System,
    domains: [&'static Domain; DOMAINS],
    tasks: Vec<&'static Task>,
    words: [Word; WORDS],
    condition: Word,
    waits: Vec<Option<Wait>>,
    /// The lock for which each task waits.
    waits_for: [Option<usize>; TASKS],
    own: [u8; TASKS],
    /// The waiters of the condition in queue order: task, the lock to which it is to be requeued, priority.
    in_condition: Vec<(usize, usize, u8)>,
    refused: u64,
    /// Number of calls that were refused because the lock's owner or waiter belongs to another namespace.
    strangers: u64,
}

impl World {
    /// Makes domains of one namespace, or if `namespaces` is 2, the last one in a namespace of its own.
    fn new(max_depth: usize, namespaces: usize) -> Self {
        let (_, system) = Log::system(SystemConfig::new().max_pi_depth(max_depth));
        drop(SharedObject::new(&system).expect("the memory is there"));
        let make = |namespace: &_| forever(Domain::in_namespace(namespace, DomainOptions::new())) as &'static Domain;
        let common = system.pid_namespace();
        let last = if namespaces == 1 { common.clone() } else { PidNamespace::new(&system).expect("there is memory") };
        let domains = [&common, &common, &last].map(make);
        let tasks = (0..TASKS).map(|i| new_task(domains[i % DOMAINS], i)).collect();
        let [condition] = words();
        let waits = (0..TASKS).map(|_| None).collect();
        let (own, waits_for, in_condition, words) = ([0; TASKS], [None; TASKS], Vec::new(), words());
        Self {
            max_depth,
            system,
            domains,
            tasks,
            words,
            condition,
            waits,
            waits_for,
            own,
            in_condition,
            refused: 0,
            strangers: 0,
        }
    }

    fn domain(&self, task: usize) -> &'static Domain {
        self.domains[task % DOMAINS]
    }

    fn word(&self, word: usize) -> Lock {
        object(self.words[word], 64 * word as u64)
    }

    fn condition(&self) -> Lock {
        object(self.condition, 4096)
    }

    fn owner(&self, word: usize) -> Option<usize> {
        (self.words[word].load(Relaxed) & TID_MASK).checked_sub(1).map(|task| task as usize)
    }

    /// Whether the two tasks belong to different namespaces.
    fn are_in_different_namespaces(&self, task: usize, other: usize) -> bool {
        let number = |task| self.domain(task).pid_namespace().number();
        number(task) != number(other)
    }

    /// The error of a call by `task`, or by its domain, if the owner of `word` belongs to another namespace.
    fn error_of_other_namespace(&self, task: usize, word: usize) -> Option<Error> {
        self.owner(word).filter(|&owner| self.are_in_different_namespaces(task, owner))?;
        Some(if self.waits_for.contains(&Some(word)) { Error::Invalid } else { Error::NoTask })
    }

    /// The number of waits in the chain that begins with a wait of `task`. `None` if the chain leads back to `task`.
    fn waits_from(&self, task: usize) -> Option<usize> {
        let (mut at, mut waits) = (task, 0);
        while let Some(owner) = self.waits_for[at].and_then(|word| self.owner(word)) {
            (at, waits) = (owner, waits + 1);
            if at == task || waits > TASKS {
                return None;
            }
        }
        Some(waits)
    }

    /// The length of the longest chain if `task` waited for `word`. `None` if that would close a cycle.
    fn longest_with(&mut self, task: usize, word: usize) -> Option<usize> {
        let before = self.waits_for[task].replace(word);
        let longest = self.waits_from(task).map(|_| self.longest());
        self.waits_for[task] = before;
        longest
    }

    fn longest(&self) -> usize {
        (0..TASKS).filter_map(|task| self.waits_from(task)).max().unwrap_or(0)
    }

    fn assert_refused_rightly(&mut self, task: usize, word: usize) {
        let longest = self.longest_with(task, word);
        let is_too_long = longest.is_some_and(|longest| longest > self.max_depth + 1);
        assert!(is_too_long || longest.is_none(), "refused, and would be {longest:?} of {} waits", self.max_depth + 1);
        self.refused += u64::from(is_too_long);
    }

    fn lock(&mut self, task: usize, word: usize) {
        if self.waits[task].is_some() || self.owner(word) == Some(task) {
            return;
        }
        let mut wait =
            Box::pin(self.domain(task).lock_pi_async(self.word(word), self.tasks[task], &WaitOptions::new()));
        if let Some(expected) = self.error_of_other_namespace(task, word) {
            self.strangers += 1;
            return assert_eq!(poll(&mut wait), Poll::Ready(Err(expected)));
        }
        match poll(&mut wait) {
            Poll::Ready(Ok(())) => assert_eq!(self.owner(word), Some(task)),
            Poll::Ready(Err(error)) => {
                assert_eq!(error, Error::Deadlock);
                self.assert_refused_rightly(task, word);
            }
            Poll::Pending => {
                self.waits[task] = Some(Wait::Lock(wait));
                self.waits_for[task] = Some(word);
            }
        }
    }

    fn wait(&mut self, task: usize, word: usize) {
        if self.waits[task].is_none() && self.owner(word) != Some(task) {
            let wait = self.domain(task).wait_requeue_pi_async(
                self.condition(),
                0,
                self.word(word),
                self.tasks[task],
                &WaitOptions::new(),
            );
            self.waits[task] = Some(Wait::Condition(pending(wait)));
            let own = self.own[task];
            let behind = self.in_condition.partition_point(|&(_, _, other)| other >= own);
            self.in_condition.insert(behind, (task, word, own));
        }
    }

    /// Requeues the first waiter of the condition. The calling domain may be another one than the waiter's.
    fn requeue(&mut self, by: usize) {
        let Some(&(task, word, _)) = self.in_condition.first() else { return };
        if self.owner(word) == Some(task) {
            return;
        }
        let result = self.domain(by).cmp_requeue_pi(self.condition(), 0, self.word(word), 0);
        let expected = if self.are_in_different_namespaces(by, task) {
            Some(Error::Invalid)
        } else {
            self.error_of_other_namespace(by, word)
        };
        if let Some(expected) = expected {
            self.strangers += 1;
            return assert_eq!(result, Err(expected));
        }
        match result {
            Ok(moved) => {
                assert_eq!(moved, 1);
                self.in_condition.remove(0);
                self.waits_for[task] = Some(word);
            }
            Err(error) => {
                assert_eq!(error, Error::Deadlock);
                self.assert_refused_rightly(task, word);
            }
        }
    }

    fn unlock(&mut self, word: usize) {
        if let Some(owner) = self.owner(word).filter(|&owner| self.waits[owner].is_none()) {
            assert_eq!(self.domain(owner).unlock_pi(self.word(word), self.tasks[owner]), Ok(()));
        }
    }

    fn give_up(&mut self, task: usize) {
        if let Some(mut wait) = self.waits[task].take() {
            assert_eq!(wait.end(Cause::TimedOut), Err(Error::TimedOut));
            self.waits_for[task] = None;
            self.in_condition.retain(|&(waiter, ..)| waiter != task);
        }
    }

    fn die(&mut self, task: usize) {
        if self.waits[task].is_some() {
            return;
        }
        assert_eq!(self.domain(task).exit(self.tasks[task], &GuestMemory::with_words(0)), Ok(()));
        self.look();
        // Locks without a waiter still hold the dead task's TID. They become free.
        for word in self.words {
            if word.load(Relaxed) & TID_MASK == task as u32 + 1 {
                word.store(0, Relaxed);
            }
        }
        self.tasks[task] = new_task(self.domain(task), task);
        self.own[task] = 0;
    }

    fn prioritise(&mut self, task: usize, own: u8) {
        self.tasks[task].set_priority(Priority::realtime(own));
        self.own[task] = own;
    }

    /// Polls the waits of all tasks.
    fn look(&mut self) {
        for task in 0..TASKS {
            let Some(wait) = &mut self.waits[task] else { continue };
            if let Poll::Ready(result) = wait.poll() {
                assert_eq!(result, Ok(()));
                let word = self.waits_for[task].take().expect("it has been requeued");
                self.waits[task] = None;
                assert_eq!(self.owner(word), Some(task));
            }
        }
    }

    fn step(&mut self, random: &mut Random) {
        let (task, word) = (random.below(TASKS), random.below(WORDS));
        match random.below(20) {
            0..10 => self.lock(task, word),
            10..13 => self.unlock(word),
            13 => self.give_up(task),
            14 => self.die(task),
            15..17 => self.wait(task, word),
            17..19 => self.requeue(task),
            _ => self.prioritise(task, random.below(5) as u8),
        }
        self.look();
        assert!(self.longest() <= self.max_depth + 1, "{} waits", self.longest());
        assert_eq!(self.system.pi_chains_refused(), self.refused);
    }
}

fn new_task(domain: &Domain, i: usize) -> &'static Task {
    forever(domain.task(i as u32 + 1).expect("the TID is free"))
}

/// The number of the first shared object of each system. Its words can be used after its drop.
const OBJECT: u64 = 1 << 61;

fn object(word: Word, offset: u64) -> Lock {
    At::object(word, ObjectId::new(OBJECT).expect("small enough"), offset)
}

/// Runs random steps in worlds with this number of namespaces. Returns the number of calls that were refused because of
/// another namespace.
fn run_in_namespaces(namespaces: usize) -> u64 {
    let mut strangers = 0;
    for seed in 1..40 {
        let mut random = Random::new(seed);
        let mut world = World::new(random.below(5), namespaces);
        for _ in 0..300 {
            world.step(&mut random);
        }
        (0..TASKS).for_each(|task| world.give_up(task));
        strangers += world.strangers;
    }
    strangers
}

fn no_operation_makes_chains_longer_than_allowed() {
    assert_eq!(run_in_namespaces(1), 0);
}

fn tasks_of_another_namespace_are_in_no_chain() {
    assert!(run_in_namespaces(2) > 1000);
}

on_domains![no_operation_makes_chains_longer_than_allowed, tasks_of_another_namespace_are_in_no_chain,];
