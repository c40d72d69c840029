//! `ufutex soak`: its options.

use super::sim;
use clap::Args;
use lab_soak::{Soak, THREADS_MIN};
use lab_values as values;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longest run, in seconds.
const LONGEST_S: f64 = 7.0 * 24.0 * 3600.0;

/// Arguments of `ufutex soak`.
#[derive(Args)]
pub struct SoakArgs {
    /// How long: seconds above 0, or a number with s, m or h behind it, up to 168h
    #[arg(short, long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    duration: f64,
    /// Threads that wait, wake, lock, poll futures and set timers: 16 to 16384
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = values::number::<usize>(THREADS_MIN, values::THREADS_MAX, "threads"))]
    threads: usize,
    /// Futures that wait at a time: 1 to 1000000
    #[arg(short, long, value_name = "N", default_value = "10000", value_parser = values::number::<usize>(1, values::NUMBER_MAX, ""))]
    futures: usize,
    /// Timers at a time: 1 to 1000000
    #[arg(long, value_name = "N", default_value = "10000", value_parser = values::number::<usize>(1, values::NUMBER_MAX, ""))]
    timers: usize,
    /// Seed of the random choices [default: from the clock; it is printed]
    #[arg(long, value_name = "N", value_parser = sim::seed)]
    seed: Option<u64>,
    /// No progress on stderr
    #[arg(short, long)]
    silent: bool,
    /// Print one JSON object on stdout, and nothing else
    #[arg(long)]
    json: bool,
}

impl From<SoakArgs> for Soak {
    fn from(args: SoakArgs) -> Self {
        let SoakArgs { duration, threads, futures, timers, seed, silent, json } = args;
        let seed = seed
            .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos().into());
        let duration = Duration::from_secs_f64(duration);
        Self { duration, threads, futures, timers, seed, silent, json }
    }
}

fn duration(text: &str) -> Result<f64, String> {
    values::time(text, LONGEST_S).ok_or_else(|| {
        "is not accepted; accepted: seconds above 0, or a time such as 90s, 10m or 1h, up to 168h".to_string()
    })
}

/// Text above the options in `ufutex soak --help`.
pub const ABOUT: &str = "\
Use everything at once for minutes, and account for every wake and expiry

Threads and futures wait, are woken, requeued, timed out and interrupted. Tasks take locks, and die while they hold them
or wait for them. Tables are resized, words change their node, timers expire, and a clock jumps, all the time. In the
end the counts must agree exactly, nobody may wait any more, and memory must be flat.";

/// Text below the options.
pub const MORE: &str = "\
Half of the threads work in each of two worlds. In 'host' the engine has the host's clocks, nodes and driver thread. In
'jumping' it has a platform of this program: four nodes, and a CLOCK_REALTIME that jumps by hours and days, back and
forth. The machine's own clock is not touched. A shift of eight threads has a domain for plain words and one for locks:
two threads that pass each other a ball without timeouts, two of a crowd, two that lock, one that polls futures, one
that sets timers. Threads that resize, interrupt and turn a driver come on top of --threads.

The laws, checked at the end for each world:
  wakes that were counted = waits that a wake has ended, as wakers and waiters count, and as the engine counts
    (for words whose futures are dropped: within the number of dropped futures)
  balls that were thrown = balls that were caught
  wakes of a future that was dropped = wakes that the next future has received
  changes of what locks guard = critical sections
  locks whose owner died = locks that were taken over with OWNER_DIED + locks that still have it at the end
  settings of timers = expiries + cancellations + notices that became void
  no waiter, no held lock, no timer is left
And during the run:
  a timer with an interval has delivered what its interval and its clock say, after each notice
  a timer on a clock that only the test moves has delivered exactly that, after each turn
  no timeout and no timer comes early; none is late by more than 15 s, and 10 ms for each thread beyond 64
    (CLOCK_REALTIME of 'host', which others may set, is not checked for earliness, nor for lateness of timeouts; the
    other deadlines on CLOCK_REALTIME are checked for lateness at the end, after a jump that goes beyond all of them)
  each thread makes progress within twice that time; if not, the report says what it waits for
  the resident set grows by at most 16 MiB, and 128 KiB for each thread beyond 64, after the first tenth
  after the end the heap is as before, up to 256 KiB

docs/COMMAND.md says what each count is. The line of the wakes adds up received, balls_received, drops_received and
passes_received; the expiries are timers_expired, expirations and manual_expirations.

--json, one object: verdict (clean, interrupted, broken), seconds, threads, futures, timers, seed; worlds [{world,
  counts {name: number}, laws [{law, least, most, found, holds}]}]; memory {resident_after_a_tenth, resident_at_the_end,
  resident_more_allowed, heap_before, heap_after, heap_more_allowed, all in bytes; unchecked [text]}; findings [{law,
  expected, found}], at most 32; broken: the number of all findings. resident_after_a_tenth is null if the run ended
  before a tenth of its time had passed, or before all futures and timers were made. heap_before and heap_after are null
  if the C library does not say how large its heap is; heap_after also if a thread has not ended. unchecked says which
  of the two was not checked, and why. A seed repeats the random choices, not the interleavings.

Exit status:
  0    every law holds
  1    a law is broken, or it failed. The run ends at the first finding. What the threads find until all of them have
       ended is counted and reported too: a lost timeout may be one of many.
  2    a mistake in the options
  130  interrupted: every law holds for what was done until then

Examples:
  ufutex soak
  ufutex soak -d 1h -t 64 --futures 10000 --timers 10000
  nice -n 19 ufutex soak --json > soak.json";
