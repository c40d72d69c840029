//! `bench neighbour`, which does not compare targets.

use super::noise::NoiseArgs;
use crate::cli::values::{self, List};
use clap::Args;
use lab_bench::Settings;
use lab_bench::neighbour::{Attack, Cpu, Neighbour, Operation};
use lab_measure::machine;
use lab_measure::names::Named;
use std::time::Duration;
use strum::VariantArray;

/// The flags.
#[derive(Args)]
pub struct NeighbourArgs {
    /// Attacks, a comma list [default: all]; see below
    #[arg(long, value_name = "LIST", value_parser = attacks)]
    pub attacks: Option<List<Attack>>,
    /// How much CPU time the attackers get, a comma list [default: full]: full, rationed, idle, stopped
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpu: Option<List<Cpu>>,
    /// The neighbour's operations, a comma list [default: all]: private, shared, pi, timeout, timer, executor
    #[arg(long, value_name = "LIST", value_parser = operations)]
    pub operations: Option<List<Operation>>,
    /// Size of an attack, a comma list [default: see below]
    #[arg(short, long, value_name = "LIST", value_parser = values::number, allow_negative_numbers = true)]
    pub number: Option<List<usize>>,
    /// Threads that attack, each from its own domain [default: one on each CPU but the neighbour's]
    #[arg(short, long, value_name = "N", value_parser = values::lockers, allow_negative_numbers = true)]
    pub threads: Option<usize>,
    /// How long in all: seconds, or a time such as 2m [default: 0.125 for each sample]
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
attackers are threads of this process, each with a domain in a PID namespace of its own. 'alone' means that the
attackers only burn CPU.

Attacks, and -n by default:
  pi-chain       lock_pi at the end of a chain of this many owners, given up and repeated: 1000
  chain-limit    lock_pi that this limit on such chains refuses: 1024
  timers         this many timers of 1 ns: 10000,100000,1000000
  processes      this many processes of a guest with 64 such timers each: 5000
  keys           waiters on this many shared words; one after another waits again: 100000
  slots          a domain with this many waiters is resized from 0 slots to 2 and back: 1000000
  resizes        a guest with this many waiters requests 16 and 32 slots in turn: 100000
  largest-table  a guest requests this many slots, then 2, in turn: 1048576
  priorities     this many waiters of priority 99 on one shared word; one of priority 50 comes and goes: 100000
  crowd          this many waiters on one shared word; all are woken and wait again: 2000,100000
  hand-off       a waiter is queued and woken on this many shared words in turn: 1000
  waitv          a wait for this many shared words at once, given up and repeated: 128
  wake-op        FUTEX_WAKE_OP on two of twice this many shared words: 1000
  waiter-limit   waits that this limit on a domain's waiters refuses: 10000
  spins          waits of this many us that spin as long as they can, in one new domain after another: 200

Attackers' CPU time, burning and attacking:
  full      all of their CPUs
  rationed  10 ms of each 100 ms
  idle      what SCHED_IDLE leaves them beside a busy loop on each of their CPUs
  stopped   none, after a moment

  'rationed' and 'stopped' stop the attackers' threads by a signal, whose handler waits. So a thread stops at any of its
  instructions, as if it had lost its CPU. Each sample begins with a random time of up to 10 ms without a stop.

Operations:
  private   queue a waiter on a private word and wake it
  shared    the same on a word in a shared object, whose key is in the guest's global table
  pi        wait for a lock with priority inheritance until it is handed over
  timeout   lateness of a future's 200 us timeout
  timer     lateness of a 200 us timer, until a thread has received it
  executor  poll and drop a future of the attacker, as an executor of both guests: it waits where the attacker's own
            threads wait

'stuck' is the share of the time that operations of more than 1 ms took together, less the time for which the neighbour's
thread was ready to run and had no CPU. 'max' is the longest operation of all rounds.

Rows of --json, one object per line:
  workload, attack, number (size of the attack), cpu, operation, attackers, repeat, sample_s, steps (of the attack),
  alone_ns, attacked_ns {p50, p99, p999, max}: of each round, then the median over the rounds, but the longest of all;
  stuck {alone, attacked}: share of all rounds; alone_per_sec, attacked_per_sec: operations; ratio {p50, p99, p999, max,
  rate}: attacked divided by alone, the median over the rounds; with --noise noise: busy loops on each CPU

Exit status:
  0    measured
  1    it failed
  2    a mistake in the options
  130  interrupted: the rows have what was measured until then

Example:
  ufutex bench neighbour --attacks pi-chain --operations pi
  ufutex bench neighbour --attacks hand-off,crowd --cpu rationed,idle,stopped --operations shared -r 60";

/// A sample's length by default.
const SAMPLE_S: f64 = 0.125;
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
            cpus: self.cpu.map_or_else(|| vec![Cpu::Full], |List(cpus)| cpus),
            numbers: self.number.map(|List(numbers)| numbers),
            attackers: self.threads.unwrap_or_else(|| machine::allowed_cpus().len().saturating_sub(1).max(1)),
            rounds: self.repeat,
            sample: Duration::ZERO,
        };
        let samples = asked.stages().len() * asked.operations.len() * 2 * asked.rounds;
        let runtime = self.runtime.unwrap_or(SAMPLE_S * samples as f64);
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
    of_list(text)
}

fn cpus(text: &str) -> Result<List<Cpu>, String> {
    of_list(text)
}

fn operations(text: &str) -> Result<List<Operation>, String> {
    of_list(text)
}

fn of_list<T: Named + PartialEq>(text: &str) -> Result<List<T>, String> {
    let names: Vec<&str> = T::VARIANTS.iter().map(|one| (*one).into()).collect();
    values::list(text, &names.join(", "), |part| part.parse().ok())
}
