//! Runs programs on the model, the kernel and the engine, and reports differences.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::common::random::Random;
use crate::common::skipped::skip;
use crate::compare::{Bench, Difference};
use crate::engine::Variant;
use crate::generate::Generator;
use crate::memory::Memory;
use crate::program::{Arg, Cmd, Number, PRIVATE, Program, Step, WORKERS};
use crate::shrink::shrink;
use crate::workers::{Target, Workers};

const NO_PRIORITIES: &str = "this user may not have real-time threads (CAP_SYS_NICE or RLIMIT_RTPRIO)";

/// Serialises the tests, whose workers are all pinned to one CPU.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub struct Suite {
    bench: Bench,
    _turn: MutexGuard<'static, ()>,
}

impl Suite {
    pub fn new() -> Self {
        if cfg!(not(target_arch = "x86_64")) {
            skip("the kernel, as the instruction that calls it is written for x86-64 alone");
        }
        let turn = turn();
        let workers = Workers::start();
        let mut bench = Bench { memory: Arc::new(Memory::new()), workers };
        separate_words(&mut bench);
        Self { bench, _turn: turn }
    }

    /// Whether thousands of programs can run per second, which needs real-time priorities.
    pub fn is_fast(&self) -> bool {
        self.bench.workers.has_priorities()
    }

    /// Runs a program on the model and on `subjects`. Returns the first subject that differs from the model.
    fn run(&mut self, program: &Program, subjects: &[Subject]) -> Result<(), (Subject, Box<Difference>)> {
        subjects.iter().try_for_each(|&subject| {
            let result = self.bench.compare(program, |bench| subject.make(bench, program));
            result.map_err(|difference| (subject, difference))
        })
    }

    /// Runs a program on `subjects`. If one differs from the model, the failure contains a shrunk program.
    fn check(&mut self, program: &Program, subjects: &[Subject]) -> Result<(), Failure> {
        let Err((subject, first)) = self.run(program, subjects) else { return Ok(()) };
        // Some differences depend on timing.
        const RUNS: usize = 50;
        if (0..RUNS).all(|_| self.run(program, &[subject]).is_ok()) {
            let message = format!("{subject} differed once in {RUNS} runs, {first}{program}");
            return Err(Failure { message, calls: calls(program) });
        }
        let smallest = shrink(program.clone(), |p| self.run(p, &[subject]).is_err());
        let mut message = String::new();
        match self.run(&smallest, &[subject]) {
            Err((_, difference)) => write!(message, "{subject} differs {difference}{smallest}"),
            Ok(()) => write!(message, "{subject} differs not every time, {first}{program}"),
        }
        .expect("a string takes everything");
        Err(Failure { message, calls: calls(&smallest) })
    }

    /// Runs `count` random programs. Stops after `most` failures that make different calls.
    pub fn check_random(&mut self, seed: u64, count: u64, most: usize) {
        if !self.is_fast() {
            skip(format_args!("random programs with priorities, as {NO_PRIORITIES}"));
        }
        let begin = Instant::now();
        let mut next_report = Duration::from_secs(10);
        let mut failures: Vec<Failure> = Vec::new();
        let layout = self.bench.memory.layout;
        let watchdog = Watchdog::start(self.bench.workers.progress());
        for index in 0..count {
            let (tids, has_priorities) = (self.bench.workers.tids(), self.bench.workers.has_priorities());
            let program = Generator::program(Random::of_program(seed, index), layout, tids, has_priorities);
            watchdog.show(&program);
            let subjects = [Subject::Kernel, Subject::Engine(Variant::number(index as usize))];
            if let Err(failure) = self.check(&program, &subjects)
                && failures.iter().all(|known| known.calls != failure.calls)
            {
                eprintln!("program {index} of seed {seed}: {}", failure.message);
                failures.push(failure);
            }
            if failures.len() >= most {
                break;
            }
            let elapsed = begin.elapsed();
            if elapsed > next_report {
                next_report += Duration::from_secs(10);
                let rate = (index + 1) as f64 / elapsed.as_secs_f64();
                eprintln!("{} of {count} programs without a difference, {rate:.0} a second", index + 1);
            }
        }
        assert!(failures.is_empty(), "{} programs differ", failures.len());
        eprintln!("seed {seed}: {count} programs without a difference in {:.1} s", begin.elapsed().as_secs_f64());
    }
}

/// A program that failed, after shrinking.
struct Failure {
    message: String,
    /// The calls without their arguments. Failures with equal calls mostly have one cause.
    calls: String,
}

fn calls(program: &Program) -> String {
    let call = |step: &Step| match step {
        Step::Call(_, Number::Futex, args) => match &args[1] {
            Arg::Op(cmd, _) => format!("{cmd:?} "),
            _ => String::from("futex "),
        },
        Step::Call(_, number, _) => format!("{number:?} "),
        Step::Exit(..) => String::from("exit "),
        _ => String::new(),
    };
    program.steps.iter().map(call).collect()
}

/// An implementation that is compared with the model.
#[derive(Clone, Copy)]
enum Subject {
    Kernel,
    Engine(Variant),
}

impl Subject {
    fn make(self, bench: &Bench, program: &Program) -> Option<Arc<dyn Target>> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Kernel => Some(Arc::new(crate::kernel::Kernel::new(bench.workers.tids()))),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Kernel => None,
            Self::Engine(variant) => Some(variant.make(bench, program)),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => write!(f, "the kernel"),
            Self::Engine(variant) => write!(f, "the engine ({variant})"),
        }
    }
}

/// Runs one program on the kernel and on all variants of the engine. If the host gives the workers no priorities, the
/// kernel cannot run a program in which they differ.
pub fn check(program: &Program) {
    let mut suite = Suite::new();
    let engines = (0..Variant::COUNT).map(|number| Subject::Engine(Variant::number(number)));
    let mut subjects: Vec<Subject> = engines.collect();
    if suite.is_fast() || program.priorities == [program.priorities[0]; WORKERS] {
        subjects.insert(0, Subject::Kernel);
    } else {
        skip(format_args!("a program with priorities on the kernel, as {NO_PRIORITIES}"));
    }
    if let Err(failure) = suite.check(program, &subjects) {
        panic!("{}", failure.message);
    }
}

/// Makes sure that no two words share a bucket in the kernel. Otherwise a requeue between them would not change the
/// order in the bucket, and a requeued waiter could come before waiters that had been on the target word already.
fn separate_words(bench: &mut Bench) {
    const PR_FUTEX_HASH: i32 = 78;
    const SET_SLOTS: u64 = 1;
    const SLOTS: u64 = 1 << 14;
    // SAFETY: changes the size of this process's hash table. After an error the size is unchanged and collisions are
    // likelier.
    unsafe { libc::prctl(PR_FUTEX_HASH, SET_SLOTS, SLOTS, 0, 0) };
    const ATTEMPTS: usize = 100;
    for _ in 0..ATTEMPTS {
        if !has_collision(bench) {
            return;
        }
        // The old pages stay mapped, so that the new ones get different addresses.
        std::mem::forget(std::mem::replace(&mut bench.memory, Arc::new(Memory::new())));
    }
    panic!("in {ATTEMPTS} attempts no words were found that the kernel keeps apart");
}

fn has_collision(bench: &mut Bench) -> bool {
    const USABLE: usize = 6;
    let pairs = (0..USABLE).flat_map(|from| (0..USABLE).map(move |to| (from, to)));
    pairs.filter(|(from, to)| from != to).any(|(from, to)| {
        [0, PRIVATE].into_iter().any(|privacy| {
            let call = |worker, cmd, word, count, to| {
                let op = Arg::Op(cmd, privacy);
                Step::Call(worker, Number::Futex, [Arg::Word(word), op, Arg::Num(0), Arg::Num(count), to, Arg::Num(0)])
            };
            let program = Program {
                steps: vec![
                    call(0, Cmd::Wait, from, 0, Arg::Num(0)),
                    call(1, Cmd::Wait, to, 0, Arg::Num(0)),
                    call(2, Cmd::Requeue, from, 1, Arg::Word(to)),
                    call(2, Cmd::Wake, to, 0, Arg::Num(0)),
                ],
                ..Program::default()
            };
            bench.compare(&program, |bench| Subject::Kernel.make(bench, &program)).is_err()
        })
    })
}

/// Prints the program and aborts the process if a program hangs.
struct Watchdog {
    program: Arc<Mutex<Program>>,
    is_done: Arc<AtomicBool>,
}

impl Watchdog {
    fn start(progress: Arc<std::sync::atomic::AtomicU64>) -> Self {
        const LIMIT: Duration = Duration::from_secs(20);
        let this = Self { program: Arc::default(), is_done: Arc::default() };
        let (program, is_done) = (this.program.clone(), this.is_done.clone());
        std::thread::spawn(move || {
            unpin();
            let mut last = (progress.load(Ordering::Relaxed), Instant::now());
            while !is_done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_secs(1));
                let now = progress.load(Ordering::Relaxed);
                if now != last.0 {
                    last = (now, Instant::now());
                } else if last.1.elapsed() > LIMIT && !is_done.load(Ordering::Relaxed) {
                    eprintln!("this program hangs:\n{}", program.lock().unwrap_or_else(PoisonError::into_inner));
                    std::process::abort();
                }
            }
        });
        this
    }

    fn show(&self, program: &Program) {
        self.program.lock().unwrap_or_else(PoisonError::into_inner).clone_from(program);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.is_done.store(true, Ordering::Relaxed);
    }
}

/// Undoes the pinning and the priority that the calling thread has inherited from the controller.
fn unpin() {
    // SAFETY: all CPUs are allowed; the set and the parameters are valid for the calls.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in 0..libc::CPU_SETSIZE as usize {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(0, size_of_val(&set), &set);
        libc::sched_setscheduler(0, libc::SCHED_OTHER, &libc::sched_param { sched_priority: 0 });
    }
}
