//! The output as one HTML page, which needs no network: the table, a flame graph of the time waited, and a time line of threads.
//!
//! Names come from the program, which may be hostile. `maud` escapes them, and the page's policy lets nothing run or load but the
//! style and the script here, which have a random nonce.

mod flame;
mod timeline;

use crate::account::Account;
use crate::past::Newest;
use crate::report::{self, Line, Owner, Site, Waker};
use crate::table::{self, time};
use anyhow::{Context, Result};
use maud::{Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Most words in a table.
const MOST_WORDS: usize = 100;
/// Most places of a word.
const MOST_SITES: usize = 10;

/// The whole page.
pub fn text(
    command: &str,
    missing: &[String],
    state: Option<&str>,
    account: &Account,
    lines: &[Line],
    newest: &Newest,
) -> Result<String> {
    // A random number as text, without a crate for it.
    let nonce = std::fs::read_to_string("/proc/sys/kernel/random/uuid").context("no random number for the page")?;
    let nonce = nonce.trim();
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; img-src data:; base-uri 'none'"
    );
    let head = html! {
        meta http-equiv="Content-Security-Policy" content=(policy);
        style nonce=(nonce) { (PreEscaped(lab_page::COLOURS)) (PreEscaped(lab_page::STYLE)) (PreEscaped(STYLE)) }
    };
    let heading = table::heading(command, account);
    let body = html! {
        header {
            h1 { (heading) }
            p.subtitle { (table::summary(account, lines)) }
            @for one in missing { p.warning role="note" { strong { "Careful: " } (one) } }
        }
        main {
            @if let Some(state) = state {
                section aria-labelledby="state" {
                    h2 id="state" { "Threads that waited when the state was printed last" }
                    pre { (state.trim_matches('\n')) }
                }
            }
            @if lines.is_empty() { p { (table::NOTHING) } } @else {
                (words("locks", table::LOCKS, lines, true))
                (words("events", table::EVENTS, lines, false))
                (flame::draw(lines))
                (timeline::draw(account, lines, newest))
            }
        }
        script nonce=(nonce) { (PreEscaped(SCRIPT)) }
    };
    Ok(lab_page::page(&heading, &head, &body))
}

/// The CSS class with the colour of a line. The first lines, which are locks if there are any, have colours of their own.
fn look(number: usize) -> &'static str {
    ["c-live", "c-atomic", "c-fixed", "c-parking", "c-percpu", "c-global"].get(number).unwrap_or(&"c-kernel")
}

/// A table of the locks, or of all else.
fn words(id: &str, title: &str, lines: &[Line], are_locks: bool) -> Markup {
    let all: Vec<_> = lines.iter().enumerate().filter(|(_, line)| line.is_lock == are_locks).collect();
    html! {
        @if !all.is_empty() {
            section aria-labelledby=(id) {
                h2 id=(id) { (title) }
                p.note { "Open a row for the stacks, and for the threads that ended the waits and held the lock." }
                table.words aria-labelledby=(id) {
                    thead {
                        tr {
                            @for column in ["waited", "waits", "mean", "p99", "longest", "waiters"] {
                                th.n scope="col" { (column) }
                            }
                            th scope="col" { "name" }
                        }
                    }
                    tbody { @for (number, line) in all.iter().take(MOST_WORDS) { (row(*number, line)) } }
                }
                @if all.len() > MOST_WORDS { p.note { (all.len() - MOST_WORDS) " more words took less time." } }
            }
        }
    }
}

fn row(number: usize, line: &Line) -> Markup {
    html! {
        tr {
            td.n { (time(line.total_ns)) }
            td.n { (line.waits) }
            td.n { (time(line.mean_ns)) }
            td.n { (time(line.p99_ns)) }
            td.n { (time(line.longest_ns)) }
            td.n { (line.waiters_most) }
            th scope="row" {
                details data-word=(number) {
                    summary { span.swatch.(look(number)) {} (table::name(line)) }
                    (details(line))
                }
            }
        }
    }
}

fn details(line: &Line) -> Markup {
    html! {
        @if line.address != 0 { p.note { "process " (line.pid) ", address " (format!("{:#x}", line.address)) } }
        @for one in line.sites.iter().take(MOST_SITES) { (site(one)) }
        @if line.sites.len() > MOST_SITES { p.note { (line.sites.len() - MOST_SITES) " more places took less time." } }
        @if line.is_lock { @for one in &line.owners { (owner(one)) } }
    }
}

fn site(site: &Site) -> Markup {
    html! {
        p { (time(site.total_ns)) " in " (site.waits) " waits at" }
        pre { (report::texts(&site.stack).join("\n")) }
        ul { @for one in &site.wakers { li { (waker(one)) } } }
    }
}

fn waker(waker: &Waker) -> Markup {
    let said = format!("ended by {} {} times, {} in all", waker.thread, waker.waits, time(waker.total_ns));
    let place = waker.caller.as_ref().map(|frame| format!(", in {frame}")).unwrap_or_default();
    html! {
        details { summary { (said) (place) } pre { (waker.stack.join("\n")) } }
    }
}

fn owner(owner: &Owner) -> Markup {
    html! {
        p { "held by " (owner.thread) " for " (time(owner.held_ns)) " while others waited" }
        @if let Some(stack) = &owner.taken_at {
            details { summary { "taken after a wait at" } pre { (stack.join("\n")) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Names;
    use crate::report;
    use ufutex_program::ring::Kind;

    /// A thread's name as the two words of its record.
    fn words_of(text: &str) -> [u64; 2] {
        let mut bytes = [0; 16];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        [0, 8].map(|at| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight")))
    }

    #[test]
    fn names_of_the_program_are_escaped_everywhere() {
        const EVIL: &str = "<script>x";
        let mut account = Account::default();
        let [first, last] = words_of(EVIL);
        for tid in [10, 20] {
            account.note(1, Kind::Named, &[tid, first, last]);
        }
        account.note(1, Kind::Stack, &[5, 0x111]);
        account.note(1, Kind::Stack, &[6, 0x333]);
        account.note(1, Kind::Sleeps, &[1000, 10, 0x4000, 137, 0x7000, 5, 2, 0, 0, 0]);
        account.note(1, Kind::Wakes, &[1500, 20, 0x7000, 6, 0]);
        account.note(1, Kind::Ended, &[1600, 0x7000, 0, 0]);
        let mut newest = Newest::default();
        newest.add(account.take_past());
        let mut lines = report::lines(&account, &mut Names::default());
        let line = &mut lines[0];
        (line.is_lock, line.name) = (true, format!("{EVIL}</style><img src=x>"));
        line.sites[0].stack[0].function = Some(format!("{EVIL} in </title>"));
        line.sites[0].wakers[0].stack = vec![EVIL.to_string()];
        line.owners.push(Owner { thread: EVIL.to_string(), held_ns: 7, taken_at: Some(vec![EVIL.to_string()]) });
        let page =
            text("</title><script>y", &[EVIL.to_string()], Some(EVIL), &account, &lines, &newest).expect("a page");
        // The page's own script is the only one, and has the nonce.
        assert_eq!(page.matches("<script").count(), page.matches("<script nonce=").count(), "{page}");
        assert_eq!((page.matches("</style").count(), page.matches("<img").count()), (1, 0));
        // In the table, in its stacks, in the flame graph, in the time line.
        assert!(page.matches("&lt;script&gt;x").count() > 10, "{page}");
        for place in [
            "Careful: </strong>&lt;script",
            "<summary>ended by &lt;script",
            "<title>&lt;script",
            "class=\"thread\">&lt;script",
            "held by &lt;script",
            "<pre>&lt;script&gt;x</pre>",
        ] {
            assert!(page.contains(place), "{place} in {page}");
        }
    }

    #[test]
    fn program_without_waits_has_a_page_that_says_so() {
        let page = text("true", &[], None, &Account::default(), &[], &Newest::default()).expect("a page");
        assert!(page.contains(table::NOTHING) && !page.contains("<svg"), "{page}");
    }
}
