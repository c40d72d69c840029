//! Runs programs on threads, and checks what they recorded.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use ufutex_linear::{Call, History, Rounds, Stopwatch, check};

use crate::common::random::Random;
use crate::generate::{Item, LAST, Program, Theme, program};
use crate::log::Log;
use crate::ops::{Made, Op};
use crate::program::WORKERS;
use crate::spec::Futexes;
use crate::watched::Watched;
use crate::words::Words;

/// What has become of a call.
#[derive(Default)]
pub struct Outcome {
    /// The call's result or `-errno`.
    pub result: i64,
    /// A time after it was queued, if it is a wait and the time is known.
    pub queued: Option<u64>,
    /// A time before its future was dropped or ended.
    pub gives_up: Option<u64>,
}

impl From<i64> for Outcome {
    fn from(result: i64) -> Self {
        Self { result, ..Self::default() }
    }
}

/// What makes the calls: the kernel or the engine.
pub trait Target: Sync {
    /// The TID of the calling thread.
    fn tid(&self, thread: usize) -> u32;

    /// Runs in each thread before its first call.
    fn begin(&self, priority: u8) {
        let _the_engine_is_given_it_by_the_call = priority;
    }

    fn call(&self, thread: usize, op: &Op, words: &Words, watch: Stopwatch) -> Outcome;

    /// Changes the size of the table.
    fn resize(&self, slots: usize);
}

/// Makes the target for a program, whose options follow from the number.
pub type Make<'a> = &'a dyn Fn(u64, &Program) -> Box<dyn Target>;

/// The threads of one program.
pub struct Run<'r> {
    pub target: &'r dyn Target,
    pub words: &'r Words,
    pub program: &'r Program,
    pub watch: Stopwatch,
    /// How many threads are not ready yet.
    missing: AtomicUsize,
    /// How many threads have made all their calls.
    pub done: AtomicUsize,
    /// The calls that each thread has begun.
    pub begun: [AtomicUsize; WORKERS],
    pub tids: [AtomicUsize; WORKERS],
}

impl Run<'_> {
    fn calls(&self, thread: usize) -> Vec<Call<Made>> {
        self.tids[thread].store(self.target.tid(thread) as usize, Relaxed);
        let items = &self.program.threads[thread];
        let mut log = Log::new(self, thread);
        self.missing.fetch_sub(1, SeqCst);
        while self.missing.load(SeqCst) != 0 {
            std::thread::yield_now();
        }
        self.target.begin(self.program.priorities[thread]);
        for Item { pause, after, op } in items {
            self.wait_for(*after);
            (0..*pause).for_each(|_| std::hint::spin_loop());
            if !log.is_out_of_order(*op) {
                log.make(*op);
            }
        }
        log.unlock_all();
        self.done.fetch_add(1, SeqCst);
        if thread == LAST {
            log.wake_those_left();
        }
        log.into_calls()
    }

    /// Waits until a thread has begun a number of calls, unless it takes long: that thread may be blocked.
    fn wait_for(&self, after: Option<(usize, usize)>) {
        let Some((thread, calls)) = after else { return };
        for _ in 0..TURNS_MAX {
            if self.begun[thread].load(Relaxed) >= calls {
                return;
            }
            std::hint::spin_loop();
        }
    }
}

/// For how many turns of a loop a thread waits for another one's call.
const TURNS_MAX: usize = 2000;

/// Runs a program. Returns its history and the TIDs of its threads.
fn run(target: &dyn Target, words: &Words, program: &Program, watched: &Watched) -> (History<Made>, [u32; WORKERS]) {
    words.clear();
    let run = Run {
        target,
        words,
        program,
        watch: Stopwatch::start(),
        missing: AtomicUsize::new(WORKERS),
        done: AtomicUsize::new(0),
        begun: Default::default(),
        tids: Default::default(),
    };
    watched.begin(program);
    let threads = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WORKERS)
            .map(|thread| {
                scope.spawn({
                    let run = &run;
                    move || run.calls(thread)
                })
            })
            .collect();
        for slots in &program.slots {
            std::thread::yield_now();
            target.resize(*slots);
        }
        threads.into_iter().map(|thread| thread.join().expect("a thread does not panic")).collect()
    });
    watched.end();
    (History { threads }, run.tids.map(|tid| tid.into_inner() as u32))
}

/// The words and the watchdog of programs that run one after the other.
pub struct Bench {
    words: Box<Words>,
    watched: Watched,
}

impl Bench {
    pub fn new() -> Self {
        Self { words: Words::new(), watched: Watched::start() }
    }

    /// Runs a program, and checks its history. `again` says how to run it again.
    pub fn check(&self, target: &dyn Target, program: &Program, again: &str) {
        let (history, tids) = run(target, &self.words, program, &self.watched);
        let Program { theme, priorities, slots, .. } = program;
        let spec = Futexes::new(self.words.layout(), tids, *priorities);
        if let Err(violation) = check(&history, spec) {
            let text = history.explain(&violation);
            panic!(
                "a history that the model cannot have. Again: {again}\n\
                 {theme:?}, priorities {priorities:?}, slots {slots:?}, TIDs {tids:?}\n{text}"
            );
        }
    }
}

/// Runs random programs of each theme on the targets that `make` returns, and checks each history.
pub fn random_histories_are_linearizable(name: &'static str, themes: &[Theme], make: Make<'_>) {
    let mut rounds = Rounds::of(name, 1200);
    let bench = Bench::new();
    while let Some(index) = rounds.next() {
        let theme = themes[(index % themes.len() as u64) as usize];
        let program = program(Random::of_program(rounds.seed, index), theme);
        bench.check(&*make(index, &program), &program, &rounds.again(index));
    }
}
