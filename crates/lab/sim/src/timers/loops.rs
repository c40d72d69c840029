//! The virtual threads of `sim timers`, and which parts of them are timed: the calls that [timer-hash] times.

use super::{Case, Test, Times};
use lab_measure::interrupt;
use std::cell::RefCell;
use ufutex_coherence::{Length, Report, Simulation, current};
use ufutex_designs_sim::{Errno, Notify, Process};

/// Limit of a run: a virtual day.
const LIMIT_NS: u64 = 86_400_000_000_000;

/// Runs a case on these processes. Returns the average times of the threads and the machine's report.
pub fn run<P: Process>(processes: &[P], case: &Case) -> Result<(Times, Report), String> {
    let outcomes = RefCell::new(Vec::with_capacity(case.threads));
    let report = Simulation::new(&case.topology)
        .threads(case.threads)
        .seed(case.seed)
        .length(Length::Whole)
        .limit_ns(LIMIT_NS)
        .run(|thread| {
            let worker = Worker { process: &processes[thread % processes.len()], case };
            current::rendezvous();
            let outcome = worker.work();
            outcomes.borrow_mut().push(outcome);
        });
    if report.stuck > 0 {
        return Err(format!("{} of {} virtual threads never ended", report.stuck, case.threads));
    }
    let all: Result<Vec<Times>, Errno> = outcomes.into_inner().into_iter().collect();
    let all = all.map_err(|error| format!("a call failed with {}", std::io::Error::from_raw_os_error(error)))?;
    Ok((Times::mean(&all), report))
}

struct Worker<'a, P: Process> {
    process: &'a P,
    case: &'a Case,
}

impl<P: Process> Worker<'_, P> {
    fn work(&self) -> Result<Times, Errno> {
        let mut thread = self.process.thread();
        match self.case.test {
            Test::CreateGetoverrun => self.create_getoverrun(&mut thread),
            Test::CreateDelete => self.create_delete(&mut thread),
        }
    }

    fn create_getoverrun(&self, thread: &mut P::Thread) -> Result<Times, Errno> {
        let begin = current::now_ns();
        let mut ids = Vec::with_capacity(self.case.timers);
        for _ in 0..self.case.timers {
            ids.push(self.create(thread)?);
        }
        let created = current::now_ns();
        for id in ids {
            self.go_on()?;
            current::compute(self.case.calls.getoverrun_ns);
            self.process.getoverrun(id)?;
            current::done(1);
        }
        let looked = current::now_ns();
        let each = |from: u64, to: u64| Some((to - from) as f64 / self.case.timers as f64);
        Ok(Times { create_ns: each(begin, created), getoverrun_ns: each(created, looked), create_delete_ns: None })
    }

    fn create_delete(&self, thread: &mut P::Thread) -> Result<Times, Errno> {
        let begin = current::now_ns();
        for _ in 0..self.case.timers {
            let id = self.create(thread)?;
            current::compute(self.case.calls.delete_ns);
            self.process.delete(thread, id)?;
            current::done(1);
        }
        let each = (current::now_ns() - begin) as f64 / self.case.timers as f64;
        Ok(Times { create_delete_ns: Some(each), ..Times::default() })
    }

    /// Fails after Ctrl-C. The machine checks that when a thread waits for its turn. A lone thread never does.
    fn go_on(&self) -> Result<(), Errno> {
        if interrupt::requested() { Err(libc::EINTR) } else { Ok(()) }
    }

    fn create(&self, thread: &mut P::Thread) -> Result<i32, Errno> {
        self.go_on()?;
        current::compute(self.case.calls.create_ns);
        self.process.create(thread, Notify::Nothing)
    }
}
