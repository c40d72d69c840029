//! The files of records: one for each process, in a directory that disappears at the end.

use crate::account::Account;
use crate::hang;
use anyhow::{Context, Result, ensure};
use memmap2::{MmapOptions, MmapRaw};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use ufutex_program::ring::Ring;

/// The directory, and the files of processes that have not ended.
pub struct Files {
    /// What is removed at the end.
    outer: PathBuf,
    directory: PathBuf,
    open: Vec<Open>,
    begun: usize,
    /// Most words that the last call of [`drain`](Self::drain) found in a ring.
    pub fullest: u64,
    record: Vec<u64>,
}

struct Open {
    map: MmapRaw,
    /// Its number in the account.
    number: usize,
    pid: i32,
    /// When the process was found to be gone, in nanoseconds.
    gone_ns: Option<u64>,
    is_broken: bool,
}

/// Where files are memory, if there is such a place: the disk would be busy with them.
const IN_MEMORY: &str = "/dev/shm";

/// Records after which the account is trimmed, so that its size does not depend on how much has gathered in the rings.
const TRIM_EVERY: u64 = 1024;

impl Files {
    /// Makes the directory. If root runs the command, the program may change its user. So every user may create files in the inner
    /// directory, but only a process that knows its random name finds it: the name is in the program's environment.
    pub fn new() -> Result<Self> {
        let temporary = std::env::temp_dir();
        let places = [Path::new(IN_MEMORY), &temporary];
        let mut secret = [0u8; 16];
        // SAFETY: stores into `secret`.
        let stored = unsafe { libc::getrandom(secret.as_mut_ptr().cast(), secret.len(), 0) };
        ensure!(stored == secret.len() as isize, "no random name for a directory: {}", std::io::Error::last_os_error());
        let make = |place: &&Path| {
            let outer = place.join(format!("ufutex-locks-{}", std::process::id()));
            // A comma would end the setting.
            let is_usable = !outer.as_os_str().as_encoded_bytes().contains(&b',');
            (is_usable && fs::create_dir(&outer).is_ok()).then_some(outer)
        };
        let outer = places.iter().find_map(make).with_context(|| {
            format!("cannot make a directory for the records in {IN_MEMORY} or {}", temporary.display())
        })?;
        let files = Self {
            directory: outer.join(format!("{:032x}", u128::from_ne_bytes(secret))),
            outer,
            open: Vec::new(),
            begun: 0,
            fullest: 0,
            record: Vec::new(),
        };
        // SAFETY: takes and changes nothing.
        let is_root = unsafe { libc::geteuid() } == 0;
        let (outer_mode, mode) = if is_root { (0o711, 0o1733) } else { (0o700, 0o700) };
        let made = fs::set_permissions(&files.outer, Permissions::from_mode(outer_mode))
            .and_then(|()| fs::create_dir(&files.directory))
            .and_then(|()| fs::set_permissions(&files.directory, Permissions::from_mode(mode)));
        made.with_context(|| format!("cannot make {}", files.directory.display()))?;
        Ok(files)
    }

    /// The directory's path.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How many processes have written records.
    pub fn begun(&self) -> usize {
        self.begun
    }

    /// The processes that have not ended.
    pub fn processes(&self) -> impl Iterator<Item = i32> {
        self.open.iter().filter(|open| open.gone_ns.is_none()).map(|open| open.pid)
    }

    /// Takes the records that are there when the call begins. Returns whether there were any. Later ones are left for the next call.
    /// The account keeps at most `most` call sites.
    pub fn drain(&mut self, account: &mut Account, most: usize) -> bool {
        self.open_new();
        let mut taken = 0u64;
        self.fullest = 0;
        for open in &mut self.open {
            // SAFETY: a mapping of a `Ring`'s length, whose bytes are all valid and shared as atomics.
            let ring: &Ring = unsafe { &*open.map.as_ptr().cast::<Ring>() };
            let head = ring.head();
            self.fullest = self.fullest.max(head.wrapping_sub(ring.tail()));
            // The program may have stored any head.
            let last = taken + ufutex_program::ring::WORDS;
            while taken < last && !open.is_broken && ring.tail().wrapping_sub(head).cast_signed() < 0 {
                match ring.take(&mut self.record) {
                    Ok(None) => break,
                    Ok(Some(kind)) => {
                        account.note(open.number, kind, &self.record);
                        taken += 1;
                        if taken.is_multiple_of(TRIM_EVERY) {
                            account.trim(most);
                        }
                    }
                    Err(_) => {
                        open.is_broken = true;
                        account.note_broken(open.number);
                    }
                }
            }
            account.note_dropped(open.number, ring.dropped());
        }
        account.trim(most);
        taken != 0
    }

    /// Ends the waits of processes that were found to have gone by the call before. Their records have been taken meanwhile.
    pub fn close_gone(&mut self, account: &mut Account) {
        let newest: Vec<(i32, usize)> = self.open.iter().map(|open| (open.pid, open.number)).collect();
        self.open.retain_mut(|open| {
            if let (Some(gone), Some(process)) = (open.gone_ns, account.processes.get_mut(&open.number)) {
                process.end_all(gone);
                return false;
            }
            // It is gone too if it has executed another program, which has a file of its own.
            let has_executed = newest.iter().any(|(pid, number)| *pid == open.pid && *number > open.number);
            if has_executed || !is_alive(open.pid) {
                open.gone_ns = Some(hang::now_ns());
            }
            true
        });
    }

    fn open_new(&mut self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        // By the time at which they were made.
        paths.sort_by_key(|path| path.extension().and_then(|time| time.to_str()?.parse::<u64>().ok()));
        for path in paths {
            if let Some(open) = open(&path, self.begun) {
                self.begun += 1;
                self.open.push(open);
                // Nobody opens it again.
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// `None` if the file is not ready yet, or none that a process of the program has made.
fn open(path: &Path, number: usize) -> Option<Open> {
    let pid = path.file_stem()?.to_str()?.parse().ok()?;
    let mut options = File::options();
    let file = options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
    let status = file.metadata().ok()?;
    let is_ours = fs::metadata(format!("/proc/{pid}")).is_ok_and(|process| process.uid() == status.uid());
    // SAFETY: takes and changes nothing.
    let is_own = status.uid() == unsafe { libc::geteuid() };
    if !status.is_file() || status.len() != size_of::<Ring>() as u64 || !(is_ours || is_own) {
        return None;
    }
    let map = MmapOptions::new().map_raw(&file).ok()?;
    // SAFETY: as in `drain`.
    let is_ready = unsafe { &*map.as_ptr().cast::<Ring>() }.is_ready();
    is_ready.then_some(Open { map, number, pid, gone_ns: None, is_broken: false })
}

/// Whether the process runs: it is there, and not only waits for its parent. If its first thread has ended, others may run.
fn is_alive(pid: i32) -> bool {
    const THREADS: usize = 17;
    stat(pid).is_some_and(|stat| match stat.first().map(String::as_str) {
        Some("Z" | "X") => {
            stat.get(THREADS).is_some_and(|threads| threads.parse::<u32>().is_ok_and(|number| number > 1))
        }
        _ => true,
    })
}

/// The state of a process, as in proc_pid_stat(5). `None` if it is gone.
pub fn state(pid: i32) -> Option<char> {
    stat(pid)?.first()?.chars().next()
}

/// The fields of `/proc/PID/stat` from the state on.
pub fn stat(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, which may contain anything, ends with the last parenthesis.
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_string).collect())
}

impl Drop for Files {
    fn drop(&mut self) {
        // What cannot be removed stays behind. The output is worth more than an error about that.
        let _ = fs::remove_dir_all(&self.outer);
    }
}
