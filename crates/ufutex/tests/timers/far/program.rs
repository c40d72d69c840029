//! Random programs of calls with valid and invalid arguments. No call blocks.

use std::time::Duration;

use crate::common::random::Random;
use crate::memory::{EVENT, Event, SPEC, Spec};

/// The memory to which an argument points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Good,
    Null,
    Nothing,
    /// This many bytes can be read. They are zero.
    Readable(u64),
    /// This many bytes can be written. More can be read.
    Writable(u64),
}

/// A thread by its TID.
#[derive(Clone, Copy, Debug)]
pub enum Thread {
    This,
    Other,
    Number(i32),
}

#[derive(Clone, Copy, Debug)]
pub enum EventAt {
    Bad(Place),
    Good(Event, Thread),
}

#[derive(Clone, Copy, Debug)]
pub enum SpecAt {
    Bad(Place),
    Good(Spec),
}

/// One call. IDs are absolute numbers, because both machines allocate the same ones.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The clock, the sigevent, the place for the ID and its contents before the call.
    Create(i32, EventAt, Place, i32),
    Settime(i32, i32, SpecAt, Place),
    Gettime(i32, Place),
    Getoverrun(i32),
    Delete(i32),
    Prctl([u64; 4]),
}

pub fn program(mut rng: Random) -> Vec<Step> {
    let length = rng.of(&[5, 20, 60]);
    (0..length).map(|_| step(&mut rng)).collect()
}

fn step(rng: &mut Random) -> Step {
    match rng.below(100) {
        0..35 => Step::Create(clock(rng), event(rng), written(rng, 4), id(rng)),
        35..60 => Step::Settime(id(rng), flags(rng), spec(rng), old(rng)),
        60..75 => Step::Gettime(id(rng), written(rng, SPEC)),
        75..80 => Step::Getoverrun(id(rng)),
        80..91 => Step::Delete(id(rng)),
        _ => Step::Prctl(prctl(rng)),
    }
}

fn clock(rng: &mut Random) -> i32 {
    match rng.below(20) {
        0..9 => rng.of(&[0, 1, 7, 11]),
        9..12 => rng.of(&[2, 3]),
        12..14 => rng.of(&[4, 5, 6]),
        14 => rng.of(&[10, 12, 13, 15, 30, i32::MAX]),
        // CPU-time clocks of this process, this thread and missing ones, of all three kinds, and clocks of descriptors.
        15..18 => !0 << 3 | rng.below(8),
        _ => !4_194_304 << 3 | rng.below(8),
    }
}

fn bad(rng: &mut Random, size: u64) -> Place {
    match rng.below(3) {
        0 => Place::Nothing,
        1 => Place::Readable(rng.next() % size),
        _ => Place::Null,
    }
}

fn written(rng: &mut Random, size: u64) -> Place {
    match rng.below(20) {
        0 => bad(rng, size),
        1 => Place::Readable(size),
        2 => Place::Writable(rng.next() % size),
        _ => Place::Good,
    }
}

fn old(rng: &mut Random) -> Place {
    if rng.percent(40) { Place::Null } else { written(rng, SPEC) }
}

fn event(rng: &mut Random) -> EventAt {
    if rng.percent(8) {
        let size = if rng.percent(30) { EVENT + 1 } else { EVENT };
        return EventAt::Bad(bad(rng, size));
    }
    let signal = rng.weighted(&[(8, 10), (2, 14), (1, 64), (1, 0), (1, 65), (1, -1)]);
    let notify = rng.weighted(&[(4, 0), (5, 1), (2, 2), (4, 4), (1, 3), (1, 5), (1, 6), (1, -1)]);
    let thread = match rng.below(8) {
        0..3 => Thread::Other,
        3..6 => Thread::This,
        _ => Thread::Number(rng.of(&[0, -1, 1, i32::MAX])),
    };
    EventAt::Good(Event { notify, signal, value: rng.next(), thread: 0 }, thread)
}

fn flags(rng: &mut Random) -> i32 {
    rng.weighted(&[(6, 0), (1, 2), (1, i32::MIN)])
}

fn spec(rng: &mut Random) -> SpecAt {
    if rng.percent(8) {
        return SpecAt::Bad(bad(rng, SPEC));
    }
    let time = |rng: &mut Random| match rng.below(20) {
        0..8 => (0, 0),
        8..16 => (3600 * (1 + rng.below(1000) as i64), rng.below(1_000_000_000) as i64),
        16 => (i64::MAX, 999_999_999),
        17 => (9_223_372_036 - rng.below(3) as i64, rng.below(1_000_000_000) as i64),
        18 => (3600, rng.of(&[-1, 1_000_000_000, i64::MAX])),
        _ => (rng.of(&[-1, i64::MIN]), 0),
    };
    SpecAt::Good(Spec { value: time(rng), interval: time(rng) })
}

fn id(rng: &mut Random) -> i32 {
    match rng.below(10) {
        0..8 => rng.below(12),
        8 => rng.of(&[i32::MAX, i32::MAX - 1, 1 << 20, 63, 64, 4096]),
        _ => rng.of(&[-1, i32::MIN, 1000]),
    }
}

fn prctl(rng: &mut Random) -> [u64; 4] {
    let mode = rng.weighted(&[(4, 0), (4, 1), (2, 2), (1, 3), (1, 1 << 32 | 1)]);
    let rest = |rng: &mut Random| u64::from(rng.percent(3));
    [mode, rest(rng), rest(rng), rest(rng)]
}

/// Whether two settings are equal with a tolerance of `apart` for times.
pub fn are_alike(one: Spec, other: Spec, apart: Duration) -> bool {
    if one.interval != other.interval {
        return false;
    }
    let (one, other) = (one.value(), other.value());
    one == other || !one.is_zero() && !other.is_zero() && one.abs_diff(other) < apart && one > Duration::from_secs(1)
}
