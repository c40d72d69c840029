//! The report: words by the time that threads waited for them, with names. Plain data.

use crate::account::{Account, Process, StackId};
use crate::kind::{self, Kind};
use crate::names::{Frame, Names};
use crate::word::{self, Word};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

/// What is known of a word.
pub struct Line {
    /// The process's number in the account.
    pub process: usize,
    /// The process.
    pub pid: i32,
    /// Its address. 0: several words, each of which is a thread's own.
    pub address: u64,
    /// The variable, or its kind and where it is locked.
    pub name: String,
    /// File and line of the variable's definition, if it is one with debug information.
    pub defined_at: Option<String>,
    /// What it is.
    pub kind: Kind,
    /// Threads wait for each other, and not for something to happen.
    pub is_lock: bool,
    /// Waits.
    pub waits: u64,
    /// Their times together, the mean, the 99th percentile and the longest, in nanoseconds.
    pub total_ns: u64,
    /// See `total_ns`.
    pub mean_ns: u64,
    /// See `total_ns`.
    pub p99_ns: u64,
    /// See `total_ns`.
    pub longest_ns: u64,
    /// Most waiters at a time. If each thread has a word of its own: how many threads have waited.
    pub waiters_most: u64,
    /// Waiters on average, while there were any. `None` if each thread has a word of its own.
    pub waiters_mean: Option<f64>,
    /// Waits that were woken, and that ended because their time was up.
    pub wakes: u64,
    /// How many of the wakes were by a thread on another CPU.
    pub wakes_across_cpus: u64,
    /// See `wakes`.
    pub timeouts: u64,
    /// How many waiters were moved to another word. Their waits count for this one.
    pub requeues: u64,
    /// Where threads waited, by time.
    pub sites: Vec<Site>,
    /// The threads that held the lock while others waited, by time. Empty if each thread has a word of its own.
    pub owners: Vec<Owner>,
}

/// Waits from one place.
pub struct Site {
    /// The place, as in the account.
    pub place: word::Place,
    /// Number of waits.
    pub waits: u64,
    /// Their time together, in nanoseconds.
    pub total_ns: u64,
    /// The frames, the innermost first.
    pub stack: Vec<Frame>,
    /// The threads that ended the waits, by time.
    pub wakers: Vec<Waker>,
}

/// A thread that ended waits.
pub struct Waker {
    /// The thread.
    pub thread: String,
    /// Number of waits that it has ended.
    pub waits: u64,
    /// How long they took together, in nanoseconds.
    pub total_ns: u64,
    /// Its frames, the innermost first.
    pub stack: Vec<String>,
    /// The frame in which the program itself wakes.
    pub caller: Option<String>,
}

/// A thread that held the lock while others waited.
pub struct Owner {
    /// The thread.
    pub thread: String,
    /// For how long, in nanoseconds.
    pub held_ns: u64,
    /// From where it has taken the lock, if it had slept for it.
    pub taken_at: Option<Vec<String>>,
}

/// Most wakers of a site, and owners of a word.
const MOST: usize = 10;

/// All words of all processes: locks first, then by time. Words of threads count as one where the threads wait in one place.
pub fn lines(account: &Account, names: &mut Names) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, process) in &account.processes {
        let mut in_places: BTreeMap<String, Gathered<'_>> = BTreeMap::new();
        for (address, word) in &process.words {
            let mut sites: Vec<_> = word.sites.iter().map(|(place, site)| (*place, site)).collect();
            sites.sort_by_key(|(id, site)| (Reverse(site.sum.total_ns), *id));
            let Some(((hottest, operation), _)) = sites.first() else { continue };
            let frames = names.stack(process, account.stack(*hottest));
            let kind = kind::of(&frames, *operation);
            if !kind.is_of_thread {
                let name = name(names, process, *address, kind, &frames);
                lines.push(line(
                    account,
                    names,
                    (*number, process),
                    Gathered { name, kind, sites, words: vec![(*address, word)] },
                ));
                continue;
            }
            for (id, site) in sites {
                let frames = names.stack(process, account.stack(id.0));
                let kind = kind::of(&frames, id.1);
                let name = name(names, process, 0, kind, &frames);
                let new = || Gathered { name: name.clone(), kind, sites: Vec::new(), words: Vec::new() };
                let gathered = in_places.entry(name.clone()).or_insert_with(new);
                gathered.sites.push((id, site));
                if gathered.words.last().is_none_or(|(last, _)| last != address) {
                    gathered.words.push((*address, word));
                }
            }
        }
        for gathered in in_places.into_values() {
            lines.push(line(account, names, (*number, process), gathered));
        }
    }
    let words: Vec<_> = lines.iter().map(|line: &Line| (&account.processes[&line.process], line.address)).collect();
    let places = names.definitions(&words);
    lines.iter_mut().zip(places).for_each(|(line, place)| line.defined_at = place);
    lines.sort_by_key(|line| (!line.is_lock, Reverse(line.total_ns), line.pid, line.address));
    lines
}

/// What becomes one line.
struct Gathered<'a> {
    name: String,
    kind: Kind,
    sites: Vec<(word::Place, &'a word::Site)>,
    words: Vec<(u64, &'a Word)>,
}

fn line(account: &Account, names: &mut Names, (number, process): (usize, &Process), gathered: Gathered<'_>) -> Line {
    let Gathered { name, kind, mut sites, words } = gathered;
    sites.sort_by_key(|(id, site)| (Reverse(site.sum.total_ns), *id));
    let total = |of: fn(&word::Site) -> u64| word::sum(sites.iter().map(|(_, site)| of(site)));
    let (waits, total_ns) = (total(|site| site.sum.waits), total(|site| site.sum.total_ns));
    let (wakes, across_cpus, timeouts) =
        (total(|site| site.wakes), total(|site| site.across_cpus), total(|site| site.timeouts));
    let longest_ns = sites.iter().map(|(_, site)| site.longest_ns).max().unwrap_or(0);
    let mut times = word::no_times();
    // It grows as needed. Without memory for that a time is missing.
    sites.iter().for_each(|(_, site)| _ = times.add(&site.times));
    let threads: HashSet<u32> = sites.iter().flat_map(|(_, site)| &site.threads).copied().collect();
    let passed_on: u64 = sites
        .iter()
        .flat_map(|(_, site)| &site.wakers)
        .filter(|((tid, _), _)| threads.contains(tid))
        .map(|(_, sum)| sum.waits)
        .sum();
    let mut held: BTreeMap<u32, u64> = BTreeMap::new();
    for (tid, ns) in words.iter().flat_map(|(_, word)| &word.held_ns) {
        let held = held.entry(*tid).or_default();
        *held = held.saturating_add(*ns);
    }
    let mut held: Vec<_> = held.into_iter().filter(|(_, ns)| *ns != 0).collect();
    held.sort_by_key(|(_, ns)| Reverse(*ns));
    let mut frames = |id: StackId| names.stack(process, account.stack(id));
    let owners = held.iter().take(MOST).map(|(tid, ns)| {
        let taken_from = words.iter().find_map(|(_, word)| word.taken_from.get(tid));
        let taken_at = taken_from.map(|stack| texts(&frames(*stack)));
        Owner { thread: thread(process, *tid), held_ns: *ns, taken_at }
    });
    let owners = if kind.is_of_thread { Vec::new() } else { owners.collect() };
    let busy_ns = word::sum(words.iter().map(|(_, word)| word.busy_ns));
    Line {
        process: number,
        pid: process.pid,
        // Of several words there is no one address.
        address: if let [(address, _)] = words[..] { address } else { 0 },
        name,
        defined_at: None,
        kind,
        is_lock: kind.is_lock.unwrap_or(passed_on * 2 > wakes),
        waits,
        total_ns,
        mean_ns: total_ns / waits.max(1),
        p99_ns: times.value_at_quantile(0.99).min(longest_ns),
        longest_ns,
        waiters_most: if kind.is_of_thread {
            threads.len() as u64
        } else {
            words.iter().map(|(_, word)| word.most).max().unwrap_or(0)
        },
        waiters_mean: (!kind.is_of_thread).then(|| total_ns as f64 / busy_ns.max(1) as f64),
        wakes,
        wakes_across_cpus: across_cpus,
        timeouts,
        requeues: word::sum(words.iter().map(|(_, word)| word.requeues)),
        sites: sites.iter().map(|(place, of)| site(process, &mut frames, *place, of)).collect(),
        owners,
    }
}

fn site(
    process: &Process,
    frames: &mut impl FnMut(StackId) -> Vec<Frame>,
    place: word::Place,
    of: &word::Site,
) -> Site {
    let mut wakers: Vec<_> = of.wakers.iter().collect();
    wakers.sort_by_key(|(waker, sum)| (Reverse(sum.total_ns), **waker));
    let wakers = wakers.iter().take(MOST).map(|((tid, stack), sum)| {
        let frames = frames(*stack);
        Waker {
            thread: thread(process, *tid),
            waits: sum.waits,
            total_ns: sum.total_ns,
            caller: kind::caller(&frames).map(ToString::to_string),
            stack: texts(&frames),
        }
    });
    let wakers = wakers.collect();
    Site { place, waits: of.sum.waits, total_ns: of.sum.total_ns, stack: frames(place.0), wakers }
}

/// The frames as text.
pub fn texts(frames: &[Frame]) -> Vec<String> {
    frames.iter().map(ToString::to_string).collect()
}

/// The name of a word: the variable, or else where threads wait for it.
pub fn name(names: &mut Names, process: &Process, address: u64, kind: Kind, frames: &[Frame]) -> String {
    match (names.variable(process, address), kind::caller(frames)) {
        (Some(variable), _) => variable.to_string(),
        (None, Some(caller)) => format!("{kind} in {caller}"),
        (None, None) => format!("{kind} at {address:#x}"),
    }
}

/// A thread's name, and its TID.
pub fn thread(process: &Process, tid: u32) -> String {
    match process.threads.get(&tid).map(|thread| thread.name.as_str()) {
        None | Some("") => format!("thread {tid}"),
        Some(name) => format!("{name} ({tid})"),
    }
}
