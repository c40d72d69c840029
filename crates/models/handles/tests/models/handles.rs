//! Threads that hold, count and free objects at the same time. An object that is freed while it is used panics.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use shuttle::thread;
use ufutex_handles::{Errno, Handle, Mutant, begin, with_mutant};

use crate::apart::run_apart;
use crate::runs::check;

const SCHEDULES: usize = 4_000;

macro_rules! catches {
    ($($test:ident: $mutant:ident in $model:ident;)*) => { $(
        #[test]
        fn $test() {
            let name = concat!(module_path!(), "::", stringify!($test));
            run_apart(name, || with_mutant(Mutant::$mutant, || check(SCHEDULES, $model)));
        }
    )* };
}

catches! {
    handles_catch_enters_late: EntersLate in holders_and_a_free;
    handles_catch_counts_late: CountsLate in counted_users_and_a_free;
    handles_catch_forgets_holders: ForgetsHolders in holders_and_a_free;
    handles_catch_forgets_users: ForgetsUsers in counted_users_and_a_free;
    handles_catch_looks_at_users_first: LooksAtUsersFirst in a_holder_that_begins_to_count;
    handles_catch_shares_record: SharesRecord in holders_that_take_over_a_record;
    handles_catch_keeps_generation: KeepsGeneration in a_slot_is_used_again;
    handles_catch_closes_in_two_steps: ClosesInTwoSteps in several_frees;
    handles_catch_gives_back_early: GivesBackEarly in a_slot_is_used_again_by_another_thread;
    handles_catch_counts_no_changes: CountsNoChanges in free_slots_come_back_while_one_is_taken;
}

/// The slots are statics, so one model runs at a time.
fn check_alone(model: fn()) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    check(SCHEDULES, model);
}

/// A use gets the object, or finds the handle dead. It waits for a free that fails.
fn check_use(result: Result<usize, Errno>) {
    assert!(matches!(result, Ok(5) | Err(Errno::BAD_HANDLE)), "{result:?}");
}

/// Frees the object, however long it is in use.
fn free(handle: Handle) {
    while let Err(error) = handle.free() {
        assert_eq!(error, Errno::BUSY);
        thread::yield_now();
    }
}

/// Threads with one object, one of which frees it.
fn beside_a_free(users: &[fn(Handle)]) {
    begin();
    users_and_a_free(Handle::make(5).expect("there is memory"), users);
}

fn users_and_a_free(handle: Handle, users: &[fn(Handle)]) {
    let users: Vec<_> = users.iter().map(|&uses| thread::spawn(move || uses(handle))).collect();
    free(handle);
    users.into_iter().for_each(|user| user.join().expect("no panic"));
    assert_eq!(handle.hold(), Err(Errno::BAD_HANDLE));
    assert_eq!(handle.free(), Err(Errno::BAD_HANDLE));
}

fn holds(handle: Handle) {
    check_use(handle.hold());
    check_use(handle.hold());
}

fn counts(handle: Handle) {
    check_use(handle.count());
    check_use(handle.count());
}

fn holds_and_counts(handle: Handle) {
    check_use(handle.hold_and_count());
}

fn holds_while_it_holds(handle: Handle) {
    match handle.hold_during(|| handle.hold()) {
        Ok(values) => assert_eq!(values, (5, Ok(5)), "a hold within a hold meets no mark that stays"),
        Err(error) => assert_eq!(error, Errno::BAD_HANDLE),
    }
}

fn holders_and_a_free() {
    beside_a_free(&[holds, holds]);
}

/// A thread has ended and left its record, which one of the holders takes over.
fn holders_that_take_over_a_record() {
    begin();
    let handle = Handle::make(5).expect("there is memory");
    thread::spawn(move || holds(handle)).join().expect("no panic");
    users_and_a_free(handle, &[holds, holds]);
}

fn counted_users_and_a_free() {
    beside_a_free(&[counts, counts]);
}

fn a_holder_that_begins_to_count() {
    beside_a_free(&[holds_and_counts, holds]);
}

fn nested_holds_and_a_free() {
    beside_a_free(&[holds_while_it_holds, counts]);
}

/// One object, which several threads try to free. One of them does.
fn several_frees() {
    begin();
    let handle = Handle::make(5).expect("there is memory");
    let frees = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = [Handle::free, Handle::free, Handle::take]
        .into_iter()
        .map(|ends: fn(Handle) -> Result<usize, Errno>| {
            let frees = frees.clone();
            thread::spawn(move || match ends(handle) {
                Ok(value) => {
                    assert_eq!(value, 5);
                    frees.fetch_add(1, Relaxed);
                }
                Err(error) => assert!([Errno::BUSY, Errno::BAD_HANDLE].contains(&error), "{error:?}"),
            })
        })
        .collect();
    // Not held: `take` does not look for holders.
    check_use(handle.count());
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let left = usize::from(handle.is_alive());
    if left == 1 {
        free(handle);
    }
    assert_eq!(frees.load(Relaxed) + left, 1, "freed once");
}

/// A thread frees an object and makes another one, in the same slot. A use by the old handle does not get the new object.
fn a_slot_is_used_again() {
    begin();
    let old = Handle::make(5).expect("there is memory");
    let user = thread::spawn(move || {
        check_use(old.hold());
        check_use(old.count());
    });
    free(old);
    let new = Handle::make(6).expect("there is memory");
    assert_eq!(new.hold(), Ok(6));
    assert_eq!(old.free(), Err(Errno::BAD_HANDLE));
    user.join().expect("no panic");
    assert_eq!(new.free(), Ok(6));
}

/// Two threads make and free objects, in the same slots.
fn a_slot_is_used_again_by_another_thread() {
    begin();
    let makes = |value: usize| {
        move || {
            for value in [value, value + 1] {
                let handle = Handle::make(value).expect("there is memory");
                assert_eq!(handle.hold(), Ok(value));
                assert_eq!(handle.free(), Ok(value));
            }
        }
    };
    let other = thread::spawn(makes(10));
    makes(20)();
    other.join().expect("no panic");
}

/// Two slots are free. While one thread takes one, another takes both and gives the first back.
fn free_slots_come_back_while_one_is_taken() {
    begin();
    let make = |value| Handle::make(value).expect("there is memory");
    let [first, second] = [make(1), make(2)];
    assert_eq!((second.free(), first.free()), (Ok(2), Ok(1)));
    let other = thread::spawn(move || {
        let [one, kept] = [make(10), make(11)];
        assert_eq!(one.free(), Ok(10));
        kept
    });
    let ours = make(20);
    let kept = other.join().expect("no panic");
    let last = make(30);
    assert_eq!((kept.hold(), ours.hold(), last.hold()), (Ok(11), Ok(20), Ok(30)));
}

/// Each handle gets an object of its own, while the array of slots grows.
fn chunks_are_made_by_several_threads() {
    begin();
    let make = |first: usize| {
        move || {
            let handles: Vec<_> =
                (first..first + 3).map(|value| (value, Handle::make(value).expect("there is memory"))).collect();
            for &(value, handle) in &handles {
                assert_eq!(handle.hold(), Ok(value));
            }
            handles
        }
    };
    let threads = [10, 20].map(|first| thread::spawn(make(first)));
    let mut all = make(0)();
    threads.into_iter().for_each(|thread| all.extend(thread.join().expect("no panic")));
    for (value, handle) in all {
        assert_eq!(handle.free(), Ok(value));
    }
}

macro_rules! holds {
    ($($model:ident;)*) => {
        $(
            mod $model {
                #[test]
                fn holds() {
                    super::check_alone(super::$model);
                }
            }
        )*
    };
}

holds! {
    holders_and_a_free;
    holders_that_take_over_a_record;
    counted_users_and_a_free;
    a_holder_that_begins_to_count;
    nested_holds_and_a_free;
    several_frees;
    a_slot_is_used_again;
    a_slot_is_used_again_by_another_thread;
    free_slots_come_back_while_one_is_taken;
    chunks_are_made_by_several_threads;
}
