//! `ufutex locks`: its options.

use clap::Args;
use lab_values as values;
use lab_waits::{Format, Locks};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Options like those of perf record, strace and timeout(1).
#[derive(Args)]
pub struct LocksArgs {
    /// See only futex calls by libc's syscall(): those of Rust's std, parking_lot, libstdc++ (atomic::wait)
    #[arg(long)]
    no_trap: bool,
    /// See the waits of child processes too
    #[arg(short, long)]
    follow_forks: bool,
    /// If nothing has moved for TIME, such as 90s, print the waiting threads, end the program, and exit with 124
    #[arg(long, value_name = "TIME", value_parser = values::runtime)]
    hang: Option<f64>,
    /// Keep at most N call sites (word and stack, some 3 KiB each), those used last; count the waits of the others
    #[arg(long, value_name = "N", default_value_t = lab_waits::LIMIT, value_parser = values::number::<usize>(1, 1_000_000_000, "call sites"))]
    limit: usize,
    /// Print one JSON object for each word, to stderr unless -o: locks first, then by the time waited
    #[arg(long, conflicts_with = "folded")]
    json: bool,
    /// Print one line for each stack and the nanoseconds waited there, for flame graphs; to stderr unless -o
    #[arg(long)]
    folded: bool,
    /// Write a profile for `go tool pprof` and speedscope (profile.proto, gzip); needs -o
    #[arg(long, conflicts_with_all = ["json", "folded"])]
    pprof: bool,
    /// Write the report to FILE, as a page if it is FILE.html; stderr has a line about it, and the state if asked for
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// The program, searched for in PATH if its name has no slash, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"],
        value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

impl LocksArgs {
    /// Chooses the format. An error is one line for the user.
    pub fn check(self) -> Result<Locks, String> {
        let options = [(self.json, "--json"), (self.folded, "--folded"), (self.pprof, "--pprof")];
        let option = options.iter().find_map(|(is_given, option)| is_given.then_some(*option));
        let page = self.output.as_ref().filter(|file| file.extension().is_some_and(|extension| extension == "html"));
        let format = match (option, page) {
            (None, Some(_)) => Format::Page,
            (Some(option), Some(file)) => {
                return Err(format!(
                    "--output '{}' is a page, which {option} does not write; accepted: one of the two",
                    file.display()
                ));
            }
            (Some("--json"), _) => Format::Json,
            (Some("--folded"), _) => Format::Folded,
            // stderr may be a terminal, and is the program's too: what it prints there would be in the middle of the profile.
            (Some(_), _) if self.output.is_none() => {
                return Err("--pprof is binary and has no file; accepted: --pprof -o FILE".to_string());
            }
            (Some(_), _) => Format::Pprof,
            (None, None) => Format::Table,
        };
        Ok(Locks {
            trap: !self.no_trap,
            follow: self.follow_forks,
            hang: self.hang.map(Duration::from_secs_f64),
            limit: self.limit,
            format,
            output: self.output,
            command: self.command,
        })
    }
}

/// Text above the options in `ufutex locks --help`.
pub const ABOUT: &str = "\
Say which locks cost a program time, which threads hold them and which wait, from where

Runs PROGRAM unchanged as `ufutex run --trap` does, without root. Notes each wait of a thread that sleeps: the word, the
stack, for how long, and the thread that ended it. Names are looked up at the end, and when the state is printed.";

/// Text below the options.
pub const MORE: &str = "\
What is seen: waits for futexes that sleep: mutexes, also those that are robust, have priority inheritance or are shared
between processes, condition variables, rwlocks, semaphores, barriers, pthread_join, and what languages park their
threads with. A lock that is taken at once makes no call and is not seen. The thread that ends a wait is known if it is
of the same process. After a program has installed a seccomp filter of its own, nothing more is recorded. A wait for
several words (futex_waitv) counts for the one that ends it. Not seen: futex_wait(2) and requeues of words that
processes share, FUTEX_WAIT_REQUEUE_PI; glibc makes none of these calls.

Names: a variable's symbol; for other memory, such as the heap, the function in which threads wait for most of the
time. Both have file and line if there is debug information: in the file, or in /usr/lib/debug by build ID. Functions
of glibc have names without lines. Stacks are walked by the tables of the program's files (.eh_frame), and by frame
pointers where there are none. Code that the program has compiled itself is named by /tmp/perf-PID.map, if it writes
one (java -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, node --perf-basic-prof
--interpreted-frames-native-stack, python -X perf).

The owner is the thread of the same process that the lock itself names (glibc's mutexes, but for timed locks of them, the
writer of its rwlocks, any lock with priority inheritance), or else the thread that ends the wait. Deadlocks are found by
owners that locks name, and by the thread for whose end pthread_join waits. A wait with a timeout is no part of one. A
deadlock of locks with priority inheritance looks like a hang: the kernel refuses the wait that would close it.

At SIGUSR1, Ctrl-C and SIGTERM, and with --hang, it prints each waiting thread: for how long, for what, which thread
holds that, and the stack. Threads of which each waits for a lock that the next one holds, or for the next one's end,
are a deadlock. SIGTERM is passed on to the program. A second Ctrl-C or SIGTERM ends ufutex at once.
On a terminal it says each second how many waits there were so far, if PROGRAM's stdout and stderr are files or
/dev/null: ufutex locks -- sh -c 'exec ./server > log 2>&1'.
--hang: a program hangs if for TIME no thread has begun or ended a wait, PROGRAM and its children have used no CPU time,
and a thread waits for a futex; or if a deadlock is as old as TIME. A server without requests looks the same, and a
thread that waits for another one in sleep or poll. A hang in read alone is not found. SIGTERM, and SIGKILL 2 s later,
go to PROGRAM; its children are not ended.

--json, one object per line, locks first: pid, word (address, text; null if the object stands for the words of several
threads), name, defined_at (file and line of the variable, or null), kind, is_lock, waits, total_ns, mean_ns, p99_ns,
longest_ns, waiters_most (words of threads: how many threads have waited), waiters_mean (while there were any; null for
words of threads), wakes, wakes_across_cpus (by a thread on another CPU), timeouts, requeues (waiters moved to another
word, which count here), sites [{waits, total_ns, stack [text], wakers [{thread, waits, total_ns, stack}], at most
10}], owners [{thread, held_ns (while others waited), taken_at (stack or null)}], at most 10, none for words of
threads; at the end {dropped {waits, total_ns}} if there were more call sites than --limit; when the state is printed
{deadlock [...]} and {waiting [{pid, thread, waits_for, word, waited_ns, held_by, stack}]}, on stderr with -o too.
--folded and --pprof have the waits for what is no lock too.
-o FILE.html writes one page, which fetches nothing: the table, with stacks, wakers and owners; a flame graph of the
time waited; and for each thread a time line of its waits. The time line has the newest 20,000 waits of all threads.
--pprof, a sample for each stack and word: contentions (count) and delay (nanoseconds), as in Go's mutex profile; labels
lock (the word's name) and kind. go tool pprof -tagfocus lock=NAME shows one lock.

Exit status: the program's (128 + N if signal N ended it); or
  124  the program hung, and was ended (--hang)
  125  ufutex itself failed, or the program was executed without the library
  126  the program was found but cannot be run
  127  the program was not found
  130  interrupted twice
  2    a mistake in the options

Examples:
  ufutex locks -- ./server --threads 64
  ufutex locks -f --hang 30 -- ctest                      print the threads of a test that hangs, end ctest
  ufutex locks -o locks.html -- ./server                  a page with a flame graph and a time line
  ufutex locks --folded -o waits.txt -- java -jar app.jar
  ufutex locks --pprof -o waits.pb.gz -- ./server         then: go tool pprof -http : waits.pb.gz
  kill -USR1 PID                                          PID of ufutex itself: print the waiting threads";
