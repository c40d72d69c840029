//! The machine.

use super::count;
use crate::page::document::{Block, Section, Table};
use crate::page::facts::Facts;

/// Load average above which the figures are rough.
const LOAD_MAX: f64 = 0.5;

/// The section about the machine.
pub fn section(facts: &Facts) -> Section {
    let mut rows = Table::new("The machine", 2, &["what", "here"]);
    let mut add = |what: &str, here: String| rows.rows.push(vec![what.to_string(), here]);
    add("CPU", format!("{}{}", facts.cpu, if facts.is_virtual { " (a virtual machine)" } else { "" }));
    add("CPUs allowed", format!("{} of {}, {}", facts.cpus_allowed, facts.cpus, count(facts.nodes, "node")));
    if let (Some(apart_ns), Some(word)) = (facts.apart_ns, facts.distance) {
        add("first two CPUs", format!("{apart_ns} ns apart, one way of a cache line ({word})"));
    }
    if !facts.caches.is_empty() {
        add("caches", facts.caches.join(", "));
    }
    if let Some(kib) = facts.memory_kib {
        add("memory", format!("{:.1} GiB", kib as f64 / (1024.0 * 1024.0)));
    }
    add("kernel", facts.kernel.clone());
    let hash = if facts.private_hash { "yes" } else { "no (6.16 and later): measured on its global hash" };
    add("the kernel's private hash (PR_FUTEX_HASH)", hash.to_string());
    if let Some(load) = facts.load {
        add("load before the first sample", format!("{load:.2}"));
    }
    add("measured", format!("{}, ufutex {}", facts.when, facts.version));
    let title = format!("{}, {}", facts.cpu, count(facts.cpus_allowed, "CPU"));
    Section { id: "machine", name: "The machine", title, blocks: vec![Block::Table(rows), Block::Means(means(facts))] }
}

fn means(facts: &Facts) -> String {
    let mut text = match (facts.distance, facts.apart_ns) {
        (Some("far"), Some(ns)) => format!(
            "A modified cache line takes {ns:.0} ns from one CPU to the other, as between sockets. Each line that two threads \
            write in turn costs this, so costs that one chip hides are visible here."
        ),
        (Some(_), Some(ns)) => format!(
            "A modified cache line takes {ns:.0} ns from one CPU to the other. Each line that two threads write in turn costs \
            this; between sockets it would be two to six times as much."
        ),
        _ => "With one CPU there is no contention: only the cost of single operations can be measured.".to_string(),
    };
    if facts.cpus_allowed < 8 {
        text += &format!(
            " {} cannot show the effects of 176; for these the model has columns of its own.",
            count(facts.cpus_allowed, "CPU")
        );
    }
    text
}

/// Warnings about conditions that make the figures rough.
pub fn warnings(facts: &Facts) -> Vec<String> {
    let mut warnings = Vec::new();
    if cfg!(debug_assertions) {
        warnings.push(
            "this program was built without optimisation: its figures are meaningless. Use cargo build --release."
                .to_string(),
        );
    }
    if let Some(load) = facts.load.filter(|load| *load > LOAD_MAX) {
        warnings.push(format!("the machine had other work when this began (load {load:.2}): the figures are rough."));
    }
    warnings
}
