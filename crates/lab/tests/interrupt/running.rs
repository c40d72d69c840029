//! A command that runs until it is interrupted.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

pub struct Running {
    pub child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
    /// The part of stdout that has been read.
    seen: String,
}

/// The output and exit status of a command.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Running {
    /// Starts `ufutex` with these arguments.
    pub fn begin(arguments: &[&str]) -> Running {
        Running::start(Command::new(env!("CARGO_BIN_EXE_ufutex")).args(arguments))
    }

    pub fn start(command: &mut Command) -> Running {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // SAFETY: one system call between fork and exec. It is needed because the test's parent may ignore the signal.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            })
        };
        let mut child = command.spawn().expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        Running { child, stdout, stderr, seen: String::new() }
    }

    /// Waits for a line of stderr that contains `announced`.
    pub fn until_it_says(&mut self, announced: &str) {
        let mut line = String::new();
        while !line.contains(announced) {
            line.clear();
            assert!(self.stderr.read_line(&mut line).expect("its stderr") > 0, "it ended without {announced}");
        }
    }

    /// Waits for a line of stdout that contains `part`.
    pub fn until_it_prints(&mut self, part: &str) {
        loop {
            let before = self.seen.len();
            assert!(self.stdout.read_line(&mut self.seen).expect("its stdout") > 0, "it ended: {}", self.seen);
            if self.seen[before..].contains(part) {
                return;
            }
        }
    }

    /// Sends SIGINT to all processes of the group, as a terminal does.
    pub fn press_ctrl_c(&self) {
        // SAFETY: sends a signal to the process group of our own child.
        assert_eq!(unsafe { libc::kill(-(self.child.id() as i32), libc::SIGINT) }, 0);
    }

    pub fn end(mut self) -> Ended {
        let mut stderr = String::new();
        self.stdout.read_to_string(&mut self.seen).expect("UTF-8");
        self.stderr.read_to_string(&mut stderr).expect("UTF-8");
        Ended { status: self.child.wait().expect("our child"), stdout: self.seen, stderr }
    }

    pub fn end_by_ctrl_c(self) -> Ended {
        self.press_ctrl_c();
        let ended = self.end();
        assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        ended
    }
}

/// Starts a run, interrupts it after some time, and returns it if it has results. If it has none, as on a busy machine,
/// tries again with a longer time.
pub fn interrupt_when_there_is_something(begin: impl Fn() -> Running, has_something: impl Fn(&Ended) -> bool) -> Ended {
    const WHILES_MS: [u64; 5] = [150, 500, 1500, 5000, 15_000];
    for while_ms in WHILES_MS {
        let running = begin();
        sleep(Duration::from_millis(while_ms));
        let ended = running.end_by_ctrl_c();
        if has_something(&ended) {
            return ended;
        }
    }
    panic!("nothing was there after {WHILES_MS:?} ms");
}
