//! `--cpu`: how much CPU time the attackers' threads get, burning and attacking.
//!
//! A thread is stopped by a signal, whose handler waits until the thread may go on. So the thread stops at any of its
//! instructions, as a thread that loses its CPU, maybe with a lock of the engine held. That takes no rights and no
//! control group, and no thread stops inside the kernel.

use anyhow::{Result, ensure};
use lab_measure::machine;
use std::hash::{BuildHasher, RandomState};
use std::hint::spin_loop;
use std::io::Error;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use strum::{Display, EnumMessage, EnumString, IntoStaticStr, VariantArray};

/// How much CPU time the attackers get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Cpu {
    /// All of their CPUs
    Full,
    /// 10 ms of each 100 ms
    Rationed,
    /// What SCHED_IDLE leaves them beside a busy loop on each of their CPUs
    Idle,
    /// None after the first moment of a sample
    Stopped,
}

/// How long rationed threads run, and how long they are stopped then.
const RUN: Duration = Duration::from_millis(10);
const STOP: Duration = Duration::from_millis(90);

/// 1 while the threads that have got the signal are to wait in its handler, else 0.
static STOPPED: AtomicU32 = AtomicU32::new(0);

/// A real-time signal, which nothing else here uses.
fn signal() -> libc::c_int {
    libc::SIGRTMAX() - 1
}

/// The handler. It only makes calls that a handler may make.
extern "C" fn wait_while_stopped(_: libc::c_int) {
    // SAFETY: the place of this thread's errno, which no other thread uses.
    let errno = unsafe { &mut *libc::__errno_location() };
    let before = *errno;
    // [Lc]
    while STOPPED.load(Ordering::Acquire) == 1 {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel reads the word, which is static. There is no timeout.
        unsafe { libc::syscall(libc::SYS_futex, STOPPED.as_ptr(), operation, 1, null::<libc::timespec>()) };
    }
    *errno = before;
}

/// Threads of the attackers, by their TIDs: their own, and their drivers' that deliver expired timers.
#[derive(Clone, Default)]
pub struct Threads(Arc<Mutex<Vec<libc::pid_t>>>);

impl Threads {
    /// Adds the calling thread.
    pub fn add(&self) {
        // SAFETY: the call takes nothing and changes nothing.
        let tid = unsafe { libc::gettid() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(tid);
        // A driver's thread has blocked all signals. It is not stopped before it has unlocked the list.
        // SAFETY: all zeroes is an empty set, which `sigemptyset` sets anyway. The calls use it while it is there.
        unsafe {
            let mut stop: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut stop);
            libc::sigaddset(&mut stop, signal());
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &stop, std::ptr::null_mut());
        }
    }

    fn each(&self, mut call: impl FnMut(libc::pid_t)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|tid| call(*tid));
    }

    /// Sets the policy of all threads.
    fn schedule(&self, policy: libc::c_int) -> Result<()> {
        let mut are_set = true;
        let none = libc::sched_param { sched_priority: 0 };
        // SAFETY: the kernel reads `none`, and changes how a thread is scheduled.
        self.each(|tid| are_set &= unsafe { libc::sched_setscheduler(tid, policy, &none) } == 0);
        ensure!(are_set, "cannot set the policy of an attacker: {}", Error::last_os_error());
        Ok(())
    }
}

/// A stop of threads. They go on when it is dropped.
struct Stop;

impl Stop {
    fn of(threads: &Threads) -> Self {
        STOPPED.store(1, Ordering::Release); // [Lc]
        // SAFETY: the calls take numbers. Each thread is one of this process, or has ended, and then nothing happens.
        threads.each(|tid| _ = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal()) });
        Self
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        STOPPED.store(0, Ordering::Release); // [Lc]
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word is static.
        unsafe { libc::syscall(libc::SYS_futex, STOPPED.as_ptr(), operation, i32::MAX) };
    }
}

impl Cpu {
    /// Gives the threads their share of CPU time for `length`. They all have their whole share again when it returns.
    /// It ends by time alone: the neighbour may be stuck until then.
    pub fn ration(self, threads: &Threads, cpus: &[usize], length: Duration) -> Result<()> {
        if self == Self::Full {
            return Ok(());
        }
        let begin = Instant::now();
        let sleep = |time: Duration| std::thread::sleep(time.min(length.saturating_sub(begin.elapsed())));
        // The threads lose their CPUs at another moment in each sample.
        let moment = RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
        sleep(RUN.min(length / 10).mul_f64(moment));
        match self {
            Self::Full => {}
            Self::Rationed | Self::Stopped => {
                install()?;
                while begin.elapsed() < length {
                    let stop = Stop::of(threads);
                    sleep(if self == Self::Stopped { length } else { STOP });
                    drop(stop);
                    sleep(RUN);
                }
            }
            Self::Idle => {
                let over = AtomicBool::new(false);
                let busy = |cpu: usize| {
                    machine::pin(cpu);
                    while !over.load(Ordering::Relaxed) {
                        spin_loop();
                    }
                };
                std::thread::scope(|scope| {
                    cpus.iter().for_each(|cpu| _ = scope.spawn(|| busy(*cpu)));
                    let is_set = threads.schedule(libc::SCHED_IDLE);
                    sleep(length);
                    over.store(true, Ordering::Relaxed);
                    is_set
                })?;
                // A user without rights may not. Then the threads stay as they are, and have their CPUs to themselves.
                let _ = threads.schedule(libc::SCHED_OTHER);
            }
        }
        Ok(())
    }
}

/// Installs the handler.
fn install() -> Result<()> {
    // SAFETY: all zeroes is a valid `sigaction`, with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = wait_while_stopped as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler has the type that a handler without SA_SIGINFO has.
    let failed = unsafe { libc::sigaction(signal(), &action, std::ptr::null_mut()) } != 0;
    ensure!(!failed, "cannot handle signal {}: {}", signal(), Error::last_os_error());
    Ok(())
}
