//! `ufutex compare` from a user's view, on rows made here: which results it names, and the exit status.

mod common;

use common::{assert_mistakes, printed, rows_of, text, ufutex};
use std::path::PathBuf;
use std::process::Output;

struct Files {
    directory: PathBuf,
}

impl Files {
    fn new(test: &str) -> Files {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("compare-{test}"));
        std::fs::create_dir_all(&directory).expect("a directory");
        Files { directory }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let file = self.directory.join(name);
        std::fs::write(&file, text).expect("a file");
        file.display().to_string()
    }
}

fn compare(arguments: &[&str]) -> Output {
    ufutex(&[&["compare"], arguments].concat())
}

/// A row of `bench hash --json`.
fn hash(target: &str, threads: usize, [p10, median, p90]: [f64; 3]) -> String {
    let rate = threads as f64 * 1e9 / median;
    format!(
        r#"{{"workload":"hash","target":"{target}","threads":{threads},"futexes":1024,"buckets":16,"shared":false,"repeat":60,"#
    ) + &format!(
        r#""ns_per_op":{{"p10":{p10},"median":{median},"p90":{p90}}},"ops_per_sec":{rate},"ratio_kernel":0.05}}"#
    )
}

fn resize(completed: bool, us: f64) -> String {
    format!(
        r#"{{"workload":"resize","target":"atomic","threads":16,"repeat":9,"resize_us":{us},"completed":{completed},"op_pause_us":{{"p50":0.1,"p99":2.0,"max":99.0}}}}"#
    )
}

#[test]
fn a_regression_beyond_noise_is_named_and_exits_1() {
    let files = Files::new("regression");
    let old = [hash("live", 1, [11.0, 11.2, 11.9]), hash("kernel", 1, [190.0, 196.0, 320.0]), resize(true, 40.0)];
    let new = [hash("live", 1, [14.8, 15.0, 15.2]), hash("kernel", 1, [200.0, 230.0, 330.0]), resize(false, 200_000.0)];
    let (old, new) = (files.write("old", &old.join("\n")), files.write("new", &format!("[{}]", new.join(",\n"))));
    let output = compare(&[&old, &new]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("3 worse, 0 better"), "the time, the resize and that it did not end: {said}");
    assert!(said.contains("\n## worse\n") && !said.contains("\n## better\n"), "{said}");
    assert!(said.contains("hash, live") && said.contains("+33.9 %"), "{said}");
    assert!(!said.contains("hash, kernel"), "a change within p10 and p90 is noise: {said}");
    assert!(!said.contains("ops_per_sec"), "the rate of the same samples says nothing new: {said}");
    let back = compare(&[&new, &old]);
    assert_eq!(back.status.code(), Some(0), "what has become better is no regression");
    assert!(text(&back.stdout).contains("0 worse, 3 better"), "{}", text(&back.stdout));
}

#[test]
fn noise_exits_0_and_json_says_how_much_was_compared() {
    let files = Files::new("noise");
    let old =
        files.write("old", &[hash("live", 2, [11.0, 12.0, 13.0]), hash("fixed", 2, [11.0, 12.0, 13.0])].join("\n"));
    let new = files.write("new", &[hash("live", 2, [11.5, 12.4, 13.2]), hash("percpu", 2, [1.0, 1.0, 1.0])].join("\n"));
    let output = compare(&[&old, &new, "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let rows = rows_of(&text(&output.stdout));
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["rows"], &rows[0]["regressions"]), (&1.into(), &0.into()));
    assert!(rows[0]["only_old"][0].as_str().is_some_and(|row| row.contains("fixed")), "{rows:?}");
    assert!(rows[0]["only_new"][0].as_str().is_some_and(|row| row.contains("percpu")), "{rows:?}");
    assert_eq!(compare(&[&old, &new, "--threshold", "0"]).status.code(), Some(0), "noise is noise at any threshold");
}

/// Asserts that each row of one run of a command is compared with its counterpart of a second run.
fn assert_two_runs_are_compared(arguments: &[&str]) {
    let files = Files::new(&format!("runs-{}", arguments.join("-").replace('/', "")));
    let run = |name: &str| files.write(name, &printed(&[arguments, &["--json"]].concat()));
    let (old, new) = (run("old"), run("new"));
    let output = compare(&[&old, &new, "--json"]);
    let said = rows_of(&text(&output.stdout));
    let all = said.last().unwrap_or_else(|| panic!("{arguments:?}: {}", text(&output.stderr)));
    let count = printed_rows(&old);
    assert_eq!((all["rows"].as_u64(), &all["only_old"]), (Some(count), &serde_json::json!([])), "{arguments:?}: {all}");
    assert_eq!(all["only_new"], serde_json::json!([]), "{arguments:?}");
}

fn printed_rows(file: &str) -> u64 {
    std::fs::read_to_string(file).expect("our own file").lines().count() as u64
}

#[test]
fn rows_of_two_runs_of_bench_belong_together() {
    for arguments in [
        &["hash", "-t", "1,2", "-f", "16", "-r", "0.02", "--repeat", "1", "--targets", "live,kernel"][..],
        &["schbench", "-r", "0.2", "-t", "2", "-n", "0", "-s", "10", "--targets", "live,kernel"],
        &["resize", "-t", "2", "--repeat", "1", "--targets", "live"],
        &["growth", "-t", "3", "--targets", "live,parking_lot"],
        &["requeue", "-t", "5", "--repeat", "1", "--targets", "live,kernel"],
        &["lock-pi", "-t", "2", "-r", "0.02", "--repeat", "1", "--targets", "live,kernel"],
        &["crowd", "-n", "40", "--repeat", "1", "--targets", "live"],
        &["wasm", "-t", "1", "-f", "8", "--repeat", "1"],
        &["timers", "-n", "100", "--repeat", "1", "--targets", "ours,kernel", "--tests", "create-getoverrun,settime"],
    ] {
        assert_two_runs_are_compared(&[&["bench"], arguments].concat());
    }
}

#[test]
fn rows_of_sim_belong_together_whatever_the_model_has_become() {
    let files = Files::new("sim");
    for arguments in [
        &["hash", "--cores", "1,4", "--schemes", "live,atomic", "-b", "16"][..],
        &["resize", "--cores", "2", "--schemes", "live"],
        &["timers", "-t", "2", "-n", "20"],
        &["schbench", "-m", "1", "-t", "2", "-r", "100"],
    ] {
        let rows = rows_of(&printed(&[&["sim"], arguments, &["--json"]].concat()));
        let other = rows.iter().cloned().map(|mut row| {
            row.as_object_mut().expect("an object").values_mut().for_each(change);
            format!("{row}\n")
        });
        let old = files.write("old", &rows.iter().map(|row| format!("{row}\n")).collect::<String>());
        let new = files.write("new", &other.collect::<String>());
        let said = rows_of(&text(&compare(&[&old, &new, "--json"]).stdout));
        let all = said.last().unwrap_or_else(|| panic!("{arguments:?}: no row belongs to another"));
        assert_eq!(all["rows"].as_u64(), Some(rows.len() as u64), "{arguments:?}: {all}");
        assert!(
            all["improvements"].as_u64() > Some(0) || all["regressions"].as_u64() > Some(0),
            "{arguments:?}: {all}"
        );
    }
}

/// Changes each number with a fraction. Such numbers are results, not parameters.
fn change(value: &mut serde_json::Value) {
    if let Some(fraction) = value.as_f64().filter(|number| number.fract() != 0.0) {
        *value = (fraction * 1.25).into();
    }
}

#[test]
fn a_threshold_decides_what_is_worth_a_name() {
    let files = Files::new("threshold");
    let old = files.write("old", &hash("live", 1, [9.99, 10.0, 10.01]));
    let new = files.write("new", &hash("live", 1, [10.69, 10.7, 10.71]));
    assert_eq!(compare(&[&old, &new]).status.code(), Some(1));
    assert_eq!(compare(&[&old, &new, "--threshold", "10"]).status.code(), Some(0));
}

#[test]
fn rows_beside_noise_are_compared_with_their_like_alone() {
    let files = Files::new("noise-beside");
    let beside = |row: String, loops: u32| row.replace("\"repeat\"", &format!("\"noise\":{loops},\"repeat\""));
    let row = |target: &str| hash(target, 1, [1.0, 1.0, 1.0]);
    let quiet = files.write("quiet", &row("live"));
    let loud = files.write("loud", &beside(row("live"), 1));
    let louder = files.write("louder", &[beside(row("live"), 2), row("fixed")].join("\n"));
    let refused = |said: &str| format!("{said}; accepted: two files of the same --noise");
    assert_mistakes(
        &["compare"],
        &[
            (&[&quiet, &loud], &refused(&format!("{loud} was measured with --noise 1, and {quiet} without --noise"))),
            (&[&louder, &loud], &refused(&format!("{louder} with --noise 2 and without --noise"))),
        ],
    );
    assert_eq!(compare(&[&loud, &loud]).status.code(), Some(0));
    let both = files.write("both", &[row("fixed"), beside(row("live"), 1)].join("\n"));
    let said = text(&compare(&[&both, &louder]).stdout);
    assert!(said.contains("1 rows only in the old file:") && said.contains("1 rows only in the new file:"), "{said}");
    assert!(said.contains("noise 1") && said.contains("noise 2"), "{said}");
}

#[test]
fn a_mistake_is_one_line_and_exits_2() {
    let files = Files::new("mistakes");
    let good = files.write("good", &hash("live", 1, [1.0, 1.0, 1.0]));
    let other = files.write("other", &hash("live", 7, [1.0, 1.0, 1.0]));
    let broken = files.write("broken", &format!("{}\n{{\"workload\":\n", hash("live", 1, [1.0, 1.0, 1.0])));
    let number = files.write("number", "{}\n5\n");
    let empty = files.write("empty", "\n");
    let cases: &[(&[&str], &str)] = &[
        (&[], "OLD.json"),
        (&[&good], "OLD.json"),
        (&[&good, "/nowhere/at-all.json"], "/nowhere/at-all.json"),
        (&[&good, &other], "has no row"),
        (&[&broken, &good], "line 2"),
        (&[&good, &number], "line 2"),
        (&[&good, &empty], "no rows"),
        (&[&good, &good, &good], "accepted"),
        (&[&good, &good, "--threshold", "-5"], "'-5'"),
        (&[&good, &good, "--threshold", "many"], "'many'"),
    ];
    assert_mistakes(&["compare"], cases);
}

#[test]
fn a_report_wants_a_file_that_can_be_written() {
    let directory = env!("CARGO_TARGET_TMPDIR");
    let cases: &[(&[&str], &str)] = &[
        (&["report"], "-o FILE.html"),
        (&["report", "-o", "page.txt"], "page.txt"),
        (&["report", "-o", "/nowhere/at/all.html"], "/nowhere/at/all.html"),
        (&["report", "--json", directory], directory),
        (&["report", "-o", "a.md"], "a.md"),
        (&["report", "-o"], "--output"),
        (&["report", "-o", "-5"], "'-5'"),
        (&["report", "--svg", "Cargo.toml"], "--svg 'Cargo.toml' is a file"),
        (&["report", "--data", directory], "--svg"),
        (&["report", "--svg", directory, "--data", directory, "-o", "a.html"], "accepted"),
        (&["report", "--pages", "3"], "--pages"),
    ];
    assert_mistakes(&[], cases);
}
