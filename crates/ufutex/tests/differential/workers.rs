//! The threads that make the calls, and the controller, which waits until they have come to rest.
//!
//! "At rest" means that every worker is idle or blocked. All workers and the controller are pinned to one CPU. The
//! workers have a higher real-time priority than the controller. A worker that is given a call, and each worker that it
//! wakes, therefore runs until it is done or blocked before the controller runs again. So the controller never needs to
//! wait or poll. The audit checks this against /proc. The exception is a call with an expired timeout, which may sleep
//! for a moment until its timer fires.
//!
//! Where real-time priorities are not permitted, the controller polls /proc after each step, which is slow.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::asleep::thread_id;
use crate::common::kernel::{self, pointer, syscall};
use crate::program::WORKERS;
use crate::resolve::{Raw, Robust};

/// The implementation of the calls: the kernel or the engine.
pub trait Target: Send + Sync {
    /// Makes the call. Runs on the worker's thread. Returns the result or `-errno`.
    fn call(&self, worker: usize, raw: &Raw) -> i64;
    /// Sends the worker a signal whose handler is installed with or without `SA_RESTART`.
    fn signal(&self, worker: usize, sa_restart: bool);
    /// Ends the worker's call.
    fn abandon(&self, worker: usize);
    /// Prepares the exit of the worker's thread. Runs on that thread.
    fn exit(&self, worker: usize, robust: &Robust);
    /// Resizes the hash table.
    fn resize(&self, slots: usize);
}

/// Real-time priority of the controller.
const CONTROLLER_PRIORITY: u8 = 1;
pub const WORKER_PRIORITY: u8 = 10;

/// Limit for the return of a call whose timeout has passed or that has been abandoned.
const PATIENCE: Duration = Duration::from_millis(500);

/// The state that the controller shares with one worker.
#[derive(Default)]
struct Slot {
    /// The futex on which an idle worker sleeps. `1` means that there is an order.
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
    /// Whether real-time priorities guarantee that all workers are at rest when the controller runs.
    is_scheduled: bool,
    /// Number of checks of that guarantee that are left.
    audit: u32,
    /// Number of checks that found a worker awake.
    strays: u32,
    priorities: [u8; WORKERS],
    /// Counts steps, for the watchdog.
    progress: Arc<AtomicU64>,
}

fn futex(word: &AtomicU32, op: i32, value: u32) {
    // SAFETY: a plain wait or wake on a borrowed word.
    unsafe { syscall(libc::SYS_futex, [pointer(word), (op | libc::FUTEX_PRIVATE_FLAG) as u64, value.into(), 0, 0, 0]) };
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
fn set_priority(tid: u32, priority: u8) -> bool {
    kernel::set_priority(tid.cast_signed(), priority).is_ok()
}

fn work(index: usize, slot: &Slot) {
    loop {
        while slot.go.swap(0, Ordering::Acquire) == 0 {
            futex(&slot.go, libc::FUTEX_WAIT, 0);
        }
        let order = std::mem::take(&mut *slot.order.lock().expect("not poisoned"));
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
            send.send(thread_id().cast_unsigned()).expect("the controller waits for it");
            work(index, &its_slot);
        });
        let tid = tid.recv().expect("the worker starts");
        Self { tid, slot, thread: Some(thread.expect("a thread can be started")) }
    }

    fn is_busy(&self) -> bool {
        self.slot.busy.load(Ordering::Acquire)
    }

    fn give(&self, order: Order) {
        *self.slot.order.lock().expect("not poisoned") = order;
        self.slot.busy.store(true, Ordering::Relaxed);
        self.slot.go.store(1, Ordering::Release);
        futex(&self.slot.go, libc::FUTEX_WAKE, 1);
    }

    /// Whether the thread sleeps, according to /proc.
    fn is_asleep(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", self.tid)).expect("the thread lives");
        let state = stat.rsplit(") ").next().expect("the name ends in a parenthesis");
        state.starts_with('S')
    }
}

/// The number of failed checks, of one thousand, up to which the real-time priorities are trusted.
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

    /// The counter of steps.
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
                let changed = set_priority(self.workers[worker].tid, WORKER_PRIORITY + priority);
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

    /// Makes an idle worker make a call. Returns when all workers are at rest.
    pub fn call(&mut self, worker: usize, target: &Arc<dyn Target>, raw: Raw) {
        self.workers[worker].give(Order::Call(target.clone(), raw));
        self.rest();
    }

    /// Ends the thread of an idle worker.
    pub fn exit(&mut self, worker: usize, target: &Arc<dyn Target>, robust: Robust) {
        self.workers[worker].give(Order::Exit(target.clone(), robust));
        let thread = self.workers[worker].thread.take().expect("it lives");
        thread.join().expect("a worker does not panic");
        self.workers[worker].slot.busy.store(false, Ordering::Relaxed);
        self.rest();
    }

    /// Starts a new thread for each worker whose thread has ended.
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

    /// Waits until the worker's call has returned, and returns false if it does not. Only for calls that return without
    /// a further step, when their timer fires.
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

    /// Returns when every worker is idle or blocked.
    pub fn rest(&mut self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
        if !self.is_scheduled {
            self.poll();
        } else if self.audit > 0 {
            self.audit -= 1;
            let is_awake = |worker: &&Worker| worker.thread.is_some() && !worker.is_asleep();
            if let Some(awake) = self.workers.iter().find(is_awake) {
                // A worker can be blocked on the address space's lock while another test of this process maps memory.
                let tid = awake.tid;
                self.strays += 1;
                assert!(self.strays <= STRAYS_MAX, "thread {tid} has not come to rest when the controller runs");
                self.poll();
            }
        }
    }

    /// Waits until two successive scans find every worker asleep with no call returned in between. One scan is not
    /// enough: a worker that it finds asleep may be woken by a worker that it examines later.
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
