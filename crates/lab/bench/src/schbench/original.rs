//! schbench's own JSON, in the format of its `-j`, for scripts that read it.

use super::print::{PERCENTILES, Row};
use super::{Findings, Schbench};
use anyhow::{Context, Result};
use lab_targets::schbench::Latencies;
use serde_json::{Map, Value, json};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// With `-j`: writes one object for each target.
pub fn write(asked: &Schbench, rows: &[Row]) -> Result<()> {
    let Some(file) = &asked.file else { return Ok(()) };
    let lines: String = rows.iter().map(|row| format!("{}\n", object(asked, row.target, &row.found))).collect();
    if file == Path::new("-") {
        io::stdout().write_all(lines.as_bytes())?;
        return Ok(());
    }
    let written = File::create(file).and_then(|mut file| file.write_all(lines.as_bytes()));
    written.with_context(|| format!("cannot write {}", file.display()))
}

fn object(asked: &Schbench, target: &str, found: &Findings) -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_string();
    let command: Vec<_> = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let mut normal = json!({
        "version": read("/proc/sys/kernel/osrelease"),
        "hostname": read("/proc/sys/kernel/hostname"),
        "cmdline": command.join(" "),
        "target": target,
    });
    if let Some(jobname) = &asked.jobname {
        normal["jobname"] = json!(jobname);
    }
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut numbers = Map::from_iter([("time".to_string(), json!(time))]);
    put(&mut numbers, "wakeup_latency", &found.wakeups, 1000);
    if asked.pipe.unwrap_or(0) == 0 {
        put(&mut numbers, "request_latency", &found.requests, 1000);
        put(&mut numbers, "rps", &found.rates, 1);
    }
    numbers.insert("runtime".to_string(), json!(asked.runtime_s() as u64));
    if let Some(noise) = asked.noise.noise {
        numbers.insert("noise".to_string(), json!(noise));
    }
    json!({ "normal": normal, "int": numbers })
}

fn put(numbers: &mut Map<String, Value>, label: &str, of: &Latencies, divisor: u64) {
    for percent in PERCENTILES {
        numbers.insert(format!("{label}_pct{percent:.1}"), json!(of.percentile(percent) / divisor));
    }
    numbers.insert(format!("{label}_min"), json!(of.min() / divisor));
    numbers.insert(format!("{label}_max"), json!(of.max() / divisor));
}
