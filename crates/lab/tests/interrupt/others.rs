//! `advise`, `soak` and `report`.

use crate::running::Running;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn advise_ends_what_it_watches_and_the_advice_is_from_what_was_seen() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ufutex"));
    // The program prints `there` and sleeps for an hour.
    let program = ["advise", "-d", "3600", "sh", "-c", "echo there >&2; exec sleep 3600"];
    let mut running = Running::start(command.args(program));
    running.until_it_says("there");
    sleep(Duration::from_millis(200));
    let said = running.end_by_ctrl_c().stderr;
    assert!(said.contains(" s; ended because ufutex was interrupted):"), "{said}");
    assert!(said.contains("Advice for 'sleep 3600'") && said.contains("interrupted: the advice is based on"), "{said}");
}

#[test]
fn a_soak_gives_its_verdict_on_what_was_done() {
    let mut running = Running::begin(&["soak", "-d", "1h", "-t", "16", "--futures", "100", "--timers", "100"]);
    running.until_it_says("soak: 16 threads");
    sleep(Duration::from_millis(500));
    let ended = running.end_by_ctrl_c();
    let line = "ufutex: interrupted: ending; Ctrl-C again ends at once, without a report\n";
    assert!(ended.stderr.ends_with(line), "{}", ended.stderr);
    let printed = ended.stdout;
    assert!(printed.contains("Interrupted: every wake and every expiry until then is accounted for"), "{printed}");
    assert!(!printed.contains("BROKEN") && !printed.contains("memory is flat"), "{printed}");
    let unchecked = "Not checked: the resident set, because the run ended before a tenth of its time had passed";
    // Not each C library says how large its heap is.
    let (all, heap) = (format!("{unchecked}."), format!("{unchecked}; the heap, because "));
    assert!(printed.trim_end().ends_with(&all) || printed.contains(&heap), "{printed}");
}

#[test]
fn sigterm_counts_as_ctrl_c() {
    let mut running = Running::begin(&["soak", "-d", "1h", "-t", "16", "--futures", "100", "--timers", "100"]);
    running.until_it_says("soak: 16 threads");
    // SAFETY: sends a signal to our own child.
    assert_eq!(unsafe { libc::kill(running.child.id() as i32, libc::SIGTERM) }, 0);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
    assert!(ended.stdout.contains("Interrupted: every wake"), "{}", ended.stdout);
}

#[test]
fn a_report_is_written_with_what_there_is_and_says_what_is_missing() {
    let file = |name: &str| {
        let name = format!("interrupted-{}.{name}", std::process::id());
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).to_str().expect("UTF-8").to_string()
    };
    let (page, rows) = (file("html"), file("json"));
    let mut running = Running::begin(&["report", "-o", &page, "--json", &rows]);
    running.until_it_says("report: scaling (0 %)");
    sleep(Duration::from_millis(200));
    let ended = running.end_by_ctrl_c();
    assert!(ended.stdout.is_empty(), "{}", ended.stdout);
    let missing = "resize was not reached; published was not reached; memory was not reached; timers was not reached; model was not reached";
    assert!(ended.stderr.contains(&format!("interrupted: {missing}")), "{}", ended.stderr);
    let text = std::fs::read_to_string(&page).expect("written");
    assert!(text.contains("this page is not complete: resize was not reached"), "{text}");
    assert!(text.contains("What futexes and timers cost on this machine"), "{text}");
    assert!(std::fs::read_to_string(&rows).expect("written").contains(r#""report":"machine""#));
    for file in [page, rows] {
        std::fs::remove_file(file).expect("it was there");
    }
}
