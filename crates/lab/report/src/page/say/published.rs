//! The section about the published comparisons: published, measured with our stand-ins, and modelled, in separate
//! columns.

use super::{factor, thousands};
use crate::page::document::{Block, Drawing, Factors, Look, Mark, Picture, Section, Table};
use crate::page::modelled::Modelled;
use crate::page::published::{self, Comparison, Figures, MAILS, Pair, Side, comparisons};
use lab_bench::survey::hammer::Measured;
use lab_bench::survey::published::{Published, STALL_SLOTS, TABLE_SLOTS, TABLE_THREADS};
use lab_bench::survey::resize::{self, Once, Resized};
use lab_bench::survey::timers::Found;
use lab_targets::{Layout, Name};

/// A modelled factor within this factor of the published one has the right size.
const SIZE_MAX: f64 = 1.5;

/// The available results. Each may be missing.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The stand-ins' pairs and sizes.
    pub measured: Option<&'a Published>,
    /// The resizes, for the stall.
    pub resized: Option<&'a [Resized]>,
    /// The timers, for [timer-hash].
    pub timers: Option<&'a Found>,
    /// The model's results.
    pub modelled: Option<&'a Modelled>,
    /// Number of CPUs, which is the number of threads of the pairs.
    pub cpus: usize,
}

/// One comparison in three columns, each with before and after.
struct Line {
    one: Comparison,
    /// By our stand-ins.
    here: Option<(f64, f64)>,
    model: Option<(f64, f64, String)>,
}

/// The section with all published tables.
pub fn section(from: Sources<'_>) -> Section {
    let lines: Vec<_> = comparisons().into_iter().map(|one| line(from, one)).collect();
    let mut blocks = vec![
        Block::Words(
            "Comparisons from mails to the Linux kernel's mailing list, named in the last table of this section. Published: \
            what the mail's author measured with Linux on machines with many cores. Our stand-ins: schemes and layouts of \
            the engine, measured on this machine with a thread on each CPU, without a system call. They are not Linux: \
            only their factors may be compared with published ones. Modelled: the stand-ins on virtual cores. A factor is \
            the rate after divided by the rate before. Rates are of one thread, as perf prints them; where threads share \
            CPUs here, of one CPU."
                .to_string(),
        ),
        Block::Pictures(pictures(&lines)),
        Block::Table(comparison_table(&lines)),
        Block::Means(means(&lines, from.cpus)),
    ];
    blocks.extend(this_kernel(from).map(Block::Words));
    blocks.push(Block::Table(by_threads(from)));
    blocks.push(Block::Table(by_node()));
    blocks.extend(from.timers.map(|found| Block::Table(timers(found))));
    blocks.push(Block::Note(
        "The second table of [private-hash] and the cases of [timer-hash] with 63 processes need a machine with several nodes \
        and many cores, so only the published figures are shown. 63 threads share the CPUs here. In the column `global` the \
        futexes of this kernel are shared ones, whose keys take longer to compute: a process that sets 0 slots for its private \
        futexes cannot take that back."
            .to_string(),
    ));
    blocks.push(Block::Table(mails()));
    if let Some(measured) = from.measured {
        blocks.extend(measured.notes.iter().cloned().map(Block::Note));
    }
    Section { id: "published", name: "Published tables", title: title(&lines), blocks }
}

fn line(from: Sources<'_>, one: Comparison) -> Line {
    let here = match one.here {
        Some(Pair::Tables(before, after)) => rate(from, before).zip(rate(from, after)),
        Some(Pair::Stall) => stall(from, Name::PerCpu).map(|(_, rates)| rates),
        None => None,
    };
    let model = from.modelled.and_then(|modelled| modelled.seed(one.id));
    let model = model.map(|side| (side.before_per_sec, side.after_per_sec, side.machine.clone()));
    Line { one, here, model }
}

fn find(sides: &[Measured], (name, layout, buckets): Side) -> Option<&Measured> {
    sides.iter().find(|one| {
        let policy = one.spec.policy == lab_targets::Policy::Fixed(buckets);
        one.spec.name == name && one.spec.layout == layout && policy
    })
}

/// Operations of a thread in a second. If threads share CPUs, of a CPU.
fn of_a_thread(all: f64, threads: usize, cpus: usize) -> f64 {
    all / threads.min(cpus).max(1) as f64
}

fn rate(from: Sources<'_>, side: Side) -> Option<f64> {
    let one = find(&from.measured?.sides, side)?;
    Some(of_a_thread(one.rate.median, one.spec.threads, from.cpus))
}

/// A target's resize, and its rates: while the resize is under way, and with a table that has 256 buckets from the
/// start. Both are under the same number of threads.
fn stall<'a>(from: Sources<'a>, name: Name) -> Option<(&'a Once, (f64, f64))> {
    let one = from.resized?.iter().find(|one| one.name == name)?;
    let once = one.middle()?;
    let under_way = resize::rate(once, 0.0, once.took_ms)? * 1e6;
    let sized = rate(from, (name, Layout::Lean, STALL_SLOTS))?;
    Some((once, (of_a_thread(under_way, one.threads, from.cpus), sized)))
}

/// What the kernel of this machine does in the comparison of the stall. It cannot be measured in the others.
fn this_kernel(from: Sources<'_>) -> Option<String> {
    let (once, (under_way, sized)) = stall(from, Name::Kernel)?;
    Some(format!(
        "This machine's kernel, under the load of the stall's stand-in: a resize of its private hash took {}. It had {} \
        operations a second on each CPU meanwhile, and has {} with {STALL_SLOTS} buckets: {}. A kernel has one layout and one \
        way to count, so the other pairs cannot be measured on it.",
        super::duration_ms(once.took_ms),
        thousands(under_way),
        thousands(sized),
        factor(Some(sized / under_way))
    ))
}

/// One picture of counts, sizes and the stall, one of layouts. A line has a mark for each column.
fn pictures(lines: &[Line]) -> Vec<Picture> {
    let counts = |line: &&Line| !line.one.id.starts_with("packed");
    let titles = ["Cost of a count, a size, a stall", "Cost of a bucket's layout"];
    titles
        .into_iter()
        .zip([lines.iter().filter(counts).collect::<Vec<_>>(), lines.iter().filter(|line| !counts(line)).collect()])
        .map(|(title, lines)| picture(title, &lines))
        .collect()
}

fn picture(title: &str, lines: &[&Line]) -> Picture {
    let look = |class, mark| Look { class, dash: "", mark };
    let kinds = vec![
        ("published".to_string(), look("c-kernel", Mark::Ring)),
        ("our stand-ins".to_string(), look("c-live", Mark::Disc)),
        ("modelled".to_string(), look("c-atomic", Mark::Up)),
    ];
    let rows = lines.iter().map(|line| {
        let ratio = |pair: Option<(f64, f64)>| pair.map(|(before, after)| after / before);
        let model = line.model.as_ref().map(|(before, after, _)| (*before, *after));
        let (what, where_) = (line.one.what.to_string(), line.one.where_.to_string());
        (what, where_, vec![Some(line.one.figures.factor()), ratio(line.here), ratio(model)])
    });
    let said = lines.iter().map(|line| format!("{}: {}", line.one.what, factor(Some(line.one.figures.factor()))));
    Picture {
        title: format!("{title} (grey: the published factor, give or take ×1.5)"),
        description: format!("Published: {}. All columns are in the table below.", said.collect::<Vec<_>>().join("; ")),
        drawing: Drawing::Factors(Factors { kinds, lines: rows.collect() }),
        table: None,
    }
}

fn comparison_table(lines: &[Line]) -> Table {
    let header = [
        "what changed",
        "where it was published",
        "before",
        "after",
        "factor",
        "before",
        "after",
        "factor",
        "before",
        "after",
        "factor",
        "on",
    ];
    let caption =
        "Operations of a thread in a second (schbench: requests of all workers): published, our stand-ins, modelled";
    let mut table = Table::new(caption, 2, &header);
    table.groups =
        vec![(String::new(), 2), ("published".into(), 3), ("our stand-ins".into(), 3), ("modelled".into(), 4)];
    for line in lines {
        let mut cells = vec![format!("{}: {}", line.one.source, line.one.what), line.one.where_.to_string()];
        let published = match line.one.figures {
            Figures::Rates(before, after) => Some((before, after)),
            Figures::Gain(_) => None,
        };
        cells.extend(sides(published));
        cells[4] = factor(Some(line.one.figures.factor()));
        cells.extend(sides(line.here));
        cells.extend(sides(line.model.as_ref().map(|(before, after, _)| (*before, *after))));
        cells.push(line.model.as_ref().map_or("-".to_string(), |(.., machine)| machine.clone()));
        table.rows.push(cells);
    }
    table
}

fn sides(pair: Option<(f64, f64)>) -> [String; 3] {
    match pair {
        Some((before, after)) => [thousands(before), thousands(after), factor(Some(after / before))],
        None => ["-", "-", "-"].map(str::to_string),
    }
}

/// The first table of [private-hash] three times: published, the engine's table here, and the kernel's here.
fn by_threads(from: Sources<'_>) -> Table {
    let caption =
        "private-hash: operations of a thread in a second, of one process, by threads (down) and slots (across)";
    let mut table = Table::new(caption, 2, &[]);
    table.header = ["column", "threads", "global"].map(str::to_string).to_vec();
    table.header.extend(TABLE_SLOTS.map(|slots| slots.to_string()));
    for (threads, rates) in published::by_threads() {
        let mut cells = vec!["published (4 sockets)".to_string(), threads.to_string()];
        cells.extend(rates.into_iter().map(thousands));
        table.rows.push(cells);
    }
    let Some(measured) = from.measured else { return table };
    for (title, target, global) in [("our table (live)", "live", "global"), ("this kernel", "kernel", "kernel")] {
        for threads in TABLE_THREADS {
            let rate = |target: &str, shared: bool, slots: Option<usize>| {
                let one = measured.table.iter().find(|one| {
                    let sized = slots.is_none_or(|slots| one.spec.policy == lab_targets::Policy::Fixed(slots));
                    one.row.head.target == target && one.spec.threads == threads && one.spec.shared == shared && sized
                });
                one.map_or("-".to_string(), |one| thousands(of_a_thread(one.rate.median, threads, from.cpus)))
            };
            let mut cells = vec![title.to_string(), threads.to_string(), rate(global, global == "kernel", None)];
            cells.extend(TABLE_SLOTS.map(|slots| rate(target, false, Some(slots))));
            table.rows.push(cells);
        }
    }
    table
}

/// The second table of [private-hash], as published.
fn by_node() -> Table {
    let mut table = Table::new(
        "private-hash: one process on each of 4 nodes, 36 threads each, as published",
        1,
        &["slots", "operations a second"],
    );
    for (slots, rate) in published::by_node() {
        let slots = if slots == "0" { "global, 65536".to_string() } else { slots.to_string() };
        table.rows.push(vec![slots, thousands(rate)]);
    }
    table
}

fn mails() -> Table {
    let header = ["mail", "subject, on the Linux kernel's mailing list", "by", "when"];
    let rows = MAILS
        .map(|(source, subject, by, when)| [source.name(), subject, by, when].map(str::to_string).to_vec())
        .to_vec();
    Table { rows, ..Table::new("Sources of the published figures (docs/REFERENCES.md has the links)", 4, &header) }
}

/// [timer-hash] in milliseconds: published; and by our stand-ins, our table and this kernel, for the cases that were run.
fn timers(found: &Found) -> Table {
    const DESIGNS: [&str; 4] = ["global-lock", "precheck", "scaled", "radix"];
    let header = [
        "case",
        "mainline",
        "lockless check",
        "scaled hash",
        "xarray",
        "mainline",
        "lockless check",
        "scaled hash",
        "xarray",
        "our table",
        "this kernel",
    ];
    let mut table = Table::new("timer-hash: milliseconds to create timers / to read each one's overrun", 1, &header);
    table.groups = vec![(String::new(), 1), ("published".into(), 4), ("our stand-ins".into(), 4), (String::new(), 2)];
    let cases = [(20_000, 1), (50_000, 1), (100_000, 1), (20_000, 63), (0, 0)];
    for ((case, published), (timers, threads)) in published::timers().zip(cases) {
        let mut cells = vec![case.to_string()];
        cells.extend(
            published.into_iter().map(|(create, look_up)| format!("{}/{}", thousands(create), thousands(look_up))),
        );
        for target in DESIGNS.into_iter().chain(["ours", "kernel"]) {
            let row = found.rows.iter().find(|row| {
                row.target == target
                    && row.timers == timers
                    && row.threads == threads
                    && row.sparse.is_none()
                    && row.processes == 1
            });
            let ms = |ns: f64| format!("{:.1}", ns * timers as f64 / 1e6);
            let both = row.and_then(|row| Some(format!("{}/{}", ms(row.create_ns?), ms(row.getoverrun_ns?))));
            cells.push(both.unwrap_or("-".to_string()));
        }
        table.rows.push(cells);
    }
    table
}

/// Counts the modelled comparisons with the right direction, and lists those that must have the right size and miss it.
fn verdict(lines: &[Line]) -> Option<(usize, usize, Vec<&Line>)> {
    let modelled: Vec<_> = lines.iter().filter_map(|line| Some((line, line.model.as_ref()?))).collect();
    let off = |line: &Line, (before, after, _): &(f64, f64, String)| {
        let off = (after / before) / line.one.figures.factor();
        line.one.is_validation && off.max(1.0 / off) > SIZE_MAX
    };
    let right = modelled.iter().filter(|(_, (before, after, _))| after > before).count();
    let missed = modelled.iter().filter(|(line, model)| off(line, model)).map(|(line, _)| *line).collect();
    (!modelled.is_empty()).then_some((modelled.len(), right, missed))
}

fn same_direction(lines: &[Line]) -> (usize, usize) {
    let here: Vec<_> = lines.iter().filter_map(|line| line.here).collect();
    (here.len(), here.iter().filter(|(before, after)| after > before).count())
}

fn title(lines: &[Line]) -> String {
    let (all, here) = same_direction(lines);
    match verdict(lines) {
        Some((modelled, right, _)) => {
            format!(
                "Of {modelled} published comparisons the model has the direction of {right}; our stand-ins on this machine have that of \
                {here} of {all}"
            )
        }
        None if all > 0 => {
            format!("Of {all} published comparisons our stand-ins on this machine have the direction of {here}")
        }
        None => "The published tables".to_string(),
    }
}

fn means(lines: &[Line], cpus: usize) -> String {
    let (all, here) = same_direction(lines);
    let mut text = format!(
        "{here} of {all} pairs of stand-ins have the published direction with {}. ",
        super::count(cpus, "thread")
    );
    if cpus <= 8 {
        text +=
            &format!("Effects of many cores that fetch one line are limited here to {}. ", super::count(cpus, "CPU"));
    }
    match verdict(lines) {
        Some((modelled, right, missed)) => {
            text += &format!("The model has the published direction in {right} of {modelled}. ");
            if missed.is_empty() {
                text += "Where the size counts too, it is within a factor of 1.5.";
            } else {
                let names: Vec<_> =
                    missed.iter().map(|line| format!("{} ({})", line.one.what, line.one.where_)).collect();
                text += &format!("Its size is off by more than a factor of 1.5 in: {}.", names.join("; "));
            }
        }
        None => {
            text += "The modelled columns are empty: the published pairs are not run on virtual cores for this page."
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::of_a_thread;

    #[test]
    fn rates_are_of_one_thread_and_where_threads_share_cpus_of_one_cpu() {
        assert_eq!([1, 2, 16].map(|threads| of_a_thread(8e6, threads, 2)), [8e6, 4e6, 4e6]);
    }
}
