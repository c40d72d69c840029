//! The hidden commands: processes that this program starts as its children.

use crate::{growth_child, noise, timers};
use anyhow::Result;
use clap::Subcommand;

/// A child process.
#[derive(Clone, Subcommand)]
pub enum Child {
    /// One repeat of `bench growth`, in its own process
    #[command(hide = true)]
    GrowthChild(growth_child::Child),
    /// One process of a sample of `bench timers` on the kernel
    #[command(hide = true)]
    TimersChild(timers::child::Child),
    /// The busy loops of `bench --noise`
    #[command(hide = true)]
    NoiseChild(noise::child::Child),
}

impl Child {
    /// Does the process's work.
    pub fn run(&self) -> Result<()> {
        match self {
            Child::GrowthChild(child) => growth_child::run(child),
            Child::TimersChild(child) => timers::child::run(child),
            Child::NoiseChild(child) => noise::child::run(child),
        }
    }
}
