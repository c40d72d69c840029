//! The process that keeps all CPUs busy.

use super::READY;
use crate::children;
use anyhow::{Context, Result};
use clap::Args;
use lab_measure::{interrupt, machine};
use lab_terminal::stdout;
use std::hint::black_box;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::thread::Builder;

/// A loop needs hardly any stack.
const STACK_BYTES: usize = 64 * 1024;

/// Parameters of the process.
#[derive(Clone, Args)]
pub struct Child {
    /// Busy loops on each CPU.
    #[arg(long)]
    loops: usize,
    /// The CPUs.
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// The process that this one ends with.
    #[arg(long)]
    parent: u32,
}

/// The command that runs this process.
pub fn command(loops: usize, cpus: &[usize]) -> Result<Command> {
    let cpus: Vec<_> = cpus.iter().map(ToString::to_string).collect();
    let mut command = children::command()?;
    command.args(["noise-child", "--loops", &loops.to_string(), "--cpus", &cpus.join(",")]);
    command.args(["--parent", &std::process::id().to_string()]);
    Ok(command)
}

/// Runs in the process, until it is killed.
pub fn run(args: &Child) -> Result<()> {
    interrupt::end_with_parent(args.parent)?;
    let threads = args.loops * args.cpus.len();
    let all_pinned = Arc::new(Barrier::new(threads + 1));
    for number in 0..threads {
        let (cpu, all_pinned) = (args.cpus[number % args.cpus.len()], all_pinned.clone());
        let work = move || {
            machine::pin(cpu);
            all_pinned.wait();
            burn()
        };
        let thread = Builder::new().name("noise".to_string()).stack_size(STACK_BYTES).spawn(work);
        thread.with_context(|| format!("cannot start busy loop {number} of {threads}"))?;
    }
    all_pinned.wait();
    stdout::print(READY)?;
    loop {
        std::thread::park();
    }
}

/// Uses the CPU without pause. `spin_loop` is one: it leaves the core to the other hyperthread, and hypervisors take the
/// CPU from a guest that repeats it.
fn burn() {
    let mut number = 0_u64;
    loop {
        number = black_box(number.wrapping_add(1));
    }
}
