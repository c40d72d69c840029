//! Programs from Debian's packages: `perf bench futex`, stress-ng, rt-tests, redis; and those of `installed/`, which
//! `.ci/programs` installs.

use std::ffi::OsString;
use std::time::Duration;

use crate::mode::{BOTH, Mode, TABLES, TIMERS, TIMERS_UNREPORTED, TRAP_ONLY, TRAP_SEES, UNREPORTED};
use crate::program::{Program, Ready, installed};

pub fn programs() -> Vec<Program> {
    let mut programs = perf();
    programs.extend(stress_ng());
    programs.extend(rt_tests());
    programs.push(redis());
    programs.extend(servers_and_runtimes());
    programs
}

/// An installed program with arguments.
fn of_package(package: &'static str, name: &'static str, arguments: &'static [&'static str]) -> Program {
    let title = format!("{name}_{}", arguments.iter().find(|argument| !argument.starts_with('-')).unwrap_or(&""));
    Program::new(title.trim_end_matches('_').to_owned(), move || match installed(name) {
        Some(program) => Ready::Yes(program, arguments.iter().map(OsString::from).collect()),
        None => Ready::Lacking(format!("no {name} here (Debian's package {package})")),
    })
}

/// perf's five benchmarks. Figures and TIDs differ between runs. The exit status and the rest of the output must not.
fn perf() -> Vec<Program> {
    const BENCHES: &[(&str, &[Mode], &[&str])] = &[
        ("hash", TABLES, &["bench", "futex", "hash", "-t", "2", "-r", "1"]),
        ("wake", TABLES, &["bench", "futex", "wake", "-t", "64", "-w", "2"]),
        ("wake-parallel", BOTH, &["bench", "futex", "wake-parallel", "-t", "64", "-w", "4"]),
        ("requeue", TABLES, &["bench", "futex", "requeue", "-t", "64", "-q", "4"]),
        ("lock-pi", UNREPORTED, &["bench", "futex", "lock-pi", "-t", "4", "-r", "1"]),
    ];
    let one = |&(name, modes, arguments): &(&'static str, &'static [Mode], &'static [&'static str])| {
        let program = of_package("linux-perf", "perf", arguments).in_modes(modes).compared_by(without_figures);
        // perf gives sleepers 100 ms to fall asleep, and then waits until all are woken. If one was late, perf hangs.
        let program = program.with_retries(3, Duration::from_secs(10));
        Program { name: format!("perf_bench_futex_{name}"), ..program }
    };
    BENCHES.iter().map(one).collect()
}

/// Replaces each figure and address by `#`.
fn without_figures(text: &str) -> String {
    let words = |line: &str| {
        let plain = |word: &str| match word.chars().any(|c| c.is_ascii_digit()) {
            true => "#".to_owned(),
            false => word.to_owned(),
        };
        line.split_whitespace().map(plain).collect::<Vec<_>>().join(" ")
    };
    // Some versions of perf print a line that depends on /proc/sys/kernel/perf_event_paranoid.
    text.lines().map(words).collect::<Vec<_>>().join("\n")
}

/// stress-ng, which verifies its results and reports errors by its exit status.
fn stress_ng() -> Vec<Program> {
    const ALWAYS: &[&str] = &["--verify", "--no-rand-seed", "--oomable", "--quiet", "--temp-path", "/tmp"];
    let timers = |stressor: &'static str, modes| {
        let program = Program::new(format!("stress-ng_{stressor}"), move || match installed("stress-ng") {
            None => Ready::Lacking("no stress-ng here (Debian's package stress-ng)".into()),
            Some(program) => {
                let own = [format!("--{stressor}"), "1".into(), format!("--{stressor}-ops"), "2000".into()];
                let always = ALWAYS.iter().copied().chain(["--timeout", "20"]).map(OsString::from);
                Ready::Yes(program, always.chain(own.map(OsString::from)).collect())
            }
        });
        program.compared_by(without_figures).in_modes(modes)
    };
    const STRESSORS: &[(&str, &[&str])] = &[
        ("futex", &["--futex", "2", "--futex-ops", "40000", "--timeout", "20"]),
        ("pthread", &["--pthread", "2", "--pthread-ops", "1000", "--timeout", "20"]),
        // Its threads are real-time ones, and may keep the thread that has made the first of them from its CPU. The kernel gives
        // that one a turn once a second. If the time is over before, stress-ng says that it could make none, and ends with 3.
        ("mutex", &["--mutex", "1", "--mutex-procs", "4", "--timeout", "3"]),
        ("sem", &["--sem", "1", "--sem-procs", "4", "--timeout", "1"]),
        ("seccomp", &["--seccomp", "1", "--seccomp-ops", "200", "--timeout", "10"]),
        ("prctl", &["--prctl", "1", "--prctl-ops", "200", "--timeout", "10"]),
        ("sigabrt", &["--sigabrt", "1", "--sigabrt-ops", "50", "--timeout", "20"]),
        ("sigsegv", &["--sigsegv", "1", "--sigsegv-ops", "200", "--timeout", "20"]),
    ];
    let one = |&(stressor, arguments): &(&'static str, &'static [&'static str])| {
        let program = Program::new(format!("stress-ng_{stressor}"), move || match installed("stress-ng") {
            None => Ready::Lacking("no stress-ng here (Debian's package stress-ng)".into()),
            Some(program) => Ready::Yes(program, [ALWAYS, arguments].concat().iter().map(OsString::from).collect()),
        });
        let program = program.compared_by(without_figures).in_modes(UNREPORTED);
        if stressor == "mutex" { program.alone() } else { program }
    };
    STRESSORS.iter().map(one).chain([timers("timer", TIMERS), timers("clock", TIMERS_UNREPORTED)]).collect()
}

/// rt-tests. They need the right to real-time priorities.
fn rt_tests() -> Vec<Program> {
    let rights = |program: Program| {
        let prepare = program.prepare;
        let checked = move || match real_time_allowed() {
            true => prepare(),
            false => Ready::Lacking("no right to real-time priorities here (CAP_SYS_NICE or RLIMIT_RTPRIO)".into()),
        };
        Program { prepare: Box::new(checked), ..program }
    };
    let one = |program: Program| rights(program).compared_by(|_| String::new()).alone();
    vec![
        one(of_package("rt-tests", "ptsematest", &["-q", "-t", "2", "-l", "500", "-i", "500", "-p", "10"])
            .in_modes(TRAP_ONLY)),
        one(of_package("rt-tests", "pi_stress", &["-q", "-g", "2", "-i", "200"]).in_modes(UNREPORTED)),
        one(of_package("rt-tests", "cyclictest", &["-q", "-x", "-i", "1000", "-l", "300", "-t", "2", "-p", "10"])
            .in_modes(TIMERS)),
    ]
}

fn real_time_allowed() -> bool {
    let param = libc::sched_param { sched_priority: 90 };
    // SAFETY: it reads a local variable, and changes the calling thread, which ends then.
    let tries = move || unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) == 0 };
    std::thread::spawn(tries).join().expect("it does not panic")
}

/// A server with several threads and its benchmark, over a Unix socket.
fn redis() -> Program {
    const SCRIPT: &str = r#"
        folder=$(mktemp -d) && cd "$folder" || exit 1
        redis-server --port 0 --unixsocket ./s --save '' --io-threads 2 --io-threads-do-reads yes --daemonize no >log &
        until redis-cli -s ./s ping 2>/dev/null | grep -q PONG; do sleep 0.05; done
        redis-benchmark -s ./s --threads 2 -q -n 4000 -t set,get,lpush,lpop -P 4 | tr '\r' '\n' | grep -o '^[A-Z]*: [0-9.]* requests' | cut -d: -f1
        redis-cli -s ./s set key value
        redis-cli -s ./s get key
        redis-cli -s ./s flushall async
        redis-cli -s ./s shutdown nosave
        wait $!
        echo "status $?"
        cd / && rm -r "$folder"
    "#;
    Program::new("redis", || match (installed("redis-server"), installed("redis-benchmark")) {
        (Some(_), Some(_)) => Ready::Yes("/bin/sh".into(), vec!["-c".into(), SCRIPT.into()]),
        _ => Ready::Lacking("no redis here (Debian's packages redis-server and redis-tools)".into()),
    })
    .in_modes(TRAP_SEES)
}

/// Servers, and languages that have threads by libraries of their own. Each has a script in `installed/`.
fn servers_and_runtimes() -> Vec<Program> {
    const ALL: &[(&str, &str, &[&str], &str)] = &[
        ("memcached.sh", "sh", &["memcached", "python3"], "memcached"),
        ("mariadb.sh", "sh", &["mariadbd", "mariadb-install-db", "sysbench"], "mariadb-server and sysbench"),
        ("ruby.rb", "ruby", &[], "ruby"),
        ("perl.pl", "perl", &[], "perl"),
        ("erlang.sh", "sh", &["erl"], "erlang-base"),
        ("ocaml.sh", "sh", &["ocamlopt"], "ocaml-nox"),
        ("haskell.sh", "sh", &["ghc"], "ghc"),
        ("gstreamer.sh", "sh", &["gst-launch-1.0", "gst-inspect-1.0"], "gstreamer1.0-tools"),
    ];
    let one =
        |&(script, interpreter, needed, package): &(&'static str, &'static str, &'static [&str], &'static str)| {
            let (name, _) = script.split_once('.').unwrap_or((script, ""));
            Program::new(format!("installed_{name}"), move || match installed(interpreter) {
                Some(program) if needed.iter().all(|needed| installed(needed).is_some()) => {
                    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/installed/");
                    Ready::Yes(program, vec![format!("{folder}{script}").into()])
                }
                _ => Ready::Lacking(format!("no {name} here (Debian's package {package})")),
            })
            .in_modes(TRAP_SEES)
        };
    ALL.iter().map(one).collect()
}
