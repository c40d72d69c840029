//! Random programs, run step by step on both runtimes: both must have the same results and wake the same threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use ufutex::wasm::{Trap, Waited};

use crate::Wasmtime;
use crate::common::asleep::until;
use crate::common::patient::within_patience;
use crate::common::random::Random;
use crate::machines::{Alone, Moving, Numbered};
use crate::suite::Machine;
use crate::suite::waiting::Waiting;

const PROGRAMS: u64 = 250;
const STEPS: usize = 40;
const THREADS: usize = 6;
const PAGE: u64 = 65536;

/// A step of a program.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Thread, address, expected value, timeout (-1 or 0). Skipped if the thread already waits.
    Wait32(usize, u64, u32, i64),
    Wait64(usize, u64, u64, i64),
    Notify(u64, u32),
    Store32(u64, u32),
    Store64(u64, u64),
    Grow,
}

/// The result of a step.
#[derive(PartialEq, Debug)]
enum Event {
    /// The thread sleeps.
    Asleep,
    Waited(Result<Waited, Trap>),
    /// The number of notified threads, and the waits that ended, by thread.
    Notified(Result<u32, Trap>, Vec<(usize, Result<Waited, Trap>)>),
    Grown(bool, u64),
    /// The thread already waits, or the memory has no such word to write.
    Skipped,
}

impl Step {
    fn new(random: &mut Random) -> Self {
        // Few common addresses, so that steps use the same ones. The odd ones trap, or are near the end of the first
        // page, beyond which the memory grows.
        let common = [0, 0, 0, 4, 8, 8, 64];
        let odd = [2, 3, 12, PAGE - 8, PAGE - 4, PAGE, PAGE + 8, 3 * PAGE, 1 << 40, u64::MAX, u64::MAX - 7];
        let address = if random.one_in(5) { random.of(&odd) } else { random.of(&common) };
        let thread = random.below(THREADS);
        let value = random.of(&[0, 0, 0, 1, u64::MAX, 1 << 32]);
        let timeout = random.of(&[-1, -1, -1, 0]);
        match random.below(20) {
            0..=7 => Self::Wait32(thread, address, value as u32, timeout),
            8..=11 => Self::Wait64(thread, address, value, timeout),
            12..=16 => Self::Notify(address, random.of(&[0, 1, 1, 1, 2, 3, u32::MAX])),
            17 => Self::Store32(address, value as u32),
            18 => Self::Store64(address, value),
            _ => Self::Grow,
        }
    }
}

/// A program that is running.
struct Run<M> {
    machine: Arc<M>,
    waiting: BTreeMap<usize, Waiting>,
}

impl<M: Machine> Run<M> {
    fn events(program: &[Step]) -> Vec<Event> {
        let mut run = Self { machine: Arc::new(M::new(1, 3)), waiting: BTreeMap::new() };
        let mut events: Vec<_> = program.iter().map(|step| run.event(*step)).collect();
        let everywhere = [0, 4, 8, 64, 12, PAGE - 8, PAGE - 4, PAGE, PAGE + 8];
        events.extend(everywhere.map(|address| run.notify(address, u32::MAX)));
        assert!(run.waiting.is_empty(), "all have been notified");
        events
    }

    fn event(&mut self, step: Step) -> Event {
        let machine = self.machine.clone();
        let is_there = |address: u64, width| address.is_multiple_of(width) && address < machine.bytes();
        match step {
            Step::Wait32(thread, address, expected, timeout) => {
                self.wait(thread, move |machine| machine.wait32(address, expected, timeout))
            }
            Step::Wait64(thread, address, expected, timeout) => {
                self.wait(thread, move |machine| machine.wait64(address, expected, timeout))
            }
            Step::Notify(address, count) => self.notify(address, count),
            Step::Store32(address, value) if is_there(address, 4) => {
                machine.store32(address, value);
                Event::Skipped
            }
            Step::Store64(address, value) if is_there(address, 8) => {
                machine.store64(address, value);
                Event::Skipped
            }
            Step::Store32(..) | Step::Store64(..) => Event::Skipped,
            Step::Grow => Event::Grown(machine.grow(1), machine.bytes()),
        }
    }

    fn wait(&mut self, thread: usize, wait: impl FnOnce(&M) -> Result<Waited, Trap> + Send + 'static) -> Event {
        if self.waiting.contains_key(&thread) {
            return Event::Skipped;
        }
        let machine = self.machine.clone();
        let waiting = Waiting::new(move || wait(&machine));
        if waiting.has_ended() {
            return Event::Waited(waiting.outcome());
        }
        self.waiting.insert(thread, waiting);
        Event::Asleep
    }

    /// Waits until as many threads as the call counted have ended their waits. The event has all that have ended.
    fn notify(&mut self, address: u64, count: u32) -> Event {
        let notified = self.machine.notify(address, count);
        let has_ended = |waiting: &mut Waiting| waiting.has_ended();
        let expected = notified.unwrap_or(0) as usize;
        until("those that were notified run", || {
            self.waiting.values_mut().map(has_ended).filter(|ended| *ended).count() >= expected
        });
        let woken: Vec<_> = self.waiting.extract_if(.., |_, waiting| waiting.has_ended()).collect();
        Event::Notified(notified, woken.into_iter().map(|(thread, waiting)| (thread, waiting.outcome())).collect())
    }
}

fn agrees_with_wasmtime<M: Machine>(seed: u64) {
    let mut met = [0; 4];
    for number in 0..PROGRAMS {
        let mut random = Random::new(seed << 32 | number);
        let program: Vec<_> = (0..STEPS).map(|_| Step::new(&mut random)).collect();
        let (theirs, ours) = (Run::<Wasmtime>::events(&program), Run::<M>::events(&program));
        for (index, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
            let before = &program[..program.len().min(index + 1)];
            assert_eq!(theirs, ours, "wasmtime and ours, seed {seed}, program {number}, the last of {before:?}");
            match ours {
                Event::Asleep => met[0] += 1,
                Event::Waited(Ok(_)) => met[1] += 1,
                Event::Waited(Err(_)) | Event::Notified(Err(_), _) => met[2] += 1,
                Event::Notified(Ok(1..), _) => met[3] += 1,
                _ => {}
            }
        }
    }
    assert!(met.iter().all(|count| *count > PROGRAMS), "sleeps, results, traps, wakes: {met:?}");
}

#[test]
fn random_programs_agree_on_a_memory_that_stays() {
    within_patience("a random program", || agrees_with_wasmtime::<Alone>(1));
}

#[test]
fn random_programs_agree_on_a_memory_that_moves() {
    within_patience("a random program", || agrees_with_wasmtime::<Moving>(2));
}

#[test]
fn random_programs_agree_on_memories_that_share_a_domain() {
    within_patience("a random program", || agrees_with_wasmtime::<Numbered>(3));
}
