//! How long chains of owners become, whatever is done: random steps, compared with what words and waits say. Also where domains
//! are of two PID namespaces, and chains end at strangers.

use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{
    Access, Cause, Config, Domain, Error, Fault, LockPi, ObjectId, Options, PidNamespace, Priority, Shared, System,
    TID_MASK, Task, UserMemory, WaitRequeuePi, Width,
};

use crate::common::domains::on_every_scheme;
use crate::futures::{Boxed, at_once, pending, poll};
use crate::places::{Word, forever, words};
use crate::scheduler::Log;

const TASKS: usize = 12;
const WORDS: usize = 8;
const DOMAINS: usize = 3;

type Lock = Shared<Word>;

/// What a task waits in.
enum Wait<S: Scheme<L> + 'static, L: Layout + 'static> {
    Lock(Boxed<LockPi<'static, 'static, Lock, S, L>>),
    Condition(Boxed<WaitRequeuePi<'static, 'static, Lock, Lock, S, L>>),
}

impl<S: Scheme<L>, L: Layout> Wait<S, L> {
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

/// Memory that is never read: the tasks have no robust lists.
struct NoMemory;

impl UserMemory for NoMemory {
    fn load(&self, _: u64, _: Width) -> Result<u64, Fault> {
        Err(Fault)
    }
    fn compare_exchange(&self, _: u64, _: Width, _: u64, _: u64) -> Result<Result<u64, u64>, Fault> {
        Err(Fault)
    }
    fn fault_in(&self, _: u64, _: Access) -> Result<(), Fault> {
        Err(Fault)
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % n
    }
}

struct World<S: Scheme<L> + 'static, L: Layout + 'static> {
    max_depth: usize,
    system: System<L>,
    domains: [&'static Domain<S, L>; DOMAINS],
    tasks: Vec<&'static Task<L>>,
    words: [Word; WORDS],
    condition: Word,
    waits: Vec<Option<Wait<S, L>>>,
    /// The lock that each task waits for.
    waits_for: [Option<usize>; TASKS],
    own: [u8; TASKS],
    /// Those that wait to be requeued, to which lock, and of which priority; in their order.
    in_condition: Vec<(usize, usize, u8)>,
    refused: u64,
    /// How often a stranger was met.
    strangers: u64,
}

impl<S: Scheme<L>, L: Layout> World<S, L> {
    /// The domains are of one namespace, or the last is in one of its own.
    fn new(max_depth: usize, namespaces: usize) -> Self {
        let (_, system) = Log::system::<L>(Config::new().max_pi_depth(max_depth));
        let make = |namespace: &_| forever(Domain::in_namespace(namespace, Options::new())) as &'static Domain<S, L>;
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

    fn domain(&self, task: usize) -> &'static Domain<S, L> {
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

    /// Whether the two are of different namespaces.
    fn are_strangers(&self, task: usize, other: usize) -> bool {
        let number = |task| self.domain(task).pid_namespace().number();
        number(task) != number(other)
    }

    /// What `task`, or a call by its domain, is told if the owner of `word` is a stranger: nobody waits for one.
    fn told_of_stranger(&self, task: usize, word: usize) -> Option<Error> {
        self.owner(word).filter(|&owner| self.are_strangers(task, owner))?;
        Some(if self.waits_for.contains(&Some(word)) { Error::Invalid } else { Error::NoTask })
    }

    /// How many waits a chain consists of that begins with a wait of `task`; `None` if it comes back to `task`.
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

    /// The longest chain if `task` waited for `word`; `None` if one would be a circle.
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
        let mut wait = Box::pin(self.domain(task).lock_pi_async(self.word(word), self.tasks[task]));
        if let Some(told) = self.told_of_stranger(task, word) {
            self.strangers += 1;
            return assert_eq!(poll(&mut wait), Poll::Ready(Err(told)));
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
            let wait = self.domain(task).wait_requeue_pi_async(self.condition(), 0, self.word(word), self.tasks[task]);
            self.waits[task] = Some(Wait::Condition(pending(wait)));
            let own = self.own[task];
            let behind = self.in_condition.partition_point(|&(_, _, other)| other >= own);
            self.in_condition.insert(behind, (task, word, own));
        }
    }

    /// Requeues the first that waits, by a domain that need not be its own.
    fn requeue(&mut self, by: usize) {
        let Some(&(task, word, _)) = self.in_condition.first() else { return };
        if self.owner(word) == Some(task) {
            return;
        }
        let result = self.domain(by).cmp_requeue_pi(self.condition(), 0, self.word(word), 0);
        let told = if self.are_strangers(by, task) { Some(Error::Invalid) } else { self.told_of_stranger(by, word) };
        if let Some(told) = told {
            self.strangers += 1;
            return assert_eq!(result, Err(told));
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
        assert_eq!(self.domain(task).exit(self.tasks[task], &NoMemory), Ok(()));
        self.look();
        // What nobody has inherited is free.
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

    /// Everybody looks whether its lock is there.
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

fn new_task<S: Scheme<L>, L: Layout>(domain: &Domain<S, L>, i: usize) -> &'static Task<L> {
    forever(domain.task(i as u32 + 1).expect("the TID is free"))
}

fn object(word: Word, offset: u64) -> Lock {
    Shared::object(word, ObjectId::new(3).expect("small enough"), offset)
}

/// Random worlds whose domains are of so many namespaces. How often strangers met.
fn live_in_namespaces<S: Scheme<L>, L: Layout>(namespaces: usize) -> u64 {
    let mut strangers = 0;
    for seed in 1..40 {
        let mut random = Random(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let mut world = World::<S, L>::new(random.below(5), namespaces);
        for _ in 0..300 {
            world.step(&mut random);
        }
        (0..TASKS).for_each(|task| world.give_up(task));
        strangers += world.strangers;
    }
    strangers
}

fn no_way_into_the_graph_makes_chains_longer_than_allowed<S: Scheme<L>, L: Layout>() {
    assert_eq!(live_in_namespaces::<S, L>(1), 0);
}

fn strangers_of_another_namespace_are_in_no_chain<S: Scheme<L>, L: Layout>() {
    assert!(live_in_namespaces::<S, L>(2) > 1000);
}

/// Each heir inherits a waiter, and then waits for a lock with another waiter whose owner is next.
fn heirs_do_not_make_chains_longer<S: Scheme<L>, L: Layout>() {
    const LIMIT: usize = 8;
    let (_, system) = Log::system::<L>(Config::new().max_pi_depth(LIMIT));
    let domain: &'static Domain<S, L> = forever(Domain::with_options(&system, Options::new()));
    let mut tid = 0;
    let mut task = || {
        tid += 1;
        forever(domain.task(tid).expect("the TID is free")) as &'static Task<L>
    };
    // What hangs on the last task: one wait at first.
    let (mut last, mut waits) = (task(), Vec::new());
    let mut length = 0;
    loop {
        // The next lock goes from `owner` to `heir`, and its other waiter is the end of the chain so far.
        let (owner, heir) = (task(), task());
        let [word] = words();
        assert_eq!(domain.lock_pi(word, owner, None), Ok(()));
        let mut heirs = pending(domain.lock_pi_async(word, heir));
        let mut wait = Box::pin(domain.lock_pi_async(word, last));
        match poll(&mut wait) {
            Poll::Pending => waits.push(wait),
            Poll::Ready(result) => {
                assert_eq!(result, Err(Error::Deadlock));
                break;
            }
        }
        assert_eq!(domain.unlock_pi(word, owner), Ok(()));
        assert_eq!(poll(&mut heirs), Poll::Ready(Ok(())));
        (last, length) = (heir, length + 1);
        assert!(length <= LIMIT + 1, "{length} waits");
    }
    assert_eq!((length, system.pi_chains_refused()), (LIMIT + 1, 1));
}

/// A lock that has a waiter all the time is no obstacle for its owners once its waiters have none of their own.
fn lock_that_always_has_a_waiter_comes_down_again<S: Scheme<L>, L: Layout>() {
    let (_, system) = Log::system::<L>(Config::new().max_pi_depth(1));
    let domain = Domain::<S, L>::with_options(&system, Options::new());
    let [a, b, c, d, e] = [1, 2, 3, 4, 5].map(|tid| domain.task(tid).expect("the TID is free"));
    let [busy, of_b, of_d] = words();
    for (word, owner) in [(busy, &a), (of_b, &b), (of_d, &d)] {
        assert_eq!(domain.lock_pi(word, owner, None), Ok(()));
    }
    let always = pending(domain.lock_pi_async(busy, &e));
    let waits = [pending(domain.lock_pi_async(busy, &b)), pending(domain.lock_pi_async(of_b, &c))];
    assert_eq!(at_once(domain.lock_pi_async(of_d, &a)), Err(Error::Deadlock), "three waits");
    drop(waits);
    drop(pending(domain.lock_pi_async(of_d, &a)));
    drop(always);
}

on_every_scheme![
    no_way_into_the_graph_makes_chains_longer_than_allowed,
    strangers_of_another_namespace_are_in_no_chain,
    heirs_do_not_make_chains_longer,
    lock_that_always_has_a_waiter_comes_down_again,
];
