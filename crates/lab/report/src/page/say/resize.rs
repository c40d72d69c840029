//! The section about a resize under load.

use super::{count, duration_ms};
use crate::page::document::{Block, Course, Drawing, Look, Picture, Section, Table};
use crate::page::pictures;
use lab_bench::GIVE_UP;
use lab_bench::survey::resize::{AFTER_MS, BEFORE_MS, Once, Resized, SIZES, STEP_MS, rate};

/// A picture for each target, all on one scale.
pub fn section(found: &[Resized]) -> Section {
    let threads = found.first().map_or(0, |one| one.threads);
    let top_mops = found.iter().filter_map(Resized::middle).flat_map(|once| &once.mops).copied().fold(0.0, f64::max);
    let pictures = found.iter().filter_map(|one| picture(one, top_mops)).collect();
    let (from, to) = SIZES;
    let blocks = vec![
        Block::Words(format!(
            "{} hammer a table of {from} buckets, more than the CPUs, as in a busy process. A resize to {to} is requested, and the rate of \
            all threads is taken in steps of {STEP_MS} ms until the request returns and after it. live is the engine; atomic and percpu \
            are our stand-ins for tables that count their users; kernel is this machine's kernel.",
            count(threads, "thread")
        )),
        Block::Pictures(pictures),
        Block::Table(table(found)),
        Block::Means(means(found)),
        Block::Note(format!(
            "Rates are of the round with the median time. The time is that until the request returned: its thread may have waited for \
            a CPU after the new size was in use (`ufutex bench resize` tells the two apart). A request that is not done after {} ms is \
            given up, except the kernel's, which cannot be. Threads that share a CPU run in turn, so single steps are uneven. In a \
            picture 0 is the request and the shaded time lasts until it returned.",
            GIVE_UP.as_millis()
        )),
    ];
    Section { id: "resize", name: "A resize under load", title: title(found), blocks }
}

fn picture(one: &Resized, top_mops: f64) -> Option<Picture> {
    let once = one.middle()?;
    let done = one.name.text();
    let verdict = if once.completed {
        format!("done after {}", duration_ms(once.took_ms))
    } else {
        format!("not done after {}", duration_ms(once.took_ms))
    };
    let rates = parts(once).map(|rate| rate.map_or("-".to_string(), |rate| format!("{rate:.1}")));
    Some(Picture {
        title: format!("{done}: {verdict}"),
        description: format!(
            "Million operations a second before the request {}, while it is under way {}, after it {}.",
            rates[0], rates[1], rates[2]
        ),
        drawing: Drawing::Course(Course {
            look: Look::of(one.name.text()),
            from_ms: -BEFORE_MS,
            step_ms: STEP_MS,
            mops: once.mops.clone(),
            top_mops,
            done_ms: once.completed.then_some(once.took_ms),
            given_up_ms: (!once.completed).then_some(once.took_ms),
        }),
        table: None,
    })
}

/// The line of a target in the picture of all. `None` if its resize was too short for rates.
pub fn course(one: &Resized) -> Option<pictures::Course> {
    let once = one.middle()?;
    let [before, under_way, after] = parts(once);
    // A resize of less than three steps has no rate of its own.
    let before = before?;
    let (target, took_ms) = (one.name.text().to_string(), once.took_ms);
    Some(pictures::Course { target, took_ms, before, under_way: under_way.unwrap_or(before), after })
}

/// The mean rates before, during and after the resize.
fn parts(once: &Once) -> [Option<f64>; 3] {
    let end = once.took_ms + STEP_MS;
    [
        rate(once, -BEFORE_MS, 0.0),
        rate(once, 0.0, once.took_ms),
        once.completed.then(|| rate(once, end, AFTER_MS)).flatten(),
    ]
}

fn table(found: &[Resized]) -> Table {
    let header = ["target", "rounds", "in effect", "until it returned", "before, Mop/s", "under way", "after"];
    let mut table = Table::new("Each target's resize, and the threads' rate before, during and after it", 1, &header);
    for one in found {
        let Some(once) = one.middle() else { continue };
        let mut cells = vec![
            one.name.text().to_string(),
            one.rounds.len().to_string(),
            one.completed().to_string(),
            if once.completed { duration_ms(once.took_ms) } else { format!("> {}", duration_ms(once.took_ms)) },
        ];
        cells.extend(parts(once).map(|rate| rate.map_or("-".to_string(), |rate| format!("{rate:.1}"))));
        table.rows.push(cells);
    }
    table
}

fn by<'a>(found: &'a [Resized], name: &str) -> Option<(&'a Resized, &'a Once)> {
    let one = found.iter().find(|one| one.name.text() == name)?;
    Some((one, one.middle()?))
}

/// The targets whose resize was given up: their reference count did not reach 0 while threads hammered.
fn stalled(found: &[Resized]) -> Vec<&'static str> {
    found.iter().filter(|one| one.middle().is_some_and(|once| !once.completed)).map(|one| one.name.text()).collect()
}

fn title(found: &[Resized]) -> String {
    let stalled = stalled(found);
    match by(found, "live") {
        Some((_, live)) if live.completed && !stalled.is_empty() => {
            format!(
                "live's request returned after {}; those of {} were given up after {}",
                duration_ms(live.took_ms),
                stalled.join(" and "),
                duration_ms(GIVE_UP.as_secs_f64() * 1000.0)
            )
        }
        Some((_, live)) if live.completed => format!("live's request returned after {}", duration_ms(live.took_ms)),
        _ => "A table is resized while threads hammer it".to_string(),
    }
}

fn means(found: &[Resized]) -> String {
    let mut text = String::new();
    let stalled = stalled(found);
    if !stalled.is_empty() {
        let slower = stalled.iter().filter_map(|name| {
            let [before, under_way, _] = parts(by(found, name)?.1);
            Some(format!("{name} has {:.0} % of its rate before", 100.0 * under_way? / before?))
        });
        let slower: Vec<_> = slower.collect();
        text += &format!(
            "{} can use the new table only at a moment when no thread is between its look-up and its unlock. Here that moment did \
            not come: a thread that loses its CPU in an operation stays inside until its next turn, and most of the threads have \
            lost theirs. Meanwhile {}. ",
            stalled.join(" and "),
            if slower.is_empty() { "all stay with the small table".to_string() } else { slower.join(", ") }
        );
    }
    if let Some((_, live)) = by(found, "live").filter(|(_, live)| live.completed) {
        text += &format!(
            "live moves bucket by bucket, and waits at most for threads that have locked a bucket: {}. ",
            duration_ms(live.took_ms)
        );
    }
    if let Some((_, kernel)) = by(found, "kernel") {
        text += &format!(
            "The kernel's request took {}. Linux since 6.17 counts users for each CPU, as percpu does. But if it does not preempt threads \
            inside system calls (preemption model none), at most one thread of each CPU is inside the counted part, however many there \
            are. The stall that [false-sharing] describes is of another machine and Linux 7.1.",
            duration_ms(kernel.took_ms)
        );
    }
    text.trim_end().to_string()
}
