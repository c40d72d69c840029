//! Workloads on futexes.

use crate::common::{rows_of, text, ufutex};
use crate::{assert_keys, assert_numbers, of, rows};

#[test]
fn hash_rows_have_the_specified_keys_and_the_early_return_stands_apart() {
    let rows = rows(&["hash", "-t", "1,2", "-f", "64", "-r", "0.05", "--repeat", "2"]);
    assert_eq!(rows.len(), 2 * 9, "eight targets and the early return, with one thread and with two");
    for row in &rows {
        assert_eq!(row["workload"], "hash");
        assert_keys(
            row,
            &["target", "threads", "futexes", "buckets", "ops_per_sec", "early_return", "repeat", "stride"],
        );
        assert_eq!((&row["futexes"], &row["repeat"]), (&64.into(), &2.into()));
        assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
        assert_keys(row, &["ratio_kernel", "ratio_parking_lot"]);
    }
    let early: Vec<_> = rows.iter().filter(|row| row["early_return"] == true).collect();
    assert_eq!(early.len(), 2);
    assert!(early.iter().all(|row| row["target"] == "live"));
    let floor = of(&rows, "floor");
    assert!(floor.len() == 2 && floor.iter().all(|row| row.get("policy").is_none() && row["buckets"].is_u64()));
    assert!(of(&rows, "kernel").iter().all(|row| row["ratio_kernel"] == 1.0));
    assert!(of(&rows, "live").iter().all(|row| row["layout"] == "lean" && row["policy"] == "load"));
}

#[test]
fn explicit_buckets_are_what_the_rows_have() {
    for layout in ["lean", "packed", "split"] {
        let targets = if layout == "lean" { "live,fixed,atomic,percpu" } else { "live" };
        let rows = rows(&["wake", "-t", "1", "-b", "64", "-r", "0.02", "--layout", layout, "--targets", targets]);
        assert_eq!(rows.len(), targets.split(',').count());
        assert!(rows.iter().all(|row| row["buckets"] == 64 && row["layout"] == layout), "{rows:?}");
    }
}

#[test]
fn shared_futexes_and_strides_run_on_every_target() {
    let rows = rows(&["wake", "-S", "-t", "2", "-f", "16", "--stride", "64", "-r", "0.02", "--repeat", "1"]);
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row["shared"] == true && row["stride"] == 64));
}

#[test]
fn resize_rows_have_completed_and_notes_name_the_targets_left_out() {
    let arguments = ["bench", "resize", "-t", "2", "--from", "16", "--to", "64", "--repeat", "1", "--json"];
    let output = ufutex(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("parking_lot"), "the note about targets that cannot resize");
    let rows = rows_of(&text(&output.stdout));
    for row in &rows {
        assert_keys(row, &["target", "threads", "futexes", "buckets", "resize_us"]);
        assert!(row["completed"].is_boolean(), "{row}");
        assert_numbers(row, "op_pause_us", &["p50", "p99", "max"]);
    }
    let live = of(&rows, "live");
    assert_eq!((&live[0]["completed"], &live[0]["buckets"]), (&true.into(), &64.into()));
    assert!(of(&rows, "fixed").is_empty() && of(&rows, "parking_lot").is_empty());
}

#[test]
fn growth_rows_come_from_nine_repeats_at_least() {
    let rows = rows(&["growth", "-t", "3,20", "--targets", "live,global,kernel,parking_lot", "--repeat", "1"]);
    assert_eq!(rows.len(), 2 * 3, "the kernel is left out");
    for row in &rows {
        assert_numbers(row, "first_wait_us", &["p50", "p99", "max"]);
        assert_eq!(row["repeat"], 9);
        assert!(row["first_wait_us"]["p50"].as_f64() <= row["first_wait_us"]["max"].as_f64());
    }
}

#[test]
fn ping_pong_rows_tell_one_cpu_from_two() {
    let rows = rows(&["ping-pong", "-r", "0.1", "--repeat", "1"]);
    let cpus = |cpus: u64| rows.iter().filter(|row| row["cpus"] == cpus).count();
    assert_eq!(cpus(1), 8);
    assert_eq!(cpus(1) + cpus(2), rows.len());
    let spinning: Vec<_> = rows.iter().filter(|row| row["spin"] == true).collect();
    assert!(!spinning.is_empty() && spinning.iter().all(|row| row["target"] == "live"));
    for row in &rows {
        assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
        assert_numbers(row, "cpu_ns_per_op", &["p10", "median", "p90"]);
        assert_eq!(row["work_ns"], 0);
        assert_eq!(row.get("cpus_apart_ns").is_some(), row["cpus"] == 2);
    }
}

#[test]
fn ping_pong_works_before_each_wake() {
    let rows = rows(&["ping-pong", "-r", "0.2", "--repeat", "1", "--targets", "live,kernel", "--work", "0,200us,1ms"]);
    let of = |work_ns: u64| rows.iter().filter(|row| row["work_ns"] == work_ns).collect::<Vec<_>>();
    assert_eq!(of(0).len() + of(200_000).len() + of(1_000_000).len(), rows.len());
    for (work_ns, row) in [200_000, 1_000_000].into_iter().flat_map(|ns| of(ns).into_iter().map(move |row| (ns, row))) {
        // The clock of the work is the CPU's counter, whose rate is measured to some parts in a thousand.
        let least = 0.9 * work_ns as f64;
        assert!(row["ns_per_op"]["median"].as_f64() > Some(least), "{row}");
        assert!(row["cpu_ns_per_op"]["median"].as_f64().is_some(), "{row}");
    }
}

#[test]
fn ping_pong_goes_round_among_threads() {
    let rows =
        rows(&["ping-pong", "-t", "2,5", "--repeat", "1", "-r", "0.1", "--targets", "live,kernel", "--spin", "0"]);
    assert!(rows.iter().all(|row| row["spin"] == false));
    for threads in [2, 5] {
        let on_one = rows.iter().filter(|row| row["threads"] == threads && row["cpus"] == 1);
        assert_eq!(on_one.count(), 2, "{rows:?}");
    }
    let args = ["ping-pong", "--balls", "3", "--repeat", "1", "-r", "0.1", "--targets", "live,kernel"];
    assert!(self::rows(&args).iter().all(|row| row["balls"] == 3 && row["ns_per_op"]["median"].as_f64() > Some(0.0)));
}

#[test]
fn requeue_moves_one_at_a_time_and_all_at_once() {
    let rows = rows(&["requeue", "-t", "20", "--repeat", "2"]);
    let moved = |count: u64| rows.iter().filter(|row| row["nrequeue"] == count).collect::<Vec<_>>();
    assert_eq!((moved(1).len(), moved(20).len()), (6, 7), "parking_lot moves all or none");
    for row in &rows {
        assert_eq!((&row["workload"], &row["threads"], &row["pi"]), (&"requeue".into(), &20.into(), &false.into()));
        assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
        assert_keys(row, &["buckets", "ratio_kernel", "repeat"]);
    }
    assert!(of(&rows, "parking_lot").iter().all(|row| row["nrequeue"] == 20));
}

#[test]
fn requeue_takes_perfs_flags() {
    let shared = rows(&["requeue", "-S", "-q", "8", "-t", "20", "--repeat", "1", "--targets", "live,kernel"]);
    assert!(shared.len() == 2 && shared.iter().all(|row| row["nrequeue"] == 8 && row["shared"] == true));
    let all = rows(&["requeue", "-B", "-t", "20", "--repeat", "1", "--targets", "live,parking_lot"]);
    assert!(all.len() == 2 && all.iter().all(|row| row["nrequeue"] == 20));
    for flags in [&["requeue", "-p"][..], &["-p", "requeue"], &["requeue", "--pi", "-S"]] {
        let pi = rows(&[flags, &["-t", "20", "--repeat", "1"]].concat());
        assert_eq!(pi.len(), 2 * 6, "one at a time, all at once; parking_lot is left out");
        assert!(pi.iter().all(|row| row["pi"] == true && row["target"] != "parking_lot"));
    }
}

#[test]
fn wake_parallel_shares_the_sleepers_among_the_wakers() {
    let rows = rows(&["wake-parallel", "-t", "20", "-w", "4", "--repeat", "1"]);
    assert_eq!(rows.len(), 7);
    for row in &rows {
        assert_eq!((&row["threads"], &row["nwakers"]), (&20.into(), &4.into()));
        assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
    }
}

#[test]
fn wake_with_w_wakes_sleepers_on_every_target() {
    let rows = rows(&["wake", "-w", "3", "-t", "7", "--repeat", "3"]);
    assert_eq!(rows.len(), 7);
    for row in &rows {
        assert_eq!((&row["workload"], &row["nwakes"], &row["threads"]), (&"wake".into(), &3.into(), &7.into()));
        assert!(row["ns_per_op"]["median"].as_f64() > Some(0.0), "{row}");
    }
}

#[test]
fn lock_pi_rows_have_one_lock_or_one_for_each_thread() {
    let shapes: [(&[&str], usize, bool); 4] =
        [(&[], 1, false), (&["-M"], 2, true), (&["-M", "-S"], 2, true), (&["--hold", "1"], 1, false)];
    for (flags, locks, multi) in shapes {
        let rows = rows(&[&["lock-pi", "-t", "2", "-r", "0.05", "--repeat", "1"], flags].concat());
        assert_eq!((rows.len(), of(&rows, "parking_lot").len()), (6, 0));
        for row in &rows {
            assert_eq!((&row["futexes"], &row["multi"]), (&locks.into(), &multi.into()));
            assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
            assert_keys(row, &["hold_us", "ops_per_sec"]);
        }
    }
}

#[test]
fn crowd_rows_have_the_waiters_and_their_case() {
    let rows = rows(&["crowd", "-n", "40,80", "--repeat", "1", "--targets", "live,global,kernel"]);
    assert!(of(&rows, "kernel").is_empty());
    let count = |target: &str, case: &str, kind: &str| {
        let these = of(&rows, target).into_iter();
        these.filter(|row| row["case"] == case && row["waiter_kind"] == kind).count()
    };
    for kind in ["future", "custom"] {
        assert_eq!(count("live", "distinct", kind), 3, "40, 80, and twice 40");
        assert_eq!(count("live", "same-bucket", kind), 3, "none, 40, 80");
        assert_eq!(count("global", "distinct", kind), 2);
    }
    for row in &rows {
        assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
        assert_keys(row, &["waiters", "domains", "ratio_fewest", "buckets", "futexes"]);
    }
}

#[test]
fn tables_explain_their_words_once_and_fit_a_narrow_output() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_ufutex"))
        .args(["bench", "hash", "wake", "-t", "1", "-r", "0.02", "--repeat", "1", "-s"])
        .env("COLUMNS", "60")
        .output()
        .expect("the program starts");
    let printed = text(&output.stdout);
    let tables: Vec<_> = printed.lines().filter(|line| line.starts_with('|')).collect();
    assert!(tables.len() > 20 && tables.iter().all(|line| line.chars().count() <= 60), "{printed}");
    assert!(
        printed.contains("| live (early return) |") && printed.contains("(60 columns are too few for: p10; "),
        "{printed}"
    );
    for word in ["- floor: ", "- early return: ", "- percpu: "] {
        assert_eq!(printed.matches(word).count(), 1, "{word}{printed}");
    }
    assert!(printed.contains("\n- hash: a wait that differs, ns"), "{printed}");
}
