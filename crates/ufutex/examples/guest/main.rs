//! A user-mode kernel. Its guest makes futex calls by number, against a memory of its own: pages that come when they
//! are touched, and one that never does. The guest's threads are futures, all of them on one thread of the host.
//!
//! `program.rs` is the guest's program, and `output.txt` what the console shows in the end.

mod program;

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake};
use ufutex::{
    Access, Cause, Domain, Fault, System, Task, UserMemory, Width,
    syscall::{Number, Resume, resume},
};

/// One process of the guest.
struct Kernel {
    domain: Domain,
    tasks: BTreeMap<u32, Task>,
    pages: [Option<OnceCell<Page>>; 4], // none: a hole; empty: not touched yet
    runnable: Arc<Mutex<VecDeque<u32>>>,
    console: RefCell<String>,
}

type Page = Box<[AtomicU32; 1024]>;
type Program<'k> = Pin<Box<dyn Future<Output = ()> + 'k>>;

impl Kernel {
    fn new(tids: impl IntoIterator<Item = u32>) -> Self {
        let domain = Domain::new(&System::new());
        let tasks = tids.into_iter().map(|tid| (tid, domain.task(tid).expect("a free TID"))).collect();
        let pages = [None, Some(OnceCell::new()), None, Some(OnceCell::new())];
        Self { domain, tasks, pages, runnable: Arc::default(), console: RefCell::default() }
    }

    fn print(&self, line: String) {
        *self.console.borrow_mut() += &(line + "\n");
    }

    /// The scheduler: runs threads, each for as long as it likes, until all have ended.
    fn run<'k>(&'k self, title: &str, programs: impl IntoIterator<Item = (u32, Program<'k>)>) {
        self.print(format!("# {title}"));
        let mut programs = BTreeMap::from_iter(programs);
        self.runnable.lock().unwrap().extend(programs.keys());
        let next = || self.runnable.lock().unwrap().pop_front();
        while let Some(tid) = next() {
            let waker = Arc::new(Wakes(tid, self.runnable.clone())).into();
            let ends = |program: &mut Program| program.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
            if programs.get_mut(&tid).is_some_and(ends) {
                programs.remove(&tid);
            }
        }
        assert!(programs.is_empty(), "{:?} sleep for ever", programs.keys());
    }

    /// kill(2): ends the call that the thread sleeps in, or its next one.
    fn signal(&self, tid: u32) {
        self.tasks[&tid].interrupt().raise();
        self.runnable.lock().unwrap().push_back(tid);
    }

    fn page(&self, address: u64) -> Result<&OnceCell<Page>, Fault> {
        self.pages.get(address as usize / 4096).and_then(Option::as_ref).ok_or(Fault)
    }

    fn word(&self, address: u64) -> Result<&AtomicU32, Fault> {
        self.page(address)?.get().map(|page| &page[address as usize % 4096 / 4]).ok_or(Fault)
    }
}

/// Makes a thread of the guest runnable.
struct Wakes(u32, Arc<Mutex<VecDeque<u32>>>);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push_back(self.0);
    }
}

/// What the engine needs of the guest's memory. It never waits for a page with anything locked: a load that faults lets
/// go, has the page faulted in, and begins again.
impl UserMemory for Kernel {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        Ok(u64::from(self.word(address)?.load(SeqCst) >> (address % 4 * 8)) & width.max())
    }

    /// Words of 32 bits alone: this guest makes no call that writes anything else.
    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        if width != Width::U32 {
            return Err(Fault);
        }
        let result = self.word(address)?.compare_exchange(current as u32, new as u32, SeqCst, SeqCst);
        Ok(result.map(u64::from).map_err(u64::from))
    }

    fn fault_in(&self, address: u64, _: Access) -> Result<(), Fault> {
        let page = self.page(address).inspect_err(|Fault| self.print(format!("    {address:#x}: no such page")))?;
        self.print(format!("    {address:#x}: a new page of zeroes"));
        page.set(Box::new([const { AtomicU32::new(0) }; 1024])).map_err(|_| Fault)
    }
}

/// A thread of the guest.
#[derive(Clone, Copy)]
struct Thread<'k> {
    kernel: &'k Kernel,
    tid: u32,
}

impl<'k> Thread<'k> {
    fn task(self) -> &'k Task {
        &self.kernel.tasks[&self.tid]
    }

    fn priority(self) -> u8 {
        self.task().priority().as_realtime()
    }

    fn says(self, text: &str) {
        self.kernel.print(format!("{} \"{text}\"", self.tid));
    }

    /// A word, as the CPU reaches it: by a page fault if need be.
    fn word(self, address: u64) -> &'k AtomicU32 {
        self.kernel.word(address).unwrap_or_else(|Fault| {
            self.kernel.fault_in(address, Access::Write).expect("SIGSEGV");
            self.word(address)
        })
    }

    async fn lose_the_cpu(self) {
        let mut turns = 0..1;
        poll_fn(|cx| turns.next().map_or(Poll::Ready(()), |_| (cx.waker().wake_by_ref(), Poll::Pending).1)).await;
    }

    /// The instruction `syscall`, with futex(2)'s number: registers in; out comes a result, or -errno.
    async fn futex(self, address: u64, op: u64, value: u64) -> isize {
        let Thread { kernel, tid } = self;
        let interrupt = self.task().interrupt();
        let mut number = Number::x86_64(202).expect("futex(2)");
        loop {
            let name = ["WAIT", "WAKE", "", "", "", "", "LOCK_PI", "UNLOCK_PI"][op as usize % 8];
            let trace = |result: &str| kernel.print(format!("{tid} futex({address:#x}, {name}, {value}) {result}"));
            let call = kernel.domain.syscall_async(self.task(), kernel, number, [address, op, value, 0, 0, 0]);
            let mut call = pin!(call);
            let result = poll_fn(|context| {
                let state = call.as_mut().poll(context);
                if state.is_pending() && interrupt.is_raised() {
                    return Poll::Ready(call.as_mut().end(Cause::Interrupted));
                }
                if state.is_pending() {
                    trace("sleeps");
                }
                state
            });
            let result = result.await;
            trace(&format!("= {result}"));

            // A signal's handler runs when the call has ended, and it was installed with SA_RESTART.
            let handler = interrupt.is_raised().then_some(true);
            if handler.is_some() {
                interrupt.clear();
                self.task().forget_restart();
                self.says("this is the signal's handler");
            }
            // -512, ERESTARTSYS, is between kernel and engine: the program gets the result of a later try, or EINTR.
            match resume(result, handler) {
                Resume::Return(result) => return result,
                Resume::Again => {}
                Resume::Continue => number = Number::RestartSyscall,
            }
        }
    }
}

/// Runs the guest; answers what is on the console in the end.
pub fn run() -> String {
    fn on<'k>(thread: Thread<'k>, program: impl AsyncFnOnce(Thread<'k>) + 'k) -> (u32, Program<'k>) {
        (thread.tid, Box::pin(async move { program(thread).await }))
    }
    let kernel = Kernel::new(101..=107);
    let thread = |tid| Thread { kernel: &kernel, tid };
    kernel.run("a mutex and a barrier", [101, 102, 103].map(|tid| on(thread(tid), program::adder)));
    let (owner, urgent) = (on(thread(104), program::owner), on(thread(105), program::urgent));
    kernel.run("a lock that lends its owner a priority", [owner, urgent]);
    let (sleeper, ringer) =
        (on(thread(106), program::sleeper), on(thread(107), async |it| program::ringer(it, 106).await));
    kernel.run("a signal, and a hole in the memory", [sleeper, ringer]);
    kernel.console.take()
}

fn main() {
    print!("{}", run());
}
