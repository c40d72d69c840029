//! The attackers' threads. They set their attack up, then burn CPU or attack, as the orders say.

use super::attacks::Attack;
use super::cpu::{Cpu, Threads};
use anyhow::{Context, Result, bail};
use lab_measure::machine;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use ufutex::{Domain, PidNamespace, System};

/// What the attackers do during a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Burn CPU without using the system.
    Burn,
    /// Attack.
    Attack,
}

/// An attacker's ends of the channels.
pub struct Channels {
    /// All attackers' threads.
    pub threads: Threads,
    orders: Receiver<(Order, Arc<AtomicBool>)>,
    /// One value when the attack is set up, one when an order has begun, and one with its number of steps when it has
    /// ended.
    replies: Sender<Result<u64, String>>,
}

impl Channels {
    /// Reports that the attack could not be set up.
    pub fn fail(&self, error: &ufutex::Error) {
        let _ = self.replies.send(Err(error.to_string()));
    }

    /// Carries out orders until the sender is dropped. An attack is `begin`, then `step` until the stop flag, then
    /// `end`.
    pub fn serve(&self, mut begin: impl FnMut(), mut step: impl FnMut(), mut end: impl FnMut()) {
        let mut reply = self.replies.send(Ok(0));
        while let (Ok(()), Ok((order, stop))) = (&reply, self.orders.recv()) {
            let mut steps = 0;
            if order == Order::Attack {
                begin();
            }
            let _ = self.replies.send(Ok(0));
            while !stop.load(Ordering::Relaxed) {
                match order {
                    Order::Burn => spin_loop(),
                    Order::Attack => {
                        step();
                        steps += 1;
                    }
                }
            }
            if order == Order::Attack {
                end();
            }
            reply = self.replies.send(Ok(steps));
        }
    }
}

struct Attacker {
    orders: Sender<(Order, Arc<AtomicBool>)>,
    replies: Receiver<Result<u64, String>>,
    thread: JoinHandle<()>,
}

impl Attacker {
    fn reply(&self) -> Result<u64> {
        match self.replies.recv().context("an attacker ended early")? {
            Ok(steps) => Ok(steps),
            Err(error) => bail!("an attack cannot be set up: {error}"),
        }
    }
}

/// All attackers of one system.
pub struct Attackers {
    all: Vec<Attacker>,
    threads: Threads,
    /// The CPU time that they get.
    cpu: Cpu,
    /// The CPUs that they share, which are all but the neighbour's.
    cpus: Vec<usize>,
    /// The neighbour's CPU, the first one.
    neighbours: usize,
    /// The first attacker's domain.
    pub domain: Arc<Domain>,
}

impl Attackers {
    /// Starts `count` attackers, each with a domain in a namespace of its own, and waits until they are set up.
    pub fn start(
        attack: Attack,
        number: usize,
        cpu: Cpu,
        count: usize,
        system: &System,
        cpus: &[usize],
    ) -> Result<Self> {
        let guest = || {
            let namespace = PidNamespace::new(system).context("cannot make an attacker's namespace")?;
            anyhow::Ok(Arc::new(Domain::in_namespace(&namespace, attack.options(number))))
        };
        let (threads, cpus) = (Threads::default(), cpus.to_vec());
        let neighbours = cpus[0];
        let cpus = if cpus.len() > 1 { cpus[1..].to_vec() } else { cpus };
        let mut attackers = Self { all: Vec::new(), threads, cpu, cpus, neighbours, domain: guest()? };
        for index in 0..count {
            let (orders, their_orders) = channel();
            let (their_replies, replies) = channel();
            let domain = if index == 0 { attackers.domain.clone() } else { guest()? };
            let cpu = attackers.cpus[index % attackers.cpus.len()];
            let threads = attackers.threads.clone();
            let channels = Channels { threads, orders: their_orders, replies: their_replies };
            let thread = Builder::new().name("attacker".to_string()).spawn(move || {
                machine::pin(cpu);
                channels.threads.add();
                attack.perform(&domain, number, index, &channels);
            });
            let thread = thread.with_context(|| format!("cannot start attacker {index} of {count}"))?;
            attackers.all.push(Attacker { orders, replies, thread });
        }
        attackers.all.iter().try_for_each(|attacker| attacker.reply().map(|_| ()))?;
        Ok(attackers)
    }

    /// Runs `neighbour` in a thread on the first CPU for `length`. Meanwhile all attackers carry out `order`, with their
    /// share of CPU time. Returns the number of their steps too.
    pub fn during<R: Send>(
        &self,
        order: Order,
        length: Duration,
        neighbour: impl FnOnce() -> Result<R> + Send,
    ) -> Result<(R, u64)> {
        let stop = Arc::new(AtomicBool::new(false));
        for attacker in &self.all {
            attacker.orders.send((order, stop.clone())).ok().context("an attacker ended early")?;
        }
        let begun = self.all.iter().try_for_each(|attacker| attacker.reply().map(|_| ()));
        let first_cpu = self.neighbours;
        let result = std::thread::scope(|scope| {
            // The main thread's CPUs stay as they are.
            let neighbour = scope.spawn(move || {
                machine::pin(first_cpu);
                neighbour()
            });
            let rationed = self.cpu.ration(&self.threads, &self.cpus, length);
            rationed.and(neighbour.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        stop.store(true, Ordering::Relaxed);
        begun?;
        let steps = self.all.iter().map(Attacker::reply).sum::<Result<u64>>()?;
        Ok((result?, steps))
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        for Attacker { orders, replies, thread } in self.all.drain(..) {
            drop((orders, replies));
            // If the thread panicked, the message has been printed.
            let _ = thread.join();
        }
    }
}
