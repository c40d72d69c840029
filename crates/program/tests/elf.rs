//! Compares the results of `elf::check` with what the kernel does with the same files.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

#[path = "../../ufutex/tests/common/skipped.rs"]
mod skipped;

use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use skipped::skip;
use ufutex_program::elf::{Reason, Refusal, check};

/// Held while a program is written or a child is started. A child inherits all open files until it executes a program,
/// and a program that is open for writing cannot be executed.
static FORK: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    FORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory for one test, removed after it.
struct TempDir(PathBuf);

impl TempDir {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("elf-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the build directory can be written");
        Self(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        let _alone = alone();
        fs::write(&path, content).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("our own file");
        path
    }

    /// Compiles a program that prints whether the kernel has set `AT_SECURE`. `None` if there is no compiler.
    fn program(&self, name: &str, flags: &[&str]) -> Option<PathBuf> {
        let source = self.file("program.c", SOURCE.as_bytes());
        let path = self.0.join(name);
        let _alone = alone();
        let output = Command::new("cc").args(flags).arg(source).arg("-o").arg(&path).output();
        output.is_ok_and(|output| output.status.success()).then_some(path)
    }
}

fn write_alone(path: &Path, content: &[u8]) {
    let _alone = alone();
    fs::write(path, content).expect("a file");
}

const SOURCE: &str = "#include <stdio.h>\n#include <sys/auxv.h>\nint main(void) { return !!getauxval(AT_SECURE); }\n";

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[expect(clippy::result_large_err, reason = "as `check` has it")]
fn of(path: &Path) -> Result<(), Refusal> {
    check(libc::AT_FDCWD, &CString::new(path.as_os_str().as_bytes()).expect("no NUL"))
}

fn reason(path: &Path) -> Option<Reason> {
    of(path).err().map(|refusal| refusal.reason)
}

fn line(path: &Path) -> String {
    of(path).expect_err("refused").about(b"it").to_string()
}

/// The error of execve(2) on this file.
fn kernel_error(path: &Path) -> Option<i32> {
    let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    let mut command = Command::new("/nothing");
    // SAFETY: the closure only makes a system call.
    unsafe {
        command.pre_exec(move || {
            let arguments = [path.as_ptr(), std::ptr::null()];
            libc::execve(path.as_ptr(), arguments.as_ptr(), arguments[1..].as_ptr().cast());
            Err(io::Error::last_os_error())
        });
    }
    let _alone = alone();
    command.status().err().map(|error| error.raw_os_error().expect("errno"))
}

/// A valid ELF header, changed by `edit`.
fn header(edit: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; 64 + 2 * 56];
    bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
    for (at, half) in [(16, 3u16), (18, 62), (20, 1), (32, 64), (52, 64), (54, 56), (56, 2)] {
        bytes[at..at + 2].copy_from_slice(&half.to_le_bytes());
    }
    edit(&mut bytes);
    bytes
}

/// A valid ELF header that names a loader.
fn loaded_by(loader: &[u8]) -> Vec<u8> {
    let mut bytes = header(|bytes| {
        let second = 64 + 56;
        bytes[second..][..4].copy_from_slice(&3u32.to_le_bytes());
        bytes[second + 8..][..8].copy_from_slice(&(64 + 2 * 56u64).to_le_bytes());
        bytes[second + 32..][..8].copy_from_slice(&(loader.len() as u64).to_le_bytes());
    });
    bytes.extend_from_slice(loader);
    bytes
}

#[test]
fn programs_of_the_system_can_be_run() {
    for path in ["/bin/true", "/bin/sh", "/proc/self/exe", "/lib64/ld-linux-x86-64.so.2"] {
        assert_eq!(reason(Path::new(path)), None, "{path}");
    }
}

#[test]
fn a_static_program_is_refused_at_a_fixed_address_and_at_any() {
    let place = TempDir::new("static");
    for flags in [&["-static"][..], &["-static-pie"]] {
        let Some(path) = place.program("program", flags) else {
            skip(format_args!("cc {flags:?} makes no program here (libc.a is missing?)"));
            continue;
        };
        assert_eq!(reason(&path), Some(Reason::Static), "{flags:?}");
        assert_eq!(line(&path), "it is statically linked: nothing can be preloaded into it");
    }
    assert_eq!(reason(&place.file("alone", &header(|_| {}))), Some(Reason::Static));
}

#[test]
fn a_loader_is_known_by_its_name() {
    let place = TempDir::new("loader");
    let cases: [(&[u8], Option<Reason>); 6] = [
        (b"/lib64/ld-linux-x86-64.so.2\0", None),
        (b"/nix/store/0123456789abcdefghijklmnopqrstuv-glibc-2.42-12/lib/ld-linux-x86-64.so.2\0", None),
        (b"ld-linux-x86-64.so.2\0", None),
        (b"/lib/ld-musl-x86_64.so.1\0", Some(Reason::Musl)),
        (b"/system/bin/linker64\0", Some(Reason::Loader)),
        (b"/lib64/ld-linux-x86-64.so.2", Some(Reason::NotRunnable(libc::ENOEXEC))),
    ];
    for (loader, expected) in cases {
        let path = place.file("program", &loaded_by(loader));
        assert_eq!(reason(&path), expected, "{}", loader.escape_ascii());
    }
    assert_eq!(
        line(&place.file("musl", &loaded_by(b"/lib/ld-musl-x86_64.so.1\0"))),
        "it is linked with musl: only programs linked with glibc can be run"
    );
}

#[test]
fn programs_for_other_machines_are_refused_by_name() {
    let place = TempDir::new("machine");
    let of = |edit: fn(&mut [u8])| line(&place.file("program", &header(edit)));
    let bits = "it is a 32-bit program: only 64-bit ones for x86-64 can be run";
    assert_eq!(of(|h| h[4] = 1), bits, "x32");
    assert_eq!(of(|h| (h[4], h[18]) = (1, 3)), bits, "i386");
    assert_eq!(of(|h| h[18] = 183), "it is a program for aarch64, not for x86-64");
    assert_eq!(of(|h| (h[5], h[18], h[19]) = (2, 0, 21)), "it is a program for 64-bit PowerPC, not for x86-64");
    assert_eq!(of(|h| h[18] = 2), "it is a program for another machine (ELF number 2), not for x86-64");
}

/// Files that the kernel does not execute. The check reports the same error for each.
#[test]
fn files_that_the_kernel_refuses_are_known_with_its_error() {
    let place = TempDir::new("kernel");
    let nested = |levels: usize| {
        (1..=levels).fold(PathBuf::from("/bin/true"), |interpreter, level| {
            place.file(&format!("{levels}-{level}"), format!("#!{}\n", interpreter.display()).as_bytes())
        })
    };
    let long = |length: usize, end: &str| {
        // Several slashes count as one in a path, so an interpreter's path can have any length.
        let path = format!("{}bin/true", "/".repeat(length - 8));
        place.file(&format!("long-{length}-{}", end.len()), format!("#!{path}{end}").as_bytes())
    };
    let plain = place.file("plain", b"#!/bin/true\n");
    fs::set_permissions(&plain, Permissions::from_mode(0o644)).expect("our own file");
    let through_plain = place.file("through-plain", format!("#!{}\n", plain.display()).as_bytes());
    let link = place.0.join("loop");
    symlink(&link, &link).expect("a link");
    let mut paths = vec![
        plain,
        through_plain,
        link,
        place.0.clone(),
        place.0.join("missing"),
        place.0.join("x".repeat(300)),
        place.file("file", b"").join("below"),
        place.file("empty", b""),
        place.file("text", b"echo text\n"),
        place.file("short", b"\x7fELF"),
        place.file("object", &header(|h| h[16] = 1)),
        place.file("phentsize", &header(|h| h[54] = 32)),
        place.file("truncated", &header(|h| h[56] = 9)),
        place.file("far", &header(|h| h[39] = 0xff)),
        place.file("lost", b"#!/nowhere/interpreter -x\n"),
        place.file("directory", format!("#!{}\n", place.0.display()).as_bytes()),
        place.file("blank", b"#!  \n"),
        place.file("nothing", b"#!"),
        place.file("good", b"#!/bin/true"),
        place.file("spaced", b"#! \t/bin/true \t x\n"),
    ];
    paths.extend((1..=7).map(nested));
    paths.extend(
        [252, 253, 254, 300].into_iter().flat_map(|length| ["", " ", "\n", " x\n"].map(|end| long(length, end))),
    );
    let mut failed = 0;
    for path in paths {
        let expected = kernel_error(&path);
        let ours = of(&path).err().and_then(|refusal| refusal.kernel_error());
        assert_eq!(ours, expected, "{}: {:?}", path.display(), of(&path));
        failed += usize::from(expected.is_some());
    }
    assert!(failed > 20, "only {failed} of them are not run: the kernel was not asked what it refuses");
}

#[test]
fn a_script_stands_for_its_interpreter() {
    let place = TempDir::new("script");
    let program = place.file("static", &header(|_| {}));
    let script = place.file("script", format!("#!{} -f\n", program.display()).as_bytes());
    let outer = place.file("outer", format!("#! {}\n", script.display()).as_bytes());
    let expected =
        format!("it is run by {}, which is statically linked: nothing can be preloaded into it", program.display());
    assert_eq!(line(&outer), expected);
    assert_eq!(
        line(&place.file("lost", b"#!/no\x01where\xff\n")),
        "it is run by /no\\u{1}where\\xff, which does not exist"
    );
}

#[test]
fn a_directory_and_an_open_file_can_stand_for_the_path() {
    let place = TempDir::new("directory");
    let program = place.file("static", &header(|_| {}));
    let directory = File::open(&place.0).expect("our directory");
    let error = check(directory.as_raw_fd(), c"static").expect_err("static");
    assert_eq!(error.reason, Reason::Static);
    let open = File::open(program).expect("our file");
    assert_eq!(check(open.as_raw_fd(), c"").expect_err("static").reason, Reason::Static);
    assert_eq!(check(-1, c"static").expect_err("nothing").kernel_error(), Some(libc::EBADF));
    assert_eq!(check(directory.as_raw_fd(), c"").expect_err("nothing").kernel_error(), Some(libc::EACCES));
}

#[test]
fn no_file_stays_open() {
    let open = || fs::read_dir("/proc/self/fd").expect("procfs").count();
    let before = open();
    for _ in 0..300 {
        for path in ["/bin/true", "/usr/bin/ldd", "/nowhere", "/"] {
            let _ = of(Path::new(path));
        }
    }
    // Other tests of this process may have files open too.
    assert!(open() < before + 100);
}

/// The loader preloads nothing if the kernel sets `AT_SECURE`. For each file and each process the check must agree.
#[test]
fn programs_with_rights_of_their_own_are_refused_where_the_kernel_is_careful() {
    let place = TempDir::new("rights");
    let Some(program) = place.program("program", &[]) else {
        skip("cc makes no program here");
        return;
    };
    if let Err(error) = chown(&program, Some(1), Some(1)) {
        return skip(format_args!(
            "no file of another user can be made here (CAP_CHOWN, CAP_SETUID, CAP_SETFCAP): {error}"
        ));
    }
    let content = fs::read(&program).expect("just made");
    // user, group, mode, file capabilities
    let files: [(u32, u32, u32, bool); 9] = [
        (0, 0, 0o755, false),
        (0, 0, 0o4755, false),
        (1, 0, 0o4755, false),
        (1, 1, 0o755, false),
        (0, 1, 0o2755, false),
        (0, 2, 0o2745, false),
        (0, 0, 0o2755, false),
        (1, 1, 0o6755, false),
        (0, 0, 0o755, true),
    ];
    // real user, effective user, real group, effective group
    let processes: [(u32, u32, u32, u32); 6] =
        [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 0, 0), (0, 0, 0, 1), (1, 0, 1, 1), (1, 1, 0, 0)];
    // Users other than root must be able to reach the file.
    let reachable =
        place.0.ancestors().all(|path| path.metadata().is_ok_and(|status| status.permissions().mode() & 0o001 != 0));
    let directory = if reachable { place.0.clone() } else { std::env::temp_dir() };
    let mut careful = 0;
    for (i, (user, group, mode, capable)) in files.into_iter().enumerate() {
        let path = directory.join(format!("ufutex-elf-{}-{i}", std::process::id()));
        write_alone(&path, &content);
        chown(&path, Some(user), Some(group)).expect("root");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("root");
        if capable {
            set_capability(&path);
        }
        for process in processes {
            let (ours, kernel) = (verdict(&path, process), secure(&path, process));
            // Before Linux 6.16 the kernel did not set it if the file gave back rights that the process had given up.
            let older = !kernel && (process.0 != process.1 || process.2 != process.3);
            assert!(ours == kernel || older, "file {:?}, process {process:?}", (user, group, mode, capable));
            careful += usize::from(kernel);
        }
        fs::remove_file(&path).expect("our own file");
    }
    assert!(careful > 10, "the kernel was careful {careful} times: is the file system mounted nosuid?");
}

#[test]
fn a_file_system_mounted_nosuid_gives_no_rights() {
    let place = TempDir::new("nosuid");
    let Some(program) = place.program("program", &[]) else {
        skip("cc makes no program here");
        return;
    };
    let mounted = place.0.join("mounted");
    fs::create_dir(&mounted).expect("a directory");
    let directory = CString::new(mounted.as_os_str().as_bytes()).expect("no NUL");
    // Only this thread is in the new namespace, and the mount ends with it.
    // SAFETY: the arguments are strings, or null where that is accepted.
    let done = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(c"none".as_ptr(), directory.as_ptr(), c"tmpfs".as_ptr(), libc::MS_NOSUID, std::ptr::null())
                == 0
    };
    if !done {
        skip(format_args!("nothing can be mounted here: {}", io::Error::last_os_error()));
        return;
    }
    for (mode, capable) in [(0o6755, false), (0o755, true)] {
        let path = mounted.join("program");
        write_alone(&path, &fs::read(&program).expect("just made"));
        chown(&path, Some(1), Some(1)).expect("root");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("root");
        if capable {
            set_capability(&path);
        }
        for process in [(0, 0, 0, 0), (2, 2, 2, 2)] {
            assert!(!secure(&path, process) && !verdict(&path, process), "{mode:o}, process {process:?}");
        }
    }
}

/// Grants CAP_NET_BIND_SERVICE, permitted and effective, in the format of setcap(8).
fn set_capability(path: &Path) {
    let value: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: two strings, and a buffer with its length.
    let result = unsafe {
        libc::setxattr(path.as_ptr(), c"security.capability".as_ptr(), value.as_ptr().cast(), value.len(), 0)
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

fn become_other((user, effective_user, group, effective_group): (u32, u32, u32, u32)) -> io::Result<()> {
    // The saved IDs are the effective ones, so that these can be set. Raw system calls, because this is a child with
    // one thread.
    // SAFETY: the calls access no memory.
    let failed = unsafe {
        libc::syscall(libc::SYS_setgroups, 0, 0) != 0
            || libc::syscall(libc::SYS_setresgid, group, effective_group, effective_group) != 0
            || libc::syscall(libc::SYS_setresuid, user, effective_user, effective_user) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether the kernel sets `AT_SECURE` for the program.
fn secure(path: &Path, process: (u32, u32, u32, u32)) -> bool {
    let mut command = Command::new(path);
    // SAFETY: only system calls.
    unsafe { command.pre_exec(move || become_other(process)) };
    let _alone = alone();
    let status = command.status().expect("it can be run");
    status.code().expect("it exits") == 1
}

/// Whether the check refuses the program in such a process.
fn verdict(path: &Path, process: (u32, u32, u32, u32)) -> bool {
    let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    let mut command = Command::new("/bin/true");
    // SAFETY: only system calls and `check`, which does not allocate.
    unsafe {
        command.pre_exec(move || {
            become_other(process)?;
            match check(libc::AT_FDCWD, &path) {
                Ok(()) => libc::_exit(0),
                Err(refusal) if refusal.kernel_error().is_none() => libc::_exit(1),
                Err(_) => libc::_exit(2),
            }
        });
    }
    let _alone = alone();
    match command.status().expect("it can be run").code() {
        Some(0) => false,
        Some(1) => true,
        other => panic!("the check ended with {other:?}"),
    }
}

/// The library checks programs on the stack of any signal handler.
#[test]
fn the_check_needs_less_than_two_kibibytes_of_stack() {
    const STACK: usize = 64 << 10;
    const PAINT: u8 = 0xa5;
    static mut CASE: usize = 0;
    extern "C" fn body() {
        // SAFETY: set before this runs, on the same thread.
        let case = unsafe { CASE };
        let path = [c"/bin/true", c"/nowhere", c"/proc/self/exe"].get(case).copied().unwrap_or(c"/usr/bin/ldd");
        let _ = std::hint::black_box(check(libc::AT_FDCWD, path));
    }
    for case in 0..4 {
        let mut stack = vec![PAINT; STACK];
        // SAFETY: two contexts of this thread. The other one's stack outlives it.
        unsafe {
            CASE = case;
            let mut here: libc::ucontext_t = std::mem::zeroed();
            let mut there: libc::ucontext_t = std::mem::zeroed();
            assert_eq!(libc::getcontext(&mut there), 0);
            there.uc_stack.ss_sp = stack.as_mut_ptr().cast();
            there.uc_stack.ss_size = STACK;
            there.uc_link = &mut here;
            libc::makecontext(&mut there, body, 0);
            assert_eq!(libc::swapcontext(&mut here, &there), 0);
        }
        let used = STACK - stack.iter().position(|byte| *byte != PAINT).expect("it has run");
        assert!(used < 2048, "case {case}: {used} bytes");
    }
}
