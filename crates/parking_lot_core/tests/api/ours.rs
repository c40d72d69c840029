//! What ours promise beyond the published crates: a panic in a callback loses no thread, the table may be resized at
//! any time, and some unparks are fair.

use crate::lines::{Calls, Core, Filter, Op, Ours09, Ours010, Parked, unparked};
use crate::threads::{Parker, key, park, unpark_one};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

type Line = Ours09;

/// Whether `f` panics.
fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

#[test]
fn callback_that_panics_leaves_its_queue_as_it_was() {
    let (here, there) = (key(), key());
    let parked: Vec<Parker> = (0..3).map(|token| park::<Line>(here, token)).collect();
    assert!(panics(|| _ = Line::unpark_one(here, &mut |_| panic!("callback"))));
    assert!(panics(|| _ = Line::unpark_filter(here, &mut |_| panic!("filter"), &mut |_| 0)));
    let second = &mut |token| if token == 1 { panic!("filter") } else { Filter::Unpark };
    assert!(panics(|| _ = Line::unpark_filter(here, second, &mut |_| 0)));
    assert!(panics(|| _ = Line::unpark_filter(here, &mut |_| Filter::Unpark, &mut |_| panic!("callback"))));
    assert!(panics(|| _ = Line::unpark_requeue(here, there, &mut || panic!("validate"), &mut |_, _| 0)));
    let all = &mut || Op::UnparkOneRequeueRest;
    assert!(panics(|| _ = Line::unpark_requeue(here, there, all, &mut |_, _| panic!("callback"))));
    assert_eq!(Line::unpark_all(there, 1), 0);
    for (number, parked) in parked.into_iter().enumerate() {
        assert_eq!(unpark_one::<Line>(here, number), unparked(1, number < 2));
        assert_eq!(parked.ended(), Parked::Token(number));
    }
}

#[test]
fn park_whose_callback_panics_leaves_its_queue() {
    let key = key();
    let stays = park::<Line>(key, 0);
    let park = |validate: fn() -> bool, mut before_sleep: fn(), mut timed_out: fn(usize, bool), timeout| {
        let calls = Calls { validate: &mut || validate(), before_sleep: &mut before_sleep, timed_out: &mut timed_out };
        panics(|| _ = Line::park(key, calls, 1, timeout))
    };
    assert!(park(|| panic!("validate"), || {}, |_, _| {}, None));
    assert!(park(|| true, || panic!("before_sleep"), |_, _| {}, None));
    assert!(park(|| true, || {}, |_, _| panic!("timed_out"), Some(Instant::now())));
    assert_eq!(unpark_one::<Line>(key, 4), unparked(1, false));
    assert_eq!(stays.ended(), Parked::Token(4));
}

#[test]
fn panic_before_sleeping_after_an_unpark_hangs_no_thread() {
    let key = key();
    let before_sleep = &mut || {
        assert_eq!(unpark_one::<Line>(key, 1), unparked(1, false));
        panic!("before_sleep");
    };
    let calls = Calls { validate: &mut || true, before_sleep, timed_out: &mut |_, _| {} };
    assert!(panics(|| _ = Line::park(key, calls, 0, None)));
    assert_eq!(Line::unpark_all(key, 0), 0);
}

/// The environment variable that gives the child process its case. The case aborts the child.
const CHILD: &str = "UFUTEX_TEST_ABORTS";

#[test]
fn line_0_10_aborts_where_a_callback_panics() {
    let cases: [fn(); 6] = [
        || _ = Ours010::unpark_one(1, &mut |_| panic!("callback")),
        || _ = Ours010::unpark_filter(1, &mut |_| Filter::Skip, &mut |_| panic!("callback")),
        || _ = Ours010::unpark_requeue(1, 2, &mut || panic!("validate"), &mut |_, _| 0),
        || _ = Ours010::unpark_requeue(1, 2, &mut || Op::RequeueAll, &mut |_, _| panic!("callback")),
        || {
            let calls =
                Calls { validate: &mut || panic!("validate"), before_sleep: &mut || {}, timed_out: &mut |_, _| {} };
            Ours010::park(1, calls, 0, None);
        },
        || {
            let before_sleep = &mut || panic!("before_sleep");
            Ours010::park(1, Calls { validate: &mut || true, before_sleep, timed_out: &mut |_, _| {} }, 0, None);
        },
    ];
    if let Ok(number) = std::env::var(CHILD) {
        // The abort must come before the panic reaches `catch_unwind`. If it does not, the child exits with status 0.
        _ = catch_unwind(cases[number.parse::<usize>().expect("a number")]);
        std::process::exit(0);
    }
    for number in 0..cases.len() {
        let mut child = Command::new(std::env::current_exe().expect("a test is a program"));
        child.args(["--exact", "ours::line_0_10_aborts_where_a_callback_panics", "--nocapture"]);
        let output = child.env(CHILD, number.to_string()).output().expect("it starts");
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        const SIGABRT: i32 = 6;
        assert_eq!(signal, Some(SIGABRT), "case {number}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn parked_threads_stay_parked_while_the_table_is_resized() {
    let lot = ufutex_parking::lot();
    let keys: Vec<usize> = (0..50).map(|_| key()).collect();
    let parked: Vec<Parker> = keys.iter().map(|key| park::<Line>(*key, 0)).collect();
    for slots in [64, 2, 4096, 16] {
        lot.set_slots(slots).expect("there is memory");
        assert_eq!(lot.slots(), slots);
    }
    for (key, parked) in keys.into_iter().zip(parked) {
        assert_eq!(unpark_one::<Line>(key, key), unparked(1, false));
        assert_eq!(parked.ended(), Parked::Token(key));
    }
}

#[test]
fn both_lines_have_one_lot() {
    let key = key();
    let parked = park::<Ours09>(key, 0);
    assert_eq!(unpark_one::<Ours010>(key, 3), unparked(1, false));
    assert_eq!(parked.ended(), Parked::Token(3));
}

#[test]
fn unpark_is_fair_now_and_then_and_only_of_a_thread() {
    let key = key();
    let until = Instant::now() + Duration::from_millis(200);
    let (mut fair, mut all) = (0, 0);
    while Instant::now() < until {
        let before_sleep = &mut || {
            fair += usize::from(Line::unpark_one(key, &mut |it| usize::from(it.be_fair)).be_fair);
            all += 1;
        };
        let calls = Calls { validate: &mut || true, before_sleep, timed_out: &mut |_, _| {} };
        Line::park(key, calls, 0, None);
        assert!(!Line::unpark_one(key, &mut |_| 0).be_fair, "no thread is parked");
    }
    assert!(fair > 0, "none of {all} unparks was fair");
    assert!(fair <= all / 2, "{fair} of {all} unparks were fair");
}

#[test]
fn default_tokens_are_zero() {
    use crate::lines::{v0_9, v0_10};
    assert_eq!((v0_9::DEFAULT_PARK_TOKEN.0, v0_9::DEFAULT_UNPARK_TOKEN.0), (0, 0));
    assert_eq!((v0_10::DEFAULT_PARK_TOKEN.0, v0_10::DEFAULT_UNPARK_TOKEN.0), (0, 0));
    assert!(v0_10::ParkResult::Unparked(v0_10::DEFAULT_UNPARK_TOKEN).is_unparked());
    assert!(!v0_9::ParkResult::TimedOut.is_unparked() && !v0_9::ParkResult::Invalid.is_unparked());
}
