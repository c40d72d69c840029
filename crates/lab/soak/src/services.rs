//! What goes on beside the shifts of a world: resizes, changes of nodes, interrupts, jumps of the clock, turns of the driver.
//! Each is a thread that runs until all shifts have ended.

use crate::clock::{self, JumpingClocks};
use crate::heart::{Doing, Heart};
use crate::random::Random;
use crate::shift::Shift;
use crate::world::{MAX_SLOTS, World};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use ufutex::timer::{Base, Clocks};

/// Slots that a domain is resized to. 0 is the global table.
const SLOTS: [usize; 8] = [0, 2, 2, 4, 16, 64, 512, MAX_SLOTS];
/// Time between two turns, if nothing is due.
const TURN_NS: u64 = 5_000_000;
/// Time between two jumps of the clock.
const JUMP_NS: u64 = 100_000_000;
/// A near jump ends within this time of the host's clock. A far one ends later than any time that the clock has shown.
const NEAR_NS: i64 = 3600 * SECOND_NS;
const SECOND_NS: i64 = 1_000_000_000;

/// A service of a world.
pub type Service = fn(&World, &[Arc<Shift>], &Heart, Random);

/// The services of a world.
pub fn of(world: &World) -> Vec<(&'static str, Service)> {
    let mut all: Vec<(&str, Service)> =
        vec![("resizer", resize), ("node changer", change_nodes), ("killer", interrupt)];
    if world.clocks.is_some() {
        // Several threads may turn a driver at once.
        all.extend([("clock", jump as Service), ("driver", turn), ("second driver", turn)]);
    }
    all
}

fn nap(random: &mut Random, longest_us: u64) {
    std::thread::sleep(Duration::from_micros(random.below(longest_us)));
}

fn resize(world: &World, shifts: &[Arc<Shift>], heart: &Heart, mut random: Random) {
    while !world.has_halted() {
        let domain = shifts[random.below(shifts.len())].domains()[random.below(2)];
        let slots = random.of(&SLOTS);
        match heart.during(Doing::Resize, 0, || domain.set_slots(slots)) {
            Ok(()) => world.counts.resizes.add(1),
            Err(error) => world.unexpected("a resize", error),
        }
        nap(&mut random, 2000);
    }
}

/// Moves a word to another node, as a program does: it changes the number behind the word, and wakes all that wait where the
/// word was.
fn change_nodes(world: &World, shifts: &[Arc<Shift>], heart: &Heart, mut random: Random) {
    let nodes = world.system.nodes() as u64;
    while !world.has_halted() {
        let shift = &shifts[random.below(shifts.len())];
        let cell = shift.cell_with_node(&mut random);
        let before = cell.node.swap(random.below(nodes) as u32, Ordering::Relaxed);
        shift.wake(heart, cell.on(before), usize::MAX, u32::MAX);
        world.counts.node_changes.add(1);
        nap(&mut random, 2000);
    }
}

fn interrupt(world: &World, shifts: &[Arc<Shift>], heart: &Heart, mut random: Random) {
    while !world.has_halted() {
        shifts[random.below(shifts.len())].interrupt(&mut random);
        heart.beat();
        nap(&mut random, 2000);
    }
}

/// Sets CLOCK_REALTIME back and forth. About half of the jumps, and the last, go beyond all deadlines.
fn jump(world: &World, _shifts: &[Arc<Shift>], heart: &Heart, mut random: Random) {
    let (mut ahead, mut is_last) = (NEAR_NS, false);
    while !is_last {
        is_last = !world.is_running();
        ahead += 10 * SECOND_NS;
        let is_near = !is_last && random.one_in(2);
        clock::jump_to(if is_near { random.below(2 * NEAR_NS as u64) as i64 - NEAR_NS } else { ahead });
        world.system.driver().clock_was_set();
        world.counts.clock_jumps.add(1);
        heart.beat();
        std::thread::sleep(Duration::from_nanos(random.below(JUMP_NS)));
    }
}

fn turn(world: &World, _shifts: &[Arc<Shift>], heart: &Heart, _random: Random) {
    let (Some(clocks), driver) = (&world.clocks, world.system.driver()) else { return };
    while !world.has_halted() {
        heart.during(Doing::Turn, 0, || driver.turn());
        let next = [Base::Monotonic, Base::Realtime, Base::Boottime, Base::Tai]
            .into_iter()
            .filter_map(|base| Some(left(clocks, base, driver.next(base)?)))
            .min();
        let longest = Duration::from_nanos(TURN_NS);
        clocks.sleep(next.map_or(longest, |left| left.min(longest)));
    }
}

fn left(clocks: &JumpingClocks, base: Base, at: Duration) -> Duration {
    at.saturating_sub(clocks.now(base))
}
