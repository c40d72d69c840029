//! The attackers' threads. They set their attack up, then burn CPU or attack, as the orders say.

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
    /// Burn CPU without using the system.
    Burn,
    /// Attack.
    Attack,
}

/// An attacker's ends of the channels.
pub struct Channels {
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
pub struct Attackers(Vec<Attacker>);

impl Attackers {
    /// Starts `count` attackers and waits until they are set up. They share all CPUs but the neighbour's, the first
    /// one.
    pub fn start(attack: Attack, number: usize, count: usize, system: &System, cpus: &[usize]) -> Result<Self> {
        let left = if cpus.len() > 1 { &cpus[1..] } else { cpus };
        let mut attackers = Self(Vec::new());
        for index in 0..count {
            let (orders, their_orders) = channel();
            let (their_replies, replies) = channel();
            let (system, cpu) = (system.clone(), left[index % left.len()]);
            let channels = Channels { orders: their_orders, replies: their_replies };
            let thread = Builder::new().name("attacker".to_string()).spawn(move || {
                machine::pin(cpu);
                attack.perform(&system, number, index, &channels);
            });
            let thread = thread.with_context(|| format!("cannot start attacker {index} of {count}"))?;
            attackers.0.push(Attacker { orders, replies, thread });
        }
        attackers.0.iter().try_for_each(|attacker| attacker.reply().map(|_| ()))?;
        Ok(attackers)
    }

    /// Has all attackers carry out `order` while `work` runs. Returns the number of their steps.
    pub fn during<R>(&self, order: Order, work: impl FnOnce() -> R) -> Result<(R, u64)> {
        let stop = Arc::new(AtomicBool::new(false));
        for attacker in &self.0 {
            attacker.orders.send((order, stop.clone())).ok().context("an attacker ended early")?;
        }
        let begun = self.0.iter().try_for_each(|attacker| attacker.reply().map(|_| ()));
        let result = work();
        stop.store(true, Ordering::Relaxed);
        begun?;
        let steps = self.0.iter().map(Attacker::reply).sum::<Result<u64>>()?;
        Ok((result, steps))
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        for Attacker { orders, replies, thread } in self.0.drain(..) {
            drop((orders, replies));
            // If the thread panicked, the message has been printed.
            let _ = thread.join();
        }
    }
}
