//! The threads of a run: how they are started, watched and ended.

use crate::counts;
use crate::findings::Findings;
use crate::heart::Heart;
use crate::random::Random;
use crate::services;
use crate::settings::{SHIFT, Soak, seconds};
use crate::shift::{Seat, Shift, role};
use crate::watched::{self, Watch};
use crate::world::{Flags, World};
use anyhow::{Result, anyhow};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How many words of waiters the report names if a thread is stuck.
const NAMED: usize = 40;
/// How long the list of waiters may take: a bucket may be locked for ever.
const LIST: Duration = Duration::from_secs(5);
const CHECK_EVERY: Duration = Duration::from_millis(50);

struct Member {
    heart: Arc<Heart>,
    handle: JoinHandle<()>,
    /// `None` for a service.
    shift: Option<Arc<Shift>>,
    beats: u64,
    /// The time at which `beats` was another number.
    since: Duration,
}

/// Notes at a thread's end that it has ended, and how.
struct Ending(Arc<Heart>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end(std::thread::panicking());
    }
}

/// Where threads wait until all have been started. Those that work at once would keep the CPUs from the thread that starts
/// the others: 16,384 threads took minutes.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(is_open, |is_open| !*is_open));
    }

    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }
}

/// All threads.
pub struct Crew {
    pub worlds: [Arc<World>; 2],
    pub shifts: Vec<Arc<Shift>>,
    flags: Arc<Flags>,
    members: Vec<Member>,
    watch: Watch,
    gate: Arc<Gate>,
    /// The number of threads that `--threads` asks for.
    asked: usize,
    /// A thread that makes no progress for this time is stuck. Waits are shorter by orders of magnitude.
    stall: Duration,
}

impl Crew {
    /// Starts all threads.
    pub fn start(settings: &Soak, findings: &Arc<Findings>) -> Result<Self> {
        let flags = Arc::new(Flags { patience: settings.patience(), ..Flags::default() });
        let worlds = World::both(findings, &flags)?;
        let mut crew = Self {
            worlds,
            shifts: Vec::new(),
            flags,
            members: Vec::new(),
            watch: Watch::new(),
            gate: Arc::default(),
            asked: settings.threads,
            stall: 2 * settings.patience(),
        };
        let count = settings.threads / SHIFT;
        let part = |all: usize, number: usize| (all / count + usize::from(number < all % count)).max(1);
        for number in 0..count {
            let world = &crew.worlds[number % 2];
            let threads = SHIFT + if number + 1 == count { settings.threads % SHIFT } else { 0 };
            let (futures, timers) = (part(settings.futures, number), part(settings.timers, number));
            let shift = Arc::new(Shift::new(world, number, threads, futures, timers)?);
            crew.shifts.push(shift.clone());
            for thread in 0..threads {
                crew.start_worker(&shift, thread, settings.seed)?;
            }
        }
        for index in 0..crew.worlds.len() {
            crew.start_services(index, settings.seed)?;
        }
        crew.gate.open();
        crew.members.iter_mut().for_each(|member| member.since = watched::now());
        Ok(crew)
    }

    fn start_worker(&mut self, shift: &Arc<Shift>, thread: usize, seed: u64) -> Result<()> {
        let (name, index, work) = role(thread);
        let name = format!("{name} {index} of shift {} ({})", shift.number, shift.world.name);
        let random = Random::of_program(seed, (shift.number * SHIFT * 64 + thread) as u64);
        let mine = shift.clone();
        self.add(name, Some(shift.clone()), move |heart| {
            work(&mine, Seat { heart, index, random });
        })
    }

    fn start_services(&mut self, world: usize, seed: u64) -> Result<()> {
        let world = self.worlds[world].clone();
        let of_world = |shift: &&Arc<Shift>| Arc::ptr_eq(&shift.world, &world);
        let shifts: Vec<_> = self.shifts.iter().filter(of_world).cloned().collect();
        for (index, (name, service)) in services::of(&world).into_iter().enumerate() {
            let (world, shifts) = (world.clone(), shifts.clone());
            let random = Random::of_program(seed ^ 0x5e41, index as u64);
            self.add(format!("{name} ({})", world.name), None, move |heart| {
                service(&world, &shifts, &heart, random);
            })?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        name: String,
        shift: Option<Arc<Shift>>,
        work: impl FnOnce(Arc<Heart>) + Send + 'static,
    ) -> Result<()> {
        let heart = Arc::new(Heart::new(name));
        let beating = heart.clone();
        let gate = self.gate.clone();
        let thread = move || {
            let _ending = Ending(beating.clone());
            gate.pass();
            work(beating);
        };
        let name = heart.name.clone();
        let handle = Builder::new().spawn(thread).map_err(|error| {
            anyhow!(
                "cannot start the thread '{name}' ({error}): it would have been number {} ({} by --threads, and those that \
                 resize, interrupt and turn drivers); see ulimit -u, kernel.threads-max, \
                 vm.max_map_count and the cgroup's pids.max, or use a smaller --threads",
                self.members.len() + 1,
                self.asked
            )
        })?;
        self.members.push(Member { heart, handle, shift, beats: 0, since: watched::now() });
        Ok(())
    }

    /// What has been done so far: see [`counts::summary`].
    pub fn summary(&self) -> String {
        counts::summary(&self.worlds.each_ref().map(|world| &world.counts))
    }

    /// Whether all futures and timers have been made.
    pub fn is_filled(&self) -> bool {
        // An executor and a thread of timers in each shift.
        self.flags.filled.load(Ordering::Relaxed) == 2 * self.shifts.len()
    }

    /// Checks that all threads make progress, and none has panicked. Returns `false` after a finding.
    pub fn look(&mut self, findings: &Findings) -> bool {
        self.watch.look();
        for member in &mut self.members {
            if member.heart.has_ended() {
                continue;
            }
            if member.heart.has_panicked() {
                findings.add("no thread panics", "none", &member.heart);
                return false;
            }
            let beats = member.heart.beats();
            if beats != member.beats {
                (member.beats, member.since) = (beats, watched::now());
            } else if watched::now() - member.since > self.stall {
                let found = format!("{} for {}{}", member.heart, seconds(self.stall), waiters(member.shift.as_ref()));
                findings.add("each thread makes progress", "a wake, an expiry or a lock", found);
                return false;
            }
        }
        true
    }

    /// Ends the shifts, then the services. Returns `false` if a thread does not end.
    pub fn end(&mut self, findings: &Findings) -> bool {
        self.flags.stop.store(true, Ordering::Relaxed);
        if !self.join(findings, |member| member.shift.is_some()) {
            return false;
        }
        self.flags.halt.store(true, Ordering::Relaxed);
        self.join(findings, |_| true)
    }

    fn join(&mut self, findings: &Findings, which: impl Fn(&Member) -> bool) -> bool {
        self.members.iter_mut().for_each(|member| member.since = watched::now());
        while self.members.iter().any(|member| which(member) && !member.handle.is_finished()) {
            if !self.look(findings) {
                return false;
            }
            std::thread::sleep(CHECK_EVERY);
        }
        for member in self.members.extract_if(.., |member| which(member)) {
            let name = member.heart.name.clone();
            if member.handle.join().is_err() {
                findings.add("no thread panics", "none", name);
            }
        }
        true
    }
}

/// The words on which the waiters of a shift wait.
fn waiters(shift: Option<&Arc<Shift>>) -> String {
    let Some(shift) = shift.cloned() else { return String::new() };
    let (sender, list) = mpsc::channel();
    let look = move || {
        let [plain, guest] = shift.domains().map(|domain| domain.who_waits(NAMED));
        let _ = sender.send(format!("; its shift's waiters: {plain:?}, for locks: {guest:?}"));
    };
    match Builder::new().spawn(look) {
        Ok(_) => list.recv_timeout(LIST).unwrap_or_else(|_| "; its shift's waiters cannot be listed".to_string()),
        Err(_) => String::new(),
    }
}
