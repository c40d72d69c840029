//! The section about the bytes of tables and waiters.

use super::thousands;
use crate::page::document::{Bars, Block, Drawing, Look, Picture, Section, Table};
use lab_bench::survey::memory::Bytes;

/// Bytes of buckets by layout, of domains and of waiters.
pub fn section(found: &Bytes) -> Section {
    let memory = &found.memory;
    let mut rows = Table::new("Bytes, as the engine itself counts them", 1, &["what", "bytes"]);
    let mut add = |what: String, bytes: f64| rows.rows.push(vec![what, thousands(bytes)]);
    for (layout, bytes) in &found.buckets {
        add(format!("a bucket, layout {layout}"), *bytes);
    }
    add("a domain's table before its first wait".to_string(), memory.bytes_before_first_wait as f64);
    add("the same after it".to_string(), found.first_table as f64);
    add("growth by a million waits on a million addresses".to_string(), memory.bytes_after_a_million_waits);
    add("a thread's waiter".to_string(), memory.bytes_per_waiter as f64);
    let blocks =
        vec![Block::Pictures(vec![buckets(found), domains(found)]), Block::Table(rows), Block::Means(means(found))];
    Section { id: "memory", name: "Memory", title: title(found), blocks }
}

fn look(layout: &str) -> Look {
    Look::of(match layout {
        "lean" => "live",
        "packed" => "kernel",
        _ => "percpu",
    })
}

fn buckets(found: &Bytes) -> Picture {
    let bars = found.buckets.iter().map(|(layout, bytes)| (layout.to_string(), look(layout), *bytes));
    let sentence: Vec<_> = found.buckets.iter().map(|(layout, bytes)| format!("{layout} {bytes:.0}")).collect();
    Picture {
        title: "A bucket, by layout".to_string(),
        description: format!("Bytes of a bucket: {}.", sentence.join(", ")),
        drawing: Drawing::Bars(Bars { unit: "bytes".to_string(), bars: bars.collect() }),
        table: None,
    }
}

fn domains(found: &Bytes) -> Picture {
    let (before, after) = (found.memory.bytes_before_first_wait as f64, found.first_table as f64);
    let (waiter, left) = (found.memory.bytes_per_waiter as f64, found.memory.bytes_after_a_million_waits);
    let live = Look::of("live");
    let bars = vec![
        ("a domain's table before its first wait".to_string(), live, before),
        ("the same after it".to_string(), live, after),
        ("growth by a million waits".to_string(), live, left.max(0.0)),
        ("a thread's waiter".to_string(), Look::of("fixed"), waiter),
    ];
    Picture {
        title: "A domain and its waiters".to_string(),
        description: format!(
            "Bytes: a domain's table before its first wait {before:.0}, after it {after:.0}; growth by a million waits {left:.0}; \
             a thread's waiter {waiter:.0}."
        ),
        drawing: Drawing::Bars(Bars { unit: "bytes".to_string(), bars }),
        table: None,
    }
}

fn bytes_of(found: &Bytes, layout: &str) -> f64 {
    found.buckets.iter().find(|(name, _)| *name == layout).map_or(f64::NAN, |(_, bytes)| *bytes)
}

fn title(found: &Bytes) -> String {
    format!(
        "A bucket takes {:.0} bytes, and a domain without waiters {}",
        bytes_of(found, "lean"),
        match found.memory.bytes_before_first_wait {
            0 => "none".to_string(),
            bytes => bytes.to_string(),
        }
    )
}

fn means(found: &Bytes) -> String {
    let (lean, packed, split) = (bytes_of(found, "lean"), bytes_of(found, "packed"), bytes_of(found, "split"));
    let mib = |bytes: f64| 65536.0 * bytes / (1024.0 * 1024.0);
    format!(
        "Splitting the bucket, as [false-sharing] proposes, costs {:.0} bytes a bucket more: {:.0} MiB in a table of 65,536 where {} \
         takes {:.0}. Taking the pointer back to the table out costs nothing, and what is left fits one line ({lean:.0} bytes as \
         {packed:.0} with it).",
        split - packed,
        mib(split),
        if (packed - lean).abs() < 1.0 { "either other layout" } else { "lean" },
        mib(lean),
    )
}
