//! `ufutex advise`: its options.

use super::values;
use clap::Args;
use lab_run::Advise;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const SECONDS: f64 = 5.0;

/// As perf stat's and timeout(1)'s.
#[derive(Args)]
pub struct AdviseArgs {
    /// Watch for so long at most, then end the program [default: 5]
    #[arg(short, long, value_name = "SECONDS", value_parser = values::runtime, allow_negative_numbers = true)]
    duration: Option<f64>,
    /// Do not look at futex calls inside glibc: the program runs at its own pace
    #[arg(long)]
    no_trap: bool,
    /// The advice as one JSON object
    #[arg(long)]
    json: bool,
    /// The advice to FILE, in place of stderr
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// The program, looked for in PATH if its name has no slash, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"],
        value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

impl From<AdviseArgs> for Advise {
    fn from(args: AdviseArgs) -> Self {
        Self {
            duration: Duration::from_secs_f64(args.duration.unwrap_or(SECONDS)),
            trap: !args.no_trap,
            json: args.json,
            output: args.output,
            command: args.command,
        }
    }
}

/// Above the options in `ufutex advise --help`.
pub const ABOUT: &str = "\
Watch a program's futexes, and say which settings it wants

Runs PROGRAM for some seconds as `ufutex run --trap` does, counts its futex calls, and says in plain words, with the
figures, which slots, scheme and policy of the engine it wants, and which setting by prctl(PR_FUTEX_HASH) would help it
on the plain kernel, with the command (ufutex run --kernel) that sets it.";

/// Below them.
pub const MORE: &str = "\
The program is watched until it ends, or SECONDS have passed. It is ended then as timeout(1) does it: by SIGTERM, and
two seconds later by SIGKILL. Its stdin, stdout and stderr are its own; the advice goes to stderr, after it. Watched is
the process itself, not those that it makes. Each call takes one to two microseconds more: a program that does little
else makes fewer of them meanwhile. --no-trap avoids that, and sees only calls by libc's syscall().

The figures (--json: figures {name: value}), each named by the sentence that rests on it:
  seconds, calls, calls_per_second       of private futexes, while the program ran
  share_of_a_cpu                         what they take of one CPU in the kernel, at 160 ns each
  shared_calls, other_kernel_calls       of words that processes may share; of locks with priority inheritance and such
  threads, cpus                          the most threads at a time; CPUs that are online
  waiters, words, words_exact            the most that slept at a time; the words that were named (at least)
  contended, contended_share             operations that met a busy bucket, and their share of all
  longest_chain, hottest_share           words in one bucket; the share of calls that named the busiest word
  slots, resizes                         what the policy `load` settled at, and in how many steps
  kernel_slots                           the kernel's choice: clamp(roundup_pow2(4 * min(threads, cpus)), 16, global)
  wanted_slots                           what `load` settled at, or a slot for each waiter on a word, if that is more
The advice: scheme, policy, slots (null: leave it to the policy), kernel {setting: none, default or set-slots, slots,
immutable (for Linux 6.16, which alone has it), command (the `ufutex run --kernel` that sets the slots; null where there
is nothing to set)}, sentences [{text, figures [name]}]; besides command, ended (text).

Exit status:
  0    advice was given, however the program ended
  125  ufutex itself failed, or the program ended without a report (SIGKILL, exec of a static program)
  126  the program is found and cannot be run
  127  the program is not found
  130  interrupted: the advice is from what was seen until then
  2    a mistake in the options

Examples:
  ufutex advise -d 10 -- ./server --threads 64
  ufutex advise --json -o advice.json -- java -jar app.jar
  ufutex advise --no-trap -- perf bench futex hash -t 2 -r 3";
