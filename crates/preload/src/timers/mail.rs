//! Expired timers on their way to the program, as signals.
//!
//! In the kernel, a timer's signal is queued at most once. When it is delivered, its overrun is computed and the timer
//! continues; a signal of a timer that has been set again or deleted meanwhile is dropped. Signals that a process sends
//! to itself do not work like that: two signals of one number below SIGRTMIN become one, the number of others is
//! limited, and they are delivered even if the timer is set again or deleted. So the notices of expired timers wait
//! here in lines, one for each number and receiver (the process, or a thread). The signal is only a *bell*: it says
//! that there are notices. Each line has at most one bell on its way. When the bell arrives, [`arrive`] takes the first
//! notice that is still valid, writes it into the signal's information, and rings for the next. It is called before
//! each of the program's handlers, and by sigwait(3) and its family.
//!
//! Some signals are not seen there: a signal may be read from a signalfd, or ignored. So the driver's thread checks
//! whether a bell is still pending, half an interval after it was rung and then from time to time. If it is not
//! pending, its notice has been delivered, and is taken. Then an interval timer continues with its next deadline. So
//! nothing is lost as long as the program reads in time, and expiries that it does not read in time become overruns.
//! Half an interval is later than handlers take, and early enough for the next deadline.
//!
//! If the program calls timer_getoverrun(2), that call makes the same check for one timer before it returns.
//!
//! A signal for the process goes to a running thread, if there is one. The kernel's own timers do the same, because
//! their signals come from the interrupt of a clock (`running.rs`).
//!
//! A bell may be on its way from the kernel to [`arrive`] when the thread checks. That does no harm: the outcomes of
//! the last notices are remembered by the bells' numbers, and the handler gets its outcome when the bell arrives.

use core::cell::UnsafeCell;
use core::mem::{ManuallyDrop, MaybeUninit, offset_of};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::io::Write;
use std::vec::Vec;

use ufutex::timer::{Deliver, Notice, Notify, Timers};

use super::alarm::{NEVER, now};
use super::{Count, Timing, callers, count, running, timing};
use crate::process::SpinLock;
use crate::signals::bit;
use crate::{file, gate, memory, raw};

/// The receiver of expired timers: puts them into the mail of the process.
pub struct Post;

impl Deliver for Post {
    fn expired(&self, _: &Timers, notice: Notice) {
        let Some(timing) = timing() else { return };
        count(Count::Expired, 1);
        match notice.notify() {
            Notify::None => {}
            Notify::Thread { thread: callers::CALLER, .. } => timing.callers.put(notice),
            Notify::Signal { signal, .. } => timing.mail.put(timing, 0, signal, notice),
            Notify::Thread { signal, thread, .. } => timing.mail.put(timing, thread, signal, notice),
        }
    }

    fn has_thread(&self, thread: i32) -> bool {
        // SAFETY: signal 0 is not sent.
        thread == callers::CALLER
            || thread > 0 && unsafe { raw::own(libc::SYS_tgkill, [raw::pid() as u64, thread as u64, 0]) } == 0
    }
}

/// The `siginfo_t` of a timer's signal, as the kernel lays it out, and behind it our own fields, which the kernel
/// passes along.
#[repr(C)]
#[derive(Clone, Copy)]
struct Bell {
    signal: i32,
    errno: i32,
    code: i32,
    _pad: i32,
    timer: i32,
    overrun: i32,
    value: u64,
    private: i32,
    /// The bell's number.
    number: u32,
    /// Marks the bell as ours.
    mark: u64,
    _rest: [u64; 10],
}

const _: () = assert!(size_of::<Bell>() == size_of::<libc::siginfo_t>() && offset_of!(Bell, mark) + 8 <= 48);

/// Signals from this number on are queued: two of them do not become one.
const FIRST_QUEUED: i32 = 32;
/// How many outcomes are remembered.
const REMEMBERED: usize = 32;
/// The pause between checks of a bell, in nanoseconds: the shortest one, and the longest one if the timer's interval is
/// not longer.
const SHORTEST: u64 = 100_000;
const LONGEST: u64 = 1_000_000_000;
/// The same if more notices wait behind the bell: the first pause, and the longest one.
const SOON: u64 = 2_000_000;
const LATER: u64 = 50_000_000;

/// See the top of this file.
pub struct Mail {
    lock: SpinLock,
    /// Guarded by `lock`. Never dropped.
    lines: UnsafeCell<ManuallyDrop<Lines>>,
    /// How many bells are out, or could not be rung. A hint for threads that do not hold the lock.
    rung: AtomicUsize,
    /// The signals below SIGRTMIN whose bells are out. A hint, too.
    standard: AtomicU64,
}

// SAFETY: see the fields.
unsafe impl Sync for Mail {}
// SAFETY: as above.
unsafe impl Send for Mail {}

struct Lines {
    lines: Vec<Line>,
    last: u32,
    /// The last bells that are no longer out, by their numbers, with their outcomes.
    outcomes: [(u32, Outcome); REMEMBERED],
}

#[derive(Clone, Copy)]
enum Outcome {
    /// The bell was seen, and its notice was handled then.
    Seen,
    /// The bell was not seen in time, and its notice was taken. The value is the overrun.
    Unseen(i32),
    /// The bell was not seen in time, and its notice was no longer valid.
    Void,
}

/// The notices for one receiver and signal.
struct Line {
    /// The receiving thread. 0 means the process.
    thread: i32,
    signal: i32,
    waiting: VecDeque<Notice>,
    bell: Option<Rung>,
    /// When to ring again, if the bell could not be rung. `NEVER` otherwise.
    retry_at: u64,
}

/// A bell that is out.
struct Rung {
    notice: Notice,
    number: u32,
    check_at: u64,
    /// The time between the last check and the next.
    pause: u64,
    interval: u64,
}

impl Mail {
    pub const fn new() -> Self {
        let lines = Lines { lines: Vec::new(), last: 0, outcomes: [(0, Outcome::Seen); REMEMBERED] };
        Self {
            lock: SpinLock::new(),
            lines: UnsafeCell::new(ManuallyDrop::new(lines)),
            rung: AtomicUsize::new(0),
            standard: AtomicU64::new(0),
        }
    }

    /// Runs `f` with the lines locked. Call with signals blocked or deferred.
    fn with<R>(&self, f: impl FnOnce(&mut Lines) -> R) -> R {
        let _locked = self.lock.lock();
        // SAFETY: guarded by the lock.
        let lines = unsafe { &mut *self.lines.get() };
        let result = f(lines);
        let out = |line: &&Line| line.bell.is_some() || line.retry_at != NEVER;
        self.rung.store(lines.lines.iter().filter(out).count(), Ordering::Relaxed);
        let standard = |line: &&Line| line.signal < FIRST_QUEUED && line.bell.is_some();
        let signals = lines.lines.iter().filter(standard).fold(0, |signals, line| signals | bit(line.signal));
        self.standard.store(signals, Ordering::Relaxed);
        result
    }

    /// Adds a notice to its line. Called by the driver's thread.
    fn put(&self, timing: &Timing, thread: i32, signal: i32, notice: Notice) {
        self.with(|lines| {
            let at = lines.find_or_add(thread, signal);
            let line = &mut lines.lines[at];
            if line.waiting.len() == line.waiting.capacity() {
                line.waiting.retain(|notice| timing.timers.is_current(notice));
            }
            if line.waiting.try_reserve(1).is_err() {
                return; // an interval timer then stops until it is set again
            }
            line.waiting.push_back(notice);
            let may_be_unseen = line.bell.is_some() && thread == 0 && !line.is_pending();
            match &mut line.bell {
                None => lines.ring(timing, at),
                Some(_) if may_be_unseen => lines.conclude(timing, at),
                Some(bell) => {
                    bell.pause = bell.pause.min(SOON);
                    bell.check_at = bell.check_at.min(now() + SOON);
                }
            }
        });
    }

    /// Checks the bells that are out. Returns when to check again. Called by the driver's thread, which has all signals
    /// blocked.
    pub fn check_bells(&self, timing: &Timing) -> u64 {
        self.with(|lines| {
            let now = now();
            let mut next = NEVER;
            for at in 0..lines.lines.len() {
                let line = &mut lines.lines[at];
                if line.retry_at <= now {
                    lines.ring(timing, at);
                } else if line.bell.as_ref().is_some_and(|bell| bell.check_at <= now) {
                    if line.is_pending() { line.check_later(now) } else { lines.conclude(timing, at) }
                }
                let line = &lines.lines[at];
                next = next.min(line.retry_at).min(line.bell.as_ref().map_or(NEVER, |bell| bell.check_at));
            }
            timing.alarm.set_next_check(next);
            next
        })
    }

    /// Called when the program asks for the timer's overrun. If the timer's bell is out and no longer pending, it has
    /// been delivered. Call with signals blocked or deferred.
    pub fn check_bell_of(&self, timing: &Timing, id: i32) {
        if self.rung.load(Ordering::Relaxed) == 0 {
            return;
        }
        // The kernel reports a signal as pending for a thread only while the thread blocks it.
        let mask = gate::block(u64::MAX);
        self.with(|lines| {
            for at in 0..lines.lines.len() {
                let line = &lines.lines[at];
                if line.bell.as_ref().is_some_and(|bell| bell.notice.id() == id) && !line.is_pending() {
                    lines.conclude(timing, at);
                }
            }
        });
        gate::set_mask(mask);
    }

    /// Called when the timer was set or deleted. Takes back a bell for it that is still pending.
    pub fn withdraw(&self, timing: &Timing, id: i32) {
        if self.rung.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.with(|lines| {
            for at in 0..lines.lines.len() {
                let line = &mut lines.lines[at];
                let is_void = |bell: &Rung| bell.notice.id() == id && !timing.timers.is_current(&bell.notice);
                if line.bell.as_ref().is_some_and(is_void) && line.take_back() {
                    line.bell = None;
                    lines.ring(timing, at);
                }
            }
        });
    }
}

impl Lines {
    fn find_or_add(&mut self, thread: i32, signal: i32) -> usize {
        const MANY: usize = 64;
        if let Some(at) = self.lines.iter().position(|line| line.thread == thread && line.signal == signal) {
            return at;
        }
        if self.lines.len() >= MANY {
            // Threads come and go, so drop the lines that are not in use.
            self.lines.retain(|line| line.bell.is_some() || !line.waiting.is_empty());
        }
        self.lines.push(Line { thread, signal, waiting: VecDeque::new(), bell: None, retry_at: NEVER });
        self.lines.len() - 1
    }

    fn remember(&mut self, number: u32, outcome: Outcome) {
        self.outcomes[number as usize % REMEMBERED] = (number, outcome);
    }

    /// Rings for the first notice in this line that is still valid.
    fn ring(&mut self, timing: &Timing, at: usize) {
        let line = &mut self.lines[at];
        line.retry_at = NEVER;
        // [Pe]: a thread that makes a notice void from here on, or gets the bell, must see that there may be one. The
        // lock of the notice's timer, which `is_current` takes, orders these stores before the loads of later calls.
        // The kernel's lock of the process's signals orders them before the loads of handlers.
        timing.mail.rung.fetch_max(1, Ordering::Relaxed);
        if line.signal < FIRST_QUEUED {
            timing.mail.standard.fetch_or(bit(line.signal), Ordering::SeqCst); // [Pe]
        }
        while let Some(notice) = line.waiting.pop_front() {
            if !timing.timers.is_current(&notice) {
                continue;
            }
            self.last = self.last.wrapping_add(1);
            let first = if line.thread == 0 && timing.alarm.is_this_thread() { running::thread() } else { None };
            let sent = send(line.thread, first, &bell(&notice, line.signal, self.last));
            if sent == -(libc::EAGAIN as isize) {
                // The program's own pending signals have reached the limit.
                line.waiting.push_front(notice);
                line.retry_at = now() + SOON;
                timing.alarm.check_at(line.retry_at);
                return;
            }
            if sent != 0 {
                continue; // the thread has ended, so the expiry has no receiver
            }
            let interval = timing.timers.gettime(notice.id()).map_or(0, |setting| setting.interval.as_nanos() as u64);
            // Nothing depends on the check of a single notice without an interval: it may stay undone until another
            // notice comes.
            let half = if interval == 0 { NEVER } else { interval / 2 };
            let pause = if line.waiting.is_empty() { half.max(SHORTEST) } else { half.clamp(SHORTEST, SOON) };
            let check_at = now().saturating_add(pause);
            line.bell = Some(Rung { notice, number: self.last, check_at, pause, interval });
            timing.alarm.check_at(check_at);
            return;
        }
    }

    /// Handles the bell of this line as delivered without being seen: takes its notice, and rings for the next.
    fn conclude(&mut self, timing: &Timing, at: usize) {
        if let Some(bell) = self.lines[at].bell.take() {
            let taken = timing.timers.take(bell.notice);
            if let Some(expired) = &taken {
                count_delivery(expired.overrun);
            }
            self.remember(bell.number, taken.map_or(Outcome::Void, |expired| Outcome::Unseen(expired.overrun)));
        }
        self.ring(timing, at);
    }

    /// Handles a bell that has arrived. Returns the information for the program, or `None` if it must not see the
    /// signal. If `is_bare`, the signal has lost its information, and any bell of its number matches.
    fn seen(&mut self, timing: &Timing, bell: &Bell, is_bare: bool) -> Option<Bell> {
        let is_it = |line: &Line| {
            line.signal == bell.signal && line.bell.as_ref().is_some_and(|rung| is_bare || rung.number == bell.number)
        };
        let Some(at) = self.lines.iter().position(is_it) else {
            return if is_bare { None } else { self.late(timing, bell) };
        };
        let line = &mut self.lines[at];
        let rung = line.bell.take()?;
        let mut next = Some(rung.notice);
        let mut told = None;
        while let Some(notice) = next {
            if let Some(expired) = timing.timers.take(notice) {
                count_delivery(expired.overrun);
                told = Some(Bell { overrun: expired.overrun, ..self::bell(&notice, bell.signal, 0) });
                break;
            }
            next = line.waiting.pop_front();
        }
        self.remember(rung.number, Outcome::Seen);
        self.ring(timing, at);
        told
    }

    /// Like [`seen`](Self::seen), for a bell that was not seen in time.
    fn late(&mut self, timing: &Timing, bell: &Bell) -> Option<Bell> {
        let (number, outcome) = self.outcomes[bell.number as usize % REMEMBERED];
        let overrun = match outcome {
            // So long ago that its outcome has been overwritten.
            _ if number != bell.number => timing.timers.getoverrun(bell.timer).ok()?,
            Outcome::Unseen(overrun) => overrun,
            Outcome::Seen | Outcome::Void => return None,
        };
        self.remember(bell.number, Outcome::Seen);
        Some(Bell { overrun, ..*bell })
    }
}

impl Line {
    /// Whether the bell is still pending. The calling thread blocks all signals.
    fn is_pending(&self) -> bool {
        if self.thread == 0 {
            let mut pending = 0u64;
            // SAFETY: stores into `pending` the signals pending for the process: this thread blocks all of them.
            unsafe { raw::own(libc::SYS_rt_sigpending, [(&raw mut pending) as u64, 8]) };
            return pending & bit(self.signal) != 0;
        }
        pending_for(self.thread).is_some_and(|pending| pending & bit(self.signal) != 0)
    }

    /// Plans the next check of a bell whose signal is blocked. As long as that does not last long, the checks fall in
    /// the middle between deadlines.
    fn check_later(&mut self, now: u64) {
        if let Some(bell) = &mut self.bell {
            let longest = if self.waiting.is_empty() { LONGEST.max(bell.interval) } else { LATER };
            bell.pause = bell.interval.max(bell.pause.saturating_mul(2)).clamp(SHORTEST, longest);
            bell.check_at = now + bell.pause;
        }
    }

    /// Takes the bell back, if it is pending for the process or for the calling thread. Returns whether it was.
    fn take_back(&self) -> bool {
        const MANY: usize = 64;
        let Some(number) = self.bell.as_ref().map(|bell| bell.number) else { return false };
        let mut others = Vec::new();
        let mut found = false;
        while !found && others.len() < MANY {
            let Some(bell) = take_pending(self.signal) else { break };
            found = bell.mark == raw::COOKIE && bell.number == number;
            if !found {
                others.push(bell);
            }
        }
        for other in &others {
            send(self.thread, None, other);
        }
        found
    }
}

fn count_delivery(overrun: i32) {
    count(Count::Delivered, 1);
    count(Count::Overruns, u64::try_from(overrun).unwrap_or(0));
}

fn bell(notice: &Notice, signal: i32, number: u32) -> Bell {
    let value = match notice.notify() {
        Notify::None => 0,
        Notify::Signal { value, .. } | Notify::Thread { value, .. } => value,
    };
    Bell {
        signal,
        errno: 0,
        code: libc::SI_TIMER,
        _pad: 0,
        timer: notice.id(),
        overrun: 0,
        value,
        private: 0,
        number,
        mark: if number == 0 { 0 } else { raw::COOKIE },
        _rest: [0; 10],
    }
}

/// Sends the bell to a thread, or to the process. In the process, thread `first` gets it unless that thread blocks the
/// signal.
fn send(thread: i32, first: Option<i32>, bell: &Bell) -> isize {
    let (pid, signal, info) = (raw::pid() as u64, bell.signal as u64, core::ptr::from_ref(bell) as u64);
    // SAFETY: reads the information. A process may send itself any signal.
    let to_process = |by: u64| unsafe { raw::own(libc::SYS_rt_sigqueueinfo, [by, signal, info]) };
    if thread != 0 {
        // SAFETY: as above.
        return unsafe { raw::own(libc::SYS_rt_tgsigqueueinfo, [pid, thread as u64, signal, info]) };
    }
    // The kernel accepts any thread's number for a process, and tries that thread first. The thread may have ended by
    // now.
    match first.map(|first| to_process(first as u64)) {
        Some(sent) if sent != -(libc::ESRCH as isize) => sent,
        _ => to_process(pid),
    }
}

fn take_pending(signal: i32) -> Option<Bell> {
    let (set, no_time) = (bit(signal), [0u64; 2]);
    let mut info = MaybeUninit::<Bell>::uninit();
    let (set, time) = ((&raw const set) as u64, (&raw const no_time) as u64);
    // SAFETY: reads the set and the time, and fills in the information if a signal is pending. The information consists
    // of numbers.
    unsafe {
        let taken = raw::own(libc::SYS_rt_sigtimedwait, [set, info.as_mut_ptr() as u64, time, 8]);
        (taken == signal as isize).then(|| info.assume_init())
    }
}

/// The signals that are pending for one thread alone, from the thread's file in /proc.
fn pending_for(thread: i32) -> Option<u64> {
    let mut path = [0u8; 40];
    write!(&mut path[..], "/proc/self/task/{thread}/status\0").ok()?;
    let mut text = [0u8; 4096];
    let pending = file::field(file::read(&path, &mut text)?, "SigPnd")?;
    u64::from_str_radix(pending, 16).ok()
}

/// Called when a signal has reached the program. Returns whether the program is to see it; if so, its information has
/// been brought up to date.
///
/// # Safety
/// `info` is a signal's information, which may be written.
pub unsafe fn arrive(signal: i32, info: *mut libc::siginfo_t) -> bool {
    let Some(timing) = timing() else { return true };
    let bell = info.cast::<Bell>();
    // SAFETY: the caller guarantees it.
    let told = unsafe { &mut *bell };
    let is_ours = told.code == libc::SI_TIMER && told.mark == raw::COOKIE;
    let may_hide_ours = timing.mail.standard.load(Ordering::Relaxed) & bit(signal) != 0;
    if !is_ours && !may_hide_ours {
        return true;
    }
    let mask = gate::block(u64::MAX);
    let is_told = arrive_blocked(timing, signal, told, is_ours);
    gate::set_mask(mask);
    is_told
}

// Apart, because of its clean-ups: see `signals::decide`.
#[inline(never)]
fn arrive_blocked(timing: &Timing, signal: i32, told: &mut Bell, is_ours: bool) -> bool {
    timing.mail.with(|lines| {
        // If there was no memory for its information, a signal arrives without any, as if from an unknown sender.
        let is_bare = !is_ours && told.code == libc::SI_USER && told.timer == 0;
        if !is_ours && !is_bare {
            // Of two pending signals with one number below SIGRTMIN the second is lost, and that may have been our
            // bell.
            lines.ring_again(signal);
            return true;
        }
        match lines.seen(timing, told, is_bare) {
            Some(bell) => {
                *told = Bell { number: 0, mark: 0, ..bell };
                true
            }
            None => is_bare,
        }
    })
}

impl Lines {
    fn ring_again(&self, signal: i32) {
        for line in self.lines.iter().filter(|line| line.signal == signal) {
            if let Some(rung) = &line.bell {
                send(line.thread, None, &bell(&rung.notice, signal, rung.number));
            }
        }
    }
}

/// Like [`arrive`], for a signal that a thread has waited for. `info` is the address of its information, which belongs
/// to the program.
pub fn arrive_at(signal: i32, info: u64) -> bool {
    let Ok(mut bell) = memory::read::<Bell>(info) else { return true };
    // SAFETY: on our own stack.
    let is_told = unsafe { arrive(signal, (&raw mut bell).cast()) };
    if is_told {
        let _same_place = memory::write(info, &bell);
    }
    is_told
}
