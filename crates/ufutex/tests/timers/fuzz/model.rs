//! A simple and slow model of timers. It computes with 128-bit numbers and scans all timers in each step.

use std::collections::BTreeMap;

use ufutex::timer::{Base, CpuClock, Notify, TimerClock};

use crate::common::libc;

const EINVAL: i32 = libc::EINVAL;
const EAGAIN: i32 = libc::EAGAIN;
const EBUSY: i32 = libc::EBUSY;
const ESRCH: i32 = libc::ESRCH;

/// The kernel's maximum time.
const LONGEST: i128 = i64::MAX as i128;

/// Saturates a time: from the kernel's last second on it is the maximum time.
fn at_most_longest(time: i128) -> i128 {
    if time >= LONGEST / 1_000_000_000 * 1_000_000_000 { LONGEST } else { time }
}

/// A setting in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Setting {
    pub value: i128,
    pub interval: i128,
}

/// The clock of a deadline.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scale {
    Of(Base),
    Cpu(CpuClock),
}

/// The clocks, which all processes share.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The current times, indexed by `Base as usize`.
    pub now: [i128; 4],
    /// The existing CPU-time clocks with their times.
    pub cpu: Vec<(CpuClock, i128)>,
}

impl World {
    fn now(&self, scale: Scale) -> Option<i128> {
        match scale {
            Scale::Of(base) => Some(self.now[base as usize]),
            Scale::Cpu(of) => self.cpu.iter().find(|(clock, _)| *clock == of).map(|(_, time)| *time),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    /// Never set, disarmed, expired without an interval, or without notification.
    Rests,
    Armed,
    /// Expired, and the signal has not been taken.
    Pending,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Timer {
    clock: TimerClock,
    notify: Notify,
    scale: Scale,
    state: State,
    /// The last deadline. `0` means that there has been none.
    deadline: i128,
    interval: i128,
    /// Number of deadlines that have passed since the last signal was taken, including the one of the next signal.
    passed: i128,
    /// The overrun of the last signal.
    overrun: i128,
    /// The number of the valid notice. Each expiry has a number of its own.
    notice: u64,
}

impl Timer {
    fn is_silent(&self) -> bool {
        self.notify == Notify::None
    }

    fn is_of_cpu_time(&self) -> bool {
        matches!(self.clock, TimerClock::Cpu(_))
    }

    /// Moves the timer to the first deadline after `now`.
    fn go_on(&mut self, now: i128) {
        if now >= self.deadline {
            let times = (now - self.deadline) / self.interval + 1;
            self.deadline = (self.deadline + times * self.interval).min(LONGEST);
            self.passed += times;
        }
    }

    fn look(&mut self, world: &World) -> Setting {
        let Some(now) = world.now(self.scale) else { return Setting::default() };
        if self.state != State::Armed && self.interval > 0 {
            self.go_on(now);
        }
        let has_ended = !self.is_silent() && self.interval == 0 && self.state != State::Armed;
        let value = match self.deadline - now {
            _ if has_ended => 0,
            left if left > 0 => left,
            _ if self.is_silent() => 0,
            _ => 1,
        };
        Setting { value, interval: self.interval }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Model {
    timers: BTreeMap<i32, Timer>,
    next_id: i128,
    max_timers: usize,
    max_id: i32,
    notices: u64,
}

/// A timer that is due.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    pub id: i32,
    pub notify: Notify,
    pub base: Option<Base>,
    pub deadline: i128,
}

impl Model {
    pub fn new(max_timers: usize, max_id: i32) -> Self {
        Self { timers: BTreeMap::new(), next_id: 0, max_timers, max_id, notices: 0 }
    }

    pub fn count(&self) -> usize {
        self.timers.len()
    }

    /// The IDs in use.
    pub fn ids(&self) -> Vec<i32> {
        self.timers.keys().copied().collect()
    }

    fn id_after(&self, id: i128) -> i128 {
        if id == self.max_id.into() { 0 } else { id + 1 }
    }

    pub fn create(
        &mut self,
        world: &World,
        requested: Option<i32>,
        clock: TimerClock,
        notify: Option<Notify>,
    ) -> Result<i32, i32> {
        if requested.is_some_and(|id| id < 0 || id > self.max_id) {
            return Err(EINVAL);
        }
        if self.timers.len() >= self.max_timers {
            return Err(EAGAIN);
        }
        let id = match requested {
            Some(id) if self.timers.contains_key(&id) => return Err(EBUSY),
            Some(id) => id,
            None if self.timers.len() as i128 > self.max_id.into() => return Err(EAGAIN),
            None => {
                let mut id = self.next_id;
                while self.timers.contains_key(&(id as i32)) {
                    id = self.id_after(id);
                }
                id as i32
            }
        };
        self.next_id = self.id_after(id.into());
        let notify = notify.unwrap_or(Notify::Signal { signal: libc::SIGALRM, value: id as u64 });
        let (signal, thread) = match notify {
            Notify::None => (1, None),
            Notify::Signal { signal, .. } => (signal, None),
            Notify::Thread { signal, thread, .. } => (signal, Some(thread)),
        };
        if !(1..=64).contains(&signal) || thread.is_some_and(|thread| thread != crate::clock::THREAD) {
            return Err(EINVAL);
        }
        let scale = match clock {
            TimerClock::Cpu(of) => Scale::Cpu(of),
            TimerClock::Realtime => Scale::Of(Base::Realtime),
            TimerClock::Monotonic => Scale::Of(Base::Monotonic),
            TimerClock::Boottime => Scale::Of(Base::Boottime),
            TimerClock::Tai => Scale::Of(Base::Tai),
            other => unreachable!("the programs have no timers on {other:?}"),
        };
        if world.now(scale).is_none() {
            return Err(EINVAL);
        }
        let (state, deadline, interval, passed, overrun, notice) = (State::Rests, 0, 0, 0, 0, 0);
        let timer = Timer { clock, notify, scale, state, deadline, interval, passed, overrun, notice };
        self.timers.insert(id, timer);
        Ok(id)
    }

    pub fn set(&mut self, world: &World, id: i32, absolute: bool, new: Setting) -> Result<Setting, i32> {
        let timer = self.timers.get_mut(&id).ok_or(EINVAL)?;
        timer.notice = 0;
        if world.now(timer.scale).is_none() {
            return Err(ESRCH);
        }
        // A timer of CPU time stops before its old setting is computed.
        if timer.is_of_cpu_time() && timer.interval > 0 {
            timer.state = State::Rests;
        }
        let old = timer.look(world);
        timer.state = State::Rests;
        (timer.passed, timer.overrun) = (0, 0);
        if new.value == 0 {
            timer.interval = 0;
            // A `SIGEV_NONE` timer still shows the time until its last deadline.
            if !timer.is_silent() || timer.is_of_cpu_time() {
                timer.deadline = 0;
            }
            return Ok(old);
        }
        if timer.clock == TimerClock::Realtime {
            timer.scale = Scale::Of(if absolute { Base::Realtime } else { Base::Monotonic });
        }
        let now = world.now(timer.scale).expect("it was there above");
        timer.interval = at_most_longest(new.interval);
        let value = at_most_longest(new.value);
        timer.deadline = match timer.scale {
            _ if absolute => value,
            Scale::Of(_) => (now + value).min(LONGEST),
            Scale::Cpu(_) => now + value,
        };
        if !timer.is_silent() {
            timer.state = State::Armed;
        }
        Ok(old)
    }

    pub fn get(&mut self, world: &World, id: i32) -> Result<Setting, i32> {
        Ok(self.timers.get_mut(&id).ok_or(EINVAL)?.look(world))
    }

    pub fn overrun(&self, id: i32) -> Result<i32, i32> {
        let timer = self.timers.get(&id).ok_or(EINVAL)?;
        Ok(timer.overrun.min(i32::MAX.into()) as i32)
    }

    pub fn delete(&mut self, id: i32) -> Result<(), i32> {
        self.timers.remove(&id).map(|_| ()).ok_or(EINVAL)
    }

    pub fn clear(&mut self) {
        self.timers.clear();
    }

    /// The timers that are due.
    pub fn due(&self, world: &World) -> Vec<Due> {
        let armed = self.timers.iter().filter(|(_, timer)| timer.state == State::Armed);
        let due = armed.filter(|(_, timer)| world.now(timer.scale).is_some_and(|now| now >= timer.deadline));
        due.map(|(&id, timer)| {
            let base = if let Scale::Of(base) = timer.scale { Some(base) } else { None };
            Due { id, notify: timer.notify, base, deadline: timer.deadline }
        })
        .collect()
    }

    /// Marks a due timer as expired. Returns the number of its notice.
    pub fn expire(&mut self, id: i32) -> u64 {
        self.notices += 1;
        let timer = self.timers.get_mut(&id).expect("it is due");
        (timer.state, timer.notice) = (State::Pending, self.notices);
        self.notices
    }

    /// Takes a signal. Returns its overrun, `None` if the notice is not valid any more.
    pub fn take(&mut self, world: &World, id: i32, notice: u64) -> Option<i32> {
        let timer = self.timers.get_mut(&id).filter(|timer| timer.notice == notice)?;
        timer.notice = 0;
        if timer.interval == 0 {
            timer.state = State::Rests;
            return Some(0);
        }
        match world.now(timer.scale) {
            Some(now) => {
                timer.go_on(now);
                timer.state = State::Armed;
            }
            None => timer.state = State::Rests,
        }
        timer.overrun = timer.passed - 1;
        timer.passed = 0;
        self.overrun(id).ok()
    }

    /// Whether the CPU time of a thread that has ended may still be watched.
    pub fn watches_an_ended_thread(&self, world: &World) -> bool {
        self.timers.values().any(|timer| timer.is_of_cpu_time() && world.now(timer.scale).is_none())
    }

    /// The earliest deadline on the clock `base`. Any value if CPU time has to be watched.
    pub fn next(&self, world: &World, base: Base) -> Option<i128> {
        let goes_on = |timer: &&Timer| timer.state == State::Armed && world.now(timer.scale).is_some();
        let armed = self.timers.values().filter(goes_on);
        let of_base = armed.filter_map(|timer| match timer.scale {
            Scale::Of(of) if of == base => Some(timer.deadline),
            Scale::Cpu(_) if base == Base::Monotonic => Some(i128::MAX),
            _ => None,
        });
        of_base.min()
    }
}
