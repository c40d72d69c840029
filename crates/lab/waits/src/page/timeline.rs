//! A time line of threads: a row for each thread, with a bar while it waits.

use super::look;
use crate::account::Account;
use crate::past::{Newest, Past};
use crate::report::{self, Line};
use crate::table::{self, time};
use crate::word::{self, End, Place, WokenBy};
use lab_page::px;
use maud::{Markup, html};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Width of a row, in pixels.
const WIDTH: f64 = 1000.0;
/// Most threads.
const MOST_THREADS: usize = 200;

/// A wait, and the number of its line.
type Wait<'w> = (&'w Past, usize);

/// The section with the time line.
pub fn draw(account: &Account, lines: &[Line], newest: &Newest) -> Markup {
    let rows = rows(lines, newest);
    // 0: no record has a time.
    let starts = account.processes.values().map(|process| process.first_ns).filter(|start| *start != 0);
    let start_ns = starts.min().unwrap_or(0);
    let ends = account.processes.values().map(|process| process.last_ns);
    let axis = Axis::of(newest, start_ns, ends.max().unwrap_or(0));
    let Axis { from_ns, to_ns } = axis;
    let after = |quarter: u64| time(from_ns.saturating_sub(start_ns) + (to_ns - from_ns) / 4 * quarter);
    html! {
        section aria-labelledby="time" {
            h2 id="time" { "When threads waited" }
            p.note {
                "A bar is a wait, or several short ones, in the colour of the table. Between bars the thread ran, or waited for what is not recorded. From " (after(0)) " to " (after(4))
                " after the program's start. Hover over a bar, or use the arrow keys in a row, for what it is. Open words in the table to see their bars alone."
            }
            @if newest.dropped != 0 { p.warning role="note" { "Only the newest " (newest.waits.len()) " waits: " (newest.dropped) " older ones are not here." } }
            @if rows.len() > MOST_THREADS { p.note { "The " (MOST_THREADS) " threads that waited longest, of " (rows.len()) "." } }
            p #said role="status" { "No bar is chosen." }
            ul.rows {
                @for ((number, tid), waits) in most(rows) { (row(account, lines, (number, tid), &waits, &axis)) }
                li aria-hidden="true" { span {} span.axis { @for quarter in 0..=4 { span { (after(quarter)) } } } }
            }
        }
    }
}

/// The waits of each thread in order, by process and TID.
fn rows<'w>(lines: &[Line], newest: &'w Newest) -> BTreeMap<(usize, u32), Vec<Wait<'w>>> {
    let (mut by_word, mut by_place) = (HashMap::new(), HashMap::<(usize, Place), usize>::new());
    for (number, line) in lines.iter().enumerate() {
        if line.kind.is_of_thread {
            by_place.extend(line.sites.iter().map(|site| ((line.process, site.place), number)));
        } else {
            by_word.insert((line.process, line.address), number);
        }
    }
    let mut rows = BTreeMap::<_, Vec<Wait<'_>>>::new();
    for (process, past) in &newest.waits {
        // Neither has it if its call site was dropped: then the wait has no bar.
        let number = by_word.get(&(*process, past.word)).or_else(|| by_place.get(&(*process, past.place)));
        rows.entry((*process, past.tid)).or_default().extend(number.map(|number| (past, *number)));
    }
    rows.values_mut().for_each(|waits| waits.sort_by_key(|(past, _)| past.since_ns));
    rows
}

/// The threads that have waited longest, in the order of their TIDs.
fn most<T: Ord + Copy>(rows: BTreeMap<T, Vec<Wait<'_>>>) -> BTreeMap<T, Vec<Wait<'_>>> {
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, waits)| Reverse(total(waits)));
    rows.into_iter().take(MOST_THREADS).collect()
}

fn total(waits: &[Wait<'_>]) -> u64 {
    word::sum(waits.iter().map(|(past, _)| past.until_ns - past.since_ns))
}

struct Axis {
    from_ns: u64,
    to_ns: u64,
}

impl Axis {
    /// From the program's start to its end. If waits were dropped, it begins where the oldest kept wait ended.
    fn of(newest: &Newest, start_ns: u64, end_ns: u64) -> Axis {
        let oldest = newest.waits.front().filter(|_| newest.dropped != 0);
        let from_ns = oldest.map_or(start_ns, |(_, past)| past.until_ns);
        Axis { from_ns, to_ns: end_ns.max(from_ns.saturating_add(1)) }
    }

    /// Where a time is in a row. An earlier one than the axis's first is at its beginning.
    fn at(&self, ns: u64) -> f64 {
        ns.saturating_sub(self.from_ns) as f64 / (self.to_ns - self.from_ns) as f64 * WIDTH
    }
}

fn row(account: &Account, lines: &[Line], (process, tid): (usize, u32), waits: &[Wait<'_>], axis: &Axis) -> Markup {
    let name = account.processes.get(&process).map(|process| report::thread(process, tid)).unwrap_or_default();
    let said = format!("{name}: {} waits, {} in all", waits.len(), time(total(waits)));
    html! {
        li {
            span.thread { (name) }
            svg viewBox={ "0 0 " (WIDTH) " 10" } preserveAspectRatio="none" role="img" aria-label=(said) tabindex="0" {
                @for bar in bars(waits, axis) {
                    @let (x, end) = (axis.at(bar[0].0.since_ns), axis.at(bar[bar.len() - 1].0.until_ns));
                    @let number = longest(bar);
                    // Thinner bars could not be seen.
                    rect.(look(number)) data-word=(number) x=(px(x)) width=(px((end - x).max(0.6))) height="10" {
                        title { (title(account, lines, process, bar)) }
                    }
                }
            }
        }
    }
}

/// The waits that each bar stands for: those that begin and end within a pixel have one together.
fn bars<'b, 'w>(waits: &'b [Wait<'w>], axis: &Axis) -> Vec<&'b [Wait<'w>]> {
    let mut bars = Vec::new();
    let mut rest = waits;
    while let Some((first, _)) = rest.first() {
        let end = axis.at(first.since_ns) + 1.0;
        let count = rest.iter().take_while(|(past, _)| axis.at(past.until_ns) <= end).count().max(1);
        let (bar, others) = rest.split_at(count);
        bars.push(bar);
        rest = others;
    }
    bars
}

/// The line for which the waits of a bar took longest.
fn longest(bar: &[Wait<'_>]) -> usize {
    let mut times = BTreeMap::<usize, u64>::new();
    for (past, number) in bar {
        let time = times.entry(*number).or_default();
        *time = time.saturating_add(past.until_ns - past.since_ns);
    }
    times.into_iter().max_by_key(|(_, ns)| *ns).map_or(0, |(number, _)| number)
}

fn title(account: &Account, lines: &[Line], process: usize, bar: &[Wait<'_>]) -> String {
    let name = table::name(&lines[longest(bar)]);
    let &[(past, _)] = bar else {
        return format!("{} waits, {} in all, most for {name}", bar.len(), time(total(bar)));
    };
    let thread = |tid| account.processes.get(&process).map(|process| report::thread(process, tid)).unwrap_or_default();
    let end = match past.end {
        End::Woken(Some(WokenBy { tid, .. })) => format!("woken by {}", thread(tid)),
        End::Woken(None) => "woken".to_string(),
        End::TimedOut => "until its time was up".to_string(),
        End::Other => "until a signal or the program's end".to_string(),
    };
    format!("{name}: {}, {end}", time(past.until_ns - past.since_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::StackId;

    fn past(since_ns: u64, until_ns: u64) -> Past {
        let place = (StackId(0), 128);
        Past { tid: 1, word: 8, place, since_ns, until_ns, end: End::TimedOut }
    }

    #[test]
    fn waits_within_a_pixel_have_one_bar_and_longer_ones_have_their_own() {
        // A pixel is 10 ns.
        let axis = Axis { from_ns: 100, to_ns: 10_100 };
        let past = [past(100, 103), past(104, 110), past(111, 112), past(120, 500), past(501, 502)];
        let waits: Vec<Wait<'_>> = past.iter().zip([3, 5, 3, 4, 4]).collect();
        let bars = bars(&waits, &axis);
        assert_eq!(bars.iter().map(|bar| bar.len()).collect::<Vec<_>>(), [2, 1, 1, 1]);
        assert_eq!(longest(bars[0]), 5, "6 ns, and 3 ns for the other");
        assert_eq!((axis.at(100), axis.at(5_100), axis.at(10_100)), (0.0, 500.0, 1000.0));
    }

    #[test]
    fn time_line_without_old_waits_begins_when_the_oldest_kept_one_ended() {
        let mut newest = Newest { waits: [(1, past(100, 500)), (1, past(0, 900))].into(), dropped: 0 };
        let whole = Axis::of(&newest, 10, 1010);
        assert_eq!((whole.from_ns, whole.to_ns), (10, 1010));
        newest.dropped = 1;
        let later = Axis::of(&newest, 10, 1010);
        assert_eq!((later.from_ns, later.to_ns, later.at(0)), (500, 1010, 0.0));
    }

    #[test]
    fn page_of_many_short_waits_has_a_bounded_number_of_bars() {
        let axis = Axis { from_ns: 0, to_ns: 1_000_000 };
        let past: Vec<Past> = (0..20_000).map(|number| past(number * 50, number * 50 + 40)).collect();
        let waits: Vec<Wait<'_>> = past.iter().map(|past| (past, 0)).collect();
        let bars = bars(&waits, &axis);
        assert!(bars.len() <= 1001, "{} bars in {WIDTH} pixels", bars.len());
        assert_eq!(bars.iter().map(|bar| bar.len()).sum::<usize>(), 20_000, "none is missing");
    }
}
