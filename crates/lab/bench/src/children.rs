//! Measures in several child processes of this program. A child prints `ready` when its threads run, reads the start
//! time from stdin, and prints its report as one line of JSON.

use anyhow::{Context, Result, anyhow, ensure};
use lab_measure::clock;
use lab_measure::interrupt;
use lab_terminal::stdout;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Time between sending the start times and the start, so that all children have read them.
const AHEAD: Duration = Duration::from_millis(3);
const AHEAD_EACH: Duration = Duration::from_micros(50);
const READY: &str = "ready";

/// Runs `processes` children, each with its own arguments, and returns their reports.
pub fn measure<R: DeserializeOwned>(processes: usize, arguments: impl Fn(usize) -> Vec<String>) -> Result<Vec<R>> {
    let mut children = (0..processes).map(|number| Running::start(&arguments(number))).collect::<Result<Vec<_>>>()?;
    children.iter_mut().try_for_each(Running::wait_until_ready)?;
    let start = clock::monotonic() + AHEAD + AHEAD_EACH * processes as u32;
    children.iter_mut().try_for_each(|child| child.tell(start))?;
    // All children end before the next sample, also if one has failed.
    let reports: Vec<Result<R>> = children.into_iter().map(Running::finish).collect();
    reports.into_iter().collect()
}

/// This program, to be started once more.
pub fn command() -> Result<Command> {
    Ok(Command::new(std::env::current_exe().context("cannot find this program's own file")?))
}

struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(arguments: &[String]) -> Result<Running> {
        let mut child = interrupt::in_own_group(&mut command()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a child")?;
        let stdout = BufReader::new(child.stdout.take().context("a child has no stdout")?);
        Ok(Running { child, stdout })
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        if line.trim() == READY { Ok(()) } else { Err(anyhow!("a child ended before its start")) }
    }

    fn tell(&mut self, start: Duration) -> Result<()> {
        let mut stdin = self.child.stdin.take().context("a child has no stdin")?;
        writeln!(stdin, "{}", start.as_nanos()).context("a child ended early")
    }

    fn finish<R: DeserializeOwned>(mut self) -> Result<R> {
        let mut report = String::new();
        self.stdout.read_to_string(&mut report)?;
        self.child.wait().context("cannot wait for a child")?;
        serde_json::from_str(&report).context("cannot parse a child's report")
    }
}

/// In the child: prints `ready` and reads the start time, on the monotonic clock.
pub fn ready() -> Result<Duration> {
    stdout::print(READY)?;
    let mut line = String::new();
    let length = std::io::stdin().read_line(&mut line)?;
    ensure!(length != 0, "the process that started this one has ended");
    Ok(Duration::from_nanos(line.trim().parse().context("cannot parse the start time")?))
}
