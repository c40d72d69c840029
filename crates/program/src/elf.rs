//! Checks whether a library can be preloaded into a program, from the file alone: by the kernel's rules for what it
//! runs, and the loader's rules for when it preloads.
//!
//! The library calls this in a signal handler, for every file that its program executes. So the code here does not
//! allocate, needs little stack (below 2 KiB, which a test measures), and calls only async-signal-safe functions. It
//! changes `errno`.

mod privilege;
mod script;

use core::ffi::{CStr, c_int};
use core::fmt;
use core::mem::MaybeUninit;

use script::{HEAD_BYTES, Name};

/// The longest chain of scripts that name one another as interpreter, as in the kernel.
const MAX_SCRIPTS: usize = 5;
/// The file name of glibc's loader for x86-64, wherever it lies.
const LOADER_NAME: &[u8] = b"ld-linux-x86-64.so.2";
/// The loader's path, as the ABI defines it.
const LOADER: &CStr = c"/lib64/ld-linux-x86-64.so.2";

const ELF_HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const CLASS: usize = 4;
const DATA: usize = 5;
const CLASS_64: u8 = 2;
const DATA_LITTLE: u8 = 1;
const TYPE_EXECUTABLE: u16 = 2;
const TYPE_SHARED: u16 = 3;
const MACHINE_X86_64: u16 = 62;
const SEGMENT_INTERPRETER: u32 = 3;

/// Why nothing can be preloaded into a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The kernel would not run it. The value is the error of `execve`.
    NotRunnable(c_int),
    /// It can be run but not read, with this error. So its kind is not known.
    NotReadable(c_int),
    /// For 32-bit x86, x32 or another 32-bit machine.
    Bits32,
    /// For another machine: its ELF number.
    Machine(u16),
    /// Statically linked, at a fixed address or at any.
    Static,
    /// Linked with musl, which has a loader of its own.
    Musl,
    /// Loaded by a loader that is neither glibc's nor musl's.
    Loader,
    /// It runs as another user (set-user-ID).
    SetUser,
    /// It runs as another group (set-group-ID).
    SetGroup,
    /// The file gives it capabilities.
    Capabilities,
    /// This process has the rights of another user or group than its own, and would pass them on.
    Process,
}

/// Why nothing can be preloaded into a program. If the program is a script, also its interpreter.
#[derive(Clone, Copy)]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    interpreter: Name,
}

/// Checks the program that `execveat(directory, path, ...)` would run. With `AT_FDCWD` as the directory it is `execve`.
/// An empty path means the file `directory` itself.
///
/// For a script the interpreter is checked, without regard to the interpreter's argument. The result may be outdated at
/// once: a process that may write the file may change it before it is run.
///
/// # Errors
/// The first reason found. [`Refusal::about`] describes it in a line.
#[expect(clippy::result_large_err, reason = "nothing can be boxed without an allocator")]
pub fn check(directory: c_int, path: &CStr) -> Result<(), Refusal> {
    let mut interpreter = Name::none();
    match follow(directory, path, &mut interpreter) {
        Ok(()) => Ok(()),
        Err(reason) => Err(Refusal { reason, interpreter }),
    }
}

/// Goes from interpreter to interpreter. To save stack, all steps write the one name, and the functions with large
/// frames are not inlined, so that their frames are not on the stack at the same time.
fn follow(directory: c_int, path: &CStr, interpreter: &mut Name) -> Result<(), Reason> {
    let mut file = File::open(directory, path)?;
    for _ in 0..=MAX_SCRIPTS {
        match kind(&file, interpreter)? {
            Kind::Dynamic => return privilege::check(&file),
            Kind::Script => file = File::open(libc::AT_FDCWD, interpreter.as_c_str())?,
        }
    }
    Err(Reason::NotRunnable(libc::ELOOP))
}

enum Kind {
    /// glibc's loader loads it, or it is glibc's loader.
    Dynamic,
    /// The file is a script, and its interpreter has been stored.
    Script,
}

#[inline(never)]
fn kind(file: &File, interpreter: &mut Name) -> Result<Kind, Reason> {
    let mut head = [0; HEAD_BYTES];
    let bytes = file.read(&mut head, 0)?;
    if head.starts_with(b"#!") {
        let path = script::interpreter(&head).ok_or(Reason::NotRunnable(libc::ENOEXEC))?;
        interpreter.set(path);
        return Ok(Kind::Script);
    }
    if !head.starts_with(b"\x7fELF") || bytes < ELF_HEADER_BYTES {
        return Err(Reason::NotRunnable(libc::ENOEXEC));
    }
    // A 32-bit header has its machine in the same place, and a big-endian file is not for 64-bit x86 either.
    let machine = half(&head, 18);
    if head[CLASS] != CLASS_64 {
        return Err(Reason::Bits32);
    }
    if machine != MACHINE_X86_64 || head[DATA] != DATA_LITTLE {
        return Err(Reason::Machine(if head[DATA] == DATA_LITTLE { machine } else { machine.swap_bytes() }));
    }
    let not_runnable = Err(Reason::NotRunnable(libc::ENOEXEC));
    if !matches!(half(&head, 16), TYPE_EXECUTABLE | TYPE_SHARED) || usize::from(half(&head, 54)) != PROGRAM_HEADER_BYTES
    {
        return not_runnable;
    }
    let table = quad(&head, 32);
    for i in 0..u64::from(half(&head, 56)) {
        let mut header = [0; PROGRAM_HEADER_BYTES];
        let at = table.wrapping_add(i * PROGRAM_HEADER_BYTES as u64);
        if file.read(&mut header, at)? < PROGRAM_HEADER_BYTES {
            return not_runnable;
        }
        if word(&header, 0) == SEGMENT_INTERPRETER {
            return loader(file, quad(&header, 8), quad(&header, 32)).map(|()| Kind::Dynamic);
        }
    }
    // The loader itself names no loader. `ld.so PROGRAM` preloads as usual.
    if file.is(LOADER) { Ok(Kind::Dynamic) } else { Err(Reason::Static) }
}

/// Whether the loader is glibc's, judged by the end of its path. The path, of `bytes` with its NUL, stands in the file
/// at `offset`.
#[inline(never)]
fn loader(file: &File, offset: u64, bytes: u64) -> Result<(), Reason> {
    let mut end = [0; 64];
    let wanted = bytes.min(end.len() as u64);
    let read = file.read(&mut end[..wanted as usize], offset.wrapping_add(bytes - wanted))?;
    let path = end[..read].strip_suffix(b"\0").ok_or(Reason::NotRunnable(libc::ENOEXEC))?;
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    match name {
        LOADER_NAME => Ok(()),
        _ if name.starts_with(b"ld-musl-") => Err(Reason::Musl),
        _ => Err(Reason::Loader),
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn quad(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// A regular file that may be executed, open for reading.
struct File {
    descriptor: c_int,
}

impl File {
    #[inline(never)]
    fn open(directory: c_int, path: &CStr) -> Result<Self, Reason> {
        let empty = if path.is_empty() { libc::AT_EMPTY_PATH } else { 0 };
        let mut status = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: a string, and room for the result.
        if unsafe { libc::fstatat(directory, path.as_ptr(), status.as_mut_ptr(), empty) } != 0 {
            return Err(Reason::NotRunnable(errno()));
        }
        // SAFETY: fstatat has succeeded and filled it.
        if unsafe { status.assume_init() }.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(Reason::NotRunnable(libc::EACCES));
        }
        // SAFETY: a string.
        if unsafe { libc::faccessat(directory, path.as_ptr(), libc::X_OK, libc::AT_EACCESS | empty) } != 0
            && errno() == libc::EACCES
        {
            return Err(Reason::NotRunnable(libc::EACCES));
        }
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
        let descriptor = if path.is_empty() {
            open_anew(directory, flags)
        } else {
            // SAFETY: a string.
            unsafe { libc::openat(directory, path.as_ptr(), flags) }
        };
        if descriptor < 0 { Err(Reason::NotReadable(errno())) } else { Ok(Self { descriptor }) }
    }

    /// Returns how many bytes were read. That is less than the room in `buffer` only at the end of the file.
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Reason> {
        let mut read = 0;
        while read < buffer.len() {
            let room = &mut buffer[read..];
            // An offset that does not fit an off_t is past the end of any file.
            let Ok(at) = libc::off_t::try_from(offset.saturating_add(read as u64)) else { break };
            // SAFETY: `room` may be written for its length.
            match unsafe { libc::pread(self.descriptor, room.as_mut_ptr().cast(), room.len(), at) } {
                0 => break,
                count if count > 0 => read += count as usize,
                _ if errno() == libc::EINTR => {}
                _ => return Err(Reason::NotReadable(errno())),
            }
        }
        Ok(read)
    }

    fn status(&self) -> Option<libc::stat> {
        let mut status = MaybeUninit::uninit();
        // SAFETY: room for the result, which a successful call has filled.
        unsafe { (libc::fstat(self.descriptor, status.as_mut_ptr()) == 0).then(|| status.assume_init()) }
    }

    #[inline(never)]
    fn is(&self, path: &CStr) -> bool {
        let mut other = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: a string, and room for the result.
        if unsafe { libc::stat(path.as_ptr(), other.as_mut_ptr()) } != 0 {
            return false;
        }
        // SAFETY: stat has succeeded and filled it.
        let other = unsafe { other.assume_init() };
        self.status().is_some_and(|ours| (ours.st_dev, ours.st_ino) == (other.st_dev, other.st_ino))
    }
}

/// Opens the file of a descriptor once more: the descriptor itself may allow executing only, and belongs to the caller.
#[inline(never)]
fn open_anew(descriptor: c_int, flags: c_int) -> c_int {
    let link = script::descriptor_link(descriptor);
    // SAFETY: a string.
    unsafe { libc::open(link.as_c_str().as_ptr(), flags) }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: `descriptor` belongs to this file alone, and is not used after this.
        unsafe { libc::close(self.descriptor) };
    }
}

fn errno() -> c_int {
    // SAFETY: the pointer to the calling thread's errno is always valid.
    unsafe { *libc::__errno_location() }
}

impl Refusal {
    /// The error with which `execve` itself would fail, for a caller that lets the kernel report it. `None` if it would
    /// not fail.
    #[must_use]
    pub const fn kernel_error(&self) -> Option<c_int> {
        match self.reason {
            Reason::NotRunnable(errno) => Some(errno),
            _ => None,
        }
    }

    /// The message in one line. `path` is the path that was asked for.
    pub fn about<'a>(&'a self, path: &'a [u8]) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            write!(f, "{}", shown(path))?;
            match self.interpreter.as_c_str().to_bytes() {
                b"" => write!(f, " {}", self.reason),
                interpreter => write!(f, " is run by {}, which {}", shown(interpreter), self.reason),
            }
        })
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({:?})", self.reason, self.interpreter.as_c_str())
    }
}

/// A predicate: it is written behind the program's path.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotRunnable(libc::ENOENT) => f.write_str("does not exist"),
            Self::NotRunnable(libc::ENOEXEC) => f.write_str("is neither an ELF program nor a script"),
            Self::NotRunnable(errno) => write!(f, "cannot be run: {}", Errno(errno)),
            Self::NotReadable(errno) => {
                write!(f, "cannot be read ({}): whether anything can be preloaded into it is not known", Errno(errno))
            }
            Self::Bits32 => f.write_str("is a 32-bit program: only 64-bit ones for x86-64 can be run"),
            Self::Machine(number) => write!(f, "is a program for {}, not for x86-64", Machine(number)),
            Self::Static => f.write_str("is statically linked: nothing can be preloaded into it"),
            Self::Musl => f.write_str("is linked with musl: only programs linked with glibc can be run"),
            Self::Loader => {
                f.write_str("is not loaded by glibc's ld-linux-x86-64.so.2: nothing can be preloaded into it")
            }
            Self::SetUser => f.write_str("runs as another user (setuid): the loader preloads nothing into it"),
            Self::SetGroup => f.write_str("runs as another group (setgid): the loader preloads nothing into it"),
            Self::Capabilities => f.write_str("has file capabilities: the loader preloads nothing into it"),
            Self::Process => f.write_str(
                "would run with two users' or groups' rights, as this process does: nothing is preloaded then",
            ),
        }
    }
}

struct Machine(u16);

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            21 => f.write_str("64-bit PowerPC"),
            22 => f.write_str("s390"),
            183 => f.write_str("aarch64"),
            243 => f.write_str("RISC-V"),
            258 => f.write_str("LoongArch"),
            number => write!(f, "another machine (ELF number {number})"),
        }
    }
}

/// An error in words, for those that occur here. `strerror` is not used because it may allocate.
struct Errno(c_int);

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            libc::EACCES => "permission denied",
            libc::EPERM => "operation not permitted",
            libc::ELOOP => "too many levels of scripts or links",
            libc::ENOTDIR => "a part of its path is no directory",
            libc::ENAMETOOLONG => "its name is too long",
            libc::EMFILE | libc::ENFILE => "too many open files",
            number => return write!(f, "error {number}"),
        })
    }
}

/// The bytes of a path in one line, with everything else escaped.
fn shown(path: &[u8]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        for chunk in path.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
            }
            write!(f, "{}", chunk.invalid().escape_ascii())?;
        }
        Ok(())
    })
}
