//! The crowd: threads that wait, wake and requeue at random words. Each wait ends by a wake, its timeout or an interrupt,
//! and each wake that was counted is received by one of the waits.

use crate::heart::Doing;
use crate::limit::Limit;
use crate::shift::{Seat, Shift, bitset};
use std::num::NonZeroU32;
use std::time::Duration;
use ufutex::{Compare, Error, Key, Modify, WakeOp};

/// Longest timeout of a thread.
const LONGEST: Duration = Duration::from_millis(20);
/// How many waiters a wake is for.
pub const COUNTS: [usize; 6] = [1, 1, 1, 2, 5, usize::MAX];

/// Works until the run is stopped.
pub fn run(shift: &Shift, mut seat: Seat) {
    while shift.world.is_running() {
        match seat.random.below(16) {
            0..8 => wait(shift, &mut seat),
            8..12 => {
                let word = shift.word(&mut seat.random);
                if seat.random.one_in(4) {
                    word.change();
                }
                shift.wake(&seat.heart, word, seat.random.of(&COUNTS), bitset(&mut seat.random));
            }
            12..14 => shift.requeue(&seat.heart, &mut seat.random),
            _ => wake_op(shift, &mut seat),
        }
    }
}

fn wait(shift: &Shift, seat: &mut Seat) {
    let (world, random) = (&*shift.world, &mut seat.random);
    let (word, interrupt) = (shift.word(random), &shift.interrupts[seat.index]);
    // An interrupt ends a wait without a timeout, if no wake does.
    let limit = if random.one_in(4) { Limit::none() } else { Limit::within(LONGEST, world, random) };
    let is_interruptible = limit.timeout().is_none() || random.one_in(2);
    let options = limit.options().realtime_priority(random.of(&[0, 0, 0, 1, 50]));
    let options = options.bitset(NonZeroU32::new(bitset(random)).unwrap_or(NonZeroU32::MAX));
    let value = if random.one_in(16) { word.value().wrapping_sub(1) } else { word.value() };
    let ended = seat.heart.during(Doing::Wait, word.address(), || match is_interruptible {
        true => shift.plain.wait_interruptible(word, value, &options, interrupt),
        false => shift.plain.wait_with(word, value, &options),
    });
    match ended {
        Ok(()) => world.counts.received.add(1),
        Err(Error::Again) => world.counts.mismatched.add(1),
        Err(Error::TimedOut) => {
            world.counts.timed_out.add(1);
            limit.check_passed(world, &world.findings);
        }
        Err(Error::Interrupted) if is_interruptible => {
            world.counts.interrupted.add(1);
            interrupt.clear();
        }
        Err(error) => world.unexpected("a wait", error),
    }
}

fn wake_op(shift: &Shift, seat: &mut Seat) {
    let random = &mut seat.random;
    let (first, second) = (shift.word(random), shift.word(random));
    let op = WakeOp { modify: Modify::Add(1), compare: random.of(&[Compare::Ge(0), Compare::Lt(0)]) };
    let counts = [random.of(&COUNTS), random.of(&COUNTS)];
    let woken = seat
        .heart
        .during(Doing::Wake, first.address(), || shift.plain.wake_op(first, counts[0], second, op, counts[1]));
    match woken {
        Ok(woken) => shift.world.counts.woken.add(woken),
        Err(error) => shift.world.unexpected("a wake_op", error),
    }
}
