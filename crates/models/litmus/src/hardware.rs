//! x86-64, Armv8 and RISC-V, to which the orderings of the language are compiled as usual.
//!
//! The program is taken as it stands: what a compiler may reorder before that, only RC11 says. Where a mapping has a
//! choice, the weaker instruction is taken. Sources: [x86-tso], [armv8-model], [riscv-isa], [cpp-mappings].

use crate::Model;
use crate::candidates::{Event, Execution, Kind};
use crate::program::Mode;
use crate::relation::Relation;

/// x86-64: loads and stores are plain, SeqCst stores are exchanges, SeqCst fences `mfence`.
pub const X86: Model = Model {
    name: "x86-64",
    parts: &["per location", "atomicity", "communication", "program order", "fences", "locked"],
    consistent: x86,
    races: no_races,
};

/// Armv8: `ldapr`, `ldar`, `stlr`, read-modify-writes in one instruction (`casal`), `dmb ish` and `dmb ishld`.
pub const ARMV8: Model = Model {
    name: "Armv8",
    parts: &["per location", "atomicity", "observed", "dependencies", "atomics", "fences", "acquire", "release"],
    consistent: armv8,
    races: no_races,
};

/// RISC-V's RVWMO: loads and stores with fences, `amo` with `.aq` and `.rl`, compare-and-swap by `lr` and `sc`.
pub const RVWMO: Model = Model {
    name: "RISC-V",
    parts: &[
        "per location",
        "atomicity",
        "communication",
        "forwarded",
        "fences",
        "annotations",
        "pairs",
        "dependencies",
    ],
    consistent: rvwmo,
    races: no_races,
};

/// A processor has no undefined behaviour: a plain access is an access.
fn no_races(_: &Execution) -> bool {
    false
}

fn read(event: &Event) -> bool {
    event.kind == Kind::Read
}

fn write(event: &Event) -> bool {
    event.kind == Kind::Write
}

fn access(event: &Event) -> bool {
    event.kind != Kind::Fence
}

/// The union of the parts but the one that is left out.
fn union(parts: &[(&str, Relation)], without: Option<&str>, events: usize) -> Relation {
    let kept = parts.iter().filter(|(name, _)| Some(*name) != without);
    kept.fold(Relation::new(events), |all, (_, part)| &all | part)
}

/// What is before a fence in `modes` before what is after it. The fence itself stands between, for membarrier(2).
fn fenced(e: &Execution, modes: &[Mode], before: fn(&Event) -> bool, after: fn(&Event) -> bool) -> Relation {
    let is_fence = |event: &Event| event.kind == Kind::Fence && modes.contains(&event.mode);
    let (to, from) = (&e.po & &e.pairs(before, is_fence), &e.po & &e.pairs(is_fence, after));
    if modes == [Mode::SeqCst] { &to | &from } else { to.then(&from) }
}

fn x86(e: &Execution, without: Option<&str>) -> bool {
    let outside = &e.rf - &e.same_thread();
    let locked = |event: &Event| event.is_change || write(event) && event.mode == Mode::SeqCst;
    let ordered = |a: &Event, b: &Event| access(a) && access(b) && (read(a) || write(b));
    let parts = [
        ("communication", &(&outside | &e.fr) | &e.co),
        ("program order", Relation::of(e.events.len(), |a, b| e.po.has(a, b) && ordered(&e.events[a], &e.events[b]))),
        ("fences", &fenced(e, &[Mode::SeqCst], access, access) | &e.passed),
        ("locked", &e.po & &(&e.pairs(access, locked) | &e.pairs(locked, access))),
    ];
    union(&parts, without, e.events.len()).is_acyclic()
}

fn armv8(e: &Execution, without: Option<&str>) -> bool {
    let po = |from: fn(&Event) -> bool, to: fn(&Event) -> bool| &e.po & &e.pairs(from, to);
    let acquires: fn(&Event) -> bool = |event| read(event) && event.mode.acquires();
    // `ldar` and `casa`, but not `ldapr`.
    let strong: fn(&Event) -> bool = |r| read(r) && (r.mode == Mode::SeqCst || r.is_change && r.mode.acquires());
    let releases: fn(&Event) -> bool = |event| write(event) && event.mode.releases();
    let communication = &(&e.rf | &e.co) | &e.fr;
    let (inside, coi) = (&e.rf & &e.same_thread(), &e.co & &e.same_thread());
    let to_write = e.only(write);
    let after_change = e.only(|w| write(w) && w.is_change).then(&inside).then(&e.only(acquires));
    let full = &[Mode::SeqCst];
    let parts = [
        ("observed", &(&communication - &e.same_thread()) | &e.passed),
        ("dependencies", {
            let onwards = &(&e.ctrl | &e.data).then(&coi) | &e.data.then(&inside);
            &(&e.data | &e.ctrl.then(&to_write)) | &onwards
        }),
        ("atomics", &e.rmw | &after_change),
        ("fences", {
            let others = fenced(e, &[Mode::Release, Mode::AcqRel], access, access);
            &(&fenced(e, full, access, access) | &others) | &fenced(e, &[Mode::Acquire], read, access)
        }),
        ("acquire", &po(acquires, access) | &po(releases, strong)),
        ("release", {
            let before = po(access, releases);
            &before | &before.then(&coi)
        }),
    ];
    union(&parts, without, e.events.len()).is_acyclic()
}

fn rvwmo(e: &Execution, without: Option<&str>) -> bool {
    let inside = &e.rf & &e.same_thread();
    let communication = &(&(&e.rf - &inside) | &e.co) | &e.fr;
    let parts = [
        ("communication", communication),
        // Rule 3. Rules 1 and 2 follow from "per location", since `communication` is part of the order of memory.
        ("forwarded", e.only(|w| write(w) && w.is_change).then(&inside)),
        ("fences", &rvwmo_fences(e) | &e.passed),
        ("annotations", rvwmo_annotations(e)),
        ("pairs", e.rmw.clone()),
        ("dependencies", &(&e.data | &e.ctrl.then(&e.only(write))) | &e.data.then(&inside)),
    ];
    // An `amo` is one operation, with one place in the order of memory.
    let is_amo = |event: &Event| event.is_change && !event.is_compare;
    let mut all = union(&parts, without, e.events.len());
    if without != Some("pairs") {
        let same = &e.rmw & &e.pairs(is_amo, is_amo);
        let one = &(&same | &same.inverse()).or_same();
        all = &one.then(&(&all - &same)).then(one) - &same;
    }
    all.is_acyclic()
}

/// Rule 4. An Acquire load has a `fence r,rw` behind it, a Release store a `fence rw,w` before it, and a SeqCst load a
/// `fence rw,rw` before it in addition.
fn rvwmo_fences(e: &Execution) -> Relation {
    use Mode::{AcqRel, Acquire, Release, SeqCst};
    let explicit = [
        fenced(e, &[SeqCst], access, access),
        fenced(e, &[AcqRel], read, access),
        fenced(e, &[AcqRel], write, write),
        fenced(e, &[Release], access, write),
        fenced(e, &[Acquire], read, access),
    ];
    let plain_read = |r: &Event| read(r) && !r.is_change;
    let acquire = e.only(|r| plain_read(r) && r.mode.acquires());
    let after = (&e.po & &e.pairs(read, read)).or_same().then(&acquire).then(&(&e.po & &e.pairs(access, access)));
    let release = e.only(|w| write(w) && !w.is_change && w.mode.releases());
    let upto_write = (&e.po & &e.pairs(access, write)).or_same();
    let before = (&e.po & &e.pairs(access, access)).then(&release).then(&upto_write);
    let strong = e.only(|r| plain_read(r) && r.mode == SeqCst);
    let around = (&e.po & &e.pairs(access, access)).then(&strong).then(&(&e.po & &e.pairs(access, access)).or_same());
    explicit.iter().fold(&(&after | &before) | &around, |all, fence| &all | fence)
}

/// Rules 5 to 7. The annotations of read-modify-writes are of the stronger kind, which is ordered with its like.
fn rvwmo_annotations(e: &Execution) -> Relation {
    let accesses = e.pairs(access, access);
    let acquire = |r: &Event| r.is_change && read(r) && r.mode.acquires();
    let release = |w: &Event| w.is_change && write(w) && w.mode.releases();
    // `lr.aqrl`, and an `amo.aqrl`, order what comes before them too.
    let strong = |event: &Event| event.is_change && read(event) && event.mode == Mode::SeqCst;
    let annotated = |event: &Event| acquire(event) || release(event);
    let rules = &(&e.pairs(acquire, access) | &e.pairs(access, release)) | &e.pairs(annotated, annotated);
    &(&e.po & &accesses) & &(&rules | &e.pairs(access, strong))
}
