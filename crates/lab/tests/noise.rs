//! `bench --noise` from a user's view: what says that there was noise, the busy loops while samples are taken, and that
//! none of them is left. Asserts no times.

mod common;
#[path = "interrupt/running.rs"]
#[allow(dead_code, reason = "these tests use some of it")]
mod running;

use common::{assert_mistakes, printed, rows_of, text, ufutex};
use running::Running;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The process with the busy loops, as /proc shows it.
struct Noise {
    directory: PathBuf,
}

/// How long a test waits for what must happen. It fails after that.
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what} has not happened");
        sleep(Duration::from_millis(5));
    }
}

/// The fields of a `stat` file that follow the name. The first is the state.
fn fields(stat: &str) -> Vec<&str> {
    stat.rsplit_once(')').map_or_else(Vec::new, |(_, rest)| rest.split_whitespace().collect())
}

impl Noise {
    /// The one that this command has started.
    fn of(running: &Running) -> Noise {
        let parent = running.child.id().to_string();
        let find = || {
            let processes = std::fs::read_dir("/proc").expect("Linux").flatten().map(|process| process.path());
            let is_it = |directory: &PathBuf| {
                let line = std::fs::read(directory.join("cmdline")).unwrap_or_default();
                let stat = read_to_string(directory.join("stat")).unwrap_or_default();
                fields(&stat).get(1) == Some(&parent.as_str())
                    && line.split(|byte| *byte == 0).any(|w| w == b"noise-child")
            };
            processes.filter(is_it).collect::<Vec<_>>()
        };
        wait_until("the noise", || !find().is_empty());
        let mut found = find();
        assert_eq!(found.len(), 1, "{found:?}");
        Noise { directory: found.remove(0) }
    }

    /// The CPU and the CPU time, in ticks, of each busy loop.
    fn loops(&self) -> Vec<(String, u64)> {
        let threads = std::fs::read_dir(self.directory.join("task")).into_iter().flatten().flatten();
        let of = |thread: PathBuf| {
            let file = |name: &str| read_to_string(thread.join(name)).ok();
            let (status, stat) = (file("status")?, file("stat")?);
            let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_string();
            let used = fields(&stat).get(11)?.parse().ok()?;
            (file("comm")?.trim() == "noise").then_some((cpus, used))
        };
        threads.filter_map(|thread| of(thread.path())).collect()
    }

    /// Waits until each loop is pinned, then until each has used its CPU. Before the first sample a loop may have been
    /// seen with its name and without its CPU: the lab says how many rounds it will take before it starts the loops.
    fn runs_on(&self, cpus: usize, loops: usize) {
        let pinned = |all: &[(String, u64)]| all.iter().all(|(cpu, _)| cpu.parse::<usize>().is_ok());
        wait_until("a CPU of its own for each busy loop", || {
            let all = self.loops();
            all.len() == cpus * loops && pinned(&all)
        });
        let before = self.loops();
        let on: BTreeSet<_> = before.iter().map(|(cpus, _)| cpus.clone()).collect();
        assert_eq!(on.len(), cpus, "{before:?}");
        for cpu in &on {
            assert_eq!(before.iter().filter(|(own, _)| own == cpu).count(), loops, "{before:?}");
        }
        let has_used = || self.loops().iter().zip(&before).all(|((_, now), (_, before))| now > before);
        wait_until("CPU time of every busy loop", has_used);
    }

    /// Waits until the process has ended: it does not exist, or only waits for its new parent to notice.
    fn ends(&self) {
        wait_until("the end of the noise", || {
            read_to_string(self.directory.join("stat")).map_or(true, |stat| fields(&stat).first() == Some(&"Z"))
        });
    }
}

fn cpus() -> usize {
    lab_measure::machine::allowed_cpus().len()
}

/// A run that takes minutes.
fn begin(flags: &[&str]) -> Running {
    let mut running = Running::begin(&[&["bench"], flags, &["--repeat", "10000", "--targets", "live"]].concat());
    running.until_it_says("rounds");
    running
}

#[test]
fn busy_loops_run_on_each_cpu_and_end_with_ctrl_c() {
    for (flags, loops) in [(&["--noise"][..], 1), (&["--noise", "2"], 2)] {
        let running = begin(&[&["hash", "-t", "1"], flags].concat());
        let noise = Noise::of(&running);
        noise.runs_on(cpus(), loops);
        let ended = running.end_by_ctrl_c();
        assert!(ended.stdout.contains("## hash"), "the samples until then are printed: {}", ended.stdout);
        assert!(!noise.directory.exists(), "it ends before the command does");
    }
}

#[test]
fn workloads_with_rounds_of_their_own_have_it_too() {
    for flags in [
        &["schbench", "-t", "1", "-r", "3600", "--targets", "live"][..],
        &["neighbour", "--attacks", "keys", "-n", "10", "-r", "3600", "--repeat", "10000"],
    ] {
        let running = Running::begin(&[&["bench"], flags, &["--noise"]].concat());
        let noise = Noise::of(&running);
        noise.runs_on(cpus(), 1);
        running.end_by_ctrl_c();
        assert!(!noise.directory.exists(), "{flags:?}");
    }
}

/// A command that ends before its noise asks for the kernel's signal leaves no noise either.
#[test]
fn it_does_not_begin_under_another_parent() {
    let arguments = ["noise-child", "--loops", "1", "--cpus", "0", "--parent", "1"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_ufutex"));
    let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (mut said, mut why) = (String::new(), String::new());
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut said).expect("UTF-8");
    let _ = child.kill();
    child.stderr.take().expect("a pipe").read_to_string(&mut why).expect("UTF-8");
    child.wait().expect("our child");
    assert!(said.is_empty() && why == "ufutex: process 1, which started this one, has ended\n", "{said}{why}");
}

#[test]
fn the_first_ctrl_c_leaves_the_last_sample_its_noise_and_the_second_leaves_nothing() {
    // The one sample takes minutes: a million timers in 512 chains.
    let flags = ["timers", "--tests", "create-getoverrun", "--targets", "global-lock", "-n", "1000000", "-t", "1"];
    let mut running = Running::begin(&[&["bench"], &flags[..], &["--noise"]].concat());
    running.until_it_says("long chains");
    let noise = Noise::of(&running);
    running.press_ctrl_c();
    noise.runs_on(cpus(), 1);
    running.end_by_ctrl_c();
    noise.ends();
}

#[test]
fn it_ends_with_a_command_that_is_killed() {
    let mut running = begin(&["wake", "-t", "1", "--noise"]);
    let noise = Noise::of(&running);
    noise.runs_on(cpus(), 1);
    running.child.kill().expect("our child");
    // Its output would be awaited as long as the noise has its stderr.
    assert_eq!(running.child.wait().expect("our child").code(), None);
    noise.ends();
}

#[test]
fn rows_of_every_workload_have_it_and_without_it_none_has() {
    let rows = |flags: &[&str]| rows_of(&printed(&[&["bench"], flags, &["--json", "--silent"]].concat()));
    let all = ["-t", "2", "-f", "64", "-r", "0.05", "--repeat", "1", "--targets", "live,kernel,parking_lot,ours"];
    let mut loud = rows(&[&all[..], &["--noise"]].concat());
    let workloads: BTreeSet<_> = loud.iter().filter_map(|row| row["workload"].as_str()).map(str::to_string).collect();
    assert_eq!(workloads.len(), 11, "{workloads:?}");
    loud.extend(rows(&["schbench", "-r", "0.2", "-t", "2", "-n", "0", "-s", "10", "--targets", "live", "--noise=1"]));
    loud.extend(rows(&["neighbour", "--attacks", "keys", "-n", "10", "-r", "0.2", "--repeat", "1", "--noise", "1"]));
    for row in loud {
        assert_eq!(row["noise"], 1, "{row}");
    }
    for row in rows(&["hash", "-t", "1", "-f", "64", "-r", "0.02", "--repeat", "1", "--noise", "3"]) {
        assert_eq!(row["noise"], 3, "{row}");
    }
    for row in rows(&["hash", "-t", "1", "-f", "64", "-r", "0.02", "--repeat", "1"]) {
        assert_eq!(row.get("noise"), None, "{row}");
    }
}

#[test]
fn tables_begin_with_it_and_do_not_call_it_other_work() {
    let hash = ["bench", "hash", "-t", "1", "-f", "64", "-r", "0.2", "--repeat", "8", "--targets", "live"];
    let says = |flags: &[&str]| printed(&[&hash[..], flags].concat());
    let table = says(&["--noise", "2"]);
    assert!(table.contains("\n# Measured beside noise: 2 busy loops on each CPU (--noise 2).\n"), "{table}");
    assert!(!table.contains("other work ran"), "{table}");
    assert!(!says(&[]).contains("noise"));
}

#[test]
fn the_value_may_be_left_out_before_a_workload() {
    let output = ufutex(&["bench", "--noise", "crowd", "-n", "10", "--repeat", "1", "--targets", "live", "--json"]);
    let rows: Vec<Value> = rows_of(&text(&output.stdout));
    assert!(!rows.is_empty() && rows.iter().all(|row| row["workload"] == "crowd" && row["noise"] == 1), "{rows:?}");
}

#[test]
fn mistakes_are_one_line_that_names_what_is_accepted() {
    let accepted = "accepted: 1 to 64 busy loops on each CPU";
    let refused = |value: &str| format!("--noise '{value}' is not accepted; {accepted}");
    let [none, negative, many, word] = ["0", "-1", "65", "loud"].map(refused);
    assert_mistakes(
        &["bench"],
        &[
            (&["--noise", "0"], &none),
            (&["hash", "--noise", "-1"], &negative),
            (&["schbench", "--noise=65"], &many),
            (&["neighbour", "--noise", "loud"], &word),
            (&["hash", "--noise="], "--noise"),
            (&["hash", "--noise", "1", "--noise", "2"], "--noise is given more than once"),
            (&["--figures", "--noise"], "accepted: one of the two"),
        ],
    );
}
