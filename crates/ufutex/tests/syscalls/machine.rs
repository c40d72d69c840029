//! What runs the calls: futex(2) itself or the engine, behind one face.
//!
//! A [`Machine`] has memory and threads. A [`Thread`] is a thread of this process that makes the calls it is told to, so
//! that a test can have several, each with a number of its own, and look at those that sleep.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::call::Call;
use crate::common::PATIENCE;
use crate::common::arena::Arena;
use crate::common::asleep::{thread_id, until};
use crate::memory::{Memory, Word};

/// How a sleeping thread is disturbed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interruption {
    /// By a signal whose handler was set without `SA_RESTART`.
    Handler,
    /// By a signal whose handler was set with `SA_RESTART`.
    RestartingHandler,
    /// By something that no handler runs for: it is stopped and continued.
    NoHandler,
}

/// The kernel or the engine.
pub trait System: Send + Sync {
    /// Makes the calling thread one of the system's.
    fn enter(&self, memory: &'static Arena) -> Arc<dyn Seat>;

    /// Why a thread cannot have a real-time priority here, if it cannot.
    fn lacks_priorities(&self) -> Option<String> {
        None
    }

    /// The number of a thread of the kernel's own, or why there is none here.
    fn kernel_thread(&self) -> Result<u32, String>;

    /// Why a thread cannot be interrupted without a handler here, if it cannot.
    fn lacks_stops(&self) -> Option<String> {
        None
    }
}

/// A thread's place in its system.
pub trait Seat: Send + Sync {
    /// Makes a call. On the thread itself.
    fn call(&self, call: Call) -> isize;

    /// Ends the thread as far as the system is concerned: its locks are given up. On the thread itself.
    fn leave(&self);

    /// Whether the thread sleeps in this call. On any thread, like all that follows.
    fn is_asleep_in(&self, call: Call) -> bool;

    /// Whether the thread sleeps in restart_syscall(2).
    fn is_asleep_again(&self) -> bool;

    /// Disturbs the thread, and returns when it has noticed.
    fn interrupt(&self, how: Interruption);

    /// Gives it a real-time priority from 1 to 99, or none with 0.
    fn set_priority(&self, priority: u8);

    /// Its real-time priority, with what others lend it.
    fn priority(&self) -> u8;
}

/// Whether calls say that nobody else shares their words, and whether that is so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    Private,
    Shared,
}

pub struct Machine {
    system: Arc<dyn System>,
    sharing: Sharing,
    memory: Memory,
}

impl Deref for Machine {
    type Target = Memory;
    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl Machine {
    pub fn new(system: Arc<dyn System>, sharing: Sharing) -> Self {
        Self { system, sharing, memory: Memory::new() }
    }

    pub fn is_private(&self) -> bool {
        self.sharing == Sharing::Private
    }

    /// A word of the kind that this machine's calls say it is.
    pub fn word(&self, value: u32) -> Word {
        match self.sharing {
            Sharing::Private => self.private_word(value),
            Sharing::Shared => self.twin_words(value)[0],
        }
    }

    pub fn words<const N: usize>(&self, value: u32) -> [Word; N] {
        std::array::from_fn(|_| self.word(value))
    }

    /// A thread that waits for calls to make.
    pub fn thread(&self) -> Thread {
        let (system, memory) = (self.system.clone(), self.arena());
        let (tell, told) = channel();
        let (jobs, its_jobs) = channel::<(Call, Sender<isize>)>();
        let open = Arc::new(AtomicUsize::new(0));
        let its_open = open.clone();
        let handle = std::thread::spawn(move || {
            let seat = system.enter(memory);
            let _ = tell.send((thread_id() as u32, seat.clone()));
            for (call, answer) in its_jobs {
                let result = seat.call(call);
                let _ = answer.send(result);
                its_open.fetch_sub(1, SeqCst);
            }
            seat.leave();
        });
        let (tid, seat) = told.recv().expect("the thread runs");
        Thread { tid, seat, jobs, open, handle }
    }

    pub fn threads<const N: usize>(&self) -> [Thread; N] {
        std::array::from_fn(|_| self.thread())
    }

    /// Threads that have ended leave numbers that nobody has: for a while, since numbers are given out in turn.
    pub fn dead_tid(&self) -> u32 {
        let thread = self.thread();
        let tid = thread.tid();
        thread.exit();
        tid
    }

    /// Whether threads can have real-time priorities here; if not, says why not.
    pub fn has_priorities(&self) -> bool {
        is_possible(self.system.lacks_priorities())
    }

    /// The number of a thread of the kernel's own; if there is none, says why not.
    pub fn kernel_thread(&self) -> Option<u32> {
        let thread = self.system.kernel_thread();
        is_possible(thread.as_ref().err().cloned()).then(|| thread.ok()).flatten()
    }

    /// Whether threads can be interrupted without a handler here; if not, says why not.
    pub fn has_stops(&self) -> bool {
        is_possible(self.system.lacks_stops())
    }
}

fn is_possible(lack: Option<String>) -> bool {
    if let Some(reason) = &lack {
        println!("skipped: {reason}");
    }
    lack.is_none()
}

/// A thread. When it is dropped it ends, once it has made the calls that it was given.
pub struct Thread {
    tid: u32,
    seat: Arc<dyn Seat>,
    jobs: Sender<(Call, Sender<isize>)>,
    /// How many calls it has been given and has not made yet.
    open: Arc<AtomicUsize>,
    handle: JoinHandle<()>,
}

impl Thread {
    /// The number that stands for the thread in a PI futex.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Has it make a call. Whether that will block is left open.
    pub fn start(&self, call: Call) -> Pending<'_> {
        let (answer, result) = channel();
        self.open.fetch_add(1, SeqCst);
        self.jobs.send((call, answer)).expect("the thread takes calls");
        Pending { thread: self, call, result }
    }

    /// Has it make a call that must return, and returns its result.
    #[track_caller]
    pub fn call(&self, call: Call) -> isize {
        self.start(call).finish()
    }

    /// Has it make a call that must block, and returns when it is asleep.
    #[track_caller]
    pub fn begin(&self, call: Call) -> Pending<'_> {
        let pending = self.start(call);
        pending.until_asleep();
        pending
    }

    fn is_idle(&self) -> bool {
        self.open.load(SeqCst) == 0
    }

    /// Disturbs it; returns when it has noticed.
    pub fn interrupt(&self, how: Interruption) {
        self.seat.interrupt(how);
    }

    pub fn set_priority(&self, priority: u8) {
        self.seat.set_priority(priority);
    }

    pub fn priority(&self) -> u8 {
        self.seat.priority()
    }

    /// Waits until its priority is this. A thread that was lent it gives it back only when it runs.
    #[track_caller]
    pub fn until_priority_is(&self, priority: u8) {
        until("the priority changes", || self.priority() == priority);
    }

    /// Ends it, and returns when all that its system does about that is done.
    #[track_caller]
    pub fn exit(self) {
        drop(self.jobs);
        until("the thread ends", || self.handle.is_finished());
        self.handle.join().expect("a thread does not panic");
    }
}

/// A call that has not returned, as far as is known.
pub struct Pending<'t> {
    thread: &'t Thread,
    call: Call,
    result: Receiver<isize>,
}

impl Pending<'_> {
    /// The result, which must come.
    #[track_caller]
    pub fn finish(self) -> isize {
        match self.result.recv_timeout(PATIENCE) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => panic!("{:x?} does not return", self.call),
            Err(RecvTimeoutError::Disconnected) => panic!("the thread has panicked in {:x?}", self.call),
        }
    }

    /// The result, if the call has returned. It is told once.
    #[track_caller]
    pub fn result(&self) -> Option<isize> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("the thread has panicked in {:x?}", self.call),
        }
    }

    fn is_asleep(&self) -> bool {
        self.thread.seat.is_asleep_in(self.call)
    }

    #[track_caller]
    fn assert_pending(&self) {
        if let Some(result) = self.result() {
            panic!("{:x?} should block, but returned {result}", self.call);
        }
    }

    #[track_caller]
    fn until(&self, condition: impl Fn() -> bool) {
        let begin = std::time::Instant::now();
        while !condition() {
            self.assert_pending();
            assert!(begin.elapsed() < PATIENCE, "{:x?} neither sleeps nor returns", self.call);
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Waits until the thread sleeps in the call.
    #[track_caller]
    pub fn until_asleep(&self) {
        self.until(|| self.is_asleep());
    }

    /// Waits until the thread sleeps in the call, or the call has returned: for one that may do so at any time.
    #[track_caller]
    pub fn until_asleep_or_over(&self) {
        until("the call blocks or returns", || self.thread.is_idle() || self.is_asleep());
    }

    /// Waits until the thread sleeps in restart_syscall(2).
    #[track_caller]
    pub fn until_asleep_again(&self) {
        self.until(|| self.thread.seat.is_asleep_again());
    }

    /// Checks that the call sleeps on. Who was woken is no longer asleep at once; the second look is for who was told
    /// later than the waker's call returned.
    #[track_caller]
    pub fn stays_asleep(&self) {
        for _ in 0..2 {
            self.assert_pending();
            // An engine's thread may be up for a moment without having been woken by the test.
            self.until_asleep();
            std::thread::yield_now();
        }
        self.assert_pending();
    }
}
