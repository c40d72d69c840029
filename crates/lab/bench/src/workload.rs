//! The workloads of `bench`: their names, settings and rows.

use crate::crowd::{self, Crowd};
use crate::growth::{self, Growth};
use crate::hammer::{self, Hammer};
use crate::lock_pi::{self, LockPi};
use crate::locks::{self, Locks};
use crate::ping_pong::{self, PingPong};
use crate::requeue::{self, Requeue};
use crate::resize::{self, Resize};
use crate::sweep::{self, Sweep};
use crate::timers::{self, Timers};
use crate::wake_many::{self, WakeMany};
use crate::wake_parallel::{self, WakeParallel};
use crate::wasm::{self, Wasm};
use crate::{Lab, sizes};
use anyhow::Result;
use lab_targets::Operation;
use std::fmt;
use strum::{IntoStaticStr, VariantArray};

/// A workload's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Workload {
    /// Wait on a word that differs: perf's `futex hash`
    Hash,
    /// Wake a word without waiters
    Wake,
    /// Resize a table under hammering threads
    Resize,
    /// Threads park one after another: each one's first wait
    Growth,
    /// Two threads wake each other in turn
    PingPong,
    /// Sleeping threads are moved to another word: perf's `futex requeue`
    Requeue,
    /// Several threads each wake a share of the sleepers: perf's `futex wake-parallel`
    WakeParallel,
    /// Lock and unlock with priority inheritance: perf's `futex lock-pi`
    LockPi,
    /// Wake one of many waiters that are futures or custom
    Crowd,
    /// WebAssembly's wait and notify; compared with wasmtime if built with it
    Wasm,
    /// parking_lot's own benchmarks: on its core, on the engine, and std's locks
    Locks,
    /// POSIX timers: the engine's, four designs of a kernel's table, and the host kernel's
    Timers,
}

impl Workload {
    /// The workloads that run if none is named: all but `locks`, whose programs must be built first.
    pub const BY_DEFAULT: [Workload; 11] = [
        Workload::Hash,
        Workload::Wake,
        Workload::Resize,
        Workload::Growth,
        Workload::PingPong,
        Workload::Requeue,
        Workload::WakeParallel,
        Workload::LockPi,
        Workload::Crowd,
        Workload::Wasm,
        Workload::Timers,
    ];

    /// The workloads of `perf bench futex`, in its order.
    pub const OF_PERF: [Workload; 5] =
        [Workload::Hash, Workload::Wake, Workload::WakeParallel, Workload::Requeue, Workload::LockPi];
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into())
    }
}

/// A workload with its settings.
#[derive(Clone, Debug)]
pub enum Asked {
    /// `hash`.
    Hash(Hammer),
    /// The second part of `hash` in a run of all workloads: `live` at many sizes.
    Sizes(Hammer),
    /// `hash --sweep`.
    Sweep(Sweep),
    /// `wake`.
    Wake(Hammer),
    /// `wake -w`.
    WakeMany(WakeMany),
    /// `resize`.
    Resize(Resize),
    /// `growth`.
    Growth(Growth),
    /// `ping-pong`.
    PingPong(PingPong),
    /// `requeue`.
    Requeue(Requeue),
    /// `wake-parallel`.
    WakeParallel(WakeParallel),
    /// `lock-pi`.
    LockPi(LockPi),
    /// `crowd`.
    Crowd(Crowd),
    /// `wasm`.
    Wasm(Wasm),
    /// `locks`.
    Locks(Locks),
    /// `timers`.
    Timers(Timers),
}

/// A workload's rows, in the order of its table.
pub enum Rows {
    /// Of [`Asked::Hash`].
    Hash(Vec<hammer::Row>),
    /// Of [`Asked::Sizes`].
    Sizes(Vec<sizes::Row>),
    /// Of [`Asked::Sweep`].
    Sweep(Vec<sweep::Row>),
    /// Of [`Asked::Wake`].
    Wake(Vec<hammer::Row>),
    /// Of [`Asked::WakeMany`].
    WakeMany(Vec<wake_many::Row>),
    /// Of [`Asked::Resize`].
    Resize(Vec<resize::Row>),
    /// Of [`Asked::Growth`].
    Growth(Vec<growth::Row>),
    /// Of [`Asked::PingPong`].
    PingPong(Vec<ping_pong::Row>),
    /// Of [`Asked::Requeue`].
    Requeue(Vec<requeue::Row>),
    /// Of [`Asked::WakeParallel`].
    WakeParallel(Vec<wake_parallel::Row>),
    /// Of [`Asked::LockPi`].
    LockPi(Vec<lock_pi::Row>),
    /// Of [`Asked::Crowd`].
    Crowd(Vec<crowd::Row>),
    /// Of [`Asked::Wasm`].
    Wasm(Vec<wasm::Row>),
    /// Of [`Asked::Locks`].
    Locks(Vec<locks::Row>),
    /// Of [`Asked::Timers`].
    Timers(Vec<timers::Row>),
}

/// Results of one workload.
pub struct Outcome {
    /// Its rows.
    pub rows: Rows,
    /// One line for each target or case that was left out, with the reason.
    pub notes: Vec<String>,
}

impl Asked {
    /// The workload's name.
    pub fn workload(&self) -> Workload {
        match self {
            Asked::Hash(_) | Asked::Sizes(_) | Asked::Sweep(_) => Workload::Hash,
            Asked::Wake(_) | Asked::WakeMany(_) => Workload::Wake,
            Asked::Resize(_) => Workload::Resize,
            Asked::Growth(_) => Workload::Growth,
            Asked::PingPong(_) => Workload::PingPong,
            Asked::Requeue(_) => Workload::Requeue,
            Asked::WakeParallel(_) => Workload::WakeParallel,
            Asked::LockPi(_) => Workload::LockPi,
            Asked::Crowd(_) => Workload::Crowd,
            Asked::Wasm(_) => Workload::Wasm,
            Asked::Locks(_) => Workload::Locks,
            Asked::Timers(_) => Workload::Timers,
        }
    }

    /// Runs the workload.
    pub fn run(&self, lab: &mut Lab<'_>) -> Result<Outcome> {
        let mut notes = Vec::new();
        let to = &mut notes;
        let rows = match self {
            Asked::Hash(asked) => Rows::Hash(hammer::run(lab, Operation::WaitDiffers, asked, to)?),
            Asked::Sizes(asked) => Rows::Sizes(sizes::run(lab, asked, to)?),
            Asked::Sweep(asked) => Rows::Sweep(sweep::run(lab, asked, to)?),
            Asked::Wake(asked) => Rows::Wake(hammer::run(lab, Operation::WakeNoWaiter, asked, to)?),
            Asked::WakeMany(asked) => Rows::WakeMany(wake_many::run(lab, asked, to)?),
            Asked::Resize(asked) => Rows::Resize(resize::run(lab, asked, to)?),
            Asked::Growth(asked) => Rows::Growth(growth::run(lab, asked, to)?),
            Asked::PingPong(asked) => Rows::PingPong(ping_pong::run(lab, asked, to)?),
            Asked::Requeue(asked) => Rows::Requeue(requeue::run(lab, asked, to)?),
            Asked::WakeParallel(asked) => Rows::WakeParallel(wake_parallel::run(lab, asked, to)?),
            Asked::LockPi(asked) => Rows::LockPi(lock_pi::run(lab, asked, to)?),
            Asked::Crowd(asked) => Rows::Crowd(crowd::run(lab, asked, to)?),
            Asked::Wasm(asked) => Rows::Wasm(wasm::run(lab, asked, to)?),
            Asked::Locks(asked) => Rows::Locks(locks::run(lab, asked, to)?),
            Asked::Timers(asked) => Rows::Timers(timers::run(lab, asked, to)?),
        };
        Ok(Outcome { rows, notes })
    }
}
