//! What `ufutex locks` says on a terminal while the program runs.

use crate::{PLANTED, UFUTEX};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};

/// A terminal: our end, and that of programs.
fn terminal() -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: stores two descriptors; no name, settings or size are passed.
    let opened = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, none, none.cast(), none.cast()) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // Programs of other tests must not keep the terminal open.
    // SAFETY: two descriptors of ours.
    [ours, theirs].iter().for_each(|one| assert_eq!(unsafe { libc::fcntl(*one, libc::F_SETFD, libc::FD_CLOEXEC) }, 0));
    // SAFETY: new descriptors, which nothing else owns.
    unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

/// A command that ends when this is dropped, and its program with it.
struct Running(Child);

impl Running {
    fn end(&self) {
        // SAFETY: our own child, which has not been waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        let _ = self.0.wait();
    }
}

/// Runs a shell's command under `ufutex locks`, whose stderr is the terminal.
fn started(command: &str, theirs: OwnedFd) -> Running {
    let mut ufutex = Command::new(UFUTEX);
    ufutex.args(["locks", "-f", "--", "sh", "-c", command]).arg(&*PLANTED).env("TERM", "xterm");
    let ufutex = ufutex.stdin(Stdio::null()).stdout(Stdio::null()).stderr(theirs);
    Running(ufutex.spawn().expect("it starts"))
}

/// Reads until `is_enough`, or until the terminal's last program has closed it.
fn read(ours: &mut File, is_enough: impl Fn(&str) -> bool) -> String {
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    while !is_enough(&text) {
        match ours.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => text.push_str(&String::from_utf8_lossy(&bytes[..count])),
            // What the other end's last program has left is EIO.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
    text
}

#[test]
fn terminal_shows_the_waits_so_far_while_the_program_prints_elsewhere() {
    let (mut ours, theirs) = terminal();
    // The first program contends for locks. The second one hangs: it is there until the line has come.
    let running = started("exec > /dev/null 2>&1; \"$0\" heap; exec \"$0\" lost", theirs);
    let text = read(&mut ours, |text| text.contains(" ms so far") || text.contains(" s so far"));
    assert!(text.contains("ufutex: "), "{text:?}");
    running.end();
    let rest = read(&mut ours, |_| false);
    let all = text + &rest;
    // The line is removed, and other text is where it was.
    let behind = all.rsplit(" so far").next().and_then(|rest| rest.split('\n').next()).unwrap_or_default();
    assert!(behind.contains("\u{1b}[2K") && all.contains(" Locks of 'sh "), "{all:?}");
}

#[test]
fn terminal_to_which_the_program_prints_shows_nothing_else() {
    let (mut ours, theirs) = terminal();
    let command = "sleep 1.5; echo one >&2; exec 2> /dev/null; exec \"$0\" lost";
    let _running = started(command, theirs);
    let text = read(&mut ours, |text| text.contains(" so far"));
    let (before, _) = text.split_once("one\r\n").unwrap_or_else(|| panic!("{text:?}"));
    assert_eq!(before, "", "only when the program has left the terminal");
}
