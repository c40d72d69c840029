//! `--noise`: busy loops on each CPU while samples are taken, as the load of a neighbour that wants every CPU.
//!
//! The loops run in a process of their own. As threads of this one they would change what is measured: the kernel sizes
//! a process's futex table by its threads, `membarrier` interrupts each CPU that runs one of them, and a switch between
//! two threads of a process keeps the address space. The process stays in the benchmark's session and control group
//! and inherits its nice level, so the scheduler weighs each loop as it weighs each thread of the benchmark.

pub mod child;

use crate::Lab;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// What the process prints when all its loops run.
const READY: &str = "ready";

/// Runs `measure` beside `loops` busy loops on each of these CPUs. They have ended when it returns, also by an error or
/// a panic. `None` means no loops.
pub fn beside<R>(loops: Option<usize>, cpus: &[usize], measure: impl FnOnce() -> Result<R>) -> Result<R> {
    let Some(loops) = loops else { return measure() };
    let noise = Noise::start(&mut child::command(loops, cpus)?)?;
    let measured = measure()?;
    noise.end()?;
    Ok(measured)
}

/// The line about the noise at the beginning of the tables. `None` without noise.
pub fn remark(lab: &Lab<'_>) -> Option<String> {
    let loops = lab.settings.noise?;
    let plural = if loops == 1 { "" } else { "s" };
    Some(format!("Measured beside noise: {loops} busy loop{plural} on each CPU (--noise {loops})."))
}

/// The process with the loops. Dropping it ends the process.
struct Noise(std::process::Child);

impl Noise {
    /// Starts the process, and waits until all its loops run.
    ///
    /// It is in the terminal's process group, so Ctrl-Z stops it with the benchmark. Of Ctrl-C it makes what the
    /// benchmark does: the first one does not end it, since the last sample should have its noise.
    fn start(command: &mut Command) -> Result<Noise> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut noise = Noise(child.context("cannot start the noise")?);
        let stdout = noise.0.stdout.take().context("the noise has no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line.trim() == READY, "the noise ended before the first sample");
        Ok(noise)
    }

    /// Ends the process. An error if it has ended before: then not all samples had noise.
    fn end(mut self) -> Result<()> {
        ensure!(self.0.try_wait()?.is_none(), "the noise ended before the last sample");
        Ok(())
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        // Both fail only if the process has been waited for already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::PathBuf;

    /// A process that says what the noise says and then does `then`, and its directory in /proc.
    fn noise(then: &str) -> (Noise, PathBuf) {
        let noise = Noise::start(Command::new("sh").args(["-c", &format!("echo {READY}; {then}")])).expect("a shell");
        let directory = PathBuf::from(format!("/proc/{}", noise.0.id()));
        (noise, directory)
    }

    #[test]
    fn it_ends_with_the_samples_with_an_error_and_with_a_panic() {
        let (noise_of_samples, directory) = noise("exec sleep 3600");
        assert!(directory.exists());
        noise_of_samples.end().expect("it ran until now");
        assert!(!directory.exists());

        let (noise_of_error, directory) = noise("exec sleep 3600");
        let fail = move || -> Result<()> {
            let _noise = noise_of_error;
            anyhow::bail!("no")
        };
        assert!(fail().is_err() && !directory.exists());

        let (noise_of_panic, directory) = noise("exec sleep 3600");
        let panic = move || {
            let _noise = noise_of_panic;
            std::panic::resume_unwind(Box::new("no"));
        };
        assert!(catch_unwind(AssertUnwindSafe(panic)).is_err() && !directory.exists());
    }

    #[test]
    fn samples_without_it_are_an_error() {
        let (noise, directory) = noise("exit 0");
        // The process stays until it is waited for. `Z`: it has ended.
        let is_over = || std::fs::read_to_string(directory.join("stat")).expect("not waited for").contains(") Z ");
        while !is_over() {
            std::thread::yield_now();
        }
        assert_eq!(noise.end().expect_err("it has ended").to_string(), "the noise ended before the last sample");
        let silent = Noise::start(Command::new("sh").args(["-c", "exit 0"]));
        assert_eq!(
            silent.err().map(|error| error.to_string()).as_deref(),
            Some("the noise ended before the first sample")
        );
    }
}
