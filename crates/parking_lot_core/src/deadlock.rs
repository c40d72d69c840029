//! Finds threads that wait for each other for ever.
//!
//! Each thread keeps a list of the keys that it owns, and notes where it is parked while it is. A thread that is parked
//! at a key waits for all threads that own it. A deadlock is a set of threads in which each one waits, directly or
//! through others, for every other, or one thread that waits for itself. Threads with a timeout are left out, because
//! they will go on.
//!
//! The detector stops no thread to look at all of them. It looks at them twice instead. A thread that is found in the
//! same park at the same key both times has been queued there all the time in between, because each park queues once.
//! So at a moment between the two looks all these threads were queued, and what they own had not changed: a parked
//! thread changes nothing.

use std::collections::HashMap;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use backtrace::Backtrace;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::NodeIndex;
use petgraph::{Directed, Graph};
use ufutex::parking::PlaceRef;

use crate::lot;

/// A thread that will never go on.
#[derive(Debug)]
pub struct DeadlockedThread {
    thread_id: ThreadId,
    backtrace: Backtrace,
}

impl DeadlockedThread {
    /// The thread's ID.
    #[must_use]
    pub fn thread_id(&self) -> ThreadId {
        self.thread_id
    }

    /// The thread's backtrace, taken inside its call of `park`.
    #[must_use]
    pub fn backtrace(&self) -> &Backtrace {
        &self.backtrace
    }
}

/// The detector's data of one thread.
struct Thread(Mutex<State>);

#[derive(Default)]
struct State {
    /// The keys that the thread owns, each as often as the thread has acquired it.
    owns: Vec<usize>,
    /// Where the thread is parked without a timeout. Set only while the place is valid.
    place: Option<PlaceRef>,
    /// The number of times that the thread has parked.
    parks: u64,
    /// Set if the thread has been found in a deadlock: it has to send its report here.
    found: Option<Sender<DeadlockedThread>>,
}

/// All living threads that have owned a key or parked.
static THREADS: Mutex<Vec<Arc<Thread>>> = Mutex::new(Vec::new());

thread_local! {
    static THIS: This = This::register();
}

/// A thread's entry in `THREADS`. It lives as long as the thread.
struct This(Arc<Thread>);

impl This {
    fn register() -> Self {
        let thread = Arc::new(Thread(Mutex::default()));
        hold(&THREADS).push(thread.clone());
        Self(thread)
    }
}

impl Drop for This {
    fn drop(&mut self) {
        hold(&THREADS).retain(|thread| !Arc::ptr_eq(thread, &self.0));
    }
}

/// Locks a mutex, poisoned or not: no code here that can panic with a lock held leaves the value half changed.
fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `f` on the state of the calling thread. `None` means that the thread is ending and its state has been dropped.
fn with_own<R>(f: impl FnOnce(&mut State) -> R) -> Option<R> {
    THIS.try_with(|this| f(&mut hold(&this.0.0))).ok()
}

/// Notes that the calling thread has acquired `key`.
pub fn acquire(key: usize) {
    with_own(|state| state.owns.push(key));
}

/// Notes that the calling thread is about to release `key`. `false` if it has not acquired the key.
pub fn release(key: usize) -> bool {
    with_own(|state| {
        let last = state.owns.iter().rposition(|owned| *owned == key);
        last.map(|last| state.owns.swap_remove(last)).is_some()
    })
    .unwrap_or(true)
}

/// Notes that the calling thread is parked, as long as the result lives.
pub(crate) fn parked(place: PlaceRef, has_timeout: bool) -> IsParked {
    with_own(|state| {
        state.parks += 1;
        state.place = (!has_timeout).then_some(place);
    });
    IsParked
}

/// Marks the calling thread as parked as long as it lives: see [`parked`].
pub(crate) struct IsParked;

impl Drop for IsParked {
    fn drop(&mut self) {
        // The detector reads the place only with the state locked.
        with_own(|state| state.place = None);
    }
}

/// Called after an unpark. If the detector unparked the thread, the thread sends its report and blocks for good.
pub(crate) fn stay_if_found() {
    let Some(Some(sender)) = with_own(|state| state.found.take()) else { return };
    let found = DeadlockedThread { thread_id: std::thread::current().id(), backtrace: Backtrace::new() };
    // The detector waits for this report.
    _ = sender.send(found);
    loop {
        std::thread::park();
    }
}

/// A thread that was parked at the first look.
struct Waiting {
    thread: Arc<Thread>,
    parks: u64,
    key: usize,
    owns: Vec<usize>,
}

/// Finds all deadlocks. Their threads are unparked, report, and block for good. So each deadlock is reported once.
#[must_use]
pub fn check() -> Vec<Vec<DeadlockedThread>> {
    // One check at a time: two at once would each report a part of one deadlock.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = hold(&ONE);
    let waiting = first_look();
    let found = deadlocked(&waiting).into_iter().filter(|threads| {
        // The second look.
        threads.iter().all(|thread| waiting[*thread].is_still())
    });
    let reports = found.map(|threads| threads.into_iter().filter_map(|thread| waiting[thread].report()).collect());
    reports.filter(|report: &Vec<_>| !report.is_empty()).collect()
}

fn first_look() -> Vec<Waiting> {
    let threads = hold(&THREADS).clone();
    let look = |thread: Arc<Thread>| {
        let state = hold(&thread.0);
        let (key, parks, owns) = (state.key()?, state.parks, state.owns.clone());
        drop(state);
        Some(Waiting { thread, parks, key, owns })
    };
    threads.into_iter().filter_map(look).collect()
}

impl State {
    /// The key at which the thread is queued.
    fn key(&self) -> Option<usize> {
        // SAFETY: the place is removed from the state, under the state's lock, before it becomes invalid.
        self.place.and_then(|place| unsafe { lot().key_of(place) })
    }

    fn is_in(&self, waiting: &Waiting) -> bool {
        self.parks == waiting.parks && self.key() == Some(waiting.key)
    }
}

impl Waiting {
    /// Whether the thread is in the same park at the same key as at the first look.
    fn is_still(&self) -> bool {
        hold(&self.thread.0).is_in(self)
    }

    /// Makes the thread send its report and block for good. `None` if another thread unparked it first.
    fn report(&self) -> Option<DeadlockedThread> {
        let (sender, receiver) = mpsc::channel();
        let mut state = hold(&self.thread.0);
        if !state.is_in(self) {
            return None;
        }
        state.found = Some(sender);
        // SAFETY: as in `State::key`.
        let is_ours = state.place.is_some_and(|place| unsafe { lot().unpark_place(place, 0) });
        if !is_ours {
            state.found = None;
            return None;
        }
        drop(state);
        receiver.recv().ok()
    }
}

/// The deadlocks among `waiting`, by index.
fn deadlocked(waiting: &[Waiting]) -> Vec<Vec<usize>> {
    let mut owners: HashMap<usize, Vec<usize>> = HashMap::new();
    for (number, thread) in waiting.iter().enumerate() {
        for key in &thread.owns {
            owners.entry(*key).or_default().push(number);
        }
    }
    let mut graph = Graph::<(), (), Directed, usize>::with_capacity(waiting.len(), waiting.len());
    let nodes: Vec<_> = waiting.iter().map(|_| graph.add_node(())).collect();
    for (number, thread) in waiting.iter().enumerate() {
        for owner in owners.get(&thread.key).into_iter().flatten() {
            graph.update_edge(nodes[number], nodes[*owner], ());
        }
    }
    let is_deadlock =
        |threads: &Vec<NodeIndex<usize>>| threads.len() > 1 || graph.contains_edge(threads[0], threads[0]);
    let components = kosaraju_scc(&graph).into_iter().filter(is_deadlock);
    components.map(|threads| threads.into_iter().map(NodeIndex::index).collect()).collect()
}
