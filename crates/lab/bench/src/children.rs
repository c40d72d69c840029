//! Measuring in several processes: each one is a child of this program, which says on stdout when its threads are there,
//! is told on stdin when to begin, and answers with a line of JSON.

use anyhow::{Context, Result, anyhow};
use lab_measure::clock;
use lab_measure::interrupt;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Long enough for all children to read when they begin.
const AHEAD: Duration = Duration::from_millis(3);
const AHEAD_EACH: Duration = Duration::from_micros(50);
const READY: &str = "ready";

/// The reports of so many children, each started with its own arguments.
pub fn measure<R: DeserializeOwned>(processes: usize, arguments: impl Fn(usize) -> Vec<String>) -> Result<Vec<R>> {
    let mut children = (0..processes).map(|number| Running::start(&arguments(number))).collect::<Result<Vec<_>>>()?;
    children.iter_mut().try_for_each(Running::wait_until_ready)?;
    let start = clock::monotonic() + AHEAD + AHEAD_EACH * processes as u32;
    children.iter_mut().try_for_each(|child| child.tell(start))?;
    // Every one ends before the next sample, also after a failure.
    let reports: Vec<Result<R>> = children.into_iter().map(Running::finish).collect();
    reports.into_iter().collect()
}

struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(arguments: &[String]) -> Result<Running> {
        let program = std::env::current_exe().context("this program's own file")?;
        let mut child = interrupt::shield(&mut Command::new(program))
            .args(arguments)
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
        if line.trim() == READY { Ok(()) } else { Err(anyhow!("a child did not start")) }
    }

    fn tell(&mut self, start: Duration) -> Result<()> {
        let mut stdin = self.child.stdin.take().context("a child's stdin")?;
        writeln!(stdin, "{}", start.as_nanos()).context("a child ended early")
    }

    fn finish<R: DeserializeOwned>(mut self) -> Result<R> {
        let mut report = String::new();
        self.stdout.read_to_string(&mut report)?;
        self.child.wait().context("a child's end")?;
        serde_json::from_str(&report).context("a child's report")
    }
}

/// A child's part: says that it is ready, and is told when to begin, by the monotonic clock.
pub fn ready() -> Result<Duration> {
    println!("{READY}");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(Duration::from_nanos(line.trim().parse().context("when to begin")?))
}
