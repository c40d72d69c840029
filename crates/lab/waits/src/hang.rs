//! The threads that wait at the moment, each with the word and the thread that it waits for.

use crate::account::{Account, Process, Wait};
use crate::kind::{self, JOIN};
use crate::names::Names;
use crate::report::{self, thread};
use std::collections::HashMap;
use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// A thread that waits.
pub struct Waiting {
    /// The process.
    pub pid: i32,
    tid: u32,
    /// Its name.
    pub thread: String,
    /// The word.
    pub word: u64,
    /// The word's name.
    pub waits_for: String,
    /// For how long, in nanoseconds.
    pub waited_ns: u64,
    holder: Option<u32>,
    /// The thread that holds the lock, if the lock says so, or for whose end this one waits.
    pub held_by: Option<String>,
    is_join: bool,
    /// The wait has a timeout, so it is no part of a deadlock.
    is_timed: bool,
    /// From where, the innermost frame first.
    pub stack: Vec<String>,
}

/// All threads that wait at `now_ns`, those that wait longest first.
pub fn waiting(account: &Account, names: &mut Names, now_ns: u64) -> Vec<Waiting> {
    let mut all = Vec::new();
    for process in account.processes.values() {
        for (tid, one) in &process.threads {
            let Some(wait) = &one.waits else { continue };
            let frames = names.stack(process, account.stack(wait.stack));
            let kind = kind::of(&frames, wait.operation);
            let waited_ns = now_ns.saturating_sub(wait.since_ns);
            let is_join = kind == JOIN;
            let holder = match kind.is_lock {
                Some(true) => process.owner(wait, &now_at(process, *tid, wait)),
                _ if is_join => Some(now_at(process, *tid, wait)[0]).filter(|tid| *tid != 0),
                _ => None,
            };
            // A thread that has just got the lock does not wait for itself.
            let holder = holder.filter(|holder| holder != tid || waited_ns >= SETTLED_NS);
            all.push(Waiting {
                pid: process.pid,
                tid: *tid,
                thread: thread(process, *tid),
                word: wait.word,
                waits_for: report::name(names, process, wait.word, kind, &frames),
                waited_ns,
                holder,
                held_by: holder.map(|holder| thread(process, holder)),
                is_join,
                is_timed: wait.is_timed,
                stack: frames.iter().map(ToString::to_string).collect(),
            });
        }
    }
    all.sort_by_key(|waiting| (std::cmp::Reverse(waiting.waited_ns), waiting.tid));
    all
}

/// The memory at the word now, or when the wait of this thread began if it cannot be read.
fn now_at(process: &Process, tid: u32, wait: &Wait) -> [u32; 8] {
    let mut bytes = [0; 32];
    // The process's first thread may have ended, and has no memory then.
    let path = format!("/proc/{}/task/{tid}/mem", process.pid);
    let read = File::open(path).and_then(|memory| memory.read_exact_at(&mut bytes, wait.word));
    let mut around = wait.around;
    if read.is_ok() {
        for (value, bytes) in around.iter_mut().zip(bytes.chunks_exact(4)) {
            *value = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
    }
    around
}

/// Only waits of this age count in a deadlock. The owner is read from memory now, the record of a wait's end up to 50 ms later, so a
/// younger wait may be over.
const SETTLED_NS: u64 = 100_000_000;

/// The deadlocks: threads of which each waits for a lock that the next one holds, or for its end, and the last one for the first.
pub fn deadlocks(waiting: &[Waiting]) -> Vec<Vec<&Waiting>> {
    let settled = || waiting.iter().filter(|one| one.waited_ns >= SETTLED_NS && !one.is_timed);
    let of: HashMap<(i32, u32), &Waiting> = settled().map(|one| ((one.pid, one.tid), one)).collect();
    let next = |one: &Waiting| of.get(&(one.pid, one.holder?)).copied();
    let mut found: Vec<Vec<&Waiting>> = Vec::new();
    for one in settled() {
        let mut chain = vec![one];
        let mut last = one;
        while let Some(holder) = next(last) {
            if holder.tid == one.tid {
                let is_new =
                    |cycle: &Vec<&Waiting>| !cycle.iter().any(|other| (other.pid, other.tid) == (one.pid, one.tid));
                if found.iter().all(is_new) {
                    found.push(chain);
                }
                break;
            }
            // Another cycle, to which this thread only leads.
            if chain.iter().any(|before| before.tid == holder.tid) {
                break;
            }
            chain.push(holder);
            last = holder;
        }
    }
    found
}

/// The waiting threads and the deadlocks among them, for people.
pub fn text(waiting: &[Waiting]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text, waiting);
    text
}

fn write(to: &mut String, waiting: &[Waiting]) -> std::fmt::Result {
    let each = |to: &mut String, one: &Waiting| {
        let since = crate::table::time(one.waited_ns);
        let waits_for = match &one.held_by {
            Some(ends) if one.is_join => format!("the end of {ends}"),
            Some(holder) => format!("{}, which {holder} holds", one.waits_for),
            None => one.waits_for.clone(),
        };
        writeln!(to, "  {} has waited {since} for {waits_for}", one.thread)?;
        one.stack.iter().try_for_each(|frame| writeln!(to, "      {frame}"))
    };
    for cycle in deadlocks(waiting) {
        match cycle.len() {
            1 => writeln!(to, "\n Deadlock of 1 thread, which waits for itself:\n"),
            threads => writeln!(
                to,
                "\n Deadlock of {threads} threads, each of which waits for the next one, and the last for the first:\n"
            ),
        }?;
        cycle.iter().try_for_each(|one| each(to, one))?;
    }
    match waiting.len() {
        0 => writeln!(to, "\n No thread waits for a futex.\n"),
        1 => writeln!(to, "\n 1 thread waits:\n"),
        number => writeln!(to, "\n {number} threads wait:\n"),
    }?;
    waiting.iter().try_for_each(|one| each(to, one))?;
    writeln!(to)
}

/// The time by the clock of the records.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: stores into `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(tid: u32, holder: Option<u32>) -> Waiting {
        Waiting {
            pid: 1,
            tid,
            thread: tid.to_string(),
            word: 0,
            waits_for: String::new(),
            waited_ns: SETTLED_NS,
            holder,
            held_by: None,
            is_join: false,
            is_timed: false,
            stack: Vec::new(),
        }
    }

    fn cycles(waiting: &[(u32, Option<u32>)]) -> Vec<Vec<u32>> {
        let waiting: Vec<Waiting> = waiting.iter().map(|(tid, holder)| waits(*tid, *holder)).collect();
        deadlocks(&waiting).iter().map(|cycle| cycle.iter().map(|one| one.tid).collect()).collect()
    }

    #[test]
    fn each_cycle_is_found_once_and_no_chain() {
        assert!(cycles(&[(1, Some(2)), (2, Some(3)), (3, None)]).is_empty(), "the last one runs");
        assert!(cycles(&[(1, Some(2)), (2, Some(9))]).is_empty(), "the holder does not wait");
        assert_eq!(cycles(&[(1, Some(1))]), [[1]], "a thread that waits for itself");
        assert_eq!(cycles(&[(5, Some(1)), (1, Some(2)), (2, Some(1)), (6, Some(5))]), [[1, 2]], "others wait for it");
        let two = [(1, Some(2)), (2, Some(3)), (3, Some(1)), (7, Some(8)), (8, Some(7))];
        assert_eq!(cycles(&two), [vec![1, 2, 3], vec![7, 8]]);
        let timed = [Waiting { is_timed: true, ..waits(1, Some(2)) }, waits(2, Some(1))];
        assert!(deadlocks(&timed).is_empty(), "the first one gives up some time");
    }
}
