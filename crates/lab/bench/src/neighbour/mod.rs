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
mod settings;

pub use attacks::Attack;
pub use cpu::Cpu;
pub use neighbours::{Found, Operation};
pub use settings::Neighbour;

use super::{Lab, Sink};
use anyhow::{Context, Result};
use channels::{Attackers, Order};
use lab_measure::interrupt;
use ufutex::{Domain, DomainOptions, Error, PidNamespace, System};

/// One operation under one attack, round by round.
pub struct Pair {
    /// The attack.
    pub attack: Attack,
    /// Size of the attack: number of owners, timers, keys or waiters.
    pub number: usize,
    /// The attackers' CPU time.
    pub cpu: Cpu,
    /// The neighbour's operation.
    pub operation: Operation,
    /// Samples beside attackers that burn CPU.
    pub alone: Vec<Found>,
    /// Samples beside attackers that attack.
    pub attacked: Vec<Found>,
    /// Number of steps of the attack in all rounds.
    pub steps: u64,
}

/// Runs each attack beside each operation, and passes the results to `sink`.
pub fn run(asked: &Neighbour, sink: &mut dyn Sink) -> Result<()> {
    let lab = Lab::new(&asked.settings);
    sink.opening(&lab)?;
    let stages = asked.stages();
    let stage = format!(
        "neighbour: {} attacks on {} operations, {} rounds",
        stages.len(),
        asked.operations.len(),
        asked.rounds
    );
    let progress = lab.progress(&stage, stages.len() * asked.rounds);
    let mut pairs = Vec::new();
    for (attack, number, cpu) in stages {
        if interrupt::requested() {
            break;
        }
        progress.remark(&format!("neighbour: {attack}, {number}, {cpu}"));
        pairs.extend(under(&lab, asked, (attack, number, cpu), || progress.step())?);
    }
    drop(progress);
    pairs.retain(|pair| !pair.attacked.is_empty());
    sink.neighbour(&lab, asked, &pairs)?;
    if interrupt::requested() {
        super::say_interrupted(&[], false);
    }
    Ok(())
}

/// Measures all operations beside one attack.
fn under(
    lab: &Lab<'_>,
    asked: &Neighbour,
    (attack, number, cpu): (Attack, usize, Cpu),
    round_done: impl Fn(),
) -> Result<Vec<Pair>> {
    let make = || System::with_config(attack.config(number)).context("cannot make a system");
    let (calm, attacked) = (make()?, make()?);
    let attackers = Attackers::start(attack, number, cpu, asked.attackers, &attacked, &lab.cpus)?;
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
    let mut pairs: Vec<Pair> = asked.operations.iter().map(new).collect();
    let measure = |operation: Operation, system: &System, other: &Domain, order: Order| {
        attackers.during(order, asked.sample, || operation.measure(system, other, asked.sample))
    };
    lab.beside_noise(|| {
        for _ in 0..asked.rounds {
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
