//! The attackers' threads: they build what they attack with, and then burn CPU or attack, as they are told.

use super::attacks::Attack;
use anyhow::{Context, Result, bail};
use lab_measure::machine;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use ufutex::System;

/// What the attackers do during a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Use as much CPU as an attack, and nothing of the system.
    Burn,
    /// Attack.
    Attack,
}

/// One attacker's ends of the channels.
pub struct Stage {
    orders: Receiver<(Order, Arc<AtomicBool>)>,
    /// A beat when all is built, one when an order is being carried out, and one with the steps that were done.
    beats: Sender<Result<u64, String>>,
}

impl Stage {
    /// What could not be built.
    pub fn fail(&self, error: &ufutex::Error) {
        let _ = self.beats.send(Err(error.to_string()));
    }

    /// Carries out orders until there are no more. An attack is `begin`, then `step` again and again, then `end`.
    pub fn serve(&self, mut begin: impl FnMut(), mut step: impl FnMut(), mut end: impl FnMut()) {
        let mut beat = self.beats.send(Ok(0));
        while let (Ok(()), Ok((order, stop))) = (&beat, self.orders.recv()) {
            let mut steps = 0;
            if order == Order::Attack {
                begin();
            }
            let _ = self.beats.send(Ok(0));
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
            beat = self.beats.send(Ok(steps));
        }
    }
}

struct Attacker {
    orders: Sender<(Order, Arc<AtomicBool>)>,
    beats: Receiver<Result<u64, String>>,
    thread: JoinHandle<()>,
}

impl Attacker {
    fn beat(&self) -> Result<u64> {
        match self.beats.recv().context("an attacker ended early")? {
            Ok(steps) => Ok(steps),
            Err(error) => bail!("an attack cannot be built: {error}"),
        }
    }
}

/// All attackers of one system.
pub struct Attackers(Vec<Attacker>);

impl Attackers {
    /// Starts `count` of them, and waits until they have built what they need. They share the CPUs that the neighbour leaves.
    pub fn start(attack: Attack, number: usize, count: usize, system: &System, cpus: &[usize]) -> Result<Self> {
        let left = if cpus.len() > 1 { &cpus[1..] } else { cpus };
        let mut attackers = Self(Vec::new());
        for index in 0..count {
            let (orders, their_orders) = channel();
            let (their_beats, beats) = channel();
            let (system, cpu) = (system.clone(), left[index % left.len()]);
            let stage = Stage { orders: their_orders, beats: their_beats };
            let thread = Builder::new().name("attacker".to_string()).spawn(move || {
                machine::pin(cpu);
                attack.perform(&system, number, index, &stage);
            });
            let thread = thread.with_context(|| format!("cannot start attacker {index} of {count}"))?;
            attackers.0.push(Attacker { orders, beats, thread });
        }
        attackers.0.iter().try_for_each(|attacker| attacker.beat().map(|_| ()))?;
        Ok(attackers)
    }

    /// Has all of them carry out `order` while `work` runs. Answers the steps that they did.
    pub fn during<R>(&self, order: Order, work: impl FnOnce() -> R) -> Result<(R, u64)> {
        let stop = Arc::new(AtomicBool::new(false));
        for attacker in &self.0 {
            attacker.orders.send((order, stop.clone())).ok().context("an attacker ended early")?;
        }
        let begun = self.0.iter().try_for_each(|attacker| attacker.beat().map(|_| ()));
        let result = work();
        stop.store(true, Ordering::Relaxed);
        begun?;
        let steps = self.0.iter().map(Attacker::beat).sum::<Result<u64>>()?;
        Ok((result, steps))
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        for Attacker { orders, beats, thread } in self.0.drain(..) {
            drop((orders, beats));
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}
