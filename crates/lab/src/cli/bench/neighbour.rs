//! `bench neighbour`, which does not compare targets.

use super::noise::NoiseArgs;
use crate::cli::values::{self, List};
use clap::Args;
use lab_bench::Settings;
use lab_bench::neighbour::{Attack, Neighbour, Operation};
use lab_measure::machine;
use std::time::Duration;
use strum::VariantArray;

/// The flags.
#[derive(Args)]
pub struct NeighbourArgs {
    /// Attacks, a comma list [default: all]: pi-chain, timers, processes, keys, slots,
    /// priorities, crowd
    #[arg(long, value_name = "LIST", value_parser = attacks)]
    pub attacks: Option<List<Attack>>,
    /// The neighbour's operations, a comma list [default: all]: private, shared, pi, timeout
    #[arg(long, value_name = "LIST", value_parser = operations)]
    pub operations: Option<List<Operation>>,
    /// Size of an attack (owners, timers, processes, keys or waiters), a comma list [default: pi-chain 1000; timers
    /// 10000,100000,1000000; processes 5000; slots 1000000; the others 100000]
    #[arg(short, long, value_name = "LIST", value_parser = values::number, allow_negative_numbers = true)]
    pub number: Option<List<usize>>,
    /// Threads that attack, each from its own domain [default: one on each CPU but the neighbour's]
    #[arg(short, long, value_name = "N", value_parser = values::lockers, allow_negative_numbers = true)]
    pub threads: Option<usize>,
    /// How long in all: seconds, or a time such as 2m [default: 40]
    #[arg(short, long, value_name = "TIME", value_parser = values::runtime, allow_negative_numbers = true)]
    pub runtime: Option<f64>,
    /// Rounds, each with a sample of every operation alone and attacked
    #[arg(long, value_name = "N", default_value = "5", value_parser = values::repeat, allow_negative_numbers = true)]
    pub repeat: usize,
    #[command(flatten)]
    pub noise: NoiseArgs,
    /// No progress and no notes on stderr
    #[arg(short, long)]
    pub silent: bool,
    /// Print one JSON object per line on stdout, and nothing else
    #[arg(long)]
    pub json: bool,
}

/// End of the help.
pub const MORE: &str = "\
Times one guest's operations while another guest of the same system attacks what the two share. The neighbour and the
attackers are threads of this process, each with its own domain. 'alone' means that the attackers only burn CPU.

  private   queue a waiter on a private word and wake it
  shared    the same on a word in a shared object, whose key is in the global table
  pi        wait for a lock with priority inheritance until it is handed over
  timeout   lateness of a future's 200 us timeout

Rows of --json, one object per line:
  workload, attack, number (size of the attack), operation, attackers, repeat, sample_s, steps (of the attack),
  alone_ns, attacked_ns {p50, p99, p999, max}: of each round, then the median over the rounds; alone_per_sec,
  attacked_per_sec: operations; ratio {p50, p99, p999, max, rate}: attacked divided by alone, the median over the rounds;
  with --noise noise: busy loops on each CPU

Exit status:
  0    measured
  1    it failed
  2    a mistake in the options
  130  interrupted: the rows have what was measured until then

Example:
  ufutex bench neighbour --attacks pi-chain --operations pi";

const RUNTIME_S: f64 = 40.0;
/// Shortest sample. A shorter one has too few operations for a tail.
const SAMPLE_MIN: Duration = Duration::from_millis(10);

impl NeighbourArgs {
    /// Fills in the defaults. An error is one line for the user.
    pub fn check(self) -> Result<Neighbour, String> {
        let attacks = self.attacks.map_or_else(|| Attack::VARIANTS.to_vec(), |List(attacks)| attacks);
        let operations = self.operations.map_or_else(|| Operation::VARIANTS.to_vec(), |List(all)| all);
        let (noise, silent, json) = (self.noise.noise, self.silent, self.json);
        let settings = Settings { noise, silent, json, ..Settings::default() };
        let mut asked = Neighbour {
            settings,
            attacks,
            operations,
            numbers: self.number.map(|List(numbers)| numbers),
            attackers: self.threads.unwrap_or_else(|| machine::allowed_cpus().len().saturating_sub(1).max(1)),
            rounds: self.repeat,
            sample: Duration::ZERO,
        };
        let stages: usize = asked.attacks.iter().map(|attack| asked.numbers(*attack).len()).sum();
        let samples = stages * asked.operations.len() * 2 * asked.rounds;
        let runtime = self.runtime.unwrap_or(RUNTIME_S);
        asked.sample = Duration::from_secs_f64(runtime / samples as f64);
        if asked.sample < SAMPLE_MIN {
            let least = SAMPLE_MIN.as_secs_f64() * samples as f64;
            return Err(format!(
                "--runtime '{runtime}' is too short for {samples} samples; accepted: {least:.2} or more"
            ));
        }
        Ok(asked)
    }
}

fn attacks(text: &str) -> Result<List<Attack>, String> {
    values::list(text, "pi-chain, timers, processes, keys, slots, priorities, crowd", |part| part.parse().ok())
}

fn operations(text: &str) -> Result<List<Operation>, String> {
    values::list(text, "private, shared, pi, timeout", |part| part.parse().ok())
}
