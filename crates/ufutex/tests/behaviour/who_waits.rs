//! `who_waits`: the list of words that are waited on, and their waiters.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ufutex::{
    At, Domain, DomainOptions, ObjectId, Scope,
    observe::{WaitedWord, WhoWaits},
};

use crate::common::asleep::until;
use crate::common::domains::{on_domains, on_resizable_domains, system};
use crate::common::waiters::{bits, idle, queue, queue_with};

const OBJECT: ObjectId = ObjectId::new(0x77).unwrap();

fn address(word: &AtomicU32) -> u64 {
    word.as_ptr().addr() as u64
}

/// The word of a list that has one word.
fn only(found: &WhoWaits) -> WaitedWord {
    assert_eq!((found.iter().count(), found.omitted()), (1, 0), "{found:?}");
    *found.iter().next().expect("there is one")
}

fn words_are_reported_with_their_waiters() {
    let domain = Domain::with_options(&system(), DomainOptions::new());
    let words: [AtomicU32; 3] = Default::default();
    assert_eq!(domain.who_waits(10).iter().count(), 0, "without a table");
    let mut waiters = idle(3);
    let [a, b, c] = waiters.each_mut_array();
    let queued = (
        queue_with(&domain, a, &words[0], bits(0b0011)),
        queue_with(&domain, b, &words[0], bits(0b0110)),
        queue(&domain, c, At::address_space(&words[1])),
    );
    std::thread::scope(|scope| {
        scope.spawn(|| domain.wait(&words[2], 0));
        until("the thread waits", || domain.waiting() == 4);
        let found = domain.who_waits(10);
        let at = |word| *found.iter().find(|w| w.address == address(word)).unwrap_or_else(|| panic!("{found:?}"));
        let [first, second, third] = [0, 1, 2].map(|i| at(&words[i]));
        assert_eq!((first.scope, first.threads, first.tasks, first.bitset), (Scope::Private, 0, 2, 0b0111));
        assert_eq!((second.scope, second.threads, second.tasks), (Scope::AddressSpace, 0, 1));
        assert_eq!((third.scope, third.threads, third.tasks, third.for_lock), (Scope::Private, 1, 0, 0));
        assert_eq!((third.waiters(), third.bitset), (1, u32::MAX));
        assert_eq!((found.iter().count(), found.omitted()), (3, 0));
        let text = format!("{found:?}");
        assert!(text.contains(&format!("{:#x} private: 2 tasks, bits 0x7", address(&words[0]))), "{text}");
        assert!(text.contains(&format!("{:#x} shared: 1 tasks", address(&words[1]))), "{text}");
        assert!(text.contains(&format!("{:#x} private: 1 threads", address(&words[2]))), "{text}");
        assert_eq!(domain.wake(&words[2], 1), 1);
    });
    drop(queued);
    assert_eq!(domain.who_waits(10).iter().count(), 0);
}

trait EachMut<T> {
    fn each_mut_array<const N: usize>(&mut self) -> [&mut T; N];
}

impl<T> EachMut<T> for Vec<T> {
    fn each_mut_array<const N: usize>(&mut self) -> [&mut T; N] {
        self.iter_mut().collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("not {N} of them"))
    }
}

fn words_of_objects_are_the_systems_and_other_words_their_domains() {
    let system = system();
    // Domain `a` has a table of its own, `b` uses the global table.
    let [a, b] = [(); 2].map(|()| Domain::with_options(&system, DomainOptions::new()));
    assert_eq!(b.set_slots(0), Ok(()));
    let words: [AtomicU32; 4] = Default::default();
    let (mut of_a, mut of_b) = (idle(3), idle(3));
    let [a1, a2, a3] = of_a.each_mut_array();
    let [b1, b2, b3] = of_b.each_mut_array();
    let queued = [
        queue(&a, a1, &words[0]),
        queue(&a, a2, At::object(&words[1], OBJECT, 0x40)),
        queue(&b, b1, &words[2]),
        queue(&b, b2, At::object(&words[1], OBJECT, 0x40)),
    ];
    assert_eq!(only(&a.who_waits(10)).address, address(&words[0]));
    assert_eq!(only(&b.who_waits(10)).address, address(&words[2]));
    let object = only(&system.who_waits(10));
    assert_eq!((object.address, object.scope), (0x40, Scope::Object { id: OBJECT, offset: 0x40 }));
    assert_eq!(object.tasks, 2);
    assert!(format!("{:?}", system.who_waits(10)).contains("0x40 in object 0x77: 2 tasks"));
    let more = [queue(&a, a3, At::address_space(&words[3])), queue(&b, b3, At::address_space(&words[3]))];
    for domain in [&a, &b] {
        assert_eq!(domain.who_waits(10).iter().filter(|w| w.scope == Scope::AddressSpace).count(), 1);
    }
    drop((queued, more));
}

fn words_beyond_the_limit_are_left_out_and_counted() {
    let domain = Domain::with_options(&system(), DomainOptions::new());
    let words: Vec<AtomicU32> = (0..300).map(|_| AtomicU32::new(0)).collect();
    let mut waiters = idle(600);
    let queued: Vec<_> =
        waiters.iter_mut().zip(words.iter().cycle()).map(|(waiter, word)| queue(&domain, waiter, word)).collect();
    for limit in [0, 1, 63, 64, 65, 200, 299, 300, 301, usize::MAX] {
        let found = domain.who_waits(limit);
        let shown = limit.min(300);
        assert_eq!((found.iter().count(), found.omitted()), (shown, 300 - shown), "at most {limit}");
        assert!(found.iter().all(|word| word.tasks == 2));
        let remark = format!("and {} words more", 300 - shown);
        assert_eq!(format!("{found:?}").contains(&remark), shown < 300);
    }
    drop(queued);
}

/// During a resize the walk visits buckets of two tables. Each key is in one of them.
fn words_are_reported_once_while_the_table_changes() {
    const WORDS: usize = 300;
    let domain = Domain::with_options(&system(), DomainOptions::new());
    let words: Vec<AtomicU32> = (0..WORDS).map(|_| AtomicU32::new(0)).collect();
    let mut waiters = idle(WORDS);
    let queued: Vec<_> = waiters.iter_mut().zip(&words).map(|(waiter, word)| queue(&domain, waiter, word)).collect();
    let mut expected: Vec<u64> = words.iter().map(address).collect();
    expected.sort_unstable();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for slots in [2048, 2, 64, 0, 512, 0, 16].iter().cycle() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                assert_eq!(domain.set_slots(*slots), Ok(()));
                // Some schemes stop operations during a resize. This leaves operations time to run.
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        });
        let before = domain.counters().resizes;
        let mut walks = 0;
        while walks < 100 || domain.counters().resizes < before + 50 {
            let found = domain.who_waits(usize::MAX);
            let mut addresses: Vec<u64> = found.iter().map(|word| word.address).collect();
            addresses.sort_unstable();
            let is_right = addresses == expected && found.omitted() == 0;
            if !is_right {
                is_over.store(true, Ordering::Relaxed);
            }
            assert!(is_right, "walk {walks}: {} words, {} omitted", addresses.len(), found.omitted());
            walks += 1;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop(queued);
}

on_domains![words_are_reported_with_their_waiters, words_beyond_the_limit_are_left_out_and_counted];
on_resizable_domains![
    words_of_objects_are_the_systems_and_other_words_their_domains,
    words_are_reported_once_while_the_table_changes,
];
