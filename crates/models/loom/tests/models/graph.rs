//! Domains of one namespace, whose tasks share locks and a graph.
//!
//! What must hold: threads that lock a bucket and the graph do not wait for each other for ever, in whichever order they
//! come to the two; in the end priorities and words are right.
//!
//! Promise: busy graph

use loom::sync::Arc;
use loom::thread;
use ufutex_loom::{
    At, Domain, DomainOptions, Error, ObjectId, PidNamespace, System, SystemConfig, Task, Timeout, WaitOptions,
    pi::{Priority, TID_MASK},
};

use crate::support::{NEVER, PAIR, Word, catches, check_pair};

/// A model does not wait for this: see [`some_time`](crate::support::some_time).
const SOON: Option<Timeout> = Some(NEVER);

/// Two domains of a system, and two words that both have mapped.
struct Neighbours {
    domains: [Domain; 2],
    words: [Word; 2],
}

fn domain(namespace: &PidNamespace) -> Domain {
    Domain::in_namespace(namespace, DomainOptions::new().early_return(false))
}

fn system() -> System {
    let config = SystemConfig::new().cpus(1).global_slots(2).hash_seed(1).default_slots(2);
    System::with_config(config).expect("the models' configuration is valid")
}

fn shared(word: &Word, offset: u64) -> At<&Word> {
    At::object(word, ObjectId::new(1).expect("small enough"), offset)
}

impl Neighbours {
    fn new() -> Arc<Self> {
        let namespace = system().pid_namespace();
        let domains = [(); 2].map(|()| domain(&namespace));
        Arc::new(Self { domains, words: [Word::at(0x1000), Word::at(0x1080)] })
    }

    fn word(&self, i: usize) -> At<&Word> {
        shared(&self.words[i], 0x80 * i as u64)
    }

    fn task(&self, domain: usize, tid: u32) -> Task {
        self.domains[domain].task(tid).expect("the number is free")
    }

    fn lock(&self, domain: usize, word: usize, task: &Task, timeout: Option<Timeout>) -> Result<(), Error> {
        self.domains[domain].lock_pi_with(self.word(word), task, &WaitOptions::new().maybe_timeout(timeout))
    }

    fn unlock(&self, domain: usize, word: usize, task: &Task) {
        loop {
            match self.domains[domain].unlock_pi(self.word(word), task) {
                Err(Error::Again) => {}
                result => return assert_eq!(result, Ok(())),
            }
        }
    }
}

/// A task's priority changes while a task of another domain, which is new, waits for it and leaves again.
fn priority_against_newcomer() {
    let both = Neighbours::new();
    let one = both.task(0, 1);
    assert_eq!(both.lock(0, 0, &one, None), Ok(()));
    let newcomer = {
        let both = both.clone();
        thread::spawn(move || {
            let two = both.task(1, 2);
            two.set_priority(Priority::realtime(7));
            assert_eq!(both.lock(1, 0, &two, SOON), Err(Error::TimedOut));
        })
    };
    one.set_priority(Priority::realtime(3));
    let meanwhile = one.priority().as_realtime();
    assert!(meanwhile == 3 || meanwhile == 7);
    newcomer.join().unwrap();
    assert_eq!(one.priority(), Priority::realtime(3));
    both.unlock(0, 0, &one);
}

/// A lock goes from a task of one domain to a task of the other, and back.
fn lock_against_lock() {
    let both = Neighbours::new();
    let (one, two) = (both.task(0, 1), both.task(1, 2));
    let other = {
        let both = both.clone();
        thread::spawn(move || {
            assert_eq!(both.lock(1, 0, &two, None), Ok(()));
            assert_eq!(both.words[0].value() & TID_MASK, 2);
            both.unlock(1, 0, &two);
        })
    };
    assert_eq!(both.lock(0, 0, &one, None), Ok(()));
    assert_eq!(both.words[0].value() & TID_MASK, 1);
    both.unlock(0, 0, &one);
    other.join().unwrap();
    assert_eq!(both.words[0].value(), 0);
}

/// Each domain has a lock, and a second task that wants the other domain's lock.
fn each_wants_the_others() {
    let both = Neighbours::new();
    let owners = [both.task(0, 1), both.task(1, 2)];
    for (i, owner) in owners.iter().enumerate() {
        assert_eq!(both.lock(i, i, owner, None), Ok(()));
    }
    let (three, four) = (both.task(0, 3), both.task(1, 4));
    let other = {
        let both = both.clone();
        thread::spawn(move || assert_eq!(both.lock(1, 0, &four, SOON), Err(Error::TimedOut)))
    };
    assert_eq!(both.lock(0, 1, &three, SOON), Err(Error::TimedOut));
    other.join().unwrap();
    for (i, owner) in owners.iter().enumerate() {
        both.unlock(i, i, owner);
        assert_eq!(both.words[i].value(), 0);
    }
}

/// A newcomer finds the graph busy, waits for it, and then tries the word's bucket. Meanwhile a second task of the owner's
/// domain comes to the same bucket and graph.
fn newcomer_waits_for_the_graph() {
    let both = Neighbours::new();
    let (one, three) = (both.task(0, 1), both.task(0, 3));
    assert_eq!(both.lock(0, 0, &one, None), Ok(()));
    let newcomer = {
        let both = both.clone();
        thread::spawn(move || {
            let two = both.task(1, 2);
            assert_eq!(both.lock(1, 0, &two, SOON), Err(Error::TimedOut));
        })
    };
    one.set_priority(Priority::realtime(3));
    assert_eq!(both.domains[0].try_lock_pi(both.word(0), &three), Err(Error::Again));
    newcomer.join().unwrap();
    both.unlock(0, 0, &one);
    assert_eq!(both.words[0].value(), 0);
}

/// A task ends while a task of another domain finds it by its TID.
fn owner_ends_against_newcomer() {
    let both = Neighbours::new();
    let one = both.task(0, 1);
    assert_eq!(both.lock(0, 0, &one, None), Ok(()));
    let newcomer = {
        let both = both.clone();
        thread::spawn(move || {
            let two = both.task(1, 2);
            match both.lock(1, 0, &two, None) {
                // The owner ended, and its robust list was not walked.
                Err(error) => assert_eq!(error, Error::NoTask),
                Ok(()) => both.unlock(1, 0, &two),
            }
        })
    };
    drop(one);
    newcomer.join().unwrap();
    let _same_tid = both.task(0, 1);
}

#[test]
fn bucket_and_graph_are_not_waited_for_in_a_circle() {
    check_pair(newcomer_waits_for_the_graph);
}

#[test]
fn priority_of_an_owner_changes_while_a_waiter_comes() {
    check_pair(priority_against_newcomer);
}

#[test]
fn a_lock_goes_from_domain_to_domain() {
    check_pair(lock_against_lock);
}

#[test]
fn domains_want_each_others_locks() {
    check_pair(each_wants_the_others);
}

#[test]
fn an_owner_that_is_found_by_its_tid_passes_its_lock_on() {
    check_pair(owner_ends_against_newcomer);
}

catches!(graph_catches_hand_over_keeps_owner, HandOverKeepsOwner, PAIR, lock_against_lock);
catches!(graph_catches_lock_hides_waiter, LockHidesWaiter, PAIR, lock_against_lock);
catches!(graph_catches_death_notifies_nobody, DeathNotifiesNobody, PAIR, owner_ends_against_newcomer);
