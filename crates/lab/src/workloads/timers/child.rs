//! The kernel's timers in several processes: each one is a child of this program, which says on stdout when its threads
//! are there, is told on stdin when to begin, and answers with a line of JSON.

use super::{Case, Sample};
use crate::cli::TimersChildArgs;
use crate::clock;
use crate::interrupt;
use crate::machine;
use crate::pool::Pool;
use crate::targets::timers::{self, Meeting, Name, Times};
use anyhow::{Context, Result, anyhow};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Long enough for all children to read when they begin.
const AHEAD: Duration = Duration::from_millis(3);
const AHEAD_EACH: Duration = Duration::from_micros(50);
const READY: &str = "ready";

/// What the threads of all processes have measured, or why they could not.
pub fn processes(case: &Case) -> Result<Result<Vec<Times>, String>> {
    let mut children = (0..case.processes).map(|number| Running::start(case, number)).collect::<Result<Vec<_>>>()?;
    children.iter_mut().try_for_each(Running::wait_until_ready)?;
    let start = clock::monotonic() + AHEAD + AHEAD_EACH * case.processes as u32;
    children.iter_mut().try_for_each(|child| child.tell(start))?;
    let mut all = Ok(Vec::new());
    for child in children {
        // Every one ends before the next sample, also after a failure.
        let times: Result<Vec<Times>, String> = child.finish()?;
        all = all.and_then(|mut all: Vec<Times>| times.map(|times| [std::mem::take(&mut all), times].concat()));
    }
    Ok(all)
}

struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(case: &Case, number: usize) -> Result<Running> {
        let program = std::env::current_exe().context("this program's own file")?;
        let mut child = interrupt::shield(&mut Command::new(program))
            .arg("timers-child")
            .args(["--test", case.test.text(), "--timers", &case.timers.to_string()])
            .args(["--threads", &case.threads.to_string(), "--before", &(number * case.threads).to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a child")?;
        let stdout = BufReader::new(child.stdout.take().context("a child's stdout")?);
        Ok(Running { child, stdout })
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        if line.trim() == READY { Ok(()) } else { Err(anyhow!("a child of timers did not start")) }
    }

    fn tell(&mut self, start: Duration) -> Result<()> {
        let mut stdin = self.child.stdin.take().context("a child's stdin")?;
        writeln!(stdin, "{}", start.as_nanos()).context("a child of timers ended early")
    }

    fn finish(mut self) -> Result<Result<Vec<Times>, String>> {
        let mut report = String::new();
        self.stdout.read_to_string(&mut report)?;
        self.child.wait().context("a child's end")?;
        serde_json::from_str(&report).context("a child's report")
    }
}

/// A child's part.
pub fn run(args: &TimersChildArgs) -> Result<()> {
    let cpus = machine::allowed_cpus();
    let mine: Vec<_> = (0..cpus.len()).map(|number| cpus[(args.before + number) % cpus.len()]).collect();
    let pool = Pool::new(args.threads, &mine)?;
    let world = timers::build(Name::Kernel, 1).map_err(|reason| anyhow!(reason))?;
    println!("{READY}");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let start = Duration::from_nanos(line.trim().parse().context("when to begin")?);
    let meeting = Meeting::new(args.threads, Some(start));
    let case = Case::of(args.test, args.timers, args.threads);
    let job = move |thread: usize| -> Sample { world.work(0, &case.load(thread), &meeting) };
    let times: Result<Vec<Times>, String> = pool.run(args.threads, job, || ())?.into_iter().collect();
    println!("{}", serde_json::to_string(&times)?);
    Ok(())
}
