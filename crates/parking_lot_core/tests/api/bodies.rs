//! What both lines promise, as test bodies. Each runs on the published crates and on ours.

use crate::lines::{Calls, Core, Filter, Op, Parked, Unparked, unparked};
use crate::threads::{Parker, key, park, park_until, unpark_one};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn nothing() {}

fn no_timeout(_: usize, _: bool) {
    panic!("there was no timeout");
}

pub fn park_is_invalid_where_validate_says_no<C: Core>() {
    let calls = Calls {
        validate: &mut || false,
        before_sleep: &mut || panic!("it must not sleep"),
        timed_out: &mut no_timeout,
    };
    let key = key();
    assert_eq!(C::park(key, calls, 1, None), Parked::Invalid);
    assert_eq!(C::unpark_all(key, 0), 0);
}

pub fn thread_is_queued_before_it_sleeps_and_gets_the_token<C: Core>() {
    for timeout in [None, Some(Instant::now() + Duration::from_secs(60))] {
        let key = key();
        let calls = Calls {
            validate: &mut || true,
            before_sleep: &mut || assert_eq!(unpark_one::<C>(key, 42), unparked(1, false)),
            timed_out: &mut no_timeout,
        };
        assert_eq!(C::park(key, calls, 1, timeout), Parked::Token(42));
    }
}

pub fn every_key_is_a_key<C: Core>() {
    for key in [0, 1, 2, usize::MAX, usize::MAX - 1, 1 << 63] {
        let parked = park::<C>(key, 0);
        assert_eq!(unpark_one::<C>(key ^ 64, 1), unparked(0, false), "its neighbour");
        assert_eq!(unpark_one::<C>(key, key ^ 5), unparked(1, false));
        assert_eq!(parked.ended(), Parked::Token(key ^ 5));
    }
}

pub fn neighbours_in_a_cache_line_are_keys_apart<C: Core>() {
    let key = key();
    let (first, second) = (park::<C>(key, 0), park::<C>(key + 1, 0));
    assert_eq!(C::unpark_all(key + 1, 2), 1);
    assert_eq!(second.ended(), Parked::Token(2));
    assert_eq!(C::unpark_all(key, 1), 1);
    assert_eq!(first.ended(), Parked::Token(1));
}

pub fn unpark_one_takes_the_first_and_says_whether_others_are_left<C: Core>() {
    let key = key();
    let parked: Vec<Parker> = (0..3).map(|token| park::<C>(key, token)).collect();
    for (number, parked) in parked.into_iter().enumerate() {
        assert!(parked.looks_parked());
        assert_eq!(unpark_one::<C>(key, 10 + number), unparked(1, number < 2));
        assert_eq!(parked.ended(), Parked::Token(10 + number));
    }
    assert_eq!(unpark_one::<C>(key, 9), unparked(0, false));
}

pub fn unpark_all_tells_each_the_same_token<C: Core>() {
    for threads in [0, 1, 2, 40] {
        let key = key();
        let parked: Vec<Parker> = (0..threads).map(|token| park::<C>(key, token)).collect();
        assert_eq!(C::unpark_all(key, 77), threads);
        for parked in parked {
            assert_eq!(parked.ended(), Parked::Token(77));
        }
    }
}

pub fn callback_keeps_the_queue_locked<C: Core>() {
    let key = key();
    let (began, validated) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        unpark_slowly::<C>(key, || {
            scope.spawn(|| {
                began.store(true, SeqCst);
                let validate = &mut || {
                    validated.store(true, SeqCst);
                    false
                };
                let calls = Calls { validate, before_sleep: &mut nothing, timed_out: &mut no_timeout };
                assert_eq!(C::park(key, calls, 0, None), Parked::Invalid);
            });
            while !began.load(SeqCst) {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20));
            assert!(!validated.load(SeqCst), "validate ran with the queue locked by the callback");
        });
    });
    assert!(validated.load(SeqCst));
}

fn unpark_slowly<C: Core>(key: usize, mut meanwhile: impl FnMut()) {
    C::unpark_one(key, &mut |_| {
        meanwhile();
        0
    });
}

pub fn timeout_is_not_early_and_says_who_was_last<C: Core>() {
    let key = key();
    let stays = park::<C>(key, 0);
    let deadline = Instant::now() + Duration::from_millis(20);
    let (parked, told) = park_until::<C>(key, 1, Some(deadline)).ended_with_callback();
    assert!(Instant::now() >= deadline);
    assert_eq!((parked, told), (Parked::TimedOut, Some((key, false))));
    assert_eq!(C::unpark_all(key, 3), 1);
    assert_eq!(stays.ended(), Parked::Token(3));

    let (parked, told) = park_until::<C>(key, 1, Some(Instant::now())).ended_with_callback();
    assert_eq!((parked, told), (Parked::TimedOut, Some((key, true))));
    assert_eq!(C::unpark_all(key, 3), 0);
}

pub fn timeout_after_a_requeue_names_the_new_key<C: Core>() {
    let (from, to) = (key(), key());
    let parked = park_until::<C>(from, 1, Some(Instant::now() + Duration::from_millis(300)));
    let moved = C::unpark_requeue(from, to, &mut || Op::RequeueAll, &mut |_, _| 0);
    if moved.requeued == 0 {
        return; // the timeout passed before the requeue, on a very slow machine
    }
    assert_eq!(parked.ended_with_callback(), (Parked::TimedOut, Some((to, true))));
    assert_eq!((C::unpark_all(from, 0), C::unpark_all(to, 0)), (0, 0));
}

/// Parks threads with the tokens 0 to 4 and runs `unpark_filter`. Returns the tokens that were unparked, the tokens
/// that `filter` was called with, and the result of the call.
fn filtered<C: Core>(filter: impl Fn(usize) -> Filter) -> (Vec<usize>, Vec<usize>, Unparked) {
    let key = key();
    let parked: Vec<Parker> = (0..5).map(|token| park::<C>(key, token)).collect();
    let (mut asked, mut told) = (Vec::new(), None);
    let ask = &mut |token| {
        asked.push(token);
        filter(token)
    };
    let answer = C::unpark_filter(key, ask, &mut |it| {
        told = Some(it);
        100
    });
    assert_eq!(told, Some(answer));
    let left = C::unpark_all(key, 200);
    let ended: Vec<_> = parked.into_iter().map(Parker::ended).collect();
    let woken: Vec<_> = (0..5).filter(|number| ended[*number] == Parked::Token(100)).collect();
    assert_eq!(woken.len() + left, 5);
    assert_eq!(ended.iter().filter(|ended| **ended == Parked::Token(200)).count(), left);
    (woken, asked, answer.plain())
}

pub fn filter_unparks_whom_it_chooses<C: Core>() {
    let odd = |token| if token % 2 == 1 { Filter::Unpark } else { Filter::Skip };
    assert_eq!(filtered::<C>(odd), (vec![1, 3], vec![0, 1, 2, 3, 4], unparked(2, true)));
    assert_eq!(filtered::<C>(|_| Filter::Unpark), ((0..5).collect(), (0..5).collect(), unparked(5, false)));
    assert_eq!(filtered::<C>(|_| Filter::Skip), (vec![], (0..5).collect(), unparked(0, true)));
}

pub fn filter_stops_where_it_is_told_to<C: Core>() {
    let until_two = |token| if token == 2 { Filter::Stop } else { Filter::Unpark };
    assert_eq!(filtered::<C>(until_two), (vec![0, 1], vec![0, 1, 2], unparked(2, true)));
    assert_eq!(filtered::<C>(|_| Filter::Stop), (vec![], vec![0], unparked(0, true)));
    let until_end = |token| if token == 4 { Filter::Stop } else { Filter::Skip };
    assert_eq!(filtered::<C>(until_end), (vec![], (0..5).collect(), unparked(0, true)));
}

pub fn filter_of_nobody_still_calls_back<C: Core>() {
    let mut calls = 0;
    let answer = C::unpark_filter(key(), &mut |_| panic!("no thread is parked"), &mut |_| {
        calls += 1;
        0
    });
    assert_eq!((answer, calls), (Unparked::default(), 1));
}

/// Runs `op` with three threads parked at one key and one at another. Returns the result, which of the three were
/// unparked, and the order of the second key's queue afterwards.
fn requeued<C: Core>(op: Op) -> (Unparked, Vec<usize>, Vec<usize>) {
    let (from, to) = (key(), key());
    let mut parked: Vec<(usize, Parker)> = (0..3).map(|token| (token, park::<C>(from, token))).collect();
    parked.push((9, park::<C>(to, 9)));
    let mut told = None;
    let answer = C::unpark_requeue(from, to, &mut || op, &mut |it, outcome| {
        told = Some((it, outcome));
        100
    });
    assert_eq!(told, (op != Op::Abort).then_some((op, answer)));
    let mut order = Vec::new();
    let note = &mut |token: usize| {
        order.push(token);
        Filter::Unpark
    };
    C::unpark_filter(to, note, &mut |_| 200);
    let stayed = C::unpark_all(from, 300);
    let ended: Vec<_> = parked.into_iter().map(|(token, parked)| (token, parked.ended())).collect();
    let with = |it| ended.iter().filter(|(_, ended)| *ended == Parked::Token(it)).map(|(token, _)| *token).collect();
    let (woken, from_to, left): (Vec<_>, Vec<_>, Vec<_>) = (with(100), with(200), with(300));
    assert_eq!((woken.len(), from_to.len(), left.len()), (answer.unparked, answer.requeued + 1, stayed));
    (answer.plain(), woken, order)
}

pub fn requeue_does_what_validate_says<C: Core>() {
    let result = |unparked, requeued, have_more| Unparked { unparked, requeued, have_more, be_fair: false };
    assert_eq!(requeued::<C>(Op::Abort), (result(0, 0, false), vec![], vec![9]));
    assert_eq!(requeued::<C>(Op::UnparkOneRequeueRest), (result(1, 2, false), vec![0], vec![9, 1, 2]));
    assert_eq!(requeued::<C>(Op::RequeueAll), (result(0, 3, false), vec![], vec![9, 0, 1, 2]));
    assert_eq!(requeued::<C>(Op::UnparkOne), (result(1, 0, true), vec![0], vec![9]));
    assert_eq!(requeued::<C>(Op::RequeueOne), (result(0, 1, true), vec![], vec![9, 0]));
}

pub fn requeue_of_nobody_calls_back<C: Core>() {
    let ops = [Op::UnparkOneRequeueRest, Op::RequeueAll, Op::UnparkOne, Op::RequeueOne];
    for op in ops {
        let mut told = None;
        let answer = C::unpark_requeue(key(), key(), &mut || op, &mut |it, outcome| {
            told = Some((it, outcome));
            0
        });
        assert_eq!((answer, told), (Unparked::default(), Some((op, Unparked::default()))));
    }
}

pub fn requeues_back_and_forth_lose_nobody<C: Core>() {
    let keys = [key(), key()];
    let parked: Vec<Parker> = (0..8).map(|token| park::<C>(keys[0], token)).collect();
    std::thread::scope(|scope| {
        for (from, to) in [(0, 1), (1, 0)] {
            scope.spawn(move || {
                for round in 0..2000 {
                    let op = if round % 2 == 0 { Op::RequeueOne } else { Op::RequeueAll };
                    C::unpark_requeue(keys[from], keys[to], &mut || op, &mut |_, _| 0);
                }
            });
        }
    });
    assert_eq!(C::unpark_all(keys[0], 1) + C::unpark_all(keys[1], 1), 8);
    for parked in parked {
        assert_eq!(parked.ended(), Parked::Token(1));
    }
}

pub fn hundreds_of_threads_park_and_all_are_unparked<C: Core>() {
    const THREADS: usize = 300;
    let keys: Vec<usize> = (0..7).map(|_| key()).collect();
    let parked: Vec<Parker> = (0..THREADS).map(|number| park::<C>(keys[number % keys.len()], number)).collect();
    let mut found = 0;
    for key in &keys {
        found += unpark_one::<C>(*key, 5).unparked;
        found += C::unpark_all(*key, 5);
    }
    assert_eq!(found, THREADS);
    for parked in parked {
        assert_eq!(parked.ended(), Parked::Token(5));
    }
}

/// Exactly the threads that unparks count return as unparked, however unparks and timeouts race.
pub fn timeouts_that_race_unparks_are_one_or_the_other<C: Core>() {
    const THREADS: usize = 4;
    let keys = [key(), key()];
    let (counted, received, ended) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let until = Instant::now() + Duration::from_millis(300);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (received, ended) = (&received, &ended);
            scope.spawn(move || {
                let mut round = 0;
                while Instant::now() < until {
                    round += 1;
                    let timeout = Instant::now() + Duration::from_micros(round % 7 * 15);
                    let mut callbacks = 0;
                    let timed_out = &mut |at, _| {
                        assert!(keys.contains(&at));
                        callbacks += 1;
                    };
                    let calls = Calls { validate: &mut || true, before_sleep: &mut nothing, timed_out };
                    match C::park(keys[number % 2], calls, number, Some(timeout)) {
                        Parked::Token(7) => _ = received.fetch_add(1, SeqCst),
                        Parked::TimedOut => {
                            assert_eq!(callbacks, 1);
                            continue;
                        }
                        other => panic!("{other:?}"),
                    }
                    assert_eq!(callbacks, 0);
                }
                ended.fetch_add(1, SeqCst);
            });
        }
        let (counted, ended) = (&counted, &ended);
        scope.spawn(move || {
            let mut round = 0;
            while ended.load(SeqCst) < THREADS {
                round += 1;
                let (one, other) = (keys[round % 2], keys[(round + 1) % 2]);
                let unparked = match round % 5 {
                    0 => C::unpark_one(one, &mut |_| 7).unparked,
                    1 => C::unpark_all(one, 7),
                    2 => C::unpark_requeue(one, other, &mut || Op::RequeueAll, &mut |_, _| 7).unparked,
                    3 => C::unpark_requeue(one, other, &mut || Op::UnparkOneRequeueRest, &mut |_, _| 7).unparked,
                    _ => {
                        C::unpark_filter(one, &mut |token| [Filter::Skip, Filter::Unpark][token & 1], &mut |_| 7)
                            .unparked
                    }
                };
                counted.fetch_add(unparked, SeqCst);
            }
        });
    });
    assert_eq!(counted.load(SeqCst), received.load(SeqCst));
    assert_eq!((C::unpark_all(keys[0], 0), C::unpark_all(keys[1], 0)), (0, 0));
}

pub fn spin_waits_ten_times_and_then_says_no<C: Core>() {
    assert_eq!(C::spins(), [10, 9]);
}
