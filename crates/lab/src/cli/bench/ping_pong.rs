//! `bench ping-pong`.

use super::common::{self, Own, Shared};
use super::{Asked, One};
use crate::cli::values::{self, List};
use clap::Args;
use lab_bench::ping_pong::PingPong;
use std::time::Duration;

/// The flags.
#[derive(Args)]
pub struct PingPongArgs {
    /// How many threads wake each other in turn, a comma list
    #[arg(short, long, value_name = "LIST", default_value = "2", value_parser = values::players)]
    threads: List<usize>,
    /// Number of balls that go round; N balls and 2 threads are a queue of N elements between a producer and a consumer
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::balls)]
    balls: u32,
    /// How long a thread works before each wake, a comma list
    #[arg(long, value_name = "LIST", default_value = "0", value_parser = values::lengths)]
    work: List<Duration>,
    /// How many microseconds a thread of `live (spin)` may spin before it sleeps; 0 leaves those rows out
    #[arg(long, value_name = "US", default_value = "200", value_parser = crate::cli::run::spin)]
    spin: Duration,
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    own: Own,
}

/// End of the help.
pub fn more() -> String {
    let rows = format!(
        "{}
  cpus           number of CPUs that the threads are pinned to: 1 or 2
  spin           true in rows of `live (spin)`, whose threads may spin before they sleep
  balls          how many balls the threads pass on
  work_ns        how long a thread works before each wake
  ns_per_op      {{p10, median, p90}} of a pass, work included: with one ball from a wake to the next
  cpu_ns_per_op  the same of the CPU time of all threads together
  ratio_kernel, ratio_parking_lot   this row's ns_per_op divided by theirs: the median over the rounds",
        super::HEAD
    );
    common::more(&rows, "  ufutex bench ping-pong --targets live,kernel --work 0,5us,1ms")
}

impl PingPongArgs {
    /// Fills in the defaults. An error is one line for the user.
    pub fn check(self) -> Result<One, String> {
        self.own.one(
            Asked::PingPong(PingPong {
                threads: self.threads.0,
                balls: self.balls,
                work: self.work.0,
                spin: self.spin,
            }),
            self.shared.shared,
        )
    }
}
