//! `neighbour`: how long one guest's operations take while another guest of the same system attacks what they share.
//!
//! There are two systems. In each, the neighbour's domain repeats one operation, and the attackers have their own
//! domains. Each guest has its own PID namespace, as guests have that do not trust each other. In the first system the
//! attackers' threads only burn CPU. In the second they attack. In both they get the same share of CPU time. Samples of the
//! two systems alternate, so they differ by the attack and not by other work on the machine.

mod attacks;
mod channels;
mod cpu;
mod neighbours;
mod print;

use attacks::Attack;
use cpu::Cpu;
use neighbours::{Found, Operation};

use crate::Lab;
use crate::flags::{self, Noise};
use crate::settings::Settings;
use crate::workload::Workload;
use anyhow::{Context, Result};
use channels::{Attackers, Order};
use clap::Args;
use lab_measure::{interrupt, machine};
use lab_values::{self as values, List};
use print::Row;
use std::time::Duration;
use strum::VariantArray;
use ufutex::{Domain, DomainOptions, Error, PidNamespace, System};

/// A sample's length by default.
const SAMPLE_S: f64 = 0.125;
/// Shortest sample. A shorter one has too few operations for a tail.
const SAMPLE_MIN: Duration = Duration::from_millis(10);

/// A guest's operations while another guest attacks
#[derive(Clone, Args)]
pub struct Neighbour {
    /// Attacks, a comma list [default: all]; see below
    #[arg(long, value_name = "LIST", value_parser = values::some_of::<Attack>(), hide_possible_values = true)]
    attacks: Option<List<Attack>>,
    /// How much CPU time the attackers get, a comma list [default: full]: full, rationed, idle, stopped
    #[arg(long, value_name = "LIST", value_parser = values::some_of::<Cpu>(), hide_possible_values = true)]
    cpu: Option<List<Cpu>>,
    /// The neighbour's operations, a comma list [default: all]: private, shared, pi, timeout, timer, executor
    #[arg(long, value_name = "LIST", value_parser = values::some_of::<Operation>(), hide_possible_values = true)]
    operations: Option<List<Operation>>,
    /// Size of an attack, a comma list [default: see below]
    #[arg(short, long, value_name = "LIST", value_parser = values::numbers(1, values::NUMBER_MAX, "waiters or timers"))]
    number: Option<List<usize>>,
    /// Threads that attack, each from its own domain [default: one on each CPU but the neighbour's]
    #[arg(short, long, value_name = "N", value_parser = values::number::<usize>(1, 1024, "threads"))]
    threads: Option<usize>,
    /// How long in all: seconds, or a time such as 2m [default: 0.125 for each sample]
    #[arg(short, long, value_name = "TIME", value_parser = values::runtime)]
    runtime: Option<f64>,
    /// Rounds, each with a sample of every operation alone and attacked
    #[arg(long, value_name = "N", default_value = "5", value_parser = values::number::<usize>(1, flags::REPEAT_MAX, "rounds"))]
    repeat: usize,
    #[command(flatten)]
    noise: Noise,
    /// No progress and no notes on stderr
    #[arg(short, long)]
    silent: bool,
    /// Print one JSON object per line on stdout, and nothing else
    #[arg(long)]
    json: bool,
}

/// One operation under one attack, round by round.
struct Pair {
    attack: Attack,
    /// Size of the attack: number of owners, timers, keys or waiters.
    number: usize,
    cpu: Cpu,
    operation: Operation,
    /// Samples beside attackers that burn CPU.
    alone: Vec<Found>,
    /// Samples beside attackers that attack.
    attacked: Vec<Found>,
    /// Number of steps of the attack in all rounds.
    steps: u64,
}

impl Workload for Neighbour {
    const NAME: &'static str = "neighbour";
    const IS_ALONE: bool = true;
    type Row = Row;

    fn help() -> String {
        HELP.to_string()
    }

    fn check(&mut self) -> Result<Settings, String> {
        // Now, because a container may change them while the attacks go on.
        self.threads.get_or_insert_with(|| machine::allowed_cpus().len().saturating_sub(1).max(1));
        let (runtime, samples) = (self.runtime_s(), self.samples());
        if self.sample() < SAMPLE_MIN {
            let least = SAMPLE_MIN.as_secs_f64() * samples as f64;
            return Err(format!(
                "--runtime '{runtime}' is too short for {samples} samples; accepted: {least:.2} or more"
            ));
        }
        Ok(Settings { noise: self.noise.noise, silent: self.silent, json: self.json, ..Settings::default() })
    }

    /// Runs each attack beside each operation.
    fn run(&self, lab: &mut Lab<'_>, _: &mut Vec<String>) -> Result<Vec<Row>> {
        let stages = self.stages();
        let operations = self.operations().len();
        let stage = format!("neighbour: {} attacks on {operations} operations, {} rounds", stages.len(), self.repeat);
        let progress = lab.progress(&stage, stages.len() * self.repeat);
        let mut pairs = Vec::new();
        for (attack, number, cpu) in stages {
            if interrupt::requested() {
                break;
            }
            progress.remark(&format!("neighbour: {attack}, {number}, {cpu}"));
            pairs.extend(under(lab, self, (attack, number, cpu), || progress.step())?);
        }
        drop(progress);
        pairs.retain(|pair| !pair.attacked.is_empty());
        Ok(pairs.iter().map(|pair| Row::new(self, pair)).collect())
    }

    fn text(&self, rows: &[Row]) -> String {
        print::text(rows)
    }
}

impl Neighbour {
    fn operations(&self) -> &[Operation] {
        self.operations.as_ref().map_or(Operation::VARIANTS, |operations| operations)
    }

    /// Each attack with each of its sizes and each share of CPU time, in the order in which they run.
    fn stages(&self) -> Vec<(Attack, usize, Cpu)> {
        let attacks = self.attacks.as_ref().map_or(Attack::VARIANTS, |attacks| attacks);
        let cpus = self.cpu.as_ref().map_or(&[Cpu::Full][..], |cpus| cpus);
        let numbers = |attack: Attack| self.number.as_ref().map_or(attack.numbers(), |numbers| numbers).to_vec();
        let sizes = attacks.iter().flat_map(|attack| numbers(*attack).into_iter().map(|number| (*attack, number)));
        sizes.flat_map(|(attack, number)| cpus.iter().map(move |cpu| (attack, number, *cpu))).collect()
    }

    /// The number of attacking threads.
    fn attackers(&self) -> usize {
        self.threads.unwrap_or_else(|| machine::allowed_cpus().len().saturating_sub(1).max(1))
    }

    /// The number of all samples.
    fn samples(&self) -> usize {
        self.stages().len() * self.operations().len() * 2 * self.repeat
    }

    fn runtime_s(&self) -> f64 {
        self.runtime.unwrap_or(SAMPLE_S * self.samples() as f64)
    }

    /// The length of a sample.
    fn sample(&self) -> Duration {
        Duration::from_secs_f64(self.runtime_s() / self.samples() as f64)
    }
}

/// Measures all operations beside one attack.
fn under(
    lab: &Lab<'_>,
    asked: &Neighbour,
    (attack, number, cpu): (Attack, usize, Cpu),
    round_done: impl Fn(),
) -> Result<Vec<Pair>> {
    let sample = asked.sample();
    let make = || System::with_config(attack.config(number)).context("cannot make a system");
    let (calm, attacked) = (make()?, make()?);
    let attackers = Attackers::start(attack, number, cpu, asked.attackers(), &attacked, &lab.cpus)?;
    let other = guest(&calm)?;
    let new = |operation: &Operation| Pair {
        attack,
        number,
        cpu,
        operation: *operation,
        alone: Vec::new(),
        attacked: Vec::new(),
        steps: 0,
    };
    let mut pairs: Vec<Pair> = asked.operations().iter().map(new).collect();
    let measure = |operation: Operation, system: &System, other: &Domain, order: Order| {
        attackers.during(order, sample, || operation.measure(system, other, sample))
    };
    lab.beside_noise(|| {
        for _ in 0..asked.repeat {
            for pair in &mut pairs {
                let (alone, _) = measure(pair.operation, &calm, &other, Order::Burn)?;
                let (under_attack, steps) = measure(pair.operation, &attacked, &attackers.domain, Order::Attack)?;
                pair.alone.push(alone);
                pair.attacked.push(under_attack);
                pair.steps += steps;
                if interrupt::requested() {
                    return Ok(());
                }
            }
            round_done();
        }
        Ok(())
    })?;
    Ok(pairs)
}

/// Makes a domain in a PID namespace of its own.
fn guest(system: &System) -> Result<Domain, Error> {
    Ok(Domain::in_namespace(&PidNamespace::new(system)?, DomainOptions::new()))
}

/// The end of the help.
const HELP: &str = "\
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
