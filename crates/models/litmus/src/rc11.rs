//! RC11 ([rc11] in docs/REFERENCES.md), with the release sequences of C++20 ([release-sequences]), which Rust has.
//!
//! The names are those of the paper, but `co` and `fr` for its `mo` and `rb`.

use crate::Model;
use crate::candidates::{Event, Execution, Kind};
use crate::program::Mode;
use crate::relation::Relation;

/// The model of the language.
pub const RC11: Model = Model {
    name: "RC11",
    parts: &[
        "coherence",
        "atomicity",
        "psc base",
        "psc fences",
        "no thin air",
        "fences synchronise",
        "rmw in sequences",
    ],
    consistent,
    races,
};

fn is_read(event: &Event) -> bool {
    event.kind == Kind::Read
}

fn is_write(event: &Event) -> bool {
    event.kind == Kind::Write
}

fn is_fence(event: &Event) -> bool {
    event.kind == Kind::Fence
}

fn is_sc_fence(event: &Event) -> bool {
    is_fence(event) && event.mode == Mode::SeqCst
}

fn none(execution: &Execution) -> Relation {
    Relation::new(execution.events.len())
}

/// `sw`, and what a membarrier(2) synchronises.
fn synchronises_with(e: &Execution, without: Option<&str>) -> Relation {
    let steps = if without == Some("rmw in sequences") { none(e) } else { e.rf.then(&e.rmw).closure() };
    let sequence = e.only(|w| is_write(w) && w.mode != Mode::Plain).then(&steps.or_same());
    let (mut before, mut after) = (none(e), none(e));
    if without != Some("fences synchronise") {
        before = e.only(is_fence).then(&e.po);
        after = e.po.then(&e.only(is_fence));
    }
    let released = e.only(|event| event.mode.releases() && !is_read(event)).then(&before.or_same());
    let acquired = after.or_same().then(&e.only(|event| event.mode.acquires() && !is_write(event)));
    let read = e.only(|r| is_read(r) && r.mode != Mode::Plain);
    &released.then(&sequence).then(&e.rf).then(&read).then(&acquired) | &e.passed
}

fn happens_before(e: &Execution, without: Option<&str>) -> Relation {
    (&e.po | &synchronises_with(e, without)).closure()
}

fn consistent(e: &Execution, without: Option<&str>) -> bool {
    let hb = happens_before(e, without);
    let eco = (&(&e.rf | &e.co) | &e.fr).closure();
    let is_coherent = || without == Some("coherence") || hb.then(&eco.or_same()).is_irreflexive();
    let is_out_of_thin_air = || without != Some("no thin air") && !(&e.po | &e.rf).is_acyclic();
    is_coherent() && !is_out_of_thin_air() && partial_sc(e, &hb, &eco, without).is_acyclic()
}

/// `psc`.
fn partial_sc(e: &Execution, hb: &Relation, eco: &Relation, without: Option<&str>) -> Relation {
    let mut psc = none(e);
    let fence = e.only(is_sc_fence);
    if without != Some("psc base") {
        let same = e.same_location();
        let elsewhere = &e.po - &same;
        let scb = &(&e.po | &elsewhere.then(hb).then(&elsewhere)) | &(&(&(hb & &same) | &e.co) | &e.fr);
        let sc = e.only(|event| event.mode == Mode::SeqCst);
        let from = &sc | &fence.then(&hb.or_same());
        let to = &sc | &hb.or_same().then(&fence);
        psc = &psc | &from.then(&scb).then(&to);
    }
    if without != Some("psc fences") {
        psc = &psc | &fence.then(&(hb | &hb.then(eco).then(hb))).then(&fence);
    }
    psc
}

/// Two accesses to one location, one of them a write and one not atomic, of which neither happens before the other.
fn races(e: &Execution) -> bool {
    let hb = happens_before(e, None);
    let conflicts = |a: &Event, b: &Event| {
        a.at == b.at && !is_fence(a) && !is_fence(b) && a.thread != b.thread && (is_write(a) || is_write(b))
    };
    let count = e.events.len();
    (0..count).any(|a| {
        e.events[a].mode == Mode::Plain
            && (0..count).any(|b| conflicts(&e.events[a], &e.events[b]) && !hb.has(a, b) && !hb.has(b, a))
    })
}
