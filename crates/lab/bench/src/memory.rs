//! The bytes that the engine's tables and waiters take, as the engine reports them.

use super::Lab;
use anyhow::{Result, anyhow, ensure};
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use ufutex::{Domain, DomainOptions, Error, Policy, System, SystemConfig, Timeout, WaitOptions, Waiter};

/// Number of addresses. Each is waited on once, with a timeout of zero.
const ADDRESSES: usize = 1_000_000;
/// `bytes_per_bucket` compares tables of this many buckets and of twice as many.
const BUCKETS: usize = 1024;

/// The measured sizes, in bytes.
pub struct Memory {
    /// A domain's table before the first wait.
    pub bytes_before_first_wait: usize,
    /// One more bucket in a table.
    pub bytes_per_bucket: f64,
    /// A thread's waiter.
    pub bytes_per_waiter: usize,
    /// Growth of the table from the first wait to the millionth.
    pub bytes_after_a_million_waits: f64,
}

/// Measures the default layout and scheme.
pub fn run(lab: &Lab<'_>) -> Result<Memory> {
    let _progress = lab.progress("memory: a million waits on a million addresses", 0);
    let untouched = domain(Policy::Load)?;
    let grown = std::thread::spawn(million_waits).join().map_err(|_| anyhow!("the waiting thread panicked"))??;
    Ok(Memory {
        bytes_before_first_wait: untouched.table_bytes(),
        bytes_per_bucket: (table_of(2 * BUCKETS)? as f64 - table_of(BUCKETS)? as f64) / BUCKETS as f64,
        bytes_per_waiter: size_of::<Waiter<'_>>(),
        bytes_after_a_million_waits: grown,
    })
}

fn domain(policy: Policy) -> Result<Domain> {
    let system = System::with_config(SystemConfig::new()).map_err(|error| anyhow!("cannot make a system: {error}"))?;
    Ok(Domain::with_options(&system, DomainOptions::new().policy(policy)))
}

/// The bytes of a table of `buckets` buckets after a wait has made it.
fn table_of(buckets: usize) -> Result<usize> {
    let domain = domain(Policy::Fixed(buckets))?;
    timed_out(&domain, &AtomicU32::new(0))?;
    ensure!(domain.slots() == buckets, "requested {buckets} buckets, got {}", domain.slots());
    Ok(domain.table_bytes())
}

/// The growth of the table between the first wait and the last, in bytes.
fn million_waits() -> Result<f64> {
    // With the default timer slack of 50 us, a million timeouts would take a minute.
    // SAFETY: the call takes a number and changes only this thread's timer slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
    let domain = domain(Policy::Load)?;
    let words: Vec<_> = (0..ADDRESSES).map(|_| AtomicU32::new(0)).collect();
    timed_out(&domain, &words[0])?;
    let first = domain.table_bytes();
    for word in &words {
        timed_out(&domain, word)?;
    }
    Ok(domain.table_bytes() as f64 - first as f64)
}

/// Waits with a timeout of zero: the waiter is queued and removed again.
fn timed_out(domain: &Domain, word: &AtomicU32) -> Result<()> {
    match domain.wait_with(word, 0, &WaitOptions::new().timeout(Timeout::After(Duration::ZERO))) {
        Err(Error::TimedOut) => Ok(()),
        other => Err(anyhow!("a wait with a timeout of zero ended with {other:?}")),
    }
}
