//! `bench resize`.

use super::common::{self, Common, Output, Sleeping};
use super::{Asked, One};
use crate::cli::values::{self, List};
use clap::Args;
use lab_bench::resize::Resize;
use lab_bench::settings::Settings;
use lab_targets::Layout;

/// The flags.
#[derive(Args)]
pub struct ResizeArgs {
    /// Threads that hammer, a comma list [default: 2,16]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads, allow_negative_numbers = true)]
    threads: Option<List<usize>>,
    /// Futexes (words) of each thread
    #[arg(short, long, value_name = "N", default_value = "1024", value_parser = values::futexes, allow_negative_numbers = true)]
    futexes: usize,
    /// Slots before the resize
    #[arg(long, value_name = "N", default_value = "16", value_parser = values::slots, allow_negative_numbers = true)]
    from: usize,
    /// Slots after the resize
    #[arg(long, value_name = "N", default_value = "1024", value_parser = values::slots, allow_negative_numbers = true)]
    to: usize,
    /// Bucket layout of the engine's tables
    #[arg(long, value_parser = values::one_of::<Layout>(), default_value = "lean")]
    layout: Layout,
    #[command(flatten)]
    sleeping: Sleeping,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    output: Output,
}

/// End of the help.
pub fn more() -> String {
    let rows = format!(
        "{}
  from, to       slots
  resize_us      until the new size is in use (of kernel: until the request returned), the median over the rounds; a
                 resize is given up after 200 ms, and counts with the time until then; resize_p90_us: 90th percentile
  returned_us    until the request returned; its thread may have to wait for a CPU after others have done the work
  rate_meanwhile operations a second until the request returned, divided by those of the 50 ms before it
  missed_us      the work that the threads did not get done until the request returned, as the time that it would take
                 them at their rate before it
  completed      whether it completed in every round; completed_share: share of the rounds in which it completed
  op_pause_us    {{p50, p99, max}} of the hammering threads' operations during the resize, over all rounds
  ratio_kernel   this row's time divided by the kernel's: the median over the rounds",
        super::HEAD
    );
    common::more(&rows, "  ufutex bench resize -t 16 --targets live,kernel")
}

impl ResizeArgs {
    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(self) -> Result<One, String> {
        if self.from == self.to {
            return Err(format!("--to '{}' equals --from; accepted: another power of two", self.to));
        }
        let common = self.common.settings(self.output.format);
        let targets = common::names(self.sleeping.targets, None, self.layout)?;
        let settings = Settings { layout: self.layout, targets, ..common };
        let hammer = common::hammer(self.threads, self.futexes, size_of::<u32>())?;
        let asked = Asked::Resize(Resize { hammer, from: self.from, to: self.to });
        Ok(One { settings, asked, perf: None, mlockall: self.common.mlockall })
    }
}
