//! Adds up the records of waits: by process, word and call site.

mod bound;

use crate::past::Past;
use crate::word::{End, WokenBy, Word};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use ufutex_program::ring::{IN_KERNEL, Kind, TIMED};

/// A stack, by the number that the records give it, which follows from its addresses. 0: no stack is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct StackId(pub u64);

/// Everything that is known.
#[derive(Default)]
pub struct Account {
    /// By the order in which they began to write records. A process that executes another program counts as a new one.
    pub processes: BTreeMap<usize, Process>,
    /// What was dropped for lack of room.
    pub dropped: bound::Dropped,
    stacks: HashMap<StackId, Box<[u64]>>,
    /// How many stacks were left when they were last trimmed.
    stacks_kept: usize,
}

/// A process of the program.
#[derive(Default)]
pub struct Process {
    /// Its PID.
    pub pid: i32,
    /// The files that are mapped, the newest last.
    pub mapped: Vec<Mapped>,
    /// By TID.
    pub threads: HashMap<u32, Thread>,
    /// By address.
    pub words: HashMap<u64, Word>,
    /// Number of records that were dropped.
    pub dropped: u64,
    /// The program has overwritten its records.
    pub is_broken: bool,
    /// Time of the first record and of the last one.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// Waits that have ended since the last call of [`Account::take_past`].
    past: Vec<Past>,
    /// The thread that sleeps at each seat: the address of the library's word on which it sleeps.
    seats: HashMap<u64, u32>,
    /// Wakes of seats whose sleepers' records have not been read yet.
    early: HashMap<u64, Waker>,
    /// Wakes that threads have asked the kernel for, by word, at most one for each waiter. The wait that ends next takes the oldest: the
    /// kernel does not say which thread it woke.
    in_kernel: HashMap<u64, VecDeque<Waker>>,
    /// The stack at each of the 4096 places in which the library notes that it has written one. Later records may name it.
    written: HashMap<u64, StackId>,
    /// Number of sites of all words.
    sites: usize,
    /// It has ended, or executed another program.
    is_gone: bool,
}

/// A file in a process's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// The first address.
    pub start: u64,
    /// The address behind the last.
    pub end: u64,
    /// The file's inode.
    pub inode: u64,
    /// The file.
    pub path: PathBuf,
}

/// The operations of glibc's mutexes, for one process and for several, and of its robust ones.
pub const MUTEX_WAITS: [u64; 3] = [PRIVATE, 0, ROBUST];
const PRIVATE: u64 = libc::FUTEX_PRIVATE_FLAG as u64;
/// In place of the operation: a wait of glibc for the end of a thread, whose TID is in the word until then.
pub const JOIN: u64 = 3 << 32;
/// In place of the operation: a wait for a robust mutex of glibc.
pub const ROBUST: u64 = 4 << 32;

/// The operation of a wait in glibc, or [`JOIN`] or [`ROBUST`] if the memory at the word shows one of them. The functions of glibc that
/// wait for these have no names without debug information.
fn told_by_memory(operation: u64, around: &[u32; 8]) -> u64 {
    const JOINS: [u64; 2] =
        [libc::FUTEX_WAIT_BITSET as u64, (libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME) as u64];
    let (word, owner) = (around[0], around[2]);
    let is_robust = word & libc::FUTEX_WAITERS != 0 && word & libc::FUTEX_TID_MASK == owner;
    match operation {
        0 if is_robust && TIDS.contains(&owner) => ROBUST,
        _ if JOINS.contains(&operation) && TIDS.contains(&word) => JOIN,
        _ => operation,
    }
}

/// Where glibc's mutex has its owner, in 32-bit words from its own.
const OWNER_OF_MUTEX: usize = 2;
/// The TIDs that the kernel gives.
const TIDS: std::ops::RangeInclusive<u32> = 1..=1 << 22;

/// Whether this operation of futex(2) waits for a lock with priority inheritance.
pub fn is_pi(operation: u64) -> bool {
    const LOCK_PI: u64 = libc::FUTEX_LOCK_PI as u64;
    const LOCK_PI2: u64 = 13;
    [LOCK_PI, LOCK_PI2].contains(&(operation & !PRIVATE & !(libc::FUTEX_CLOCK_REALTIME as u64)))
}

/// A thread.
#[derive(Default)]
pub struct Thread {
    /// Its last name.
    pub name: String,
    /// Its wait that has not ended.
    pub waits: Option<Wait>,
    /// Time of the last record of it as a sleeper or waker.
    last_ns: u64,
}

/// A wait of a thread.
pub struct Wait {
    /// Address of the word.
    pub word: u64,
    /// Further words, of futex_waitv(2).
    pub others: Box<[u64]>,
    /// When it began.
    pub since_ns: u64,
    /// From where.
    pub stack: StackId,
    /// What the memory at the word was: the word and the seven after it.
    pub around: [u32; 8],
    /// The operation of futex(2); 2^32 for futex_waitv(2), and twice that for futex_wait(2); or [`JOIN`] or [`ROBUST`].
    pub operation: u64,
    /// It has a timeout.
    pub is_timed: bool,
    /// The innermost frame is in glibc.
    pub is_in_libc: bool,
    seat: u64,
    waker: Option<Waker>,
}

/// The thread that ended a wait, and from where.
#[derive(Clone, Copy)]
struct Waker {
    tid: u32,
    stack: StackId,
    at_ns: u64,
    cpu: u64,
}

impl Account {
    /// The return addresses of a stack, the innermost first.
    pub fn stack(&self, id: StackId) -> &[u64] {
        self.stacks.get(&id).map_or(&[], |stack| stack)
    }

    /// Takes the waits that have ended since the last call, with the numbers of their processes.
    pub fn take_past(&mut self) -> Vec<(usize, Past)> {
        let of = |(number, process): (&usize, &mut Process)| {
            let number = *number;
            std::mem::take(&mut process.past).into_iter().map(move |past| (number, past))
        };
        self.processes.iter_mut().flat_map(of).collect()
    }

    /// Notes that the program has overwritten the records of this process.
    pub fn note_broken(&mut self, process: usize) {
        self.processes.entry(process).or_default().is_broken = true;
    }

    /// Notes how many records of this process were dropped.
    pub fn note_dropped(&mut self, process: usize, dropped: u64) {
        self.processes.entry(process).or_default().dropped = dropped;
    }

    /// Notes a record of a process. One that is too short is none that the library writes.
    pub fn note(&mut self, process: usize, kind: Kind, record: &[u64]) {
        let own = match kind {
            Kind::Stack => 1,
            Kind::Begins | Kind::Requeued | Kind::WokeNoneInKernel => 2,
            Kind::Mapped | Kind::Named => 3,
            Kind::Ended => 4,
            Kind::Wakes => 5,
            Kind::WakesInKernel => 6,
            Kind::Sleeps => 10,
        };
        let Some((record, rest)) = record.split_at_checked(own) else { return self.note_broken(process) };
        let process = self.processes.entry(process).or_default();
        match (kind, record) {
            (Kind::Begins, &[time, pid]) => {
                process.pid = pid as i32;
                process.passes(time);
            }
            (Kind::Mapped, &[start, end, inode]) => process.map(start, end, inode, rest),
            (Kind::Named, &[tid, first, last]) => {
                process.threads.entry(tid as u32).or_default().name = name(first, last);
            }
            (Kind::Sleeps, &[time, tid, word, operation, seat, number, ref around @ ..]) => {
                let mut values = [0; 8];
                for (pair, both) in values.chunks_exact_mut(2).zip(around) {
                    (pair[0], pair[1]) = (*both as u32, (both >> 32) as u32);
                }
                let stack = StackId(number);
                let innermost = self.stacks.get(&stack).and_then(|stack| stack.first());
                let is_in_libc = innermost.is_some_and(|at| process.is_in_libc(*at));
                let (is_timed, mut operation) = (operation & TIMED != 0, operation & !TIMED);
                if is_in_libc {
                    operation = told_by_memory(operation, &values);
                }
                let (since_ns, around, others, waker) = (time, values, rest.into(), None);
                let wait = Wait { word, others, since_ns, stack, around, operation, is_timed, is_in_libc, seat, waker };
                process.sleeps(tid as u32, wait);
            }
            (Kind::Requeued, &[word, moved]) => {
                // The records of the waits may come later.
                let word = process.words.entry(word).or_default();
                word.requeues = word.requeues.saturating_add(moved);
            }
            (Kind::Stack, &[number]) => {
                process.written.insert(number >> 52, StackId(number));
                self.stacks.entry(StackId(number)).or_insert_with(|| rest.into());
            }
            (Kind::Wakes, &[time, tid, seat, number, cpu]) => {
                process.wakes(Waker { tid: tid as u32, stack: StackId(number), at_ns: time, cpu }, seat);
            }
            (Kind::WakesInKernel, &[time, tid, word, number, cpu, most]) => {
                process.wakes_in_kernel(
                    Waker { tid: tid as u32, stack: StackId(number), at_ns: time, cpu },
                    word,
                    most,
                );
            }
            (Kind::WokeNoneInKernel, &[tid, word]) => process.woke_none(tid as u32, word),
            (Kind::Ended, &[time, seat, result, cpu]) => process.ended(time, seat, result.cast_signed(), cpu),
            _ => {}
        }
    }
}

/// A thread's name from two words.
fn name(first: u64, last: u64) -> String {
    let bytes = [first.to_ne_bytes(), last.to_ne_bytes()].concat();
    let text = String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    // It goes to a terminal.
    text.replace(char::is_control, "?")
}

impl Process {
    fn passes(&mut self, time: u64) {
        self.first_ns = if self.first_ns == 0 { time } else { self.first_ns.min(time) };
        self.last_ns = self.last_ns.max(time);
    }

    fn sleeps(&mut self, tid: u32, mut wait: Wait) {
        self.passes(wait.since_ns);
        // If the record of its end was dropped, the wait before has ended now.
        self.end(wait.since_ns, tid, End::Other);
        self.meet_owner(&wait);
        let owner = self.owner(&wait, &wait.around);
        self.words.entry(wait.word).or_default().begin(wait.since_ns, owner);
        for other in &wait.others {
            self.words.entry(*other).or_default().begin(wait.since_ns, None);
        }
        self.seats.insert(wait.seat, tid);
        wait.waker = self.early.remove(&wait.seat);
        let thread = self.threads.entry(tid).or_default();
        (thread.last_ns, thread.waits) = (wait.since_ns, Some(wait));
    }

    fn map(&mut self, start: u64, end: u64, inode: u64, path: &[u64]) {
        let bytes: Vec<u8> = path.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
        let path = PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes));
        // `mapped_at` finds no file that is covered by a newer one.
        self.mapped.retain(|old| !(start <= old.start && old.end <= end));
        self.mapped.push(Mapped { start, end, inode, path });
    }

    /// The file that is mapped at an address.
    pub fn mapped_at(&self, at: u64) -> Option<&Mapped> {
        self.mapped.iter().rev().find(|file| (file.start..file.end).contains(&at))
    }

    fn is_in_libc(&self, at: u64) -> bool {
        let name = self.mapped_at(at).and_then(|file| file.path.file_name());
        name.is_some_and(|name| name == "libc.so.6" || name == "libpthread.so.0")
    }

    /// The thread that a lock with priority inheritance, or glibc's mutex or rwlock, names as its owner. `around` is the memory at
    /// the word. glibc's mutexes wait by FUTEX_WAIT; timed locks of them, rwlocks and all else by FUTEX_WAIT_BITSET.
    pub fn owner(&self, wait: &Wait, around: &[u32; 8]) -> Option<u32> {
        if is_pi(wait.operation) {
            return Some(around[0] & libc::FUTEX_TID_MASK).filter(|tid| self.threads.contains_key(tid));
        }
        if wait.operation == JOIN {
            return None;
        }
        // Of `__cur_writer`, from `__wrphase_futex` and from `__writers_futex`.
        const WRITERS: [usize; 2] = [4, 3];
        let places = if MUTEX_WAITS.contains(&wait.operation) { &[OWNER_OF_MUTEX][..] } else { &WRITERS };
        let named = places.iter().map(|place| around[*place]).find(|tid| self.threads.contains_key(tid));
        named.filter(|_| wait.is_in_libc)
    }

    /// The owner that a mutex names may have no records: it has neither waited nor woken another thread.
    fn meet_owner(&mut self, wait: &Wait) {
        let named = match wait.operation {
            operation if is_pi(operation) => wait.around[0] & libc::FUTEX_TID_MASK,
            operation if wait.is_in_libc && MUTEX_WAITS.contains(&operation) => wait.around[OWNER_OF_MUTEX],
            _ => return,
        };
        if TIDS.contains(&named)
            && !self.threads.contains_key(&named)
            && let Ok(name) = std::fs::read_to_string(format!("/proc/{}/task/{named}/comm", self.pid))
        {
            let (name, last_ns) = (name.trim_end().replace(char::is_control, "?"), wait.since_ns);
            self.threads.insert(named, Thread { name, last_ns, ..Thread::default() });
        }
    }

    fn wakes(&mut self, waker: Waker, seat: u64) {
        self.passes(waker.at_ns);
        self.threads.entry(waker.tid).or_default().last_ns = waker.at_ns;
        let sleeper = self.seats.get(&seat).copied();
        if sleeper == Some(waker.tid) {
            return; // the thread is to be polled again
        }
        let sleeper = sleeper.and_then(|tid| self.threads.get_mut(&tid));
        let Some(wait) = sleeper.and_then(|thread| thread.waits.as_mut()) else {
            self.early.insert(seat, waker);
            return;
        };
        wait.waker = Some(waker);
        // Of several words the end of the wait says which was meant.
        if let Some(word) = self.words.get_mut(&wait.word).filter(|_| wait.others.is_empty()) {
            word.wake(waker.at_ns, waker.tid);
        }
    }

    /// Notes wakes of at most `most` waits for a word in the kernel.
    fn wakes_in_kernel(&mut self, waker: Waker, address: u64, most: u64) {
        self.passes(waker.at_ns);
        self.threads.entry(waker.tid).or_default().last_ns = waker.at_ns;
        let Some(word) = self.words.get_mut(&address).filter(|word| word.waiters() != 0) else { return };
        word.wake(waker.at_ns, waker.tid);
        let wakes = self.in_kernel.entry(address).or_default();
        let left = word.waiters().saturating_sub(wakes.len() as u64);
        wakes.extend((0..most.min(left)).map(|_| waker));
    }

    /// Takes back what [`Self::wakes_in_kernel`] has noted last for this thread and word.
    fn woke_none(&mut self, tid: u32, address: u64) {
        let Some(wakes) = self.in_kernel.get_mut(&address) else { return };
        let Some(at_ns) = wakes.iter().rfind(|wake| wake.tid == tid).map(|wake| wake.at_ns) else { return };
        wakes.retain(|wake| (wake.tid, wake.at_ns) != (tid, at_ns));
        if wakes.is_empty() {
            self.in_kernel.remove(&address);
        }
    }

    fn ended(&mut self, time: u64, seat: u64, result: i64, cpu: u64) {
        self.passes(time);
        const ETIMEDOUT: i64 = -(libc::ETIMEDOUT as i64);
        const EINTR: i64 = -(libc::EINTR as i64);
        /// The kernel's own results, of calls that signals have ended.
        const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;
        self.early.remove(&seat);
        let Some(&tid) = self.seats.get(&seat) else { return };
        let Some(wait) = self.threads.get_mut(&tid).and_then(|thread| thread.waits.as_mut()) else { return };
        // The word that has ended the wait comes first.
        if let Some(other) = usize::try_from(result - 1).ok().and_then(|index| wait.others.get_mut(index)) {
            std::mem::swap(&mut wait.word, other);
        }
        if seat & IN_KERNEL != 0 && result >= 0 {
            wait.waker = self.in_kernel.get_mut(&wait.word).and_then(VecDeque::pop_front);
        }
        let waker = wait.waker;
        if let Some(waker) = waker.filter(|_| !wait.others.is_empty() && seat & IN_KERNEL == 0)
            && let Some(word) = self.words.get_mut(&wait.word)
        {
            word.wake(waker.at_ns, waker.tid);
        }
        let end = match result {
            0.. => End::Woken(waker.map(|waker| WokenBy {
                tid: waker.tid,
                stack: waker.stack,
                is_across_cpus: waker.cpu != cpu,
            })),
            ETIMEDOUT => End::TimedOut,
            EINTR => End::Other,
            result if RESTARTS.contains(&result) => End::Other,
            // The word had another value, or the call was refused: the thread has not slept.
            _ => return drop(self.leave(time, tid)),
        };
        self.end(time, tid, end);
    }

    fn end(&mut self, time: u64, tid: u32, end: End) {
        let wait = self.threads.get(&tid).and_then(|thread| thread.waits.as_ref());
        // A thread that holds a lock for good wakes nobody. It may have become known since the wait began.
        let owner =
            wait.filter(|_| end == End::Other).and_then(|wait| Some((wait.word, self.owner(wait, &wait.around)?)));
        if let Some((word, owner)) = owner.and_then(|(word, owner)| Some((self.words.get_mut(&word)?, owner))) {
            word.was_held_by(time, owner);
        }
        let Some(wait) = self.leave(time, tid) else { return };
        let Wait { word, stack, operation, since_ns, .. } = wait;
        self.past.push(Past { tid, word, place: (stack, operation), since_ns, until_ns: time.max(since_ns), end });
        if let Some(word) = self.words.get_mut(&word) {
            let before = word.sites.len();
            word.add(time, tid, (stack, operation), time.saturating_sub(since_ns), end);
            self.sites += word.sites.len() - before;
        }
    }

    /// Takes away a thread's wait, which has ended.
    fn leave(&mut self, time: u64, tid: u32) -> Option<Wait> {
        let wait = self.threads.get_mut(&tid)?.waits.take()?;
        self.seats.remove(&wait.seat);
        for address in wait.others.iter().chain([&wait.word]) {
            let Some(word) = self.words.get_mut(address) else { continue };
            word.leave(time);
            // A wake in the kernel that came too late for a wait belongs to no later one.
            if let Some(wakes) = self.in_kernel.get_mut(address) {
                wakes.drain(..wakes.len().saturating_sub(word.waiters() as usize));
                if wakes.is_empty() {
                    self.in_kernel.remove(address);
                }
            }
        }
        Some(wait)
    }

    /// Ends the waits that have not ended with the process, which was gone at `time`.
    pub fn end_all(&mut self, time: u64) {
        self.is_gone = true;
        self.written.clear();
        self.passes(time);
        let waiting: Vec<u32> =
            self.threads.iter().filter(|(_, thread)| thread.waits.is_some()).map(|(tid, _)| *tid).collect();
        for tid in waiting {
            self.end(time, tid, End::Other);
        }
        if self.sites == 0 {
            // There is nothing to look up. A build may run some hundred thousand such processes.
            (self.mapped, self.threads) = Default::default();
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::word::Sum;

    const SEAT: u64 = 0x7000;
    const WORD: u64 = 0x4000;

    /// A thread of process 1 begins to wait for a word, from this stack.
    pub fn begins(account: &mut Account, tid: u64, word: u64, stack: &[u64], time: u64) {
        let number = written(account, stack);
        account.note(1, Kind::Sleeps, &[time, tid, word, 128, SEAT + tid, number, 2, 0, 0, 0]);
    }

    /// The number of a stack, whose record process 1 writes.
    pub fn written(account: &mut Account, stack: &[u64]) -> u64 {
        let number = stack.iter().fold(0, |number, at| 31 * number + at);
        account.note(1, Kind::Stack, &[&[number], stack].concat());
        number
    }

    /// A thread wakes another one, from this stack.
    pub fn woken(account: &mut Account, tid: u64, waker: u64, stack: &[u64], time: u64) {
        let number = written(account, stack);
        account.note(1, Kind::Wakes, &[time, waker, SEAT + tid, number, 0]);
    }

    /// A thread begins to wait, and ends.
    pub fn waits(account: &mut Account, tid: u64, word: u64, stack: &[u64], times: std::ops::Range<u64>) {
        begins(account, tid, word, stack, times.start);
        ends(account, times.end, tid, 0);
    }

    fn name(of: &str) -> [u64; 2] {
        let mut bytes = [0; 16];
        bytes[..of.len()].copy_from_slice(of.as_bytes());
        [0, 8].map(|at| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight")))
    }

    fn sleeps(account: &mut Account, time: u64, tid: u64, owner: u64) {
        let [first, last] = name("waits");
        account.note(1, Kind::Named, &[tid, first, last]);
        if account.processes.get(&1).is_none_or(|process| process.mapped.is_empty()) {
            let path = name("/x/libc.so.6");
            account.note(1, Kind::Mapped, &[0x100, 0x200, 7, path[0], path[1]]);
        }
        account.note(1, Kind::Stack, &[5, 0x111, 0x222]);
        account.note(1, Kind::Sleeps, &[time, tid, WORD, 128, SEAT + tid, 5, 2, owner, 0, 0]);
    }

    fn wakes(account: &mut Account, time: u64, tid: u64, woken: u64) {
        let [first, last] = name("wakes");
        account.note(1, Kind::Named, &[tid, first, last]);
        account.note(1, Kind::Stack, &[6, 0x333]);
        account.note(1, Kind::Wakes, &[time, tid, SEAT + woken, 6, tid % 2]);
    }

    pub fn ends(account: &mut Account, time: u64, tid: u64, result: i64) {
        account.note(1, Kind::Ended, &[time, SEAT + tid, result.cast_unsigned(), 1]);
    }

    #[test]
    fn wait_has_its_time_its_waker_and_how_it_ended() {
        let mut account = Account::default();
        sleeps(&mut account, 1000, 10, 0);
        sleeps(&mut account, 1100, 11, 0);
        wakes(&mut account, 1500, 20, 10);
        ends(&mut account, 1600, 10, 0);
        ends(&mut account, 2100, 11, -110);
        let process = &account.processes[&1];
        let site = process.words[&WORD].sites.values().next().expect("one stack");
        assert_eq!((site.sum, site.wakes, site.timeouts), (Sum { waits: 2, total_ns: 1600 }, 1, 1));
        assert_eq!(site.across_cpus, 1, "thread 20 has woken on CPU 0 the one that ran on CPU 1");
        let ((waker, stack), sum) = site.wakers.iter().next().expect("one waker");
        assert_eq!((*waker, account.stack(*stack), sum.total_ns), (20, &[0x333][..], 600));
        assert_eq!((process.threads[&10].name.as_str(), process.threads[&20].name.as_str()), ("waits", "wakes"));
        assert!(!process.is_broken && process.threads.values().all(|thread| thread.waits.is_none()));
    }

    #[test]
    fn wake_that_comes_before_the_record_of_the_sleep_belongs_to_it() {
        let mut account = Account::default();
        wakes(&mut account, 1000, 20, 10);
        sleeps(&mut account, 1001, 10, 0);
        ends(&mut account, 1002, 10, 0);
        // A late one, of a wait that has ended, belongs to no later wait.
        wakes(&mut account, 1003, 21, 10);
        ends(&mut account, 1004, 10, 0);
        sleeps(&mut account, 2000, 10, 0);
        ends(&mut account, 3000, 10, 0);
        let site = account.processes[&1].words[&WORD].sites.values().next().expect("one stack");
        assert_eq!(site.wakers.keys().map(|(tid, _)| *tid).collect::<Vec<_>>(), [20]);
        assert_eq!(site.sum.waits, 2);
    }

    #[test]
    fn wake_in_the_kernel_belongs_to_a_wait_that_was_under_way() {
        let mut account = Account::default();
        let begins = |account: &mut Account, time, tid| {
            account.note(1, Kind::Sleeps, &[time, tid, WORD, 0, IN_KERNEL | tid, 0, 0, 0, 0, 0]);
        };
        let wakes = |account: &mut Account, time, tid, most| {
            account.note(1, Kind::WakesInKernel, &[time, tid, WORD, 0, 0, most]);
        };
        let ends = |account: &mut Account, time, tid, result: i64| {
            account.note(1, Kind::Ended, &[time, IN_KERNEL | tid, result.cast_unsigned(), 1]);
        };
        wakes(&mut account, 500, 20, 1); // of nobody
        begins(&mut account, 1000, 10);
        begins(&mut account, 1100, 11);
        wakes(&mut account, 1500, 20, 1);
        ends(&mut account, 1600, 11, 0);
        wakes(&mut account, 1700, 21, 9);
        ends(&mut account, 1800, 10, -110);
        begins(&mut account, 2000, 10);
        ends(&mut account, 2001, 10, -11); // another value: no wait
        begins(&mut account, 3000, 10);
        ends(&mut account, 3500, 10, 0);
        let site = &account.processes[&1].words[&WORD].sites[&(StackId(0), 0)];
        let wakers: Vec<_> = site.wakers.iter().map(|((tid, _), sum)| (*tid, *sum)).collect();
        assert_eq!(wakers, [(20, Sum { waits: 1, total_ns: 500 })], "21 came too late, and for no later wait");
        assert_eq!((site.sum, site.timeouts), (Sum { waits: 3, total_ns: 1800 }, 1));
        assert!(account.processes[&1].in_kernel.is_empty());
    }

    #[test]
    fn wake_in_the_kernel_that_woke_nobody_ends_no_wait() {
        let mut account = Account::default();
        account.note(1, Kind::Sleeps, &[1000, 10, WORD, 0, IN_KERNEL | 10, 0, 0, 0, 0, 0]);
        account.note(1, Kind::WakesInKernel, &[1500, 20, WORD, 0, 0, 1]);
        account.note(1, Kind::WokeNoneInKernel, &[20, WORD]);
        account.note(1, Kind::WakesInKernel, &[1900, 21, WORD, 0, 0, 1]);
        account.note(1, Kind::Ended, &[2000, IN_KERNEL | 10, 0, 1]);
        let site = &account.processes[&1].words[&WORD].sites[&(StackId(0), 0)];
        assert_eq!(site.wakers.keys().map(|(tid, _)| *tid).collect::<Vec<_>>(), [21]);
    }

    #[test]
    fn call_that_was_refused_is_no_wait() {
        let mut account = Account::default();
        for error in [libc::EAGAIN, libc::EINVAL, libc::EFAULT, libc::EDEADLK, libc::EPERM, libc::ESRCH] {
            sleeps(&mut account, 1000, 10, 0);
            ends(&mut account, 2000, 10, -i64::from(error));
        }
        assert!(account.processes[&1].words[&WORD].sites.is_empty());
        for error in [libc::EINTR, 512, 516] {
            sleeps(&mut account, 1000, 10, 0);
            ends(&mut account, 2000, 10, -i64::from(error));
        }
        assert_eq!(account.sum(), Sum { waits: 3, total_ns: 3000 }, "a signal has ended these");
    }

    #[test]
    fn wake_of_a_wait_for_several_words_is_of_the_word_that_ended_it() {
        let mut account = Account::default();
        account.note(1, Kind::Sleeps, &[1000, 10, WORD, 1 << 32, SEAT + 10, 0, 0, 0, 0, 0, WORD + 8]);
        woken(&mut account, 10, 20, &[0x333], 1500);
        ends(&mut account, 1600, 10, 1);
        let words = &account.processes[&1].words;
        assert_eq!([WORD, WORD + 8].map(|word| words[&word].held_ns.contains_key(&20)), [false, true]);
    }

    #[test]
    fn owner_is_a_thread_that_the_memory_beside_the_word_names() {
        let mut account = Account::default();
        sleeps(&mut account, 400, 20, 0);
        ends(&mut account, 500, 20, 0);
        sleeps(&mut account, 1000, 10, 20);
        wakes(&mut account, 1400, 20, 10);
        ends(&mut account, 1500, 10, 0);
        sleeps(&mut account, 2000, 10, 12_345);
        ends(&mut account, 2100, 10, -4);
        assert_eq!(account.processes[&1].words[&WORD].held_ns, HashMap::from([(20, 400)]), "12345 is no thread");
    }

    #[test]
    fn owner_that_is_seen_only_later_has_held_the_lock_of_which_nobody_was_woken() {
        let mut account = Account::default();
        sleeps(&mut account, 1000, 10, 20);
        assert!(account.processes[&1].words[&WORD].held_ns.is_empty(), "20 is no thread yet");
        sleeps(&mut account, 1100, 20, 10);
        account.processes.values_mut().for_each(|process| process.end_all(2000));
        let held = &account.processes[&1].words[&WORD].held_ns;
        assert!(held.contains_key(&20) || held.contains_key(&10), "{held:?}");
        assert_eq!(held.values().sum::<u64>(), 1000);
    }

    #[test]
    fn file_that_a_newer_one_covers_is_found_no_more_and_takes_no_room() {
        let mut account = Account::default();
        let mut maps = |start, end, path| {
            let path = name(path);
            account.note(1, Kind::Mapped, &[start, end, 7, path[0], path[1]]);
            account.processes[&1].mapped.len()
        };
        assert_eq!((maps(0x100, 0x300, "/old"), maps(0x200, 0x300, "/newer")), (1, 2));
        assert_eq!((maps(0x200, 0x300, "/newer"), maps(0x200, 0x400, "/newest")), (2, 2));
        let at = |at| account.processes[&1].mapped_at(at).and_then(|file| file.path.to_str());
        assert_eq!((at(0x1ff), at(0x200), at(0x400)), (Some("/old"), Some("/newest"), None));
    }

    #[test]
    fn wait_that_has_not_ended_ends_with_the_program_or_the_thread_s_next_one() {
        let mut account = Account::default();
        sleeps(&mut account, 1000, 10, 0);
        sleeps(&mut account, 1700, 10, 0);
        account.processes.values_mut().for_each(|process| process.end_all(2000));
        let site = account.processes[&1].words[&WORD].sites.values().next().expect("one stack");
        assert_eq!((site.sum, site.wakes), (Sum { waits: 2, total_ns: 1000 }, 0));
    }

    #[test]
    fn records_that_the_library_does_not_write_mark_the_process() {
        for (kind, record) in [
            (Kind::Begins, &[][..]),
            (Kind::Requeued, &[1]),
            (Kind::Mapped, &[1, 2]),
            (Kind::Sleeps, &[1; 9]),
            (Kind::Wakes, &[1; 4]),
            (Kind::Stack, &[]),
            (Kind::Ended, &[1; 3]),
            (Kind::WakesInKernel, &[1; 5]),
            (Kind::Named, &[1; 2]),
        ] {
            let mut account = Account::default();
            account.note(1, kind, record);
            assert!(account.processes[&1].is_broken, "{kind:?}");
        }
        // Any numbers may stand in the others.
        let mut account = Account::default();
        for kind in
            [Kind::Begins, Kind::Mapped, Kind::Stack, Kind::Sleeps, Kind::Wakes, Kind::Ended, Kind::Sleeps, Kind::Ended]
        {
            for value in [0, 1, u64::MAX] {
                let len = if kind == Kind::Ended { 4 } else { 20 };
                account.note(1, kind, &vec![value; len]);
            }
        }
        account.processes.values_mut().for_each(|process| process.end_all(0));
    }
}
