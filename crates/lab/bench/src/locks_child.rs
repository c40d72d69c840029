//! The programs that `locks` runs: one source, built on the published parking_lot_core and on this engine's.
//!
//! A patch of parking_lot's core holds for a whole build, so one program cannot have both. There are two builds, each a
//! workspace in `crates/lab/locks`. Cargo builds them when they are first needed, next to this program and with its
//! profile.

use crate::locks::Version;
use anyhow::{Context, Result, ensure};
use lab_measure::interrupt;
use lab_targets::Name;
use lab_terminal::stderr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Directory of the programs' sources, as it was when the lab was built.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../locks");

/// Parameters of one sample.
pub struct Load {
    /// Number of threads that lock to write.
    pub writers: usize,
    /// Number of threads that lock to read. With 0 the lock is a mutex.
    pub readers: usize,
    /// Number of locks. A thread picks one at random each time.
    pub locks: usize,
    /// Steps of work while the lock is held.
    pub inside: usize,
    /// Steps of work between two locks.
    pub between: usize,
    /// Whether the threads use the parking lot below the locks directly.
    pub lot: bool,
    /// Whether a thread yields its CPU while it holds a lock.
    pub yields: bool,
    /// Length of the sample.
    pub length: Duration,
}

/// Results of one process.
#[derive(Clone)]
pub struct Sample {
    /// Time of one lock and unlock, as a thread sees it.
    pub ns_per_op: f64,
    /// CPU time of one operation on all CPUs, in user space and in the kernel.
    pub cpu_ns_per_op: f64,
    /// Rate of all threads together.
    pub ops_per_sec: f64,
}

/// The two programs, built.
pub struct Children {
    original: PathBuf,
    ufutex: PathBuf,
    /// The parking_lot version.
    line: Version,
}

impl Children {
    /// Builds the programs that are not up to date.
    pub fn build(line: Version, silent: bool) -> Result<Self> {
        let beside = std::env::current_exe()?;
        let target = beside.parent().context("this program's file has no directory")?.join("locks");
        let build = |package: &str| build(package, &target, silent);
        Ok(Self { original: build("original")?, ufutex: build("ufutex")?, line })
    }

    /// Runs one sample.
    pub fn sample(&self, target: Name, load: &Load) -> Result<Sample> {
        let program = if target == Name::Live { &self.ufutex } else { &self.original };
        let library = match target {
            Name::Kernel => "std".to_string(),
            _ if load.lot => format!("lot-{}", self.line),
            _ => format!("parking_lot-{}", self.line),
        };
        let numbers = [load.writers, load.readers, load.locks, load.inside, load.between, usize::from(load.yields)];
        let mut command = Command::new(program);
        command.arg(library).args(numbers.map(|number| number.to_string()));
        command.arg(load.length.as_millis().max(1).to_string()).stdin(Stdio::null());
        let before = children_cpu_ns();
        let output = interrupt::in_own_group(&mut command)
            .output()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let cpu_ns = children_cpu_ns() - before;
        let said = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} failed: {}", program.display(), complaint.trim());
        let mut numbers = said.split_whitespace().map(str::parse::<f64>);
        let (Some(Ok(operations)), Some(Ok(ns))) = (numbers.next(), numbers.next()) else {
            anyhow::bail!("{} printed '{}' instead of its results", program.display(), said.trim());
        };
        // Without any operation, the time of one operation is the length of the sample.
        let operations = operations.max(1.0);
        Ok(Sample {
            ns_per_op: ns * (load.writers + load.readers) as f64 / operations,
            cpu_ns_per_op: cpu_ns / operations,
            ops_per_sec: 1e9 * operations / ns,
        })
    }
}

/// Builds a program with cargo. Returns its path.
fn build(package: &str, target: &Path, silent: bool) -> Result<PathBuf> {
    let manifest = Path::new(SOURCES).join(package).join("Cargo.toml");
    let (profile, directory) = if cfg!(debug_assertions) { ("dev", "debug") } else { ("release", "release") };
    if !silent {
        stderr::say(format_args!("locks: building the program '{package}' if it has changed"));
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--locked", "--profile", profile, "--manifest-path"]).arg(&manifest);
    // The current directory is in the sources, so that cargo finds this workspace's settings.
    cargo.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = interrupt::output(&mut cargo).context("cannot run cargo")?;
    ensure!(!interrupt::requested(), "interrupted");
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    ensure!(output.status.success(), "{}", reason.trim());
    Ok(target.join(directory).join(format!("locks-{package}")))
}

/// The CPU time of all child processes that have been waited for.
fn children_cpu_ns() -> f64 {
    // SAFETY: `rusage` is plain numbers: all zeroes is one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage`, which outlives the call.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    let ns = |time: libc::timeval| 1e9 * time.tv_sec as f64 + 1e3 * time.tv_usec as f64;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}
