//! The flags that the workloads share, perf's among them.

mod refuse;
mod settings;

pub use settings::settings;

use super::values::{self, Format, List, Targets};
use clap::Args;
use lab_bench::Workload;
use lab_bench::settings::{Buckets, Line};
use lab_targets::Layout;
use lab_targets::Policy;
use lab_targets::timers::Test;

/// The flags of `perf bench futex`, and the lab's own.
#[derive(Args)]
pub struct BenchArgs {
    /// What to measure; without it, every workload but locks, shorter
    #[arg(value_name = "WORKLOAD", value_parser = values::one_of::<Workload>())]
    pub workloads: Vec<Workload>,
    /// Threads, a comma list [default: hash, wake, lock-pi, wasm 1,2; resize 2,16; growth
    /// 43,171,683,1366; requeue, wake-parallel 1000; locks 1,2,8 on one mutex, 64 on many,
    /// 2 on the lot alone; timers 1, and 2 with 20000 timers]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads, allow_negative_numbers = true)]
    pub threads: Option<List<usize>>,
    /// Futexes (words) of each thread [default: 1024]
    #[arg(short, long, value_name = "N", value_parser = values::futexes, allow_negative_numbers = true)]
    pub futexes: Option<usize>,
    /// Buckets: a power of two; 0: the global table; auto: what `live` settles at under this load, for
    /// every target. With --sweep a comma list
    #[arg(short, long, value_name = "N", value_parser = values::buckets, allow_negative_numbers = true)]
    pub buckets: Option<List<Buckets>>,
    /// hash: tables by threads and buckets, and by processes and buckets [default: 1,2,4,8,16 threads;
    /// the global table, 4 to 256 buckets, and to 2048]
    #[arg(long)]
    pub sweep: bool,
    /// Seconds in all for a workload
    #[arg(short, long, value_name = "SECONDS", value_parser = values::runtime, allow_negative_numbers = true)]
    pub runtime: Option<f64>,
    /// Shared futexes in place of process-private ones
    #[arg(short = 'S', long)]
    pub shared: bool,
    /// No progress and no remarks on stderr
    #[arg(short, long)]
    pub silent: bool,
    /// Targets, a comma list [default: all]: live, fixed, atomic, percpu, global, kernel, parking_lot; for
    /// hash and wake also floor; timers has its own: ours, global-lock, precheck, scaled, radix, kernel
    #[arg(long, value_name = "LIST", value_parser = values::targets)]
    pub targets: Option<Targets>,
    /// Bucket layout of our tables
    #[arg(long, value_parser = values::one_of::<Layout>(), default_value = "lean")]
    pub layout: Layout,
    /// Size policy of `live`: threads, load, or a power of two [default: load; with -b N, N]
    #[arg(long, value_name = "POLICY", value_parser = values::policy, allow_negative_numbers = true)]
    pub policy: Option<Policy>,
    /// Rounds (each has one sample of every target); growth runs 9 at least
    #[arg(long, value_name = "N", value_parser = values::repeat, allow_negative_numbers = true)]
    pub repeat: Option<usize>,
    /// hash, wake, wasm: bytes from a word to the next [default: 4, perf's array]
    #[arg(long, value_name = "BYTES", value_parser = values::stride, allow_negative_numbers = true)]
    pub stride: Option<usize>,
    /// resize: slots before [default: 16]
    #[arg(long, value_name = "N", value_parser = values::slots, allow_negative_numbers = true)]
    pub from: Option<usize>,
    /// resize: slots after [default: 1024]
    #[arg(long, value_name = "N", value_parser = values::slots, allow_negative_numbers = true)]
    pub to: Option<usize>,
    /// requeue: waiters to move in one call [default: 1, and all]
    #[arg(short = 'q', long, value_name = "N", value_parser = values::nrequeue, allow_negative_numbers = true)]
    pub nrequeue: Option<usize>,
    /// requeue: all waiters in one call
    #[arg(short = 'B', long)]
    pub broadcast: bool,
    /// requeue: to a lock with priority inheritance; also -p without a list
    #[arg(long)]
    pub pi: bool,
    /// timers: processes, a comma list [default: 1]
    #[arg(short, long, value_name = "LIST", num_args = 0..=1, value_parser = values::processes, allow_negative_numbers = true)]
    pub processes: Option<Option<List<usize>>>,
    /// wake-parallel: threads that wake; they share the sleepers evenly [default: 2]; wake: threads sleep,
    /// and so many are woken at once, as perf's wake does
    #[arg(short = 'w', long, visible_alias = "nwakes", value_name = "N", value_parser = values::nwakers, allow_negative_numbers = true)]
    pub nwakers: Option<usize>,
    /// lock-pi: a lock for each thread in place of one for all
    #[arg(short = 'M', long)]
    pub multi: bool,
    /// lock-pi: microseconds to sleep with the lock [default: 0; perf sleeps 1]
    #[arg(long, value_name = "US", value_parser = values::hold, allow_negative_numbers = true)]
    pub hold: Option<u64>,
    /// crowd: waiters [default: distinct 100,100000; same-bucket 10000]; timers: timers of each thread,
    /// and how often create-delete does it [default: 20000,100000; the others 100000]; a comma list
    #[arg(short = 'n', long, visible_aliases = ["waiters", "timers"], value_name = "LIST",
        value_parser = values::number, allow_negative_numbers = true)]
    pub number: Option<List<usize>>,
    /// timers: what is measured, a comma list [default: all]: create-getoverrun, create-delete, settime, expire
    #[arg(long, value_name = "LIST", value_parser = values::tests)]
    pub tests: Option<List<Test>>,
    /// timers: IDs that the caller chooses, so far apart [default: only 2048 timers, 512 apart]
    #[arg(long, value_name = "STRIDE", value_parser = values::sparse, allow_negative_numbers = true)]
    pub sparse: Option<usize>,
    /// locks: threads that write, of the reader-writer lock [default: 1; and 2]
    #[arg(long, value_name = "N", value_parser = values::lockers, allow_negative_numbers = true)]
    pub writers: Option<usize>,
    /// locks: threads that read [default: 1; and 6]
    #[arg(long, value_name = "N", value_parser = values::lockers, allow_negative_numbers = true)]
    pub readers: Option<usize>,
    /// locks: mutexes of many-locks, and of the lot [default: 16, 1024]
    #[arg(long, value_name = "N", value_parser = values::locks, allow_negative_numbers = true)]
    pub locks: Option<usize>,
    /// locks: steps of work with the lock [default: 1]
    #[arg(long, value_name = "N", value_parser = values::work, allow_negative_numbers = true)]
    pub work_per_critical_section: Option<usize>,
    /// locks: steps of work without [default: 0]
    #[arg(long, value_name = "N", value_parser = values::work, allow_negative_numbers = true)]
    pub work_between_critical_sections: Option<usize>,
    /// locks: which line of parking_lot [default: 0.13]
    #[arg(long, value_parser = values::one_of::<Line>())]
    pub line: Option<Line>,
    /// The table never changes its size again (perf 6.16's flag, with -b)
    #[arg(short = 'I', long)]
    pub immutable: bool,
    /// Lock all current and future memory
    #[arg(short, long)]
    pub mlockall: bool,
    /// table; json; perf (or default): what `perf bench futex` prints, for `live` or --targets, with perf's
    /// defaults: as many threads as CPUs, 10 s or 10 runs; simple: the same without its first line
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// One JSON object a line on stdout, nothing else there
    #[arg(long)]
    pub json: bool,
    /// For those who change the engine: every workload at full length, and each figure beside its bound
    #[arg(long, hide = true, conflicts_with = "workloads")]
    pub figures: bool,
}

/// Below the help.
pub const ROWS: &str = "\
Rows of --json, one object a line:
  workload, target, threads, futexes, buckets (null: cannot be seen from outside), repeat (rounds), shared;
  policy and layout on our targets; stride (bytes) on hash, wake and wasm.
  hash, wake     ns_per_op {p10, median, p90} as one thread sees it, ops_per_sec of all threads, early_return;
                 ratio_kernel, ratio_parking_lot: medians of this row's ns_per_op over theirs, pairwise in a round,
                 also of the other workloads where the two can do it
  hash, \"section\":\"sizes\"  `live` at explicit sizes and under load; share_of_best: of the best one's ops_per_sec
  hash, \"section\":\"sweep\"  slots (asked for; 0: the global table), processes (the second table; each with `threads`)
  wake with -w   nwakes, ns_per_op for each waiter woken: threads sleep, as in perf's wake
  resize         resize_us (median; given up after 200 ms), completed (every round), completed_share,
                 op_pause_us {p50, p99, max}: the hammering threads' operations during the resize, all rounds
  growth         first_wait_us {p50, p99, max}, each the median over the repeats
  ping-pong      cpus 1 or 2, ns_per_op one way
  requeue        nrequeue (waiters a call moves), pi, ns_per_op for each waiter moved: the calls alone are timed
  wake-parallel  nwakers, ns_per_op for each waiter woken, as one waker sees it
  lock-pi        multi, hold_us, ns_per_op for one lock and unlock as a thread sees it, ops_per_sec of all threads
  crowd          case (distinct, same-bucket), waiter_kind (future, custom), waiters (same-bucket: that wait for the
                 other word), domains (each with so many), ns_per_op for a wake of one waiter, ratio_fewest: over the
                 row with the fewest waiters, pairwise
  wasm           operation (wait: the word differs; notify: nobody waits), case (words: each thread has its own; one: all
                 threads use the same), ns_per_op, ops_per_sec, early_return, ratio_wasmtime (if built with it)
  locks          case (mutex, rwlock with writers and readers, many-locks with futexes locks; lot: what lies below
                 the locks alone, looking for parked threads where nobody is), ns_per_op for one lock and
                 unlock as a thread sees it, ratio_parking_lot; cpu_ns_per_op, ratio_cpu_parking_lot: of CPU time;
                 targets: parking_lot; live, which is parking_lot on this engine; kernel asks for std's locks (std).
                 Its programs are built by cargo when they are first run
  timers         test (create-getoverrun: each thread creates its timers, asks each for its overruns, deletes them;
                 create-delete: a loop; settime: armed timers are armed again in random order; expire: timers that are
                 due one after another, in a second), timers (of each thread; how often create-delete does it), threads
                 (of each process), processes, sparse (from an ID to the next, where the caller chooses them); create_ns,
                 getoverrun_ns, delete_ns, settime_ns,
                 create_delete_ns (for both): for one, as a thread sees it, of CPU time where it is the only one;
                 bytes_per_timer: of everything; table_bytes: where timers are found, without them; expire, on ours
                 alone: lateness_us {p50, p99, max} of the worst round, lost (never delivered); none of futexes,
                 buckets, shared
  Rows of two threads or more, and ping-pong's on two CPUs, carry cpus_apart_ns, the one-way time of a cache line
  between the first two CPUs, and cpus_distance: near (below 60 ns) or far.
Samples of hash, wake and timers in which a thread had its CPU for less than 95 % of the time are taken once more.
-r without --repeat decides how many rounds there are; with both, how long a sample is.

Exit status:
  0    measured
  1    it failed
  2    a mistake in the options
  130  interrupted by Ctrl-C: the rows are of the samples until then; a second Ctrl-C ends it at once

Examples:
  ufutex bench                                  everything but locks, in a good minute, with a summary
  ufutex bench hash wake                        two workloads
  ufutex bench hash -t 1,2 -b auto --json       rows for other programs
  ufutex bench hash -t 4 --format perf          what perf bench futex hash prints
  ufutex bench hash --sweep                     by threads, processes and buckets
  ufutex bench timers --tests expire            how late timers are";
