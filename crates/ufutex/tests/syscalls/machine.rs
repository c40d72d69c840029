//! One interface for futex(2) and the engine.
//!
//! A [`Machine`] has memory and threads. A [`Thread`] is a thread of this process that makes the calls that the test
//! sends to it. So a test can have several threads with different TIDs, and observe those that sleep.

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
use crate::common::skipped::skip;
use crate::memory::{Memory, Word};

/// How a sleeping thread is interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interruption {
    /// By a signal whose handler is installed without `SA_RESTART`.
    Handler,
    /// By a signal whose handler is installed with `SA_RESTART`.
    RestartingHandler,
    /// By being stopped and continued, for which no handler runs.
    NoHandler,
}

/// The kernel or the engine.
pub trait System: Send + Sync {
    /// Makes the calling thread a thread of the system.
    fn enter(&self, memory: &'static Arena) -> Arc<dyn Seat>;

    /// The reason why threads cannot have real-time priorities, `None` if they can.
    fn lacks_priorities(&self) -> Option<String> {
        None
    }

    /// The TID of a kernel thread, or the reason why there is none.
    fn kernel_thread(&self) -> Result<u32, String>;

    /// The reason why threads cannot be interrupted without a handler, `None` if they can.
    fn lacks_stops(&self) -> Option<String> {
        None
    }
}

/// The system's side of a thread.
pub trait Seat: Send + Sync {
    /// Makes a call. Runs on the thread itself.
    fn call(&self, call: Call) -> isize;

    /// Exits the thread in the system, which releases its locks. Runs on the thread itself.
    fn leave(&self);

    /// Whether the system has forgotten the thread, which has left and was joined. A kernel forgets it only after the
    /// word that pthread_join(3) waits for has become 0.
    fn is_gone(&self) -> bool;

    /// Whether the thread sleeps in this call. This and the following functions may run on any thread.
    fn is_asleep_in(&self, call: Call) -> bool;

    /// Whether the thread sleeps in restart_syscall(2).
    fn is_asleep_again(&self) -> bool;

    /// Interrupts the thread, and returns when the thread has noticed it.
    fn interrupt(&self, how: Interruption);

    /// Sets the thread's real-time priority, 1 to 99, or none with 0.
    fn set_priority(&self, priority: u8);

    /// The thread's effective real-time priority, including what it inherits.
    fn priority(&self) -> u8;
}

/// Whether the calls have the private flag, and where the words are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// With the flag, in private memory.
    Private,
    /// Without the flag, in a shared object.
    Object,
    /// Without the flag, in private memory.
    AddressSpace,
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

    /// A word in memory that fits the machine's sharing.
    pub fn word(&self, value: u32) -> Word {
        match self.sharing {
            Sharing::Private | Sharing::AddressSpace => self.private_word(value),
            Sharing::Object => self.twin_words(value)[0],
        }
    }

    pub fn words<const N: usize>(&self, value: u32) -> [Word; N] {
        std::array::from_fn(|_| self.word(value))
    }

    /// A new thread, which waits for calls to make.
    pub fn thread(&self) -> Thread {
        let (system, memory) = (self.system.clone(), self.arena());
        let (send, receive) = channel();
        let (jobs, its_jobs) = channel::<(Call, Sender<isize>)>();
        let open = Arc::new(AtomicUsize::new(0));
        let its_open = open.clone();
        let handle = std::thread::spawn(move || {
            let seat = system.enter(memory);
            let _ = send.send((thread_id() as u32, seat.clone()));
            for (call, answer) in its_jobs {
                let result = seat.call(call);
                let _ = answer.send(result);
                its_open.fetch_sub(1, SeqCst);
            }
            seat.leave();
        });
        let (tid, seat) = receive.recv().expect("the thread runs");
        Thread { tid, seat, jobs, open, handle }
    }

    pub fn threads<const N: usize>(&self) -> [Thread; N] {
        std::array::from_fn(|_| self.thread())
    }

    /// The TID of a thread that has ended. The host gives out TIDs in increasing order, so it is not reused for a
    /// while.
    pub fn dead_tid(&self) -> u32 {
        let thread = self.thread();
        let tid = thread.tid();
        thread.exit();
        tid
    }

    /// Whether threads can have real-time priorities. Prints the reason if not.
    pub fn has_priorities(&self) -> bool {
        is_possible(self.system.lacks_priorities())
    }

    /// The TID of a kernel thread. Prints the reason if there is none.
    pub fn kernel_thread(&self) -> Option<u32> {
        let thread = self.system.kernel_thread();
        is_possible(thread.as_ref().err().cloned()).then(|| thread.ok()).flatten()
    }

    /// Whether threads can be interrupted without a handler. Prints the reason if not.
    pub fn has_stops(&self) -> bool {
        is_possible(self.system.lacks_stops())
    }
}

/// Whether nothing is lacking. Prints the reason if something is.
pub fn is_possible(lack: Option<String>) -> bool {
    if let Some(reason) = &lack {
        skip(reason);
    }
    lack.is_none()
}

/// A thread that makes calls. After a drop it makes its remaining calls and ends.
pub struct Thread {
    /// Dropped before `jobs`, while the thread still waits for calls: glibc up to 2.36 at least reads a thread that it
    /// detaches once more after that thread may have freed itself.
    handle: JoinHandle<()>,
    tid: u32,
    seat: Arc<dyn Seat>,
    jobs: Sender<(Call, Sender<isize>)>,
    /// Number of calls that were sent to the thread and have not returned.
    open: Arc<AtomicUsize>,
}

impl Thread {
    /// The TID, as in a PI futex word.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Starts a call, which may block or not.
    pub fn start(&self, call: Call) -> Pending<'_> {
        let (answer, result) = channel();
        self.open.fetch_add(1, SeqCst);
        self.jobs.send((call, answer)).expect("the thread takes calls");
        Pending { thread: self, call, result }
    }

    /// Makes a call that must not block, and returns its result.
    #[track_caller]
    pub fn call(&self, call: Call) -> isize {
        self.start(call).finish()
    }

    /// Starts a call that must block, and returns when the thread is asleep.
    #[track_caller]
    pub fn begin(&self, call: Call) -> Pending<'_> {
        let pending = self.start(call);
        pending.until_asleep();
        pending
    }

    fn is_idle(&self) -> bool {
        self.open.load(SeqCst) == 0
    }

    /// Interrupts the thread, and returns when the thread has noticed it.
    pub fn interrupt(&self, how: Interruption) {
        self.seat.interrupt(how);
    }

    pub fn set_priority(&self, priority: u8) {
        self.seat.set_priority(priority);
    }

    pub fn priority(&self) -> u8 {
        self.seat.priority()
    }

    /// Waits until the effective priority has this value. An inherited priority ends only when the thread runs.
    #[track_caller]
    pub fn until_priority_is(&self, priority: u8) {
        until("the priority changes", || self.priority() == priority);
    }

    /// Ends the thread, and returns when the system has handled the exit.
    #[track_caller]
    pub fn exit(self) {
        let Self { handle, seat, jobs, .. } = self;
        drop(jobs);
        until("the thread ends", || handle.is_finished());
        handle.join().expect("a thread does not panic");
        until("the system forgets the thread", || seat.is_gone());
    }

    /// As [`exit`](Self::exit), for a thread that has replaced the word for which a join waits.
    #[track_caller]
    pub fn exit_unjoined(self) {
        drop(self.jobs);
        until("the system forgets the thread", || self.seat.is_gone());
    }
}

/// A call that was started and may not have returned yet.
pub struct Pending<'t> {
    thread: &'t Thread,
    call: Call,
    result: Receiver<isize>,
}

impl Pending<'_> {
    /// Waits for the result. Fails the test if the call does not return.
    #[track_caller]
    pub fn finish(self) -> isize {
        match self.result.recv_timeout(PATIENCE) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => panic!("{:x?} does not return", self.call),
            Err(RecvTimeoutError::Disconnected) => panic!("the thread has panicked in {:x?}", self.call),
        }
    }

    /// Whether the call has returned.
    pub fn is_over(&self) -> bool {
        self.thread.is_idle()
    }

    /// Takes the result if the call has returned. Afterwards neither this nor [`finish`](Self::finish) has one.
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

    /// Waits until the thread sleeps in the call or the call has returned.
    #[track_caller]
    pub fn until_asleep_or_over(&self) {
        until("the call blocks or returns", || self.is_over() || self.is_asleep());
    }

    /// Waits until the thread sleeps in restart_syscall(2).
    #[track_caller]
    pub fn until_asleep_again(&self) {
        self.until(|| self.thread.seat.is_asleep_again());
    }

    /// Checks that the thread stays asleep in the call. A woken thread is usually not asleep any more. The second check
    /// finds a thread that wakes up only after the waker's call has returned.
    #[track_caller]
    pub fn stays_asleep(&self) {
        for _ in 0..2 {
            self.assert_pending();
            // A thread of the engine may run for a moment without having been woken by the test.
            self.until_asleep();
            std::thread::yield_now();
        }
        self.assert_pending();
    }
}
