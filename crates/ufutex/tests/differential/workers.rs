//! The threads that make the calls, and how one knows that they have come to rest.
//!
//! All workers and the controller share one CPU. The workers have a real-time priority above the controller's, so that
//! one that is given a call runs at once, as do those that it wakes, each until it is done or blocked. When the
//! controller runs again, everything has come to rest: there is nothing to wait for and nothing to poll. The audit
//! checks that against /proc. Only a call whose time has passed may sleep for the moment until its timer fires.
//!
//! Where real-time priorities are not permitted, /proc is asked each time, which is slow.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::program::WORKERS;
use crate::resolve::{Raw, Robust};

/// What answers the calls: the kernel or the engine.
pub trait Target: Send + Sync {
    /// Makes the call on the worker's thread. Returns what the kernel's ABI says.
    fn call(&self, worker: usize, raw: &Raw) -> i64;
    /// Sends the worker a signal, whose handler is installed with `SA_RESTART` or without.
    fn signal(&self, worker: usize, sa_restart: bool);
    /// Ends the worker's call.
    fn abandon(&self, worker: usize);
    /// What happens when the worker's thread ends; called on that thread, before it does.
    fn exit(&self, worker: usize, robust: &Robust);
    /// Gives the table another size.
    fn resize(&self, slots: usize);
}

/// Real-time priorities. A program's own come on top of the workers'.
const CONTROLLER_PRIORITY: i32 = 1;
pub const WORKER_PRIORITY: i32 = 10;

/// How long a call may take whose time has passed, or that has been abandoned.
const PATIENCE: Duration = Duration::from_millis(500);

/// What the controller and one worker share.
#[derive(Default)]
struct Slot {
    /// 1 when there is a call to make; what an idle worker sleeps on.
    go: AtomicU32,
    /// Set by the controller with `go`, cleared by the worker when the call has returned.
    busy: AtomicBool,
    result: AtomicI64,
    order: Mutex<Order>,
}

#[derive(Default)]
enum Order {
    #[default]
    None,
    Call(Arc<dyn Target>, Raw),
    Exit(Arc<dyn Target>, Robust),
    Stop,
}

struct Worker {
    tid: u32,
    slot: Arc<Slot>,
    thread: Option<JoinHandle<()>>,
}

pub struct Workers {
    workers: Vec<Worker>,
    cpu: usize,
    /// Whether priorities see to it that everything is at rest when the controller runs.
    is_scheduled: bool,
    /// How many more times the above is checked.
    audit: u32,
    /// How often that found a thread awake.
    strays: u32,
    priorities: [u8; WORKERS],
    /// Counts steps, for the watchdog.
    progress: Arc<AtomicU64>,
}

fn futex(word: &AtomicU32, op: i32, value: u32) {
    // SAFETY: a plain wait or wake on a word that lives.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op | libc::FUTEX_PRIVATE_FLAG, value, 0) };
}

/// Pins the calling thread to a CPU.
fn pin(cpu: usize) {
    // SAFETY: zero is an empty set; the set is valid for the call; 0 is the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        let result = libc::sched_setaffinity(0, size_of_val(&set), &set);
        assert_eq!(result, 0, "sched_setaffinity: {}", std::io::Error::last_os_error());
    }
}

/// The last CPU that this process may use.
fn last_cpu() -> usize {
    // SAFETY: the set is valid for the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        (0..libc::CPU_SETSIZE as usize).rfind(|&cpu| libc::CPU_ISSET(cpu, &set)).expect("it runs on one")
    }
}

/// Gives a thread a real-time priority; false if that is not permitted.
fn set_priority(tid: u32, priority: i32) -> bool {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: `param` is valid for the call.
    unsafe { libc::sched_setscheduler(tid.cast_signed(), libc::SCHED_FIFO, &param) == 0 }
}

fn thread_id() -> u32 {
    // SAFETY: gettid(2) has no preconditions.
    unsafe { libc::gettid() }.cast_unsigned()
}

fn work(index: usize, slot: &Slot) {
    loop {
        while slot.go.swap(0, Ordering::Acquire) == 0 {
            futex(&slot.go, libc::FUTEX_WAIT, 0);
        }
        let order = std::mem::take(&mut *slot.order.lock().expect("nobody panics with it"));
        let (target, raw) = match order {
            Order::Call(target, raw) => (target, raw),
            Order::Exit(target, robust) => return target.exit(index, &robust),
            Order::Stop | Order::None => return,
        };
        slot.result.store(target.call(index, &raw), Ordering::Relaxed);
        drop(target);
        slot.busy.store(false, Ordering::Release);
    }
}

impl Worker {
    fn start(index: usize, cpu: usize) -> Self {
        let slot = Arc::new(Slot::default());
        let (send, tid) = mpsc::channel();
        let its_slot = slot.clone();
        let thread = std::thread::Builder::new().name(format!("worker {index}")).spawn(move || {
            pin(cpu);
            send.send(thread_id()).expect("the controller waits for it");
            work(index, &its_slot);
        });
        let tid = tid.recv().expect("the worker starts");
        Self { tid, slot, thread: Some(thread.expect("a thread can be started")) }
    }

    fn is_busy(&self) -> bool {
        self.slot.busy.load(Ordering::Acquire)
    }

    fn give(&self, order: Order) {
        *self.slot.order.lock().expect("nobody panics with it") = order;
        self.slot.busy.store(true, Ordering::Relaxed);
        self.slot.go.store(1, Ordering::Release);
        futex(&self.slot.go, libc::FUTEX_WAKE, 1);
    }

    /// Whether it sleeps, as /proc has it.
    fn is_asleep(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", self.tid)).expect("the thread lives");
        let state = stat.rsplit(") ").next().expect("the name ends in a parenthesis");
        state.starts_with('S')
    }
}

/// More than these of a thousand looks, and priorities are not what orders the threads.
const STRAYS_MAX: u32 = 5;

impl Workers {
    /// Starts the workers, and makes the calling thread the controller.
    pub fn start() -> Self {
        let cpu = last_cpu();
        pin(cpu);
        let workers: Vec<_> = (0..WORKERS).map(|index| Worker::start(index, cpu)).collect();
        let is_scheduled = set_priority(0, CONTROLLER_PRIORITY)
            && workers.iter().all(|worker| set_priority(worker.tid, WORKER_PRIORITY));
        if !is_scheduled {
            let error = std::io::Error::last_os_error();
            eprintln!("slow: sched_setscheduler(SCHED_FIFO) is not permitted here ({error}), so /proc is polled");
        }
        let (audit, priorities) = (1000, [0; WORKERS]);
        let progress = Arc::new(AtomicU64::new(0));
        Self { workers, cpu, is_scheduled, audit, strays: 0, priorities, progress }
    }

    pub fn tids(&self) -> [u32; WORKERS] {
        std::array::from_fn(|worker| self.workers[worker].tid)
    }

    /// Counts steps.
    pub fn progress(&self) -> Arc<AtomicU64> {
        self.progress.clone()
    }

    /// Whether the workers can have priorities.
    pub fn has_priorities(&self) -> bool {
        self.is_scheduled
    }

    /// Gives the workers the priorities of a program.
    pub fn set_priorities(&mut self, priorities: [u8; WORKERS]) {
        for (worker, priority) in priorities.into_iter().enumerate() {
            if self.is_scheduled && self.priorities[worker] != priority {
                let changed = set_priority(self.workers[worker].tid, WORKER_PRIORITY + i32::from(priority));
                assert!(changed, "the priority could be set before");
                self.priorities[worker] = priority;
            }
        }
    }

    pub fn lives(&self, worker: usize) -> bool {
        self.workers[worker].thread.is_some()
    }

    pub fn is_busy(&self, worker: usize) -> bool {
        self.workers[worker].is_busy()
    }

    /// What the worker's last call returned.
    pub fn result(&self, worker: usize) -> i64 {
        self.workers[worker].slot.result.load(Ordering::Relaxed)
    }

    /// Lets an idle worker make a call. Comes back when everything is at rest.
    pub fn call(&mut self, worker: usize, target: &Arc<dyn Target>, raw: Raw) {
        self.workers[worker].give(Order::Call(target.clone(), raw));
        self.rest();
    }

    /// Lets the thread of an idle worker end.
    pub fn exit(&mut self, worker: usize, target: &Arc<dyn Target>, robust: Robust) {
        self.workers[worker].give(Order::Exit(target.clone(), robust));
        let thread = self.workers[worker].thread.take().expect("it lives");
        thread.join().expect("a worker does not panic");
        self.workers[worker].slot.busy.store(false, Ordering::Relaxed);
        self.rest();
    }

    /// Starts a thread for each worker whose thread has ended.
    pub fn replace_the_dead(&mut self) {
        for worker in 0..WORKERS {
            if self.workers[worker].thread.is_none() {
                self.workers[worker] = Worker::start(worker, self.cpu);
                if self.is_scheduled {
                    assert!(set_priority(self.workers[worker].tid, WORKER_PRIORITY), "it could be set before");
                    self.priorities[worker] = 0;
                }
                self.rest();
            }
        }
    }

    /// Waits until the worker's call has returned; false if it doesn't. Only for calls that return by themselves, when
    /// their timer fires.
    pub fn returns(&mut self, worker: usize) -> bool {
        let begin = Instant::now();
        while self.is_busy(worker) {
            if begin.elapsed() > PATIENCE {
                return false;
            }
            std::hint::spin_loop();
        }
        self.rest();
        true
    }

    /// Ends all calls.
    pub fn abandon_all(&mut self, target: &Arc<dyn Target>) {
        for worker in 0..WORKERS {
            if self.is_busy(worker) {
                target.abandon(worker);
                self.rest();
                assert!(self.returns(worker), "the call of worker {worker} cannot be ended");
            }
        }
    }

    /// Comes back when every worker is idle or blocked.
    pub fn rest(&mut self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
        if !self.is_scheduled {
            self.poll();
        } else if self.audit > 0 {
            self.audit -= 1;
            let is_awake = |worker: &&Worker| worker.thread.is_some() && !worker.is_asleep();
            if let Some(awake) = self.workers.iter().find(is_awake) {
                // Once in a while one waits for the address space, which other tests of this process change meanwhile.
                let tid = awake.tid;
                self.strays += 1;
                assert!(self.strays <= STRAYS_MAX, "thread {tid} has not come to rest when the controller runs");
                self.poll();
            }
        }
    }

    /// A worker that sleeps may be about to be woken by one that is looked at later. But if all are found asleep twice,
    /// and nothing has returned between, nobody was awake to wake anybody.
    fn poll(&self) {
        let look = || {
            let asleep = self.workers.iter().all(|worker| worker.thread.is_none() || worker.is_asleep());
            asleep.then(|| self.workers.iter().map(|w| (w.is_busy(), w.slot.go.load(Ordering::Relaxed))).collect())
        };
        let mut last: Option<Vec<_>> = None;
        loop {
            let now = look();
            if now.is_some() && now == last {
                return;
            }
            last = now;
            std::thread::yield_now();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            if !worker.is_busy() && worker.thread.is_some() {
                worker.give(Order::Stop);
                let _ = worker.thread.take().map(JoinHandle::join);
            }
        }
    }
}
