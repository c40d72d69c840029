//! Finds the results in a row, and which direction is better. All other fields identify the row.

use serde_json::{Map, Value};

/// The direction in which a figure gets better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Better {
    /// Smaller is better: times, bytes.
    Less,
    /// Larger is better: rates, shares.
    More,
}

/// How noisy a figure is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A median, with the relative distances to p10 and p90 if the row has them.
    Median(Option<(f64, f64)>),
    /// A 99th percentile: noisy.
    Tail,
    /// Counted and not measured: bytes, yes or no.
    Exact,
}

/// One result of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The field's name; for a part of an object, `field.part`.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The direction in which it gets better.
    pub better: Better,
    /// How noisy it is.
    pub kind: Kind,
}

/// Fields that are not compared, and are not part of the identity: how it was measured, what follows from other rows,
/// and what is too noisy to compare, as it depends on when the scheduler runs one thread.
const IGNORED: [&str; 16] = [
    "repeat",
    "requests",
    "runs",
    "spread",
    "cpus_apart_ns",
    "cpus_distance",
    "hot",
    "ratio_kernel",
    "ratio_parking_lot",
    "ratio_wasmtime",
    "ratio_fewest",
    "ratio_cpu_parking_lot",
    "resize_p90_us",
    "returned_us",
    "rate_meanwhile",
    "missed_us",
];

/// Whether the field is part of the row's identity.
pub fn is_identity(name: &str, value: &Value) -> bool {
    let plain = matches!(value, Value::String(_) | Value::Bool(_) | Value::Number(_));
    plain && !IGNORED.contains(&name) && better(name, value).is_none()
}

/// The direction in which a field gets better. `None` if it is not a result.
fn better(name: &str, value: &Value) -> Option<Better> {
    match name {
        "completed" | "completed_share" | "share_of_best" | "met" | "ops_per_sec" | "rps" => Some(Better::More),
        // A figure's bound, the sleep with a lock held and the work between wakes are settings.
        "bound" | "hold_us" | "work_ns" => None,
        "lost" | "measured" | "table_bytes" => Some(Better::Less),
        _ if name.ends_with("_per_sec") => Some(Better::More),
        _ if ["_ns", "_us", "_ms", "_per_op", "_per_timer", "_bytes"].iter().any(|end| name.ends_with(end)) => {
            (value.is_number() || value.is_object()).then_some(Better::Less)
        }
        _ => None,
    }
}

/// All results of a row.
pub fn all(row: &Map<String, Value>) -> Vec<Measure> {
    let spread = row.get("ns_per_op").and_then(relative_spread);
    let mut measures = Vec::new();
    for (name, value) in row {
        let Some(way) = better(name, value).filter(|_| !IGNORED.contains(&name.as_str())) else { continue };
        if name == "measured" {
            // A row of `figures`: `met` is the result.
            continue;
        }
        let exact = value.is_boolean() || name == "lost" || name.contains("bytes");
        match value {
            Value::Object(parts) => measures.extend(of_object(name, parts, way)),
            _ => {
                let kind = if exact { Kind::Exact } else { Kind::Median(spread.map(|band| turned(band, way))) };
                measures.extend(number(value).map(|value| Measure { name: name.clone(), value, better: way, kind }));
            }
        }
    }
    measures
}

/// Turns the spread of a time into that of a rate: a slow sample has a high time and a low rate.
fn turned((below, above): (f64, f64), way: Better) -> (f64, f64) {
    match way {
        Better::Less => (below, above),
        Better::More => (above, below),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(yes) => Some(f64::from(u8::from(*yes))),
        _ => value.as_f64(),
    }
}

/// The distances from the median to p10 and to p90, as shares of the median.
fn relative_spread(value: &Value) -> Option<(f64, f64)> {
    let part = |name: &str| value.get(name).and_then(Value::as_f64);
    let (p10, median, p90) = (part("p10")?, part("median")?, part("p90")?);
    (median > 0.0).then(|| (1.0 - p10 / median, p90 / median - 1.0))
}

/// The median of `{p10, median, p90}`, or p50 and p99 of `{p50, p99, max}`.
fn of_object(name: &str, parts: &Map<String, Value>, better: Better) -> Vec<Measure> {
    let figure = |part: &str, kind| {
        let value = parts.get(part).and_then(Value::as_f64)?;
        Some(Measure { name: format!("{name}.{part}"), value, better, kind })
    };
    let spread = relative_spread(&Value::Object(parts.clone()));
    let median = figure("median", Kind::Median(spread)).or_else(|| figure("p50", Kind::Median(None)));
    median.into_iter().chain(figure("p99", Kind::Tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn measures(row: &Value) -> Vec<Measure> {
        all(row.as_object().expect("an object"))
    }

    #[test]
    fn a_time_has_its_spread_and_the_rate_beside_it_has_it_turned() {
        let row =
            json!({"workload": "hash", "ns_per_op": {"p10": 9.0, "median": 10.0, "p90": 12.0}, "ops_per_sec": 1e8});
        let found = measures(&row);
        assert_eq!(found.len(), 2);
        let Kind::Median(Some((below, above))) = found[0].kind else { panic!("{found:?}") };
        assert!((below - 0.1).abs() < 1e-9 && (above - 0.2).abs() < 1e-9);
        let Kind::Median(Some((below, above))) = found[1].kind else { panic!("{found:?}") };
        assert!((below - 0.2).abs() < 1e-9 && (above - 0.1).abs() < 1e-9);
        assert_eq!((found[0].better, found[1].better), (Better::Less, Better::More));
    }

    #[test]
    fn identity_is_what_is_no_result() {
        let row = json!({"workload": "resize", "threads": 2, "hold_us": 5, "resize_us": 3.0, "completed": true,
            "op_pause_us": {"p50": 1.0, "p99": 2.0, "max": 900.0}, "cpus_apart_ns": 90.0, "repeat": 7, "layout": "lean"});
        let row = row.as_object().expect("an object");
        let mut names: Vec<_> = row.iter().filter(|(name, value)| is_identity(name, value)).map(|(n, _)| n).collect();
        names.sort();
        assert_eq!(names, ["hold_us", "layout", "threads", "workload"]);
        let mut results: Vec<_> = all(row).into_iter().map(|measure| measure.name).collect();
        results.sort();
        assert_eq!(results, ["completed", "op_pause_us.p50", "op_pause_us.p99", "resize_us"]);
    }

    #[test]
    fn how_much_was_done_until_a_figure_was_known_is_no_identity() {
        let rows = [
            json!({"workload": "hash", "cores": 8, "runs": 3, "spread": 0.004, "ops_per_sec": 1e9}),
            json!({"workload": "schbench", "workers": 8, "requests": 4711, "rps": 1234.5}),
        ];
        for row in rows {
            let row = row.as_object().expect("an object");
            let names: Vec<_> = row.iter().filter(|(name, value)| is_identity(name, value)).map(|(n, _)| n).collect();
            assert_eq!(names.len(), 2, "{names:?}");
        }
    }
}
