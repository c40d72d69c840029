//! Parsers of the values of schbench's flags.

use super::{RUNTIME_MAX_S, THREADS_MAX, WORK_MAX, slots, whole};
use lab_bench::schbench::Cpus;

/// Largest number of message threads, or of threads that run tasks.
const MESSENGERS_MAX: usize = 1024;
/// Largest matrices of a worker, in KB.
const FOOTPRINT_MAX_KB: usize = 1 << 20;
/// Longest sleep of a request.
const NAP_MAX_US: usize = 10_000_000;
/// Highest rate of requests, per second.
const RATE_MAX: usize = 100_000_000;
/// schbench's own limit, in bytes.
const PIPE_MAX: usize = 1 << 20;

/// schbench's `-m`.
pub fn messengers(text: &str) -> Result<usize, String> {
    whole(text, 1, MESSENGERS_MAX).ok_or_else(|| format!("is not accepted; accepted: 1 to {MESSENGERS_MAX} threads"))
}

/// schbench's `-t`.
pub fn workers(text: &str) -> Result<usize, String> {
    whole(text, 1, THREADS_MAX).ok_or_else(|| format!("is not accepted; accepted: 1 to {THREADS_MAX} workers"))
}

/// schbench's `-M`, `-W`.
pub fn cpus(text: &str) -> Result<Cpus, String> {
    if text == "auto" {
        return Ok(Cpus::Auto);
    }
    let cpus = lab_measure::machine::cpu_list(text);
    cpus.map(Cpus::These).ok_or_else(|| "is not accepted; accepted: auto, or CPUs such as 0-3,8".to_string())
}

/// schbench's `-F`.
pub fn kilobytes(text: &str) -> Result<usize, String> {
    whole(text, 0, FOOTPRINT_MAX_KB).ok_or_else(|| format!("is not accepted; accepted: 0 to {FOOTPRINT_MAX_KB} KB"))
}

/// schbench's `-n`.
pub fn operations(text: &str) -> Result<usize, String> {
    whole(text, 0, WORK_MAX).ok_or_else(|| format!("is not accepted; accepted: 0 to {WORK_MAX} operations a request"))
}

/// schbench's `-s`.
pub fn nap(text: &str) -> Result<u64, String> {
    whole(text, 0, NAP_MAX_US)
        .map(|us| us as u64)
        .ok_or_else(|| format!("is not accepted; accepted: 0 to {NAP_MAX_US} microseconds"))
}

/// schbench's `-R`.
pub fn rate(text: &str) -> Result<u32, String> {
    whole(text, 1, RATE_MAX)
        .map(|rate| rate as u32)
        .ok_or_else(|| format!("is not accepted; accepted: 1 to {RATE_MAX} requests a second"))
}

/// schbench's `-A`.
pub fn percent(text: &str) -> Result<f64, String> {
    whole(text, 1, 100)
        .map(|percent| percent as f64)
        .ok_or_else(|| "is not accepted; accepted: 1 to 100 percent".into())
}

/// schbench's `-p`.
pub fn pipe(text: &str) -> Result<usize, String> {
    whole(text, 1, PIPE_MAX).ok_or_else(|| format!("is not accepted; accepted: 1 to {PIPE_MAX} bytes"))
}

/// schbench's `-w`.
pub fn seconds(text: &str) -> Result<u64, String> {
    whole(text, 0, RUNTIME_MAX_S as usize)
        .map(|seconds| seconds as u64)
        .ok_or_else(|| format!("is not accepted; accepted: 0 to {RUNTIME_MAX_S} seconds"))
}

/// schbench's `-i`, `-z`.
pub fn interval(text: &str) -> Result<u64, String> {
    seconds(text)
        .ok()
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| format!("is not accepted; accepted: 1 to {RUNTIME_MAX_S} seconds"))
}

/// schbench's `-b`. 0 means the global table.
pub fn slots_or_none(text: &str) -> Result<usize, String> {
    if text == "0" { Ok(0) } else { slots(text).map_err(|reason| reason + ", or 0 for the global table") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_ranges_and_single_ones() {
        assert_eq!(cpus("auto"), Ok(Cpus::Auto));
        assert_eq!(cpus("8,0-2,1"), Ok(Cpus::These(vec![0, 1, 2, 8])));
        for bad in ["", "1,", "3-1", "-1", "a", "1-", "1024", "all"] {
            assert!(cpus(bad).is_err(), "{bad}");
        }
    }
}
