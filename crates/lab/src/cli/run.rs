//! `ufutex run`: its options, and what they ask for.

use clap::Args;
use lab_run::Run;
use std::ffi::OsString;
use std::path::PathBuf;
use ufutex_program::settings::{self, Format, Layout, Policy, Scheme};

/// As perf stat's, time(1)'s and env(1)'s where they have one.
#[derive(Args)]
pub struct RunArgs {
    /// Take futex calls inside glibc, too: pthread locks, semaphores, Python, Java
    #[arg(long)]
    trap: bool,
    /// Take timers, too: timer_create and its family
    #[arg(long)]
    timers: bool,
    /// Report to stderr when the program ends, and when it is sent SIGUSR1
    #[arg(long)]
    stats: bool,
    /// Report on the processes that it makes, too; implies --stats
    #[arg(short, long)]
    follow_forks: bool,
    /// The report as one JSON object a line; implies --stats
    #[arg(long)]
    json: bool,
    /// The report to FILE, in place of stderr; implies --stats
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// How operations reach their bucket: live, fixed, atomic, percpu [default: live]
    #[arg(long, value_name = "SCHEME", value_parser = scheme)]
    scheme: Option<Scheme>,
    /// Bucket layout: lean, packed, split [default: lean]
    #[arg(long, value_name = "LAYOUT", value_parser = layout)]
    layout: Option<Layout>,
    /// What sizes the table: load, threads, or a power of two [default: load]
    #[arg(long, value_name = "POLICY", value_parser = policy, allow_negative_numbers = true)]
    policy: Option<Policy>,
    /// Size of the table at first, as by PR_FUTEX_HASH_SET_SLOTS: a power of two, or 0 for the global table
    #[arg(long, value_name = "N", value_parser = slots, allow_negative_numbers = true)]
    slots: Option<usize>,
    /// With --slots: for good; the program cannot change it by PR_FUTEX_HASH
    #[arg(long)]
    immutable: bool,
    /// With --slots: leave futexes with the kernel, and have it make a table of N slots for the program
    #[arg(long, conflicts_with_all = ["trap", "timers", "stats", "follow_forks", "json", "output", "scheme", "layout",
        "policy"])]
    kernel: bool,
    /// The program, looked for in PATH if its name has no slash, and its arguments
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
            return Err("--immutable is not accepted alone; accepted: --slots N --immutable".to_string());
        }
        if self.kernel && self.slots.is_none() {
            return Err("--kernel is not accepted alone; accepted: --kernel --slots N".to_string());
        }
        let format = if self.json { Format::Json } else { Format::Text };
        let wants_report = self.stats || self.follow_forks || self.json || self.output.is_some();
        let settings = settings::Settings {
            scheme: self.scheme.unwrap_or_default(),
            layout: self.layout.unwrap_or_default(),
            policy: self.policy.unwrap_or_default(),
            slots: self.slots,
            immutable: self.immutable,
            kernel: self.kernel,
            trap: self.trap,
            watch: false,
            timers: self.timers,
            stats: wants_report.then_some(format),
            process: None,
            children: self.follow_forks,
            output: None,
        };
        Ok(Run { settings, output: self.output, command: self.command })
    }
}

fn accepted(what: &str) -> String {
    format!("is not accepted; accepted: {what}")
}

fn scheme(text: &str) -> Result<Scheme, String> {
    Scheme::parse(text.as_bytes()).ok_or_else(|| accepted(Scheme::ACCEPTED))
}

fn layout(text: &str) -> Result<Layout, String> {
    Layout::parse(text.as_bytes()).ok_or_else(|| accepted(Layout::ACCEPTED))
}

fn policy(text: &str) -> Result<Policy, String> {
    Policy::parse(text.as_bytes()).ok_or_else(|| accepted(Policy::ACCEPTED))
}

fn slots(text: &str) -> Result<usize, String> {
    settings::parse_slots(text.as_bytes()).ok_or_else(|| accepted(settings::SLOTS_ACCEPTED))
}

/// Above the options in `ufutex run --help`.
pub const ABOUT: &str = "\
Run a program with its futexes on the engine

Runs PROGRAM as it is, with its process-private futexes served by the engine in place of the kernel (or, with --kernel,
by the kernel on a table of the size that --slots says). A library is
preloaded into it (LD_PRELOAD), and into the programs that it runs in turn. The process is the program's own: its
pid, its signals, its exit status, its stdin and stdout.";

/// Below them.
pub const MORE: &str = "\
What is taken:
  without --trap   futex calls by libc's syscall(): those of Rust's std, parking_lot, libstdc++ (atomic::wait), perf
                   bench; and prctl(PR_FUTEX_HASH). It costs the program nothing else.
  with --trap      those that are instructions inside glibc or the program, too: pthread mutexes, condition variables,
                   semaphores, barriers, and so whatever stands on them, as Python and Java do. A seccomp filter makes
                   the kernel stop at each (SIGSYS) for the library to serve it, which takes one to two microseconds:
                   --trap is for trying and for seeing, not for speed. Uncontended locks make no call and cost nothing.
                   A debugger that runs under the trap itself sees nothing of it; one outside needs 'handle SIGSYS
                   nostop noprint pass', or what it calls in the program ('call', 'print f()') is given up at another
                   thread's SIGSYS, and the program crashes later. Where gdb stops in the library, 'set language c'.
                   A seccomp filter of the program's own must allow rt_sigprocmask, futex and write. Syscall User
                   Dispatch is refused (EINVAL). ThreadSanitizer sees what the library copies and not its locks:
                   programs built with it need 'called_from_lib:libufutex_preload.so' in a file of suppressions.

  with --timers    timer_create(2), timer_settime(2), timer_gettime(2), timer_getoverrun(2) and timer_delete(2), by
                   libc's functions of these names and by its syscall(); with --trap those that are instructions, too.
                   The signals are real ones: SI_TIMER, with value, ID, overrun. For SIGEV_THREAD threads are started.

Timers (--timers) differ from the kernel's in this:
  - A thread of the library's waits for them, and sends the signals: some ten microseconds later than the kernel, more
    where the machine has more to do than CPUs. It is there from the first timer on, in /proc/PID/task. It may use the
    CPUs of the process, and has SCHED_FIFO's priority 50, as the kernel's own interrupt threads, where it may have
    that (CAP_SYS_NICE, RLIMIT_RTPRIO); else SCHED_OTHER. A process whose threads all end by the system call, and not
    by libc, goes on with it.
  - That thread has no capabilities. Before users, groups, capabilities, filters or namespaces of a thread change (by
    libc's functions or its syscall(); with --trap by instructions, too) it ends, and then starts again with those of
    the thread that called, which makes such a call some 70 microseconds longer. Where that thread may make none then
    (RLIMIT_NPROC, a filter, a PID namespace for its children) while timers are set, and in seccomp's strict mode, the
    program ends (126). A filter of the program's has to allow that thread clone, futex, rt_sigtimedwait,
    rt_sigqueueinfo, rt_sigpending, timer_create, timer_settime and timer_delete.
  - What is read from a signalfd, and what is ignored, nobody sees: an interval timer goes on half an interval later,
    but in time for its next deadline; ssi_overrun is 0, and timer_getoverrun has the number then.
  - IDs begin at 0 again after exec. RLIMIT_SIGPENDING does not limit how many timers there may be.
  - Timers that a child makes after vfork are the kernel's.

What stays with the kernel: futexes shared between processes, locks with priority inheritance, robust lists; timers
without --timers. A private word that has waiters of both kinds is refused to FUTEX_CMP_REQUEUE_PI, FUTEX_LOCK_PI and
its kin, as by the kernel (EINVAL), where they come by libc's syscall(); FUTEX_WAKE on it finds its plain waiters alone.

What cannot be run (126): programs that are statically linked, or not linked with glibc, or not for 64-bit x86-64;
setuid and setgid programs and those with file capabilities, unless they are run by whom they would become. Without
--trap, such programs that the program runs in turn go without the library. With --trap they are refused, too (EACCES,
and a line on stderr): the filter cannot be taken off, and nobody would answer it. Under --trap no program gains rights
by being run (no_new_privs).

The report (--stats) comes when the process ends, by exit or a signal that it could have caught; and whenever another
process sends it SIGUSR1 by kill(2). If the program has a handler for that, it is called, too; if not, the program goes
on. With --follow-forks (-f, as strace's) processes that it makes report, too, if they made a futex call. Without FILE
it goes to the stderr that the program began with. FILE is emptied first; each process appends its own.
  calls           by futex operation (futex(2), futex2); kernel calls: seen, but left to the kernel
  words, waits, most waiters, mismatches, wakes, woken, empty wakes, requeues, requeued, refused ...
                                                                                   what became of them
  slots, resizes, contended locks, longest chain                                   the table of the process
  timers made, settings, expiries, signals, overruns                               with --timers
  addresses       the words that at least 1 % of the calls named, where they lie, at most ten. ~ where it is not
                  exact: many more words were used than are counted one by one, and it was at least so often
With --json one object a line: command, pid, scheme, layout, trap (bool), slots (0: no table of its own), table_bytes,
elapsed_ns, cpu_user_ns, cpu_system_ns, calls {operation: number}, kernel_calls, shared_calls (of those, of words that
processes may share), threads_most, waiting_most (at a time), words (how many were named; at least, unless words_exact),
counters {name: number}, hottest [{address (text), place (text or null), calls_at_most, calls_at_least}]; with --timers
timers {name: number}.

--slots N is what prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, N) would have done at the start: from then on no policy
decides, but the program may set another number, unless --immutable. --policy N is the policy's own choice of N.

With --kernel nothing is taken: futexes, timers and signals stay as they are, at their own speed. The library does one
thing: before the program begins, prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, N), which gives the process a table of
its own in the kernel and for good ends the kernel's own choice of its size; 0 is the global table. That takes Linux
6.16 or later; --immutable (no later change, no counter) Linux 6.16 alone. It is tried first, and the program is not
started where the kernel refuses. Neither exec nor fork hands a table on: what the program executes with the library
makes its own of N slots, and so does the child of libc's fork(). The child of a clone or fork by system call, and
statically linked programs that it runs, have the kernel's choice. There is no report.

Exit status: the program's; or
  125  ufutex itself failed: the library is not found, FILE cannot be written, the kernel refuses the slots of --kernel
  126  the program is found and cannot be run
  127  the program is not found
  2    a mistake in the options

Environment:
  UFUTEX_PRELOAD   the library, in place of the libufutex_preload.so beside the command, in deps/ there, or in
                   ../lib/ufutex/
  LD_PRELOAD       kept; ours is put first
  UFUTEX_RUN       set, for the library

Examples:
  ufutex run --stats -- perf bench futex hash -t 2      how often, and on which table
  ufutex run --trap --stats -- python3 server.py        a program whose locks are glibc's
  ufutex run --trap --json -o report.json -- java -jar app.jar
  ufutex run --timers --stats -- cyclictest -x -l 1000  a program with POSIX timers
  ufutex run --slots 1024 --immutable -- ./server       a table that never changes
  ufutex run --kernel --slots 1024 -- ./server          the kernel's futexes, on a table of 1024 slots
  kill -USR1 PID                                        a report of a program that goes on";
