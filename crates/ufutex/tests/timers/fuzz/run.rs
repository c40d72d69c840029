//! Runs one program on the engine and on the model.

use std::fmt::Debug;
use std::time::Duration;

use ufutex::timer::{Base, Clocks, Expiry, Notice, Setting, TimerOptions};
use ufutex::{Error, timer::Notify};

use super::generate::CPU_CLOCKS;
use super::model::{self, Model, World};
use super::program::{Absolute, Keep, Program, Step, Which};
use crate::clock::{BASES, Process};

/// A description of the expected and the actual result.
pub type Difference = String;

/// A notice that has not been discarded.
struct Kept {
    notice: Notice,
    number: u64,
}

/// One process on the model and on the engine.
struct Pair {
    model: Model,
    engine: Process,
    kept: Vec<Kept>,
    /// All IDs that have been allocated, in use or not.
    known: Vec<i32>,
}

struct Run {
    world: World,
    pairs: Vec<Pair>,
    /// The monotonic time by which all due timers on CPU-time clocks must have expired.
    patience: i128,
}

/// Maximum delay of the engine's checks of CPU time.
const CPU_PATIENCE: i128 = 8_000_000;

pub fn run(program: &Program) -> Result<(), Difference> {
    let mut run = Run::new(program);
    for (number, (process, step)) in program.steps.iter().enumerate() {
        run.step(*process, step).map_err(|text| format!("step {number}, {step:?} of process {process}: {text}"))?;
    }
    run.settle().map_err(|text| format!("at the end: {text}"))
}

fn same<T: PartialEq + Debug>(what: &str, expected: T, found: T) -> Result<(), Difference> {
    if expected == found { Ok(()) } else { Err(format!("{what}: expected {expected:?}, found {found:?}")) }
}

fn errno<T>(result: Result<T, Error>) -> Result<T, i32> {
    result.map_err(Error::errno)
}

fn plain(setting: Setting) -> model::Setting {
    let nanoseconds = |time: Duration| time.as_nanos() as i128;
    model::Setting { value: nanoseconds(setting.value), interval: nanoseconds(setting.interval) }
}

fn length(nanoseconds: u64) -> Duration {
    // Stands for a duration that does not fit into 64 bits of nanoseconds.
    if nanoseconds == u64::MAX { Duration::MAX } else { Duration::from_nanos(nanoseconds) }
}

impl Run {
    fn new(program: &Program) -> Self {
        let options = TimerOptions::new().max_timers(program.max_timers).max_id(program.max_id);
        let first = Process::new(options);
        let second = Process::of(&first.clocks, &first.driver, TimerOptions::new());
        let clocks = first.clocks.clone();
        let now = BASES.map(|base| clocks.now(base).as_nanos() as i128);
        for of in CPU_CLOCKS {
            clocks.set_cpu_time(of, Some(5));
        }
        let models = [Model::new(program.max_timers, program.max_id), Model::new(usize::MAX, i32::MAX)];
        let pair = |(model, engine)| Pair { model, engine, kept: Vec::new(), known: Vec::new() };
        Self {
            world: World { now, cpu: CPU_CLOCKS.map(|of| (of, 5)).to_vec() },
            pairs: models.into_iter().zip([first, second]).map(pair).collect(),
            patience: 0,
        }
    }

    fn step(&mut self, process: usize, step: &Step) -> Result<(), Difference> {
        let (world, pair) = (&self.world, &mut self.pairs[process]);
        let (model, timers) = (&mut pair.model, &pair.engine.timers);
        match *step {
            Step::Create(clock, notify) => {
                let expected = model.create(world, None, clock, notify);
                same("create", expected, errno(timers.create(clock, notify)))?;
                pair.known.extend(expected.ok());
            }
            Step::CreateAs(id, clock, notify) => {
                let expected = model.create(world, Some(id), clock, notify);
                same("create_as", expected, errno(timers.create_as(id, clock, notify)))?;
                pair.known.extend(expected.ok());
            }
            Step::Set(which, absolute, value, interval) => {
                let id = pair.id(which);
                return self.set(process, id, absolute, length(value), length(interval));
            }
            Step::Get(which) => {
                let id = pair.id(which);
                let (model, timers) = (&mut pair.model, &pair.engine.timers);
                same("gettime", model.get(world, id), errno(timers.gettime(id)).map(plain))?;
            }
            Step::Overrun(which) => {
                let id = pair.id(which);
                same("getoverrun", pair.model.overrun(id), errno(pair.engine.timers.getoverrun(id)))?;
            }
            Step::Delete(which) => {
                let id = pair.id(which);
                same("delete", pair.model.delete(id), errno(pair.engine.timers.delete(id)))?;
            }
            Step::Take(index, keep) => pair.take(world, index, keep)?,
            Step::Clear => {
                model.clear();
                timers.clear();
            }
            Step::Advance(by) => self.advance(by),
            Step::Spend(by) => self.spend(by),
            Step::Jump(by) => self.jump(by),
            Step::EndThread => {
                pair.engine.clocks.set_cpu_time(CPU_CLOCKS[1], None);
                self.world.cpu.truncate(1);
            }
            Step::Turn => self.turn()?,
        }
        self.compare_next()
    }

    fn set(
        &mut self,
        process: usize,
        id: i32,
        absolute: Option<Absolute>,
        value: Duration,
        interval: Duration,
    ) -> Result<(), Difference> {
        let pair = &mut self.pairs[process];
        let value = match absolute {
            // The monotonic time is close enough for all clocks.
            Some(Absolute::BeforeNow(by)) if !value.is_zero() => {
                let now = Duration::from_nanos(self.world.now[0] as u64).saturating_add(value);
                now.saturating_sub(length(by)).max(Duration::from_nanos(1))
            }
            _ => value,
        };
        let nanoseconds = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
        let new = model::Setting { value: nanoseconds(value), interval: nanoseconds(interval) };
        let expected = pair.model.set(&self.world, id, absolute.is_some(), new);
        let found = pair.engine.timers.settime(
            id,
            if absolute.is_some() { Expiry::At(value) } else { Expiry::After(value) },
            interval,
        );
        same("settime", expected, errno(found).map(plain))?;
        self.compare_next()
    }

    fn advance(&mut self, by: u64) {
        // Limits the step so that the clocks do not overflow.
        let by = by.min(1 << 50);
        self.pairs[0].engine.clocks.advance(Duration::from_nanos(by));
        self.world.now.iter_mut().for_each(|now| *now += i128::from(by));
    }

    fn spend(&mut self, by: u64) {
        let by = by.min(1 << 50);
        self.advance(by);
        for (of, time) in &mut self.world.cpu {
            *time += i128::from(by);
            self.pairs[0].engine.clocks.set_cpu_time(*of, Some(*time as u64));
        }
        self.patience = self.world.now[0] + CPU_PATIENCE;
    }

    fn jump(&mut self, by: i64) {
        for base in [Base::Realtime, Base::Tai] {
            let now = &mut self.world.now[base as usize];
            *now = (*now + i128::from(by)).max(1);
            self.pairs[0].engine.clocks.set(base, Duration::from_nanos(*now as u64));
        }
        self.pairs[0].engine.driver.clock_was_set();
    }

    /// Expires the due timers, on the engine and on the model.
    fn turn(&mut self) -> Result<(), Difference> {
        let count = self.pairs[0].engine.driver.turn();
        let mut came = 0;
        let is_late = self.world.now[0] >= self.patience;
        for pair in &mut self.pairs {
            came += pair.expire(&self.world, is_late)?;
        }
        // `turn` also counts checks of CPU time.
        if came <= count { Ok(()) } else { Err(format!("turn: said {count}, but {came} notices came")) }
    }

    /// Waits until the due timers on CPU-time clocks have expired.
    fn settle(&mut self) -> Result<(), Difference> {
        self.advance(CPU_PATIENCE as u64);
        self.turn()?;
        self.compare_next()
    }

    fn compare_next(&self) -> Result<(), Difference> {
        for pair in &self.pairs {
            same("count", pair.model.count(), pair.engine.timers.count())?;
        }
        for base in BASES {
            let expected = self.pairs.iter().filter_map(|pair| pair.model.next(&self.world, base)).min();
            let found = self.pairs[0].engine.driver.next(base).map(|time| time.as_nanos() as i128);
            match (expected, found) {
                (None, None) => {}
                (None, Some(_)) if self.pairs.iter().any(|pair| pair.model.watches_an_ended_thread(&self.world)) => {}
                (Some(earliest), Some(next)) if next <= earliest => {}
                _ => return Err(format!("next of {base:?}: {found:?}, but the earliest deadline is at {expected:?}")),
            }
        }
        Ok(())
    }
}

impl Pair {
    fn id(&self, which: Which) -> i32 {
        match which {
            Which::Id(id) => id,
            // Prefers IDs that are in use.
            Which::Known(number) => {
                let ids = self.model.ids();
                let all: Vec<i32> = ids.iter().chain(ids.iter()).chain(&self.known).copied().collect();
                if all.is_empty() { number as i32 } else { all[number % all.len()] }
            }
        }
    }

    /// Checks the engine's notices: each is for a due timer, and every due timer has one.
    fn expire(&mut self, world: &World, is_late: bool) -> Result<usize, Difference> {
        let mut due = self.model.due(world);
        let notices = self.engine.notices.drain();
        let mut last = [i128::MIN; 4];
        for notice in &notices {
            let Some(at) = due.iter().position(|due| due.id == notice.id()) else {
                return Err(format!("turn: timer {} expired, but is not due", notice.id()));
            };
            let expired = due.swap_remove(at);
            same::<Notify>("notify", expired.notify, notice.notify())?;
            if let Some(base) = expired.base {
                let before = &mut last[base as usize];
                if expired.deadline < *before {
                    return Err(format!("turn: timer {} expired later than one that was due later", notice.id()));
                }
                *before = expired.deadline;
            }
            self.kept.push(Kept { notice: *notice, number: self.model.expire(expired.id) });
        }
        due.retain(|due| due.base.is_some() || is_late);
        if due.is_empty() { Ok(notices.len()) } else { Err(format!("turn: these did not expire: {due:?}")) }
    }

    fn take(&mut self, world: &World, index: usize, keep: Keep) -> Result<(), Difference> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let index = index % self.kept.len();
        let Kept { notice, number } = self.kept[index];
        let expected =
            self.model.take(world, notice.id(), number).map(|overrun| (notice.id(), notice.notify(), overrun));
        let found = self.engine.timers.take(notice).map(|expired| (expired.id, expired.notify, expired.overrun));
        if keep == Keep::Drop {
            self.kept.remove(index);
        }
        same("take", expected, found)
    }
}
