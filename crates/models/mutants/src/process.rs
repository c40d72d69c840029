//! Runs a test in a process of its own, for a limited time.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum End {
    Passed,
    Failed,
    /// It was killed at the time limit.
    Hung,
}

/// Runs `command`. At the time limit it is killed together with all of its children.
pub fn run(command: &mut Command, limit: Duration) -> End {
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let group = -(child.id() as i32);
    let mut pause = Duration::from_micros(500);
    let end = loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) if status.success() => break End::Passed,
            Some(_) => break End::Failed,
            None if began.elapsed() > limit => break End::Hung,
            None => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    // A test that has ended may have left children.
    // SAFETY: kill(2) accesses no memory of ours. The group is the child's own, which has not been waited for by others.
    unsafe { libc::kill(group, libc::SIGKILL) };
    let _ = child.wait();
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> End {
        run(Command::new("sh").args(["-c", script]), limit)
    }

    #[test]
    fn a_process_passes_fails_or_is_killed() {
        let long = Duration::from_secs(600);
        assert_eq!(shell("exit 0", long), End::Passed);
        assert_eq!(shell("exit 3", long), End::Failed);
        assert_eq!(shell("sleep 3600 & wait", Duration::from_millis(50)), End::Hung);
    }
}
