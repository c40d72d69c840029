//! `ufutex advise`: its options.

use clap::Args;
use lab_run::Advise;
use lab_values as values;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const SECONDS: f64 = 5.0;

/// Options like those of perf stat and timeout(1).
#[derive(Args)]
pub struct AdviseArgs {
    /// Watch for at most this time, then end the program: seconds, or a time such as 10m [default: 5]
    #[arg(short, long, value_name = "TIME", value_parser = values::runtime)]
    duration: Option<f64>,
    /// Do not watch futex calls inside glibc: only waits that sleep take longer
    #[arg(long)]
    no_trap: bool,
    /// Print the advice as one JSON object
    #[arg(long)]
    json: bool,
    /// Write the advice to FILE instead of stderr
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// The program, searched for in PATH if its name has no slash, and its arguments
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

/// Text above the options in `ufutex advise --help`.
pub const ABOUT: &str = "\
Watch a program's futexes, and recommend settings for it

Runs PROGRAM for some seconds as `ufutex run --trap` does and counts its futex calls. Recommends slots and
policy of the engine in sentences with their figures, and the setting of prctl(PR_FUTEX_HASH) that would help the
program on the plain kernel, with the command (ufutex run --kernel) that sets it. Says which lock cost the most time,
where to split it, and whether it goes from CPU to CPU; `ufutex locks` shows all locks.";

/// Text below the options.
pub const MORE: &str = "\
The program is watched until it ends or TIME has passed. Then it is ended as timeout(1) does: by SIGTERM, and two
seconds later by SIGKILL. Its stdin, stdout and stderr are untouched; the advice goes to stderr after the program's
end. Only the process itself is watched, not its children. Each call takes one to two microseconds longer, and a
wait that sleeps some two more, so a program that does little else makes fewer calls. --no-trap avoids the former, but
sees only calls by libc's syscall().

The figures (--json: figures {name: value}). Each sentence names those that it is based on:
  seconds, calls, calls_per_second       of private futexes, while the program ran
  share_of_a_cpu                         the share of one CPU that the calls take in the kernel, at 160 ns each
  shared_calls, other_kernel_calls       on words that processes may share; for PI locks and similar operations
  threads, cpus                          most threads at a time; CPUs that are online
  waiters, words, words_exact            most sleeping threads at a time; words named (a lower bound unless exact)
  contended, contended_share             operations that found their bucket locked, and their share of all
  longest_chain, hottest_share           most words in one bucket; share of the calls that named the busiest word
  slots, resizes                         the size at which the policy `load` settled, and the number of its resizes
  kernel_slots                           the kernel's choice: clamp(roundup_pow2(4 * min(threads, cpus)), 16, global)
  wanted_slots                           the larger of `slots` and one slot for each waiter with its own word
  lock                                   for which threads waited longest (null: none slept for a lock): name, waits,
                                         waited_seconds, mean_seconds, share_of_waited (for all locks), wakes,
                                         wakes_across_cpus, owners (threads, at most 10), owner [thread, seconds held
                                         while others waited], places
                                         [[function, share of the time]]
The advice: policy, slots (null: leave it to the policy), kernel {setting: none, default or set-slots, slots,
immutable (only for Linux 6.16, which alone has it), command (the `ufutex run --kernel` that sets the slots; null if
there is nothing to set)}, sentences [{text, figures [name]}]; further command and ended, a text: ended by itself with
  status N, by signal N, when its time was over, or because ufutex was interrupted.

Exit status:
  0    advice was printed, whatever the program's exit status
  125  ufutex itself failed, or the program ended without a report (SIGKILL, exec of a static program)
  126  the program was found but cannot be run
  127  the program was not found
  130  interrupted: the advice is based on the calls until then
  2    a mistake in the options

Examples:
  ufutex advise -d 10 -- ./server --threads 64
  ufutex advise --json -o advice.json -- java -jar app.jar
  ufutex advise --no-trap -- perf bench futex hash -t 2 -r 3";
