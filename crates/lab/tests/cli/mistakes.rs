//! A mistake prints one line with the value and what is accepted, and exits with status 2 before anything has run.

use crate::common::assert_mistakes;

#[test]
fn a_command_that_there_is_not() {
    assert_mistakes(&[], &[(&[], "bench"), (&["bnch"], "bnch")]);
}

#[test]
fn a_name_that_is_nearly_one() {
    let cases: &[(&[&str], &str)] = &[
        (&["bnech"], "'bnech' is not a command (did you mean bench?); accepted: bench, "),
        (&["bench", "wkae"], "'wkae' is not a workload (did you mean wake?); accepted: hash, "),
        (&["bench", "hash", "wkae"], "'wkae' is not a workload (did you mean wake?); accepted: hash, "),
        (&["bench", "--thread", "2"], "(did you mean --threads?); accepted: workloads and "),
        (&["soak", "--sead", "2"], "(did you mean --seed?); accepted: "),
        (&["bench", "zzz"], "'zzz' is not a workload; accepted: hash, "),
        (&["-v"], "'-v' is not accepted here; accepted: --help, --version, or a command: bench, "),
    ];
    assert_mistakes(&[], cases);
}

#[test]
fn flags_that_workloads_share() {
    let cases: &[(&[&str], &str)] = &[
        (&["hush"], "hush"),
        (&["--targets", "seL4"], "seL4"),
        (&["--targets", "live,"], "live,"),
        (&["--targets", ""], "''"),
        (&["-t", "0"], "'0'"),
        (&["-t", "-1"], "'-1'"),
        (&["-t", "1,,2"], "1,,2"),
        (&["-t", ""], "''"),
        (&["-t", "two"], "two"),
        (&["-t"], "--threads"),
        (&["-t", "99999999999999999999"], "99999999999999999999"),
        (&["-t", "1", "-t", "2"], "--threads"),
        (&["-b", "3"], "'3'"),
        (&["-b", "1"], "'1'"),
        (&["-b", "0"], "'0'"),
        (&["-b", "4294967296"], "4294967296"),
        (&["-f", "0"], "'0'"),
        (&["-f", "18446744073709551616"], "18446744073709551616"),
        (&["-r", "0"], "'0'"),
        (&["-r", "nan"], "nan"),
        (&["-r", "1e9"], "1e9"),
        (&["--repeat", "0"], "'0'"),
        (&["--stride", "64"], "--stride"),
        (&["--layout", "fat"], "fat"),
        (
            &["hash", "--layout", "packed", "--targets", "live,atomic"],
            "'atomic' is not accepted with --layout 'packed'",
        ),
        (&["--policy", "fastest"], "fastest"),
        (&["--policy", "100"], "100"),
        (&["--frobnicate"], "--frobnicate"),
        (&["--json=yes"], "yes"),
        (&["two\nlines"], "two\\nlines"),
    ];
    assert_mistakes(&["bench"], cases);
}

#[test]
fn flags_of_one_workload_on_another() {
    let cases: &[(&[&str], &str)] = &[
        (&["hash", "hash"], "'hash'"),
        (&["hash", "-b", "4,8"], "'4,8'"),
        (&["hash", "-I"], "'-I'"),
        (&["hash", "--stride", "6"], "'6'"),
        (&["hash", "-t", "16384", "-f", "16777216"], "16777216"),
        (&["resize", "--to", "1000"], "1000"),
        (&["resize", "--from", "64", "--to", "64"], "64"),
        (&["resize", "-S"], "resize"),
        (&["ping-pong", "-t", "1"], "2 to "),
        (&["ping-pong", "--balls", "0"], "1 to 1000000 balls"),
        (&["ping-pong", "--spin", "10001"], "0 to 10000 microseconds"),
        (&["ping-pong", "--work", "5"], "500ns, 30us or 1ms"),
        (&["ping-pong", "--work", "1s"], "500ns, 30us or 1ms"),
        (&["ping-pong", "--work", "101ms"], "100ms"),
        (&["growth", "-f", "4"], "growth"),
        (&["requeue", "-q", "0"], "'0'"),
        (&["requeue", "-q", "x"], "'x'"),
        (&["requeue", "-q", "4", "-B"], "--broadcast"),
        (&["hash", "-B"], "'-B'"),
        (&["hash", "-p", "2"], "'-p'"),
        (&["requeue", "-w", "2"], "'-w'"),
        (&["wake-parallel", "-w", "0"], "'0'"),
        (&["wake-parallel", "-t", "10", "-w", "3"], "'3'"),
        (&["wake-parallel", "-w", "7"], "'7'"),
        (&["wake-parallel", "-M"], "'-M'"),
        (&["lock-pi", "--hold", "-1"], "'-1'"),
        (&["crowd", "-n", "0"], "'0'"),
        (&["crowd", "-n", "100,"], "100,"),
        (&["crowd", "-n", "1000001"], "1000001"),
        (&["crowd", "-t", "2"], "crowd"),
        (&["crowd", "-S"], "crowd"),
        (&["hash", "--readers", "2"], "--readers"),
        (&["hash", "--line", "0.12"], "--line"),
        (&["hash", "--targets", "live,radix"], "radix"),
        (&["hash", "wake", "resize", "--stride", "64"], "resize"),
        (&["wake", "ping-pong", "--targets", "floor"], "'floor'"),
        (&["wake", "-w", "2", "--targets", "floor"], "'floor'"),
        (&["--targets", "floor"], "'floor'"),
        (&["hash", "schbench"], "'schbench' alone"),
        (&["hash", "-t", "2", "wake"], "'wake' follows flags"),
        (&["hash", "wake", "-b", "0"], "'0'"),
        (&["--figures", "hash"], "--figures"),
        (&["requeue", "-p", "4"], "'4'"),
        (&["crowd", "--sparse", "8"], "--sparse"),
        (&["crowd", "--tests", "settime"], "--tests"),
    ];
    assert_mistakes(&["bench"], cases);
}

#[test]
fn flags_of_wasm_and_locks() {
    let cases: &[(&[&str], &str)] = &[
        (&["wasm", "-B"], "'-B'"),
        (&["wasm", "-n", "5"], "bench wasm"),
        (&["wasm", "--stride", "2"], "'2'"),
        (&["locks", "--writers", "0"], "'0'"),
        (&["locks", "--locks", "65537"], "65537"),
        (&["locks", "--work-per-critical-section", "-1"], "'-1'"),
        (&["locks", "--line", "0.11"], "0.11"),
        (&["locks", "-b", "16"], "'-b'"),
    ];
    assert_mistakes(&["bench"], cases);
}

#[test]
fn flags_of_timers() {
    let cases: &[(&[&str], &str)] = &[
        (&["timers", "--targets", "ours,live"], "live"),
        (&["timers", "--targets", "xarray"], "xarray"),
        (&["timers", "--tests", "create"], "create"),
        (&["timers", "--tests", ""], "''"),
        (&["timers", "-n", "0"], "'0'"),
        (&["timers", "-n", "1000001"], "1000001"),
        (&["timers", "-n", "1000000", "-t", "17"], "17000000"),
        (&["timers", "-p", "0"], "--processes '0'"),
        (&["-p", "timers"], "--processes"),
        (&["timers", "-p", "1,-1"], "1,-1"),
        (&["timers", "-p", "-1"], "'-1'"),
        (&["timers", "-p"], "--processes"),
        (&["timers", "--pi"], "--pi"),
        (&["timers", "--processes", "1025"], "1025"),
        (&["timers", "--sparse", "0"], "'0'"),
        (&["timers", "--sparse", "16777216", "-n", "1000"], "16777216"),
        (&["timers", "--sparse", "8", "--tests", "create-delete"], "create-delete"),
        (&["timers", "-b", "16"], "'-b'"),
        (&["timers", "-S"], "'-S'"),
        (&["timers", "-f", "16"], "'-f'"),
    ];
    assert_mistakes(&["bench"], cases);
}
