//! Runs the command, and makes directories for tests.

use std::ffi::OsStr;
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

pub const UFUTEX: &str = env!("CARGO_BIN_EXE_ufutex");

/// The command `ufutex run` with these arguments.
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(UFUTEX);
    command.arg("run").args(arguments).env_remove("LD_PRELOAD").env_remove("UFUTEX_PRELOAD").env_remove("UFUTEX_RUN");
    command
}

/// Held while a program is written or a child is started. A child inherits all open files until it executes a program,
/// and a program that is open for writing cannot be executed.
static FORK: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    FORK.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn spawn(command: &mut Command) -> Child {
    let _alone = alone();
    command.spawn().expect("the command starts")
}

pub fn output(command: &mut Command) -> Output {
    let child = spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    child.wait_with_output().expect("our own child")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The output of a program that succeeds and prints nothing on stderr.
pub fn printed(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success() && output.stderr.is_empty(), "{command:?}: {output:?}");
    text(&output.stdout)
}

/// Asserts that the command exits with this status, prints this one line, and has run nothing.
#[track_caller]
pub fn assert_refused(command: &mut Command, status: i32, line: &str) {
    let output = output(command);
    assert_eq!((text(&output.stderr).as_str(), output.status.code()), (&*format!("ufutex: {line}\n"), Some(status)));
    assert!(output.stdout.is_empty(), "{command:?} has run something");
}

/// A directory for one test, removed after it.
pub struct TempDir(pub PathBuf);

impl TempDir {
    pub fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the build directory can be written");
        Self(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).into_os_string().into_string().expect("UTF-8")
    }

    pub fn file(&self, name: &str, content: &str, mode: u32) -> String {
        let path = self.path(name);
        fs::create_dir_all(Path::new(&path).parent().expect("a directory")).expect("our own directory");
        let _alone = alone();
        fs::write(&path, content).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("our own file");
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn copy(from: &str, to: &str) {
    let _alone = alone();
    fs::copy(from, to).expect("a copy");
}
