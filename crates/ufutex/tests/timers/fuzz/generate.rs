//! Random programs.

use ufutex::timer::{CpuClock, Notify, TimerClock};

use super::program::{Absolute, Keep, Program, Step, Which};
use crate::clock::THREAD;
use crate::common::random::Random;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// The process and the thread with a CPU-time clock.
pub const CPU_CLOCKS: [CpuClock; 2] = [CpuClock::Process(1), CpuClock::Thread(THREAD)];

pub fn program(mut rng: Random) -> Program {
    let max_id = rng.weighted(&[(6, i32::MAX), (1, 0), (1, 7), (1, 63)]);
    let max_timers = rng.weighted(&[(5, usize::MAX), (1, 1), (1, 5), (1, 40)]);
    let length = rng.of(&[5, 20, 60, 150]);
    let steps = (0..length).map(|_| (usize::from(rng.percent(20)), step(&mut rng))).collect();
    Program { max_timers, max_id, steps }
}

fn step(rng: &mut Random) -> Step {
    match rng.below(100) {
        0..12 => Step::Create(clock(rng), notify(rng)),
        12..15 => Step::CreateAs(id(rng), clock(rng), notify(rng)),
        15..36 => set(rng),
        36..46 => Step::Get(which(rng)),
        46..50 => Step::Overrun(which(rng)),
        50..55 => Step::Delete(which(rng)),
        55..69 => Step::Take(rng.below(8), if rng.percent(15) { Keep::Keep } else { Keep::Drop }),
        69..80 => Step::Advance(length(rng)),
        80..85 => Step::Spend(length(rng)),
        85..88 => Step::Jump(if rng.percent(50) { 1 } else { -1 } * (length(rng) % (400 * SECOND)) as i64),
        88..98 => Step::Turn,
        98 => rng.weighted(&[(9, Step::Turn), (1, Step::EndThread)]),
        _ => rng.weighted(&[(2, Step::Turn), (1, Step::Clear)]),
    }
}

fn set(rng: &mut Random) -> Step {
    let absolute = rng.percent(50).then(|| match rng.below(4) {
        0 => Absolute::Epoch,
        _ => Absolute::BeforeNow(length(rng)),
    });
    let value = if rng.percent(12) { 0 } else { length(rng) };
    let interval = if rng.percent(50) { 0 } else { length(rng) };
    Step::Set(which(rng), absolute, value, interval)
}

fn which(rng: &mut Random) -> Which {
    if rng.percent(93) { Which::Known(rng.below(40)) } else { Which::Id(id(rng)) }
}

fn id(rng: &mut Random) -> i32 {
    match rng.below(10) {
        0..5 => rng.below(8),
        5 => rng.below(100),
        6 => i32::MAX - rng.below(3),
        7 => rng.next() as i32,
        8 => 1 << rng.below(31),
        _ => -1,
    }
}

fn clock(rng: &mut Random) -> TimerClock {
    match rng.below(20) {
        0..6 => TimerClock::Monotonic,
        6..11 => TimerClock::Realtime,
        11..13 => TimerClock::Boottime,
        13..16 => TimerClock::Tai,
        16..19 => TimerClock::Cpu(rng.of(&CPU_CLOCKS)),
        _ => TimerClock::Cpu(CpuClock::Thread(9999)),
    }
}

fn notify(rng: &mut Random) -> Option<Notify> {
    let signal = match rng.below(20) {
        0 => rng.of(&[0, -1, 65]),
        _ => 1 + rng.below(64),
    };
    let value = rng.next();
    match rng.below(20) {
        0 => None,
        1..7 => Some(Notify::None),
        7 => Some(Notify::Thread { signal, value, thread: 5 }),
        8..10 => Some(Notify::Thread { signal, value, thread: THREAD }),
        _ => Some(Notify::Signal { signal, value }),
    }
}

/// A length of time in nanoseconds, of an interesting size.
fn length(rng: &mut Random) -> u64 {
    match rng.below(20) {
        0 => 1,
        1 => rng.next() % 16,
        2..5 => rng.next() % 1000,
        5..12 => rng.next() % (10 * MS),
        12..16 => rng.next() % SECOND,
        16..18 => rng.next() % (3600 * SECOND),
        18 => rng.of(&[MS, SECOND, 100 * SECOND, 4 * SECOND]),
        _ => rng.weighted(&[(4, 1 << 45), (1, u64::MAX), (1, i64::MAX as u64)]),
    }
}
