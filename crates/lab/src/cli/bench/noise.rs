//! `--noise`, which every workload has.

use crate::cli::values;
use clap::Args;

/// The flag.
#[derive(Args)]
pub struct NoiseArgs {
    /// Take the samples beside N busy loops on each CPU [N if left out: 1]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", value_parser = values::noise,
        allow_negative_numbers = true)]
    pub noise: Option<usize>,
}
