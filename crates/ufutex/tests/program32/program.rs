//! Runs the guest to its end, on the kernel or supervised.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::filter;
use crate::listener::{IN_GUEST, Listener, install};
use crate::memory::Memory;
use crate::region::{BASE, Region, SIZE};
use crate::supervisor::Supervisor;

/// How long a run may take. It takes two seconds on an idle machine, and fifteen on a busy one.
const LIMIT: Duration = Duration::from_secs(120);
/// How often to look whether the guest has ended, and to interrupt its waits.
const PAUSE: Duration = Duration::from_millis(1);

/// What answers the guest's calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Machine {
    Kernel,
    Engine,
}

/// What happens to the guest's waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// They sleep until they end.
    Plain,
    /// The supervisor interrupts them all the time. On the kernel they are plain, but the guest makes the same checks.
    Interrupted,
}

/// What a run has left.
pub struct Outcome {
    /// What the guest has printed.
    pub output: String,
    /// How many calls the engine has answered, by the numbers of i386.
    pub answered: BTreeMap<u32, u64>,
}

/// Runs the program. `Err` says why it cannot run here in this way.
pub fn run(program: &Path, machine: Machine, waits: Waits) -> Result<Outcome, String> {
    let region = Region::new();
    // A filter that the kernel does not accept fails here.
    let child = command(program, &region, machine, waits).spawn();
    let mut guest = Guest(child.map_err(|error| format!("the guest cannot be started here: {error}"))?);
    let (ended, answered) = match machine {
        Machine::Kernel => (guest.until_it_ends(|| std::thread::sleep(PAUSE)), BTreeMap::new()),
        Machine::Engine => {
            let pid = guest.0.id();
            let listener =
                Listener::of(pid).map_err(|error| format!("the guest cannot be supervised here: {error}"))?;
            let mut supervisor = Supervisor::new(listener, Memory::new(region, pid.cast_signed()));
            let ended = guest.until_it_ends(|| attend(&mut supervisor, waits));
            guest.kill();
            (ended, supervisor.finish())
        }
    };
    let output = guest.output();
    if let Err(reason) = ended {
        let last = output.lines().rev().take(5).collect::<Vec<_>>();
        panic!("{machine:?}, {waits:?}: the guest {reason}. Its last lines, the last one first: {last:#?}");
    }
    Ok(Outcome { output, answered })
}

fn command(program: &Path, region: &Region, machine: Machine, waits: Waits) -> Command {
    let file = region.file().as_raw_fd();
    let is_interrupted = i32::from(waits == Waits::Interrupted);
    let mut command = Command::new(program);
    command.args([file.to_string(), BASE.to_string(), SIZE.to_string(), is_interrupted.to_string()]);
    command.stdout(Stdio::piped());
    if machine == Machine::Engine {
        command.arg(IN_GUEST.to_string());
    }
    let code = filter::instructions();
    let prepare = move || {
        // SAFETY: between fork(2) and execve(2) the child only makes system calls, which touch no memory but `code`.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::fcntl(file, libc::F_SETFD, 0);
            if machine == Machine::Engine { install(&code) } else { Ok(()) }
        }
    };
    // SAFETY: `prepare` allocates nothing and takes no locks.
    unsafe { command.pre_exec(prepare) };
    command
}

/// Answers the calls that come in some milliseconds.
fn attend(supervisor: &mut Supervisor, waits: Waits) {
    let begin = Instant::now();
    while begin.elapsed() < PAUSE && supervisor.turn(PAUSE) {}
    if waits == Waits::Interrupted {
        supervisor.interrupt();
    }
}

/// The guest's process, which does not outlive this.
struct Guest(Child);

impl Guest {
    /// Does `meanwhile` again and again until the guest ends. `Err` says how it failed.
    fn until_it_ends(&mut self, mut meanwhile: impl FnMut()) -> Result<(), String> {
        let begin = Instant::now();
        while begin.elapsed() < LIMIT {
            meanwhile();
            if let Some(status) = self.0.try_wait().expect("it is a child") {
                return if status.success() { Ok(()) } else { Err(format!("has ended with {status}")) };
            }
        }
        Err(format!("still runs after {LIMIT:?}"))
    }

    /// Ends it if it still runs.
    fn kill(&mut self) {
        let _ = self.0.kill();
    }

    /// What it has printed. Kills it.
    fn output(mut self) -> String {
        self.kill();
        let mut output = String::new();
        let mut stdout = self.0.stdout.take().expect("it is a pipe");
        stdout.read_to_string(&mut output).expect("it prints ASCII");
        output
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
        let _ = self.0.wait();
    }
}
