//! `ufutex run`: its options and their checks.

use clap::Args;
use lab_run::Run;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use ufutex_program::settings::{self, Format, Policy};

/// Options named as in perf stat, time(1) and env(1) where these have one.
#[derive(Args)]
pub struct RunArgs {
    /// Also serve futex calls inside glibc: pthread locks, semaphores, Python, Java
    #[arg(long)]
    trap: bool,
    /// With --trap: do not replace glibc's futex instructions by jumps, so that each call stops with a signal
    #[arg(long)]
    no_patch: bool,
    /// Also serve POSIX timers: timer_create(2) and its family
    #[arg(long)]
    timers: bool,
    /// Report to stderr when the program ends and when it receives SIGUSR1
    #[arg(long)]
    stats: bool,
    /// Report on child processes too; implies --stats
    #[arg(short, long)]
    follow_forks: bool,
    /// Write the report as one JSON object per line; implies --stats
    #[arg(long)]
    json: bool,
    /// Write the report to FILE instead of stderr; implies --stats
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Size policy of the table: load, threads, or a power of two [default: load]
    #[arg(long, value_name = "POLICY", value_parser = lab_values::completed(policy, vec!["load", "threads"]), hide_possible_values = true)]
    policy: Option<Policy>,
    /// Waiting threads may spin for up to US microseconds before they sleep; 200 without US
    #[arg(long, value_name = "US", num_args = 0..=1, require_equals = true, default_missing_value = "200",
        value_parser = spin)]
    spin: Option<Duration>,
    /// Initial size of the table, as by PR_FUTEX_HASH_SET_SLOTS: a power of two, or 0 for the global table
    #[arg(long, value_name = "N", value_parser = slots)]
    slots: Option<usize>,
    /// With --slots: the program cannot change the size by PR_FUTEX_HASH
    #[arg(long)]
    immutable: bool,
    /// With --slots: leave futexes to the kernel, and make it use a table of N slots for the program
    #[arg(long, conflicts_with_all = ["trap", "timers", "stats", "follow_forks", "json", "output", "policy",
        "spin"])]
    kernel: bool,
    /// The program, searched for in PATH if its name has no slash, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"],
        value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

impl RunArgs {
    /// Checks the options against each other.
    pub fn check(self) -> Result<Run, String> {
        if let (Some(slots), Some(policy)) = (self.slots, self.policy) {
            return Err(format!(
                "--slots '{slots}' is not accepted with --policy '{policy}'; accepted: one of the two"
            ));
        }
        if self.immutable && self.slots.is_none() {
            return Err("--immutable is not accepted without --slots; accepted: --slots N --immutable".to_string());
        }
        if self.kernel && self.slots.is_none() {
            return Err("--kernel is not accepted without --slots; accepted: --kernel --slots N".to_string());
        }
        if self.no_patch && !self.trap {
            return Err("--no-patch is not accepted without --trap; accepted: --trap --no-patch".to_string());
        }
        let format = if self.json { Format::Json } else { Format::Text };
        let wants_report = self.stats || self.follow_forks || self.json || self.output.is_some();
        let settings = settings::Settings {
            policy: self.policy.unwrap_or_default(),
            slots: self.slots,
            immutable: self.immutable,
            kernel: self.kernel,
            trap: self.trap,
            no_patch: self.no_patch,
            watch: false,
            timers: self.timers,
            spin: self.spin.unwrap_or_default(),
            stats: wants_report.then_some(format),
            process: None,
            children: self.follow_forks,
            profile: None,
            output: None,
        };
        Ok(Run { settings, output: self.output, command: self.command })
    }
}

fn accepted(what: &str) -> String {
    format!("is not accepted; accepted: {what}")
}

fn policy(text: &str) -> Result<Policy, String> {
    Policy::parse(text.as_bytes()).ok_or_else(|| accepted(Policy::ACCEPTED))
}

/// `--spin`, also of `bench ping-pong`.
pub fn spin(text: &str) -> Result<Duration, String> {
    settings::parse_spin(text.as_bytes()).ok_or_else(|| accepted(settings::SPIN_ACCEPTED))
}

fn slots(text: &str) -> Result<usize, String> {
    settings::parse_slots(text.as_bytes()).ok_or_else(|| accepted(settings::SLOTS_ACCEPTED))
}

/// Text above the options in `ufutex run --help`.
pub const ABOUT: &str = "\
Run a program with its futexes on the engine

Runs PROGRAM unchanged, with its process-private futexes served by the engine instead of the kernel (or, with
--kernel, by the kernel on a table of --slots slots). A library is preloaded (LD_PRELOAD) into the program and into
the programs that it executes. The program runs in this process and keeps its pid, signals, exit status, stdin and
stdout.";

/// Text below the options.
pub const MORE: &str = "\
Calls that the engine serves:
  without --trap   futex calls through libc's syscall(): those of Rust's std, parking_lot, libstdc++ (atomic::wait) and
                   perf bench; and prctl(PR_FUTEX_HASH). Other system calls are not slower.
  with --trap      also futex calls by instructions inside glibc or the program: pthread mutexes, condition variables,
                   semaphores and barriers, and so Python and Java. Before the first pthread_create, most of glibc's
                   futex instructions are replaced by jumps into the library (not with --no-patch). Other futex
                   instructions raise SIGSYS, by a seccomp filter, and the library makes the call in the signal's
                   handler, which adds one to two microseconds to the call. Uncontended locks make no call and cost
                   nothing.
                   A debugger that runs under the trap itself does not notice it. A debugger outside needs 'handle
                   SIGSYS nostop noprint pass'. Otherwise a function that it calls in the program ('call', 'print
                   f()') is abandoned at another thread's SIGSYS, and the program crashes later. If gdb stops in the
                   library, use 'set language c'. A seccomp filter of the program must allow rt_sigprocmask,
                   rt_sigreturn, futex and write. Syscall User Dispatch is refused (EINVAL). ThreadSanitizer sees the
                   library's copies but not its locks: programs built with it need
                   'called_from_lib:libufutex_preload.so' in a suppressions file.

  with --timers    timer_create(2), timer_settime(2), timer_gettime(2), timer_getoverrun(2) and timer_delete(2), through
                   libc's functions of these names or its syscall(); with --trap also by instructions. The signals are
                   real: SI_TIMER with value, ID and overrun. SIGEV_THREAD starts threads.

Timers (--timers) differ from the kernel's:
  - A thread of the library waits for them and sends the signals, about ten microseconds later than the kernel would,
    or more if the machine is overloaded. It exists from the first timer on and is visible in /proc/PID/task. It may
    use the CPUs of the process, and runs with SCHED_FIFO priority 50, as the kernel's interrupt threads do, if that
    is permitted (CAP_SYS_NICE, RLIMIT_RTPRIO), otherwise with SCHED_OTHER. If all other threads end by the system
    call and not through libc, this thread keeps the process alive.
  - This thread has no capabilities. Before a thread changes its users, groups, capabilities, filters or namespaces
    (by libc's functions or its syscall(); with --trap also by instructions), the library's thread ends; afterwards it
    starts again with the new ones. That makes the change about 70 microseconds longer. If it cannot be started again
    (RLIMIT_NPROC, a filter, a PID namespace for children) while timers are set, or in seccomp's strict mode, the
    program ends (126). A filter of the program must allow this thread clone, futex, rt_sigtimedwait, rt_sigqueueinfo,
    rt_sigpending, timer_create, timer_settime and timer_delete.
  - The library cannot see a signal that is read from a signalfd or ignored. So an interval timer goes on half an
    interval later, but in time for its next deadline; ssi_overrun is 0, and timer_getoverrun has the number then.
  - IDs begin at 0 again after exec. RLIMIT_SIGPENDING does not limit the number of timers.
  - Timers that a child makes after vfork are the kernel's.

Left to the kernel: futexes shared between processes, locks with priority inheritance, robust lists; timers without
--timers. If a private word has waiters of both kinds, FUTEX_CMP_REQUEUE_PI, FUTEX_LOCK_PI and similar operations
through libc's syscall() fail with EINVAL, as in the kernel. So does a wake or requeue that meets a waiter for a lock,
once the program has made such an operation through syscall().

Programs that cannot be run (126): programs that are statically linked, not linked with glibc, or not for 64-bit
x86-64; setuid and setgid programs and those with file capabilities, unless the user is the one that they would switch
to. If the program executes such a program, it runs without the library, or with --trap is refused (EACCES and a line
on stderr): the filter cannot be removed, and no handler would serve its signals. Under --trap no program gains rights
by being executed (no_new_privs).

The report (--stats) is written when the process ends, by exit or by a signal that it could have caught, and each time
another process sends it SIGUSR1 by kill(2). A handler of the program for SIGUSR1 is called too; without one the program
goes on. With --follow-forks (-f, as in strace) child processes report too, if they made a futex call. Without FILE the
report goes to the stderr with which the program began. FILE is emptied first; each process appends its report.
  calls           by futex operation (futex(2), futex2); kernel calls: seen, but left to the kernel
  words, waits, most waiters, mismatches, wakes, woken, empty wakes, requeues, requeued, refused ...
                                                                                   results of these calls
  slots, resizes, contended locks, longest chain                                   the table of the process
  timers made, settings, expiries, signals, overruns                               with --timers
  addresses       at most ten words, each named by at least 1 % of the calls or with 1 % of the time slept, by that
                  time, with their mappings. ~ means that the number is a lower bound: the program used many more words
                  than are counted individually. `ufutex locks` says from where threads wait, and which thread holds
                  the lock
With --json one object per line: command, pid, trap (bool), slots (0: no private table), table_bytes, elapsed_ns,
cpu_user_ns, cpu_system_ns, calls {operation: number}, kernel_calls, shared_calls (those of kernel_calls on words that
processes may share), threads_most, waiting_most (at a time), words (number of words named; a lower bound unless
words_exact), most_calls (of a word), counters {name: number}, hottest [{address (text), place (text or null),
calls_at_most, calls_at_least, waits (that slept), waited_ns, p99_ns (up to a quarter too high), longest_ns,
waiters_most (at a time), waiters_mean (while there were any), wakes and requeues (waiters that calls have woken, and
moved to another word)}]; with --timers also timers {name: number}.

--slots N has the effect of prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, N) at the start: the size policy no longer
applies, but the program may set another number, unless --immutable. --policy N is a size policy with the fixed size N.

With --kernel the engine serves nothing: futexes, timers and signals are the kernel's, at their usual speed. Before
the program begins, the library calls prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, N). This gives the process its own
table in the kernel and permanently ends the kernel's own choice of the size; 0 is the global table. It needs Linux
6.16 or later; --immutable (no later change, no counter) needs Linux 6.16 exactly. The call is tried first, and the
program is not started if the kernel refuses it. A table is not inherited through exec or fork: a program that is
executed with the library makes its own table of N slots, and so does the child of libc's fork(). The child of a clone
or fork by system call has the kernel's choice, and so has a statically linked program. There is no report.

Exit status: the program's; or
  125  ufutex itself failed: the library is not found or is another file, FILE cannot be written, the kernel refuses the
       slots of --kernel
  126  the program was found but cannot be run
  127  the program was not found
  2    a mistake in the options

Environment:
  UFUTEX_PRELOAD   the library. By default libufutex_preload.so next to the command, in deps/ there, or in
                   ../lib/ufutex/. Another file than this library is refused
  LD_PRELOAD       kept; the library is put first
  UFUTEX_RUN       set for the library
  ASAN_OPTIONS     kept; verify_asan_link_order=0 is added, since AddressSanitizer is not the first library

Examples:
  ufutex run --stats -- perf bench futex hash -t 2      count the program's own futex calls
  ufutex run --trap --stats -- python3 server.py        a program whose locks are glibc's
  ufutex run --trap --json -o report.json -- java -jar app.jar
  ufutex run --timers --stats -- cyclictest -x -l 1000  a program with POSIX timers
  ufutex run --slots 1024 --immutable -- ./server       a table of fixed size
  ufutex run --kernel --slots 1024 -- ./server          the kernel's futexes, on a table of 1024 slots
  kill -USR1 PID                                        a report of a running program";
