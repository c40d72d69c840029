//! `bench crowd`.

use super::common::{self, Own};
use super::{Asked, One};
use crate::cli::values::{self, List};
use clap::Args;
use lab_bench::crowd::Crowd;

/// The flags.
#[derive(Args)]
pub struct CrowdArgs {
    /// Waiters, a comma list [default: distinct 100,100000; same-bucket 10000]
    #[arg(short = 'n', long, visible_alias = "waiters", value_name = "LIST", value_parser = values::number,
        allow_negative_numbers = true)]
    number: Option<List<usize>>,
    #[command(flatten)]
    own: Own,
}

/// End of the help.
pub fn more() -> String {
    let rows = format!(
        "{}
  case           distinct: a word for each waiter; same-bucket: two words in one bucket
  waiter_kind    future or custom
  waiters        distinct: of each domain; same-bucket: on the word that is not woken
  domains        that are measured together, each with that many waiters
  ns_per_op      {{p10, median, p90}} of a wake of one waiter
  ratio_fewest   this row's ns_per_op divided by that of the row with the fewest waiters: the median over the rounds",
        super::HEAD
    );
    common::more(&rows, "  ufutex bench crowd -n 100,10000 --targets live")
}

impl CrowdArgs {
    /// Fills in the defaults. An error is one line for the user.
    pub fn check(self) -> Result<One, String> {
        self.own.one(Asked::Crowd(Crowd { number: self.number.map(|List(number)| number) }), false)
    }
}
