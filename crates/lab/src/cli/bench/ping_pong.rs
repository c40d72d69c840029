//! `bench ping-pong`.

use super::common::{self, Own, Shared};
use super::{Asked, One};
use clap::Args;

/// The flags.
#[derive(Args)]
pub struct PingPongArgs {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    own: Own,
}

/// End of the help.
pub fn more() -> String {
    let rows = format!(
        "{}
  cpus           number of CPUs that the two threads are pinned to: 1 or 2
  ns_per_op      {{p10, median, p90}} from a wake to the other thread's next wake
  ratio_kernel, ratio_parking_lot   this row's ns_per_op divided by theirs: the median over the rounds",
        super::HEAD
    );
    common::more(&rows, "  ufutex bench ping-pong --targets live,kernel")
}

impl PingPongArgs {
    /// Fills in the defaults. An error is one line for the user.
    pub fn check(self) -> Result<One, String> {
        self.own.one(Asked::PingPong, self.shared.shared)
    }
}
