//! The programs that `locks` runs: one source, built on the published parking_lot_core and on ours.
//!
//! One program cannot have parking_lot on both: it names its core, and a patch holds for all of a build. So there are two
//! builds, each a workspace of its own in `crates/lab/locks`. Cargo makes them when they are first needed, beside this
//! program and with its profile.

use super::locks::Target;
use crate::settings::Line;
use crate::settings::Settings;
use anyhow::{Context, Result, ensure};
use lab_measure::interrupt;
use lab_terminal::stderr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where their sources were when the lab was built.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../locks");

/// What a program is to do.
pub struct Load {
    /// Threads that lock to write.
    pub writers: usize,
    /// Threads that lock to read; with none it is a mutex.
    pub readers: usize,
    /// One of which is chosen each time.
    pub locks: usize,
    /// Steps of work with the lock.
    pub inside: usize,
    /// Steps of work without.
    pub between: usize,
    /// Whether the threads use the lot below the locks alone.
    pub lot: bool,
    /// Whether whoever has a lock leaves its CPU to others.
    pub yields: bool,
    /// For how long.
    pub length: Duration,
}

/// What one process found.
pub struct Sample {
    /// As a thread sees a lock with its unlock.
    pub ns_per_op: f64,
    /// Of all CPUs, in user space and in the kernel.
    pub cpu_ns_per_op: f64,
    /// Of all threads.
    pub ops_per_sec: f64,
}

/// The programs.
pub struct Children {
    original: PathBuf,
    ufutex: PathBuf,
    /// Which parking_lot.
    line: Line,
}

impl Children {
    /// Builds what is not built yet.
    pub fn build(settings: &Settings) -> Result<Self> {
        let beside = std::env::current_exe()?;
        let target = beside.parent().context("a program lies in a directory")?.join("locks");
        let build = |package: &str| build(package, &target, settings.silent);
        Ok(Self { original: build("original")?, ufutex: build("ufutex")?, line: settings.locks.line })
    }

    /// Runs one sample.
    pub fn sample(&self, target: Target, load: &Load) -> Result<Sample> {
        let program = if target == Target::Ufutex { &self.ufutex } else { &self.original };
        let library = match target {
            Target::Std => "std".to_string(),
            _ if load.lot => format!("lot-{}", self.line),
            _ => format!("parking_lot-{}", self.line),
        };
        let numbers = [load.writers, load.readers, load.locks, load.inside, load.between, usize::from(load.yields)];
        let mut command = Command::new(program);
        command.arg(library).args(numbers.map(|number| number.to_string()));
        command.arg(load.length.as_millis().max(1).to_string()).stdin(Stdio::null());
        let before = children_cpu_ns();
        let output =
            interrupt::shield(&mut command).output().with_context(|| format!("cannot run {}", program.display()))?;
        let cpu_ns = children_cpu_ns() - before;
        let said = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} failed: {}", program.display(), complaint.trim());
        let mut numbers = said.split_whitespace().map(str::parse::<f64>);
        let (Some(Ok(operations)), Some(Ok(ns))) = (numbers.next(), numbers.next()) else {
            anyhow::bail!("{} said '{}'", program.display(), said.trim());
        };
        // A sample in which nobody got a turn is as long as it was.
        let operations = operations.max(1.0);
        Ok(Sample {
            ns_per_op: ns * (load.writers + load.readers) as f64 / operations,
            cpu_ns_per_op: cpu_ns / operations,
            ops_per_sec: 1e9 * operations / ns,
        })
    }
}

/// Has cargo build a program, and answers where it is.
fn build(package: &str, target: &Path, silent: bool) -> Result<PathBuf> {
    let manifest = Path::new(SOURCES).join(package).join("Cargo.toml");
    let (profile, directory) = if cfg!(debug_assertions) { ("dev", "debug") } else { ("release", "release") };
    if !silent {
        stderr::say(format_args!("locks: building its program '{package}', if it has changed"));
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--locked", "--profile", profile, "--manifest-path"]).arg(&manifest);
    // In the sources, so that cargo finds this workspace's settings.
    cargo.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = interrupt::output(&mut cargo).context("cannot run cargo")?;
    ensure!(!interrupt::asked(), "interrupted");
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    ensure!(output.status.success(), "{}", reason.trim());
    Ok(target.join(directory).join(format!("locks-{package}")))
}

/// The CPU time of all processes that this one has waited for.
fn children_cpu_ns() -> f64 {
    // SAFETY: `rusage` is plain numbers: all zeroes is one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage`, which outlives the call.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    let ns = |time: libc::timeval| 1e9 * time.tv_sec as f64 + 1e3 * time.tv_usec as f64;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}
