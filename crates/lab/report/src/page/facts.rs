//! The machine: what a reader must know to judge the figures.

use lab_bench::Lab;
use lab_measure::machine;
use serde::Serialize;
use std::fs::read_to_string;

/// Facts about the machine. Also a row for `--json`.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    workload: &'static str,
    /// Model name of the CPU.
    pub cpu: String,
    /// Number of CPUs that this process may use.
    pub cpus_allowed: usize,
    /// Number of CPUs of the machine.
    pub cpus: usize,
    /// Number of memory nodes.
    pub nodes: usize,
    /// Level, type and size of each cache.
    pub caches: Vec<String>,
    /// Memory in KiB.
    pub memory_kib: Option<u64>,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Whether the kernel has PR_FUTEX_HASH.
    pub private_hash: bool,
    /// One-way transfer of a cache line between the first two CPUs, in ns.
    pub apart_ns: Option<f64>,
    /// `near` or `far`.
    pub distance: Option<&'static str>,
    /// Load average of the last minute, before the first sample.
    pub load: Option<f64>,
    /// Whether this is a virtual machine.
    pub is_virtual: bool,
    /// Time of the report, in UTC.
    pub when: String,
    /// Version of this program.
    pub version: &'static str,
}

impl Facts {
    /// Reads the facts.
    pub fn gather(lab: &Lab<'_>) -> Facts {
        let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
        Facts {
            workload: "machine",
            cpu: value_of(&cpuinfo, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_string()),
            cpus_allowed: lab.cpus.len(),
            cpus: machine::cpus(),
            nodes: directories("/sys/devices/system/node", "node").max(1),
            caches: caches(lab.cpus.first().copied().unwrap_or(0)),
            memory_kib: read_to_string("/proc/meminfo")
                .ok()
                .and_then(|text| value_of(&text, "MemTotal")?.trim_end_matches(" kB").parse().ok()),
            kernel: format!("Linux {}", line("/proc/sys/kernel/osrelease").unwrap_or_default()),
            private_hash: lab_targets::kernel_has_private_hash(),
            apart_ns: lab.distance.map(|distance| (distance.apart_ns * 10.0).round() / 10.0),
            distance: lab.distance.map(|distance| distance.word()),
            load: line("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
            is_virtual: cpuinfo.lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor")),
            when: now(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// The first value of `name` in lines of the form `name : value`.
fn value_of(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn line(path: &str) -> Option<String> {
    Some(read_to_string(path).ok()?.trim().to_string())
}

fn directories(path: &str, prefix: &str) -> usize {
    let numbered = |name: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u32>().is_ok());
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(numbered)).count()
}

/// Caches as `L1 data 32K`, ...
fn caches(cpu: usize) -> Vec<String> {
    let at = |index: usize, what: &str| line(&format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{what}"));
    let one = |index: usize| {
        let kind = at(index, "type").filter(|kind| kind != "Unified").map(|kind| format!(" {}", kind.to_lowercase()));
        Some(format!("L{}{} {}", at(index, "level")?, kind.unwrap_or_default(), at(index, "size")?))
    };
    (0..8).map_while(one).collect()
}

fn now() -> String {
    // SAFETY: both calls write into memory that lives here; a null argument of time(2) means "return it".
    unsafe {
        let seconds = libc::time(std::ptr::null_mut());
        let mut time: libc::tm = std::mem::zeroed();
        libc::gmtime_r(&seconds, &mut time);
        let (year, month) = (time.tm_year + 1900, time.tm_mon + 1);
        format!("{year}-{month:02}-{:02} {:02}:{:02} UTC", time.tm_mday, time.tm_hour, time.tm_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_whole_name() {
        let text = "model\t\t: 85\nmodel name\t: Some CPU @ 2.50GHz\nMemTotal:  123 kB";
        assert_eq!(value_of(text, "model name").as_deref(), Some("Some CPU @ 2.50GHz"));
        assert_eq!(value_of(text, "MemTotal").as_deref(), Some("123 kB"));
        assert_eq!(value_of(text, "name"), None);
    }
}
