//! Decodes timer_create(2) and its family.

use super::arguments::{self, Timespec, time};
use super::{as_number, lower_half};
use crate::error::Error;
use crate::sys::mem::{UserMemory, check_access};
use crate::timer::{Caller, CompatTimerCall, CpuClock, Expiry, Notify, Setting, TimerCall, TimerClock, Timers};

/// `TIMER_ABSTIME`. Other flags are ignored.
const TIMER_ABSTIME: u64 = 1;
const PR_TIMER_CREATE_RESTORE_IDS: i32 = 77;

const SIGEV_SIGNAL: i32 = 0;
const SIGEV_NONE: i32 = 1;
const SIGEV_THREAD: i32 = 2;
const SIGEV_THREAD_ID: i32 = 4;

impl Timers {
    /// Makes a system call of `caller`. Returns a result of at least 0, or `-errno`, exactly as the kernel does, with one
    /// exception: with the host's clocks, `timer_create` on a clock of CPU time is `EINVAL` unless
    /// [`TimerOptions::host_pids`](crate::timer::TimerOptions::host_pids) is set. No call blocks.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use ufutex::{FlatMemory, timer::{Caller, Callback, Driver, Expired, TimerCall, Timers}};
    ///
    /// let timers = Timers::new(&Driver::host()?, Arc::new(Callback(|_: &Timers, _: Expired| {})))?;
    /// let caller = Caller { process: 1, thread: 1 };
    /// // SAFETY: the call below names no memory.
    /// let memory = unsafe { FlatMemory::of_this_program() };
    /// let call = TimerCall::x86_64(225).expect("timer_getoverrun(2)");
    /// assert_eq!(timers.syscall(caller, &memory, call, [7, 0, 0, 0, 0, 0]), -22); // EINVAL: there is no timer 7
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    pub fn syscall<M: UserMemory + ?Sized>(
        &self,
        caller: Caller,
        memory: &M,
        call: TimerCall,
        args: [u64; 6],
    ) -> isize {
        let (layout, args) = match call {
            TimerCall::Compat(CompatTimerCall::SettimeTime32 | CompatTimerCall::GettimeTime32) => {
                (Timespec::Narrow, args.map(lower_half))
            }
            TimerCall::Compat(_) => (Timespec::Padded, args.map(lower_half)),
            _ => (Timespec::Wide, args),
        };
        let id = args[0] as i32;
        let result = match call {
            TimerCall::Create | TimerCall::Compat(CompatTimerCall::Create) => {
                self.call_create(caller, memory, layout, args)
            }
            TimerCall::Settime | TimerCall::Compat(CompatTimerCall::SettimeTime32 | CompatTimerCall::SettimeTime64) => {
                self.call_settime(memory, layout, args)
            }
            TimerCall::Gettime | TimerCall::Compat(CompatTimerCall::GettimeTime32 | CompatTimerCall::GettimeTime64) => {
                self.gettime(id).and_then(|setting| write_setting(memory, args[1], layout, setting))
            }
            TimerCall::Getoverrun => self.getoverrun(id).map(|overrun| overrun as isize),
            TimerCall::Delete => self.delete(id).map(|()| 0),
            TimerCall::Prctl | TimerCall::Compat(CompatTimerCall::Prctl) => self.call_prctl(args),
        };
        as_number(result)
    }

    fn call_create<M: UserMemory + ?Sized>(
        &self,
        caller: Caller,
        memory: &M,
        layout: Timespec,
        [clock, event, id_at, ..]: [u64; 6],
    ) -> Result<isize, Error> {
        let notify = if event == 0 { None } else { Some(read_event(memory, event, layout)?) };
        let clock = clock_of(clock as i32, caller)?.and_then(|clock| self.check_served(clock));
        let requested = if self.restores_ids() {
            let mut bytes = [0; 4];
            arguments::read(memory, id_at, &mut bytes)?;
            Some(i32::from_le_bytes(bytes))
        } else {
            None
        };
        self.make(requested, clock, notify, |id| arguments::write(memory, id_at, &id.to_le_bytes()))?;
        Ok(0)
    }

    fn call_settime<M: UserMemory + ?Sized>(
        &self,
        memory: &M,
        layout: Timespec,
        [id, flags, new, old, ..]: [u64; 6],
    ) -> Result<isize, Error> {
        if new == 0 {
            return Err(Error::Invalid);
        }
        let interval = arguments::timespec_fields(memory, new, layout)?;
        let value_at = new.checked_add(layout.size()).ok_or(Error::Fault)?;
        let value = arguments::timespec_fields(memory, value_at, layout)?;
        // Checked when both have been read.
        let (interval, value) = (time(interval)?, time(value)?);
        let first = if flags & TIMER_ABSTIME != 0 { Expiry::At(value) } else { Expiry::After(value) };
        let id = id as i32;
        if old == 0 {
            return self.settime_unasked(id, first, interval).map(|()| 0);
        }
        write_setting(memory, old, layout, self.settime(id, first, interval)?)
    }

    fn call_prctl(&self, [option, restore, rest @ ..]: [u64; 6]) -> Result<isize, Error> {
        if option as i32 != PR_TIMER_CREATE_RESTORE_IDS || rest[..3] != [0; 3] {
            return Err(Error::Invalid);
        }
        match restore {
            0 | 1 => {
                self.restore_ids(restore == 1);
                Ok(0)
            }
            2 => Ok(self.restores_ids().into()),
            _ => Err(Error::Invalid),
        }
    }
}

/// Reads a `struct sigevent`, in which the value of a 32-bit program has 32 bits.
fn read_event<M: UserMemory + ?Sized>(memory: &M, at: u64, layout: Timespec) -> Result<Notify, Error> {
    /// The size of the struct. The kernel checks where all of it lies, and reads only the first part.
    const SIZE: u64 = 64;
    check_access(memory, at, SIZE)?;
    let (value, signal, notify, thread) = if layout == Timespec::Wide {
        let [value, how, thread, ..]: [u64; 8] = arguments::read_words(memory, at)?;
        (value, how as i32, (how >> 32) as i32, thread as i32)
    } else {
        let [first, last] = arguments::read_words(memory, at)?;
        (lower_half(first), (first >> 32) as i32, last as i32, (last >> 32) as i32)
    };
    Ok(match notify {
        SIGEV_NONE => Notify::None,
        SIGEV_SIGNAL | SIGEV_THREAD => Notify::Signal { signal, value },
        SIGEV_THREAD_ID => Notify::Thread { signal, value, thread },
        // Signal 0 does not exist: `make` refuses it, and so the unknown kind.
        _ => Notify::Signal { signal: 0, value },
    })
}

/// The clock with this number. The kernel returns the inner error late: it has written the timer's ID by then.
fn clock_of(number: i32, caller: Caller) -> Result<Result<TimerClock, Error>, Error> {
    Ok(Ok(match number {
        0 => TimerClock::Realtime,
        1 => TimerClock::Monotonic,
        2 => TimerClock::Cpu(CpuClock::Process(caller.process)),
        3 => TimerClock::Cpu(CpuClock::Thread(caller.thread)),
        7 => TimerClock::Boottime,
        11 => TimerClock::Tai,
        // `CLOCK_MONOTONIC_RAW` and the two coarse clocks can be read, but have no timers.
        4..=6 => return Err(Error::UnsupportedClock),
        // Alarm timers, which wake a suspended machine, need a device that this machine does not have.
        8 | 9 => return Ok(Err(Error::UnsupportedClock)),
        ..0 => return cpu_clock_of(number, caller),
        _ => return Err(Error::Invalid),
    }))
}

/// A clock of CPU time: see clock_getcpuclockid(3). The kernel's three kinds of CPU time are one here.
fn cpu_clock_of(number: i32, caller: Caller) -> Result<Result<TimerClock, Error>, Error> {
    const THREAD: i32 = 4;
    const KIND: i32 = 3;
    /// The kind of a clock of a device that is open as a file. With `THREAD` it is no clock.
    const FILE: i32 = 3;
    let owner = !(number >> 3);
    Ok(Ok(TimerClock::Cpu(match (number & THREAD != 0, owner) {
        (false, _) if number & KIND == FILE => return Err(Error::UnsupportedClock),
        (true, _) if number & KIND == FILE => return Ok(Err(Error::Invalid)),
        (true, 0) => CpuClock::Thread(caller.thread),
        (true, owner) => CpuClock::Thread(owner),
        (false, 0) => CpuClock::Process(caller.process),
        // Reading the clock would succeed: clock_gettime(2) takes a thread's own number for its process's.
        (false, owner) if owner == caller.thread && owner != caller.process => return Ok(Err(Error::Invalid)),
        (false, owner) => CpuClock::Process(owner),
    })))
}

fn write_setting<M: UserMemory + ?Sized>(
    memory: &M,
    at: u64,
    layout: Timespec,
    setting: Setting,
) -> Result<isize, Error> {
    let mut bytes = [0; 32];
    let field = layout.size() as usize / 2;
    for (word, time) in core::iter::zip(bytes.chunks_exact_mut(2 * field), [setting.interval, setting.value]) {
        // If the seconds do not fit into a narrow field, their lower bits are written.
        word[..field].copy_from_slice(&time.as_secs().to_le_bytes()[..field]);
        word[field..].copy_from_slice(&u64::from(time.subsec_nanos()).to_le_bytes()[..field]);
    }
    arguments::write(memory, at, &bytes[..4 * field])?;
    Ok(0)
}
