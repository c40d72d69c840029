//! The bounds that the engine must keep (`--figures`), checked on the samples of this run.

use crate::crowd::{Case as CrowdCase, section as crowd_section};
use crate::locks::Case as LocksCase;
use crate::requeue::{AtOnce, section as requeue_section};
use crate::sizes::share_of_best;
use crate::timers::{Case as TimersCase, Measure as TimersMeasure, section as timers_section};
use crate::wasm::{Case as WasmCase, WASMTIME, section as wasm_section};
use crate::{Lab, Memory};
use anyhow::Result;
use comfy_table::{Attribute, Cell, CellAlignment, Color};
use lab_measure::series::{Key, Series};
use lab_targets::Operation;
use lab_targets::crowd::Kind;
use lab_targets::timers::{Name as Timers, Test};
use lab_terminal::{stdout, table};
use serde_json::{Value, json};

/// Prints every figure with its bound.
pub fn print(lab: &Lab<'_>, memory: &Memory) -> Result<()> {
    let figures = all(&lab.series, memory);
    if lab.settings.json {
        let rows = figures.iter().map(|figure| figure.json().to_string()).collect::<Vec<_>>();
        return stdout::print(&rows.join("\n"));
    }
    stdout::print(&format!("\n## figures\n{}", text(&figures)))
}

/// The bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// Smaller is better.
    AtMost(f64),
    /// Larger is better.
    AtLeast(f64),
}

/// One line of the table.
struct Figure {
    name: &'static str,
    /// `None` if this run has no samples of it.
    measured: Option<f64>,
    bound: Bound,
    /// Unit of both numbers.
    unit: &'static str,
}

impl Figure {
    /// Whether the bound is kept. `None` if nothing was measured.
    fn met(&self) -> Option<bool> {
        self.measured.map(|measured| match self.bound {
            Bound::AtMost(bound) => measured <= bound,
            Bound::AtLeast(bound) => measured >= bound,
        })
    }

    /// The row for `--json`.
    fn json(&self) -> Value {
        let (at, bound) = match self.bound {
            Bound::AtMost(bound) => ("most", bound),
            Bound::AtLeast(bound) => ("least", bound),
        };
        json!({
            "workload": "figures", "figure": self.name, "measured": self.measured,
            "at": at, "bound": bound, "unit": self.unit, "met": self.met(),
        })
    }
}

/// The table, and how many bounds are kept.
fn text(figures: &[Figure]) -> String {
    let mut table = table::new(&["figure", "measured", "bound", "met"]);
    for figure in figures {
        let bound = match figure.bound {
            Bound::AtMost(bound) => format!("at most {bound} {}", figure.unit),
            Bound::AtLeast(bound) => format!("at least {bound} {}", figure.unit),
        };
        let measured = figure.measured.map_or_else(table::dash, |measured| number(measured, figure.unit));
        let verdict = match figure.met() {
            Some(true) => Cell::new("yes").fg(Color::Green),
            Some(false) => Cell::new("NO").fg(Color::Red).add_attribute(Attribute::Bold),
            None => Cell::new("not measured"),
        };
        let measured = Cell::new(measured).set_alignment(CellAlignment::Right);
        table.add_row(vec![Cell::new(figure.name), measured, Cell::new(bound.trim_end()), verdict]);
    }
    format!("{}\n{}", table::finish(table), sentence(figures))
}

fn number(value: f64, unit: &str) -> String {
    let digits = if unit == "bytes" || unit == "us" { 0 } else { 2 };
    format!("{value:.digits$} {unit}").trim_end().to_string()
}

fn sentence(figures: &[Figure]) -> String {
    let count = |verdict| figures.iter().filter(|figure| figure.met() == verdict).count();
    let missed: Vec<_> =
        figures.iter().filter(|figure| figure.met() == Some(false)).map(|figure| figure.name).collect();
    let missed = if missed.is_empty() { String::new() } else { format!(": {}", missed.join("; ")) };
    let unknown = count(None);
    let unknown = if unknown == 0 { String::new() } else { format!("; {unknown} not measured") };
    format!(
        "{} of {} figures are met, {} missed{missed}{unknown}.",
        count(Some(true)),
        figures.len(),
        count(Some(false))
    )
}

fn figure(name: &'static str, measured: Option<f64>, bound: Bound, unit: &'static str) -> Figure {
    Figure { name, measured, bound, unit }
}

/// All figures, in the order of the table.
fn all(series: &Series, memory: &Memory) -> Vec<Figure> {
    let mut figures = operations(series);
    figures.extend(tables(series));
    figures.extend(calls(series));
    figures.extend(crowds(series));
    figures.extend(runtimes(series));
    figures.extend(locks(series));
    figures.extend(timers(series));
    figures.extend(timer_tables(series));
    figures.extend(bytes(memory));
    figures
}

fn operations(series: &Series) -> Vec<Figure> {
    use Bound::{AtLeast, AtMost};
    let ratio = |this: Key<'_>, that: Key<'_>| series.ratio(this, that);
    let (live1, live2) = (("hash", "live", 1), ("hash", "live", 2));
    let (wake1, wake2) = (("wake", "live", 1), ("wake", "live", 2));
    let percpu_more = series.difference(("hash", "percpu", 1), live1);
    vec![
        figure("hash 1T: live / parking_lot", ratio(live1, ("hash", "parking_lot", 1)), AtMost(0.70), ""),
        figure("hash 2T: live / parking_lot", ratio(live2, ("hash", "parking_lot", 2)), AtMost(0.40), ""),
        figure("hash: live 2T / live 1T", ratio(live2, live1), AtMost(1.15), ""),
        figure("wake 1T: live / parking_lot", ratio(wake1, ("wake", "parking_lot", 1)), AtMost(0.75), ""),
        figure("wake: live 2T / live 1T", ratio(wake2, wake1), AtMost(1.15), ""),
        figure("hash 1T: kernel / live", ratio(("hash", "kernel", 1), live1), AtLeast(12.0), ""),
        figure("wake 1T: kernel / live", ratio(("wake", "kernel", 1), wake1), AtLeast(8.0), ""),
        figure("hash 1T: live / fixed", ratio(live1, ("hash", "fixed", 1)), AtMost(1.05), ""),
        figure("hash 2T: live / fixed", ratio(live2, ("hash", "fixed", 2)), AtMost(1.05), ""),
        figure("hash 1T: percpu - live", percpu_more, AtMost(3.0), "ns"),
        figure("hash 2T: atomic / live (the collapse)", ratio(("hash", "atomic", 2), live2), AtLeast(5.0), ""),
        figure(
            "ping-pong, one CPU: live / kernel",
            ratio(("ping-pong", "live", 1), ("ping-pong", "kernel", 1)),
            AtMost(1.10),
            "",
        ),
    ]
}

fn tables(series: &Series) -> Vec<Figure> {
    use Bound::{AtLeast, AtMost};
    let completed = |threads| {
        let rounds = series.get(("resize completed", "live", threads));
        rounds.iter().copied().reduce(f64::min)
    };
    let at_16 = series.ratio(("resize", "live", 16), ("resize", "kernel", 16));
    let growth = series.ratio(("growth", "live", 1366), ("growth", "parking_lot", 1366));
    let threads = if series.get(("sizes", "load", 2)).is_empty() { 1 } else { 2 };
    let policy = share_of_best(series, "load", threads);
    vec![
        figure("resize, 2 hammer: live completed", completed(2), AtLeast(1.0), ""),
        figure("resize, 2 hammer: live", series.median(("resize", "live", 2)), AtMost(500.0), "us"),
        figure("resize, 16 hammer: live completed", completed(16), AtLeast(1.0), ""),
        figure("resize, 16 hammer: live / kernel", at_16, AtMost(0.5), ""),
        figure("growth 1366: worst first wait, live / parking_lot", growth, AtMost(0.25), ""),
        figure("load policy from cold / best explicit -b", policy, AtLeast(0.97), ""),
    ]
}

fn calls(series: &Series) -> Vec<Figure> {
    use Bound::AtMost;
    let requeue = |at_once| {
        let section = requeue_section(at_once);
        series.ratio((&section, "live", 1000), (&section, "kernel", 1000))
    };
    let lock_pi = series.ratio(("lock-pi", "live", 1), ("lock-pi", "kernel", 1));
    vec![
        figure("requeue 1000, one a call: live / kernel", requeue(AtOnce::Some(1)), AtMost(0.8), ""),
        figure("requeue 1000, all in one call: live / kernel", requeue(AtOnce::All), AtMost(0.8), ""),
        figure("lock-pi 1T: live / kernel", lock_pi, AtMost(0.25), ""),
    ]
}

fn crowds(series: &Series) -> Vec<Figure> {
    use CrowdCase::{Distinct, SameBucket};
    use Kind::{Custom, Future};
    // Each crowd with the one that it is compared with: waiters of a domain, domains.
    let (many, few, spread_out) = ((100_000, 1), (100, 1), (100, 1000));
    let rows = [
        ("crowd, distinct futures: 100000 / 100", Distinct, Future, many, few),
        ("crowd, distinct custom waiters: 100000 / 100", Distinct, Custom, many, few),
        ("crowd, distinct futures: 100000 / 100 in each of 1000 domains", Distinct, Future, many, spread_out),
        ("crowd, distinct custom waiters: 100000 / 100 in each of 1000 domains", Distinct, Custom, many, spread_out),
        ("crowd, same-bucket futures: 10000 / none", SameBucket, Future, (10_000, 1), (0, 1)),
        ("crowd, same-bucket custom waiters: 10000 / none", SameBucket, Custom, (10_000, 1), (0, 1)),
    ];
    let judge = |(name, case, kind, this, that): (_, _, _, (usize, usize), (usize, usize))| {
        let (these, those) = (crowd_section(case, kind, this.1), crowd_section(case, kind, that.1));
        figure(name, series.ratio((&these, "live", this.0), (&those, "live", that.0)), Bound::AtMost(2.0), "")
    };
    rows.into_iter().map(judge).collect()
}

/// Not measured if wasmtime is not built in.
fn runtimes(series: &Series) -> Vec<Figure> {
    use Operation::{WaitDiffers, WakeNoWaiter};
    let rows = [
        ("wasm wait 1T: live / wasmtime", WaitDiffers, 1, 0.8),
        ("wasm wait 2T: live / wasmtime", WaitDiffers, 2, 0.1),
        ("wasm notify 1T: live / wasmtime", WakeNoWaiter, 1, 0.8),
        ("wasm notify 2T: live / wasmtime", WakeNoWaiter, 2, 0.1),
    ];
    let judge = |(name, operation, threads, bound)| {
        let section = wasm_section(operation, WasmCase::Words);
        let measured = series.ratio((&section, "live", threads), (&section, WASMTIME, threads));
        figure(name, measured, Bound::AtMost(bound), "")
    };
    rows.into_iter().map(judge).collect()
}

fn locks(series: &Series) -> Vec<Figure> {
    let names = [
        "locks, mutex 1T: on ufutex / parking_lot",
        "locks, mutex 2T: on ufutex / parking_lot",
        "locks, mutex 8T: on ufutex / parking_lot",
        "locks, rwlock 1w 1r: on ufutex / parking_lot",
        "locks, rwlock 2w 6r: on ufutex / parking_lot",
        "locks, 64T on 16 mutexes: on ufutex / parking_lot",
        "locks, the lot alone, 2T, 1024 locks: on ufutex / parking_lot",
    ];
    let judge = |(name, case): (&'static str, LocksCase)| {
        let (section, threads) = (case.section(), case.threads());
        let key = |target| (section.as_str(), target, threads);
        let ratio = series.ratio(key("live"), key("parking_lot"));
        let bound = if matches!(case, LocksCase::Many(..) | LocksCase::Lot(..)) { 1.0 } else { 1.05 };
        figure(name, ratio, Bound::AtMost(bound), "")
    };
    names.into_iter().zip(LocksCase::defaults()).map(judge).collect()
}

fn timers(series: &Series) -> Vec<Figure> {
    use Bound::{AtLeast, AtMost};
    use Test::{CreateDelete, CreateGetoverrun};
    use Timers::{Kernel, Ours, Radix, Scaled};
    use TimersMeasure::{Create, CreateDelete as Both, Getoverrun};
    let (small, large) = (TimersCase::of(CreateGetoverrun, 20_000, 1), TimersCase::of(CreateGetoverrun, 100_000, 1));
    let (two, alone) = (TimersCase::of(CreateGetoverrun, 20_000, 2), TimersCase::of(CreateDelete, 100_000, 1));
    let both = TimersCase { threads: 2, ..alone };
    let rows = [
        ("timers, create 20000: ours / radix", Create, small, Ours, Radix, AtMost(1.0)),
        ("timers, create 20000: ours / scaled", Create, small, Ours, Scaled, AtMost(0.7)),
        ("timers, create 100000: ours / radix", Create, large, Ours, Radix, AtMost(1.0)),
        ("timers, create 100000: ours / scaled", Create, large, Ours, Scaled, AtMost(0.7)),
        ("timers, getoverrun 20000: ours / radix", Getoverrun, small, Ours, Radix, AtMost(1.0)),
        ("timers, getoverrun 20000: ours / scaled", Getoverrun, small, Ours, Scaled, AtMost(0.5)),
        ("timers, getoverrun 100000: ours / radix", Getoverrun, large, Ours, Radix, AtMost(1.0)),
        ("timers, getoverrun 100000: ours / scaled", Getoverrun, large, Ours, Scaled, AtMost(0.5)),
        ("timers, create 20000: kernel / ours", Create, small, Kernel, Ours, AtLeast(4.0)),
        ("timers, getoverrun 20000: kernel / ours", Getoverrun, small, Kernel, Ours, AtLeast(10.0)),
        ("timers 2T, create 20000 each: ours / radix", Create, two, Ours, Radix, AtMost(0.7)),
        ("timers 2T, getoverrun 20000 each: ours / radix", Getoverrun, two, Ours, Radix, AtMost(0.7)),
        ("timers 1T, create and delete: ours / radix", Both, alone, Ours, Radix, AtMost(0.8)),
        ("timers 1T, create and delete: ours / scaled", Both, alone, Ours, Scaled, AtMost(0.8)),
        ("timers 2T, create and delete: ours / radix", Both, both, Ours, Radix, AtMost(0.8)),
        ("timers 2T, create and delete: ours / scaled", Both, both, Ours, Scaled, AtMost(0.8)),
    ];
    let judge = |(name, measure, case, this, that, bound): (_, _, TimersCase, Timers, Timers, _)| {
        let section = timers_section(measure, &case);
        let key = |target: Timers| (section.as_str(), target.text(), case.threads);
        figure(name, series.ratio(key(this), key(that)), bound, "")
    };
    rows.into_iter().map(judge).collect()
}

fn timer_tables(series: &Series) -> Vec<Figure> {
    use Bound::AtMost;
    use TimersMeasure::{Bytes, Late, Lost, Settime};
    let ours =
        |measure, case: &TimersCase| series.median((&timers_section(measure, case), Timers::Ours.text(), case.threads));
    let dense = TimersCase::of(Test::CreateGetoverrun, 100_000, 1);
    let armed = TimersCase::of(Test::Settime, 100_000, 1);
    let expiring = TimersCase::of(Test::Expire, 100_000, 1);
    let per_timer = ours(Bytes, &dense).map(|bytes| bytes / dense.timers as f64);
    vec![
        figure("timers, 100000 dense: bytes per timer", per_timer, AtMost(192.0), "bytes"),
        figure(
            "timers, 2048 at stride 512: all memory",
            ours(Bytes, &TimersCase::sparse()),
            AtMost(524_288.0),
            "bytes",
        ),
        figure("timers, settime of 100000 armed: a call", ours(Settime, &armed), AtMost(500.0), "ns"),
        figure("timers, 100000 expire in a second: late p99", ours(Late, &expiring), AtMost(2000.0), "us"),
        figure("timers, 100000 expire in a second: lost", ours(Lost, &expiring), AtMost(0.0), "timers"),
    ]
}

fn bytes(memory: &Memory) -> Vec<Figure> {
    use Bound::AtMost;
    let before = memory.bytes_before_first_wait as f64;
    let waiter = memory.bytes_per_waiter as f64;
    vec![
        figure("memory before the first wait", Some(before), AtMost(0.0), "bytes"),
        figure("memory of a bucket", Some(memory.bytes_per_bucket), AtMost(64.0), "bytes"),
        figure("memory of a thread waiter", Some(waiter), AtMost(128.0), "bytes"),
        figure(
            "a million zero-timeout waits: table memory grows by",
            Some(memory.bytes_after_a_million_waits),
            AtMost(0.0),
            "bytes",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_kept_on_its_own_side_and_unknown_without_samples() {
        let at_most = |measured| figure("", measured, Bound::AtMost(1.0), "").met();
        assert_eq!((at_most(Some(1.0)), at_most(Some(1.1)), at_most(None)), (Some(true), Some(false), None));
        assert_eq!(figure("", Some(4.9), Bound::AtLeast(5.0), "").met(), Some(false));
    }

    #[test]
    fn the_figures_come_from_the_series() {
        let mut series = Series::default();
        series.put(("hash", "live", 1), vec![10.0, 10.0]);
        series.put(("hash", "kernel", 1), vec![110.0, 110.0]);
        series.put(("requeue 1", "live", 1000), vec![90.0]);
        series.put(("requeue 1", "kernel", 1000), vec![100.0]);
        series.put(("crowd distinct future", "live", 100_000), vec![190.0]);
        series.put(("crowd distinct future", "live", 100), vec![100.0]);
        series.put(("crowd distinct future, many domains", "live", 100), vec![210.0]);
        series.put(("wasm wait words", "live", 2), vec![20.0]);
        series.put(("wasm wait words", "wasmtime", 2), vec![200.0]);
        series.put(("wasm notify words", "live", 1), vec![21.0]);
        series.put(("wasm notify words", "wasmtime", 1), vec![25.0]);
        series.put(("timers create: create-getoverrun 20000", "ours", 1), vec![20.0]);
        series.put(("timers create: create-getoverrun 20000", "radix", 1), vec![21.0]);
        series.put(("timers create: create-getoverrun 20000", "kernel", 1), vec![60.0]);
        series.put(("timers getoverrun: create-getoverrun 20000", "ours", 2), vec![8.0]);
        series.put(("timers getoverrun: create-getoverrun 20000", "radix", 2), vec![10.0]);
        series.put(("timers bytes: create-getoverrun 100000", "ours", 1), vec![19_300_000.0]);
        series.put(("timers bytes: create-getoverrun 2048, 512 apart", "ours", 1), vec![500_000.0]);
        series.put(("timers settime: settime 100000", "ours", 1), vec![501.0]);
        let memory = Memory {
            bytes_before_first_wait: 0,
            bytes_per_bucket: 64.0,
            bytes_per_waiter: 129,
            bytes_after_a_million_waits: 0.0,
        };
        let figures = all(&series, &memory);
        let met = |name: &str| figures.iter().find(|figure| figure.name == name).and_then(Figure::met);
        assert_eq!(met("hash 1T: kernel / live"), Some(false));
        assert_eq!(met("hash 1T: live / parking_lot"), None);
        assert_eq!(met("requeue 1000, one a call: live / kernel"), Some(false));
        assert_eq!(met("requeue 1000, all in one call: live / kernel"), None);
        assert_eq!(met("crowd, distinct futures: 100000 / 100"), Some(true));
        assert_eq!(met("crowd, distinct futures: 100000 / 100 in each of 1000 domains"), Some(true));
        assert_eq!(met("crowd, same-bucket futures: 10000 / none"), None);
        assert_eq!(met("memory of a bucket"), Some(true));
        assert_eq!(met("wasm wait 2T: live / wasmtime"), Some(true));
        assert_eq!(met("wasm notify 1T: live / wasmtime"), Some(false));
        assert_eq!(met("wasm wait 1T: live / wasmtime"), None);
        assert_eq!(met("memory of a thread waiter"), Some(false));
        assert_eq!(met("timers, create 20000: ours / radix"), Some(true));
        assert_eq!(met("timers, create 20000: kernel / ours"), Some(false));
        assert_eq!(met("timers, create 20000: ours / scaled"), None);
        assert_eq!(met("timers 2T, getoverrun 20000 each: ours / radix"), Some(false));
        assert_eq!(met("timers, 100000 dense: bytes per timer"), Some(false));
        assert_eq!(met("timers, 2048 at stride 512: all memory"), Some(true));
        assert_eq!(met("timers, settime of 100000 armed: a call"), Some(false));
    }
}
