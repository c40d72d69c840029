//! Every design must work as a timer table before it is worth measuring: each test body runs on all designs.

use super::global_lock::Hash;
use super::process::{Emulated, Index};
use super::radix::Radix;
use super::scaled::Scaled;
use super::*;
use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes new processes of one design.
trait Design {
    type Of: Index;
    fn processes(count: usize) -> Vec<Emulated<Self::Of>>;
}

struct GlobalLock;
struct Precheck;
struct OneCpu;
struct Tree;

impl Design for GlobalLock {
    type Of = Hash<false>;
    fn processes(count: usize) -> Vec<Emulated<Self::Of>> {
        Emulated::sharing(Hash::default(), count)
    }
}

impl Design for Precheck {
    type Of = Hash<true>;
    fn processes(count: usize) -> Vec<Emulated<Self::Of>> {
        Emulated::sharing(Hash::default(), count)
    }
}

impl Design for OneCpu {
    type Of = Scaled;
    fn processes(count: usize) -> Vec<Emulated<Self::Of>> {
        Emulated::sharing(Scaled::new(1), count)
    }
}

impl Design for Tree {
    type Of = Radix;
    fn processes(count: usize) -> Vec<Emulated<Self::Of>> {
        Emulated::apart(Radix::default, count)
    }
}

/// Makes a test for each design.
macro_rules! on_every_design {
    ($($test:ident)*) => {
        on_every_design! { @ global_lock GlobalLock: $($test)* }
        on_every_design! { @ precheck Precheck: $($test)* }
        on_every_design! { @ scaled OneCpu: $($test)* }
        on_every_design! { @ radix Tree: $($test)* }
    };
    (@ $module:ident $design:ident: $($test:ident)*) => {
        mod $module {
            $(#[test] fn $test() { super::$test::<super::$design>(); })*
        }
    };
}

on_every_design! {
    what_is_created_is_found_until_it_is_deleted
    an_id_in_use_is_refused_and_passed_over
    ids_wrap_to_zero
    processes_do_not_see_each_others_timers
    chains_and_trees_keep_their_order_under_any_deletions
    threads_find_their_own_timers_and_never_anothers
    of_two_that_delete_a_timer_one_does
    threads_that_create_and_delete_in_a_loop_leave_nothing
}

fn what_is_created_is_found_until_it_is_deleted<D: Design>() {
    let process = &D::processes(1)[0];
    let mut thread = process.thread();
    let ids: Vec<_> = (0..5000).map(|_| process.create(&mut thread, Notify::Nothing).expect("an ID")).collect();
    assert_eq!(ids, (0..5000).collect::<Vec<_>>(), "IDs count from 0");
    assert!(ids.iter().all(|id| process.getoverrun(*id) == Ok(0)));
    for missing in [5000, 262_144, i32::MAX, -1] {
        assert_eq!(process.getoverrun(missing), Err(libc::EINVAL), "{missing}");
    }
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(process.delete(&mut thread, *id), Ok(()));
        assert_eq!(process.delete(&mut thread, *id), Err(libc::EINVAL), "{id} twice");
        assert_eq!(process.getoverrun(*id), Err(libc::EINVAL));
        assert!(ids.get(number + 1).is_none_or(|next| process.getoverrun(*next) == Ok(0)));
    }
    let again = process.create(&mut thread, Notify::Nothing).expect("an ID");
    assert_eq!((again, process.getoverrun(again), process.getoverrun(0)), (5000, Ok(0), Err(libc::EINVAL)));
}

fn an_id_in_use_is_refused_and_passed_over<D: Design>() {
    let process = &D::processes(1)[0];
    let mut thread = process.thread();
    for id in [0, 7, 64, 100_000] {
        assert_eq!(process.create_as(&mut thread, id, Notify::Nothing), Ok(()), "{id}");
        assert_eq!(process.create_as(&mut thread, id, Notify::Nothing), Err(libc::EBUSY), "{id}");
        assert_eq!(process.getoverrun(id), Ok(0), "{id}");
    }
    assert_eq!(process.create(&mut thread, Notify::Nothing), Ok(100_001), "the counter follows the caller's IDs");
    assert_eq!(process.create_as(&mut thread, 5, Notify::Nothing), Ok(()));
    assert_eq!(process.create(&mut thread, Notify::Nothing), Ok(6));
    assert_eq!(process.create(&mut thread, Notify::Nothing), Ok(8), "7 is in use");
    for id in [0, 7, 64, 100_000, 100_001, 5, 6, 8] {
        assert_eq!(process.delete(&mut thread, id), Ok(()), "{id}");
        assert_eq!(process.create_as(&mut thread, id, Notify::Nothing), Ok(()), "{id} is free again");
        assert_eq!(process.getoverrun(id), Ok(0), "{id} again");
    }
}

fn ids_wrap_to_zero<D: Design>() {
    let process = &D::processes(1)[0];
    let mut thread = process.thread();
    assert_eq!(process.create_as(&mut thread, i32::MAX - 1, Notify::Nothing), Ok(()));
    assert_eq!(process.create(&mut thread, Notify::Nothing), Ok(i32::MAX));
    assert_eq!(process.create(&mut thread, Notify::Nothing), Ok(0));
    assert!([i32::MAX - 1, i32::MAX, 0].iter().all(|id| process.getoverrun(*id) == Ok(0)));
}

fn processes_do_not_see_each_others_timers<D: Design>() {
    // Enough IDs that in a shared hash some chains contain the same ID of two processes.
    const EACH: i32 = 3000;
    let processes = D::processes(3);
    let mut threads: Vec<_> = processes.iter().map(Process::thread).collect();
    for (process, thread) in processes.iter().zip(&mut threads) {
        for id in 0..EACH {
            assert_eq!(process.create(thread, Notify::Nothing), Ok(id), "others' IDs are not in the way");
        }
    }
    for id in 0..EACH {
        assert_eq!(processes[1].delete(&mut threads[1], id), Ok(()));
        let overruns: Vec<_> = processes.iter().map(|process| process.getoverrun(id).is_ok()).collect();
        assert_eq!(overruns, [true, false, true], "{id}");
    }
    assert_eq!(processes.iter().map(Emulated::listed).collect::<Vec<_>>(), [3000, 0, 3000]);
}

fn of_two_that_delete_a_timer_one_does<D: Design>() {
    const TIMERS: i32 = 20_000;
    let (process, start) = (&D::processes(1)[0], &Barrier::new(2));
    let mut creator = process.thread();
    for id in 0..TIMERS {
        assert_eq!(process.create(&mut creator, Notify::Nothing), Ok(id));
    }
    let delete_all = move || {
        let mut thread = process.thread();
        start.wait();
        (0..TIMERS).filter(|id| process.delete(&mut thread, *id).is_ok()).count()
    };
    let deleted = std::thread::scope(|scope| {
        let both = [scope.spawn(delete_all), scope.spawn(delete_all)];
        both.map(|one| one.join().expect("a thread")).iter().sum::<usize>()
    });
    assert_eq!((deleted, process.listed()), (TIMERS as usize, 0));
}

fn chains_and_trees_keep_their_order_under_any_deletions<D: Design>() {
    let process = &D::processes(1)[0];
    let mut thread = process.thread();
    let (mut there, mut state) = (HashSet::new(), 1u64);
    for step in 0..60_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // A few IDs close together, a few far apart: chains of several timers, and trees that grow and shrink.
        let id = ((state >> 40) % 300) as i32 * if state >> 63 == 0 { 1 } else { 65_537 };
        if there.contains(&id) {
            assert_eq!(process.delete(&mut thread, id), Ok(()), "step {step}, {id}");
            there.remove(&id);
        } else {
            assert_eq!(process.getoverrun(id), Err(libc::EINVAL), "step {step}, {id}");
            assert_eq!(process.create_as(&mut thread, id, Notify::Nothing), Ok(()), "step {step}, {id}");
            there.insert(id);
        }
        if step % 1000 == 0 {
            assert!(there.iter().all(|id| process.getoverrun(*id) == Ok(0)), "step {step}");
            assert_eq!(process.listed(), there.len(), "step {step}");
        }
        if step % 7000 == 0 {
            // All timers are deleted: the tree becomes empty, and low again.
            assert!(there.drain().all(|id| process.delete(&mut thread, id).is_ok()), "step {step}");
        }
    }
}

/// Threads create, look up and delete their own timers. One thread looks up timers that others may have deleted.
fn threads_find_their_own_timers_and_never_anothers<D: Design>() {
    let processes = D::processes(2);
    let (stop, start) = (AtomicBool::new(false), Barrier::new(4));
    let work = |process: &Emulated<D::Of>| {
        let (mut thread, mut mine) = (process.thread(), Vec::new());
        start.wait();
        for step in 0..20_000usize {
            let id = process.create(&mut thread, Notify::Nothing).expect("an ID");
            assert_eq!(process.getoverrun(id), Ok(0), "step {step}, {id}");
            mine.push(id);
            let oldest = mine[step / 2];
            if step % 2 == 0 {
                assert_eq!(process.delete(&mut thread, oldest), Ok(()), "step {step}, {oldest}");
            } else if step / 2 + 1 < mine.len() {
                assert_eq!(process.getoverrun(mine[step / 2 + 1]), Ok(0), "step {step}");
            }
        }
        mine.split_off(10_000)
    };
    std::thread::scope(|scope| {
        let (stop, start, process) = (&stop, &start, &processes[0]);
        let watch = scope.spawn(move || {
            start.wait();
            // The only timer with this ID is there all the time, while roots above it come and go.
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(process.getoverrun(i32::MAX), Err(libc::EINVAL));
                let _ = process.getoverrun(9000);
            }
        });
        let workers = [&processes[0], &processes[0], &processes[1]].map(|process| scope.spawn(|| work(process)));
        let left = workers.map(|worker| worker.join());
        stop.store(true, Ordering::Relaxed);
        watch.join().expect("the watcher");
        let left = left.map(|left| left.expect("a worker"));
        let both: HashSet<_> = left[0].iter().chain(&left[1]).collect();
        assert_eq!(both.len(), 20_000, "no ID was given to two");
        assert!(both.iter().all(|id| processes[0].getoverrun(**id) == Ok(0)));
    });
}

/// The table is nearly empty, so all threads change the same links and nodes.
fn threads_that_create_and_delete_in_a_loop_leave_nothing<D: Design>() {
    let process = &D::processes(1);
    let before = Process::bytes(process, 0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut thread = process[0].thread();
                for step in 0..50_000 {
                    let id = process[0].create(&mut thread, Notify::Nothing).expect("an ID");
                    assert_eq!(process[0].getoverrun(id), Ok(0), "step {step}, {id}");
                    assert_eq!(process[0].delete(&mut thread, id), Ok(()), "step {step}, {id}");
                }
            });
        }
    });
    assert_eq!(Process::bytes(process, 0), before);
    assert!((0..150_000).all(|id| process[0].getoverrun(id) == Err(libc::EINVAL)));
}

/// Each thread creates and deletes its own timers, whose links are next to those of the other threads' timers.
fn threads_in_one_chain_lose_no_timers<I: Index>(process: &Emulated<I>, bucket: impl Fn(usize, i32) -> usize) {
    let together: Vec<i32> = (0..).filter(|id| bucket(process.owner(), *id) == 0).take(16).collect();
    let work = &|ids: Vec<i32>| {
        let mut thread = process.thread();
        for round in 0..4000 {
            for id in &ids {
                assert_eq!(process.create_as(&mut thread, *id, Notify::Nothing), Ok(()), "round {round}");
            }
            for id in &ids {
                assert_eq!(process.getoverrun(*id), Ok(0), "round {round}");
                assert_eq!(process.delete(&mut thread, *id), Ok(()), "round {round}");
            }
        }
    };
    std::thread::scope(|scope| {
        for half in [0, 1] {
            let ids = together.iter().skip(half).step_by(2).copied().collect();
            scope.spawn(move || work(ids));
        }
    });
    assert!(together.iter().all(|id| process.getoverrun(*id).is_err()));
}

#[test]
fn threads_in_one_chain_of_the_global_hash_lose_no_timers() {
    threads_in_one_chain_lose_no_timers(&GlobalLock::processes(1)[0], super::global_lock::bucket);
}

#[test]
fn threads_in_one_chain_of_the_scaled_hash_lose_no_timers() {
    let sizes = Scaled::new(1);
    threads_in_one_chain_lose_no_timers(&OneCpu::processes(1)[0], |owner, id| sizes.number(owner, id));
}

#[test]
fn the_tree_grows_with_its_ids_and_shrinks_to_nothing() {
    let process = &Tree::processes(1);
    let mut thread = process[0].thread();
    let nodes = |process: &[Emulated<Radix>]| Process::bytes(process, 0).map_or(0, |bytes| bytes.table) / 576;
    let mut steps = Vec::new();
    for id in [0, 1, 64, 4095, 4096, 262_144] {
        assert_eq!(process[0].create_as(&mut thread, id, Notify::Nothing), Ok(()));
        steps.push(nodes(process));
    }
    // A lone timer 0 has no node; 64 is in a second leaf, below a root; 4095 in a third; and so on.
    assert_eq!(steps, [0, 1, 3, 4, 7, 11]);
    for id in [262_144, 4096, 4095, 64, 1] {
        assert_eq!(process[0].delete(&mut thread, id), Ok(()));
        assert_eq!(process[0].getoverrun(0), Ok(0), "{id} has gone, 0 has not");
        steps.push(nodes(process));
    }
    assert_eq!(steps[6..], [7, 4, 3, 1, 0]);
    assert_eq!(process[0].delete(&mut thread, 0), Ok(()));
    assert_eq!(process[0].getoverrun(0), Err(libc::EINVAL));
}

#[test]
fn a_look_up_finds_a_timer_while_roots_above_it_come_and_go() {
    let process = &Tree::processes(1)[0];
    let (mut thread, stop) = (process.thread(), AtomicBool::new(false));
    assert_eq!(process.create_as(&mut thread, 63, Notify::Nothing), Ok(()));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(process.getoverrun(63), Ok(0));
            }
        });
        for round in 0..200_000 {
            // The freed nodes serve alternately as a root and in the middle of another branch.
            let id = if round % 2 == 0 { 4096 } else { 70_000_000 };
            assert_eq!(process.create_as(&mut thread, id, Notify::Nothing), Ok(()));
            assert_eq!(process.delete(&mut thread, id), Ok(()));
            if watch.is_finished() {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        watch.join().expect("it was always found");
    });
}

#[test]
fn sparse_ids_cost_the_tree_a_megabyte_and_the_hashes_nothing() {
    fn table_bytes<D: Design>() -> usize {
        let process = D::processes(1);
        let mut thread = process[0].thread();
        for number in 0..2048 {
            assert_eq!(process[0].create_as(&mut thread, number * 512, Notify::Nothing), Ok(()));
        }
        Process::bytes(&process, 2048).map_or(0, |bytes| bytes.table)
    }
    assert!(table_bytes::<Tree>() > 1 << 20);
    assert_eq!(table_bytes::<GlobalLock>(), 512 * 8);
    assert_eq!(table_bytes::<OneCpu>(), 512 * 16);
}

#[test]
fn tables_of_several_processes_are_counted_once_if_they_share_them() {
    let tables = |processes: usize| {
        let hash = Process::bytes(&OneCpu::processes(processes), 10).expect("it is seen");
        let tree = Process::bytes(&Tree::processes(processes), 10).expect("it is seen");
        (hash.table, tree.table, hash.all - hash.table)
    };
    let (one, three) = (tables(1), tables(3));
    assert_eq!((three.0, three.1), (one.0, 3 * one.1));
    assert_eq!(one.2, 10 * 128);
}

#[test]
fn the_scaled_hash_spreads_the_ids_of_a_process() {
    // With 20,000 IDs in 512 buckets, a random hash has no chain of twice the mean length. With one bit less it would.
    let scaled = Scaled::new(1);
    let mut chains = vec![0; 512];
    for id in 0..20_000 {
        chains[scaled.number(0x7F12_3456_7800, id)] += 1;
    }
    let (least, most) = (chains.iter().min(), chains.iter().max());
    assert!(least > Some(&10) && most < Some(&80), "{least:?} to {most:?}");
}
