//! Options, help, and where the library is found.

use crate::command::{TempDir, UFUTEX, assert_refused, copy, output, printed, run, text};
use serde_json::Value;
use std::fs;
use std::process::Command;

#[test]
fn a_bad_option_is_one_line_that_names_it_and_what_is_accepted() {
    let flags = "--trap --no-patch --timers --stats -f/--follow-forks --json -o/--output --policy \
                 --spin --slots --immutable --kernel -h/--help";
    let program = "no program given; accepted: ufutex run [OPTIONS] PROGRAM [ARGS]..., see --help";
    let (slots, policy) = (
        "is not accepted; accepted: 0 for the global table, or a power of two from 2 to 1048576",
        "is not accepted; accepted: load, threads, or a power of two from 2 to 1048576",
    );
    let cases: &[(&[&str], &str)] = &[
        (&[], program),
        (&["--"], program),
        (&["--trap"], program),
        (
            &["--frob", "true"],
            &format!("'--frob' is not accepted by 'ufutex run'; accepted: PROGRAM, before it {flags}"),
        ),
        (&["-x", "true"], &format!("'-x' is not accepted by 'ufutex run'; accepted: PROGRAM, before it {flags}")),
        (&["--policy", "best", "true"], &format!("--policy 'best' {policy}")),
        (&["--policy", "0", "true"], &format!("--policy '0' {policy}")),
        (&["--policy", "12", "true"], &format!("--policy '12' {policy}")),
        (&["--slots", "1", "true"], &format!("--slots '1' {slots}")),
        (&["--slots", "-2", "true"], &format!("--slots '-2' {slots}")),
        (&["--slots", "2097152", "true"], &format!("--slots '2097152' {slots}")),
        (&["--slots", "a\nb", "true"], &format!("--slots 'a\\nb' {slots}")),
        (
            &["--slots", "64", "--policy", "load", "true"],
            "--slots '64' is not accepted with --policy 'load'; accepted: one of the two",
        ),
        (&["--immutable", "true"], "--immutable is not accepted without --slots; accepted: --slots N --immutable"),
        (
            &["--immutable", "--policy", "64", "true"],
            "--immutable is not accepted without --slots; accepted: --slots N --immutable",
        ),
        (&["--slots", "3", "--kernel", "true"], &format!("--slots '3' {slots}")),
        (&["--kernel", "--slots", "1", "true"], &format!("--slots '1' {slots}")),
        (&["--kernel", "--slots", "536870912", "true"], &format!("--slots '536870912' {slots}")),
        (&["--kernel", "true"], "--kernel is not accepted without --slots; accepted: --kernel --slots N"),
        (&["--spin=10001", "true"], "--spin '10001' is not accepted; accepted: 0 to 10000 microseconds"),
        (&["--spin=1us", "true"], "--spin '1us' is not accepted; accepted: 0 to 10000 microseconds"),
        (&["-o", "", "true"], "--output has no value; accepted: --output VALUE, see --help"),
        (&["-o"], "--output has no value; accepted: --output VALUE, see --help"),
        (&["--no-patch", "true"], "--no-patch is not accepted without --trap; accepted: --trap --no-patch"),
        (&["--trap", "--trap", "true"], "--trap is given more than once; accepted: once"),
        (&["--trap=yes", "true"], "--trap takes no value, not 'yes'; accepted: --trap alone"),
    ];
    for (arguments, line) in cases {
        assert_refused(&mut run(*arguments), 2, line);
    }
}

#[test]
fn with_kernel_there_is_nothing_to_choose_but_slots() {
    let values = [("--policy", "load"), ("--output", "/dev/null")];
    let flags = ["--trap", "--timers", "--spin", "--stats", "--follow-forks", "--json"].map(|flag| (flag, ""));
    for (option, value) in values.into_iter().chain(flags) {
        let given = [option, value].into_iter().filter(|word| !word.is_empty());
        let first: Vec<_> = given.clone().chain(["--kernel", "--slots", "64", "true"]).collect();
        let last: Vec<_> = ["--kernel", "--slots", "64"].into_iter().chain(given).chain(["true"]).collect();
        for arguments in [first, last] {
            let output = output(&mut run(&arguments));
            let line = text(&output.stderr);
            assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{arguments:?}: {line}");
            assert!(line.contains("--kernel") && line.contains(option) && line.contains("accepted"), "{line}");
        }
    }
}

#[test]
fn every_accepted_value_is_accepted() {
    let mut cases: Vec<Vec<&str>> = Vec::new();
    for (option, values) in
        [("--policy", &["load", "threads", "2", "1048576"][..]), ("--slots", &["0", "2", "1048576"])]
    {
        cases.extend(values.iter().map(|value| vec![option, value]));
    }
    cases.push(vec!["--slots", "0", "--immutable"]);
    cases.extend([["--spin"], ["--spin=0"], ["--spin=10000"]].map(Vec::from));
    for options in cases {
        assert_eq!(printed(run(&options).arg("true")), "", "{options:?}");
    }
}

#[test]
fn a_missing_library_is_reported_with_the_places_searched() {
    let place = TempDir::new("library");
    let command = place.path("bin/ufutex");
    fs::create_dir_all(place.path("bin")).expect("our own directory");
    copy(UFUTEX, &command);
    let bare = || {
        let mut command = Command::new(&command);
        command.args(["run", "true"]).env_remove("UFUTEX_PRELOAD");
        command
    };
    let line = format!(
        "the library to preload is not found in {0}/bin/{1}, {0}/bin/deps/{1}, {0}/lib/ufutex/{1}; accepted: build it \
        (cargo build -p lab), put it there, or set UFUTEX_PRELOAD to its path",
        place.0.display(),
        "libufutex_preload.so"
    );
    assert_refused(&mut bare(), 125, &line);
    let line = "UFUTEX_PRELOAD='/nowhere' is not a file; accepted: the path of libufutex_preload.so, or nothing";
    assert_refused(bare().env("UFUTEX_PRELOAD", "/nowhere"), 125, line);
    // The loader would only warn of these, and run the program on the kernel.
    let cannot = |value: &str, why: &str| {
        format!(
            "UFUTEX_PRELOAD='{value}' is not libufutex_preload.so of this version: {why}; accepted: the path of libufutex_preload.so, or nothing"
        )
    };
    assert_refused(bare().env("UFUTEX_PRELOAD", "/etc/passwd"), 125, &cannot("/etc/passwd", "it is not an ELF file"));
    let libc = printed(Command::new("sh").args(["-c", "ldd /bin/sh | grep -o '/[^ ]*libc.so.6'"]));
    let line = cannot(libc.trim(), "it lacks the symbol UFUTEX_PRELOAD_LIBRARY");
    assert_refused(bare().env("UFUTEX_PRELOAD", libc.trim()), 125, &line);
    // The library is found in these places, also by a relative name.
    let found = printed(&mut run(["--trap", "sh", "-c", "echo $LD_PRELOAD"]));
    let library = place.path("lib/ufutex/libufutex_preload.so");
    fs::create_dir_all(place.path("lib/ufutex")).expect("our own directory");
    copy(found.trim(), &library);
    assert_eq!(printed(&mut bare()), "");
    let mut here = run(["--trap", "sh", "-c", "echo $LD_PRELOAD"]);
    here.current_dir(place.path("lib")).env("UFUTEX_PRELOAD", "ufutex/libufutex_preload.so");
    assert_eq!(printed(&mut here), format!("{library}\n"));
    let spaced = place.path("a b.so");
    copy(&library, &spaced);
    let line = format!(
        "{spaced}: LD_PRELOAD accepts no path with a space, colon or $; accepted: a link without them, named in \
        UFUTEX_PRELOAD"
    );
    assert_refused(bare().env("UFUTEX_PRELOAD", &spaced), 125, &line);
}

#[test]
fn help_names_every_option_every_status_and_the_fields_of_the_report() {
    for arguments in [&["run", "--help"][..], &["help", "run"]] {
        let help = printed(Command::new(UFUTEX).args(arguments));
        let options = ["--trap", "--timers", "--stats", "--follow-forks", "--json", "--output", "--policy"];
        let statuses = ["  125  ", "  126  ", "  127  ", "  2    "];
        for what in
            [&options[..], &["--slots", "--immutable", "--kernel"], &statuses, &["UFUTEX_PRELOAD", "LD_PRELOAD"]]
                .concat()
        {
            assert!(help.contains(what), "{what}");
        }
        let json: Value =
            serde_json::from_slice(&output(&mut run(["--json", "--timers", "true"])).stderr).expect("one object");
        for field in json.as_object().expect("an object").keys() {
            assert!(help.contains(field), "{field}");
        }
        for field in json["timers"].as_object().expect("an object").keys() {
            assert!(help.contains(field), "{field}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= 120), "a line is too long for a terminal");
    }
    let short = printed(Command::new(UFUTEX).args(["run", "-h"]));
    assert!(short.lines().count() < 40, "-h is for a glance");
}
