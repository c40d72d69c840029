//! Random programs of calls on the kernel and on the engine. After each step the results, the IDs and the settings must
//! be equal, except for the time that has passed. Deadlines are far away, so no timer expires.

mod program;

use std::time::Duration;

use program::{EventAt, Place, SpecAt, Step, Thread, are_alike};

use crate::alone::alone;
use crate::common::asleep::thread_id;
use crate::common::random::{Random, fewest, number};
use crate::machine::{Call, HOUR, Machine, moved_by_namespace};
use crate::memory::{EVENT, NONE, SPEC, Spec};
use crate::{engine, kernel};

/// The result of a step.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    result: isize,
    /// The memory for the ID, after the call.
    id: Option<i32>,
    /// The memory for the setting, after the call.
    spec: Option<Spec>,
}

impl Outcome {
    /// Whether the outcomes are equal, with a tolerance of `apart` for times.
    fn is_like(self, other: Self, apart: Duration) -> bool {
        let specs_are_alike = match (self.spec, other.spec) {
            (Some(one), Some(other)) => are_alike(one, other, apart),
            (one, other) => one == other,
        };
        (self.result, self.id) == (other.result, other.id) && specs_are_alike
    }
}

fn address(m: &Machine, place: Place, size: u64) -> u64 {
    match place {
        Place::Good => m.bytes(size),
        Place::Null => 0,
        Place::Nothing => m.nothing(),
        Place::Readable(bytes) => m.before_nothing(bytes),
        Place::Writable(bytes) => {
            // How many bytes a call writes before it faults is not specified, so the memory is cleared first.
            let at = m.before_read_only(bytes);
            m.put(at, &vec![0; bytes as usize]);
            at
        }
    }
}

fn run(m: &Machine, step: Step) -> Outcome {
    let mut outcome = Outcome { result: 0, id: None, spec: None };
    let spec_of = |place| (place, address(m, place, SPEC));
    let written = |(place, at)| (place == Place::Good).then(|| m.get_spec(at));
    match step {
        Step::Create(clock, event, place, there) => {
            let event = match event {
                EventAt::Bad(place) => address(m, place, EVENT),
                EventAt::Good(event, thread) => {
                    let thread = match thread {
                        Thread::This => thread_id(),
                        Thread::Other => m.system().other(),
                        Thread::Number(number) => number,
                    };
                    m.event(crate::memory::Event { thread, ..event })
                }
            };
            let at = address(m, place, 4);
            if place == Place::Good {
                m.put_i32(at, there);
            }
            outcome.result = m.raw_create(clock, event, at);
            outcome.id = (place == Place::Good).then(|| m.get_i32(at));
        }
        Step::Settime(id, flags, new, old) => {
            let new = match new {
                SpecAt::Bad(place) => address(m, place, SPEC),
                SpecAt::Good(spec) => m.spec(spec),
            };
            let old = spec_of(old);
            m.put_spec_if(old.0 == Place::Good, old.1);
            outcome.result = m.raw_settime(id, flags, new, old.1);
            outcome.spec = written(old);
        }
        Step::Gettime(id, place) => {
            let at = spec_of(place);
            m.put_spec_if(place == Place::Good, at.1);
            outcome.result = m.raw_gettime(id, at.1);
            outcome.spec = written(at);
        }
        Step::Getoverrun(id) => outcome.result = m.overrun(id),
        Step::Delete(id) => outcome.result = m.delete(id),
        Step::Prctl([mode, a, b, c]) => outcome.result = m.call(Call::Prctl, [77, mode, a, b, c, 0]),
    }
    outcome
}

/// Deletes all timers and makes 0 the next ID.
fn begin_anew(m: &Machine, made: &[i32]) {
    assert_eq!(m.prctl(1), 0);
    for &id in made {
        m.delete(id);
    }
    assert_eq!(m.restore(i32::MAX, Some(NONE)), 0);
    assert_eq!(m.delete(i32::MAX), 0);
    assert_eq!(m.prctl(0), 0);
}

/// Runs the steps on both machines and describes the first difference.
fn difference(machines: &[Machine; 2], steps: &[Step]) -> Option<String> {
    let apart = HOUR / 60 + moved_by_namespace();
    let mut made = Vec::new();
    let mut run_all = || {
        steps.iter().enumerate().find_map(|(number, &step)| {
            let [expected, found] = machines.each_ref().map(|m| run(m, step));
            made.extend(expected.id.into_iter().chain(found.id));
            let text = || format!("step {number}, {step:?}: the kernel {expected:?}, the engine {found:?}");
            (!expected.is_like(found, apart)).then(text)
        })
    };
    let difference = run_all();
    machines.iter().for_each(|m| begin_anew(m, &made));
    difference
}

#[test]
fn random_programs_do_on_the_engine_what_they_do_on_the_kernel() {
    if !kernel::is_as_described() {
        return;
    }
    alone("far::random_programs_do_on_the_engine_what_they_do_on_the_kernel", || {
        let (seed, count) = (number("UFUTEX_FUZZ_SEED", 1), number("UFUTEX_FUZZ_PROGRAMS", 3000));
        let machines = [kernel::machine(), engine::by_turns()];
        for index in 0..count {
            let steps = program::program(Random::of_program(seed, index));
            if difference(&machines, &steps).is_some() {
                let smallest = fewest(steps, |steps| difference(&machines, steps).is_some());
                let difference = difference(&machines, &smallest);
                panic!("program {index} of seed {seed}: {difference:?}\n{smallest:#?}");
            }
        }
    });
}
