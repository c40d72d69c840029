//! A thread, which makes random calls with random handles.

use std::ffi::c_long;
use std::sync::Arc;

use crate::Storm;
use crate::accounts::Zone;
use crate::calls::Named;
use crate::embedder::{self, WORDS};
use crate::handles::{Entry, Kind};
use crate::random::Random;

pub struct Caller<'s> {
    pub storm: &'s Arc<Storm>,
    pub thread: usize,
    pub random: Random,
    /// Calls since the last report, and how many of them had a bad handle.
    made: u64,
    bad: u64,
}

/// The handles of a call. A function uses those that it takes.
#[derive(Clone, Copy)]
pub struct Handles {
    pub system: u64,
    pub domain: u64,
    pub task: u64,
}

impl<'s> Caller<'s> {
    pub fn new(storm: &'s Arc<Storm>, thread: usize, random: Random) -> Self {
        Self { storm, thread, random, made: 0, bad: 0 }
    }

    /// Handles that are not freed before the end. The task is this thread's.
    fn anchors(&self) -> Handles {
        let anchor = |kind| self.storm.history.anchor(kind);
        let task = self.storm.tasks_of_threads[self.thread].get().unwrap_or(0);
        Handles { system: anchor(Kind::System), domain: anchor(Kind::Domain), task }
    }

    /// Makes a random call, or writes a word.
    pub fn call(&mut self) {
        self.made += 1;
        match self.random.below(100) {
            0..58 => {
                self.bad += 1;
                self.call_badly();
            }
            58..60 => self.invalid_struct(),
            60..90 => self.call_well(),
            90..94 => self.free_something(),
            94..96 => self.make_something(),
            96..98 => self.plain_functions(),
            _ => self.write(),
        }
        if self.made >= 64 {
            self.report();
        }
    }

    /// Adds the calls since the last report to the accounts.
    pub fn report(&mut self) {
        self.storm.accounts.add_calls(std::mem::take(&mut self.made), std::mem::take(&mut self.bad));
    }

    /// Calls a function with one bad handle and otherwise valid arguments. The result must be as the header says.
    fn call_badly(&mut self) {
        use Kind::{Domain, System, Task, Timers, Waiter};
        let kind = self.random.of(&[System, Domain, Domain, Task, Task, Waiter, Timers]);
        let (bad, promised) = self.storm.history.bad(kind, &mut self.random);
        let mut handles = self.anchors();
        let (name, answer) = match kind {
            Kind::System => {
                handles.system = bad;
                if self.random.one_in(4) { self.free(kind, bad) } else { self.call_system(handles) }
            }
            Kind::Domain => {
                handles.domain = bad;
                match self.random.below(8) {
                    0 => self.free(kind, bad),
                    1..3 => self.call_with_task(handles),
                    3..5 => self.call_that_waits(handles, Zone::Any),
                    _ => self.call_domain(handles, Zone::Any),
                }
            }
            Kind::Task => {
                handles.task = bad;
                match self.random.below(8) {
                    0 => self.free(kind, bad),
                    1..4 => self.call_with_task(handles),
                    // Without a task the wait would be valid, and could not be interrupted.
                    4 if bad != 0 => self.call_that_waits(handles, Zone::Any),
                    _ => self.call_task(handles),
                }
            }
            Kind::Waiter => {
                let call = self.random.below(4);
                self.call_waiter(bad, call)
            }
            Kind::Timers => match self.random.below(8) {
                0 => self.free(kind, bad),
                _ => self.call_timers(bad),
            },
        };
        let seed = self.storm.seed;
        assert_eq!(answer, c_long::from(promised), "seed {seed}: {name} with the bad {kind:?} {bad:#x}");
    }

    /// Calls a function with handles that are alive, or that another thread is freeing.
    fn call_well(&mut self) {
        let zone = self.random.of(&[Zone::Exact, Zone::Exact, Zone::Exact, Zone::Loose, Zone::Any]);
        let mut handles = self.anchors();
        let storm = self.storm;
        if !self.random.one_in(3) {
            handles.domain = storm.domains.any(&mut self.random).get().unwrap_or(handles.domain);
        }
        let task_at = self.random.below(2 * crate::THREADS);
        match storm.tasks_of_threads.get(task_at) {
            Some(task) => handles.task = task.get().unwrap_or(handles.task),
            None => handles.task = storm.tasks.any(&mut self.random).get().unwrap_or(handles.task),
        }
        if self.random.one_in(2) {
            self.clear_interrupt(handles.task);
        }
        match self.random.below(18) {
            16..18 => {
                let timers = storm.timers.any(&mut self.random).get();
                self.call_timers(timers.unwrap_or_else(|| storm.history.anchor(Kind::Timers)));
            }
            0 => {
                if self.random.one_in(2) {
                    handles.system = storm.systems.any(&mut self.random).get().unwrap_or(handles.system);
                }
                self.call_system(handles);
            }
            1 => drop(self.call_task(handles)),
            2..5 => drop(self.call_with_task(handles)),
            5..9 => drop(self.call_domain(handles, zone)),
            9..12 => {
                if !self.random.one_in(3) {
                    handles.task = 0;
                }
                self.call_that_waits(handles, zone);
            }
            _ => self.look_at_a_waiter(),
        }
    }

    /// Checks or ends a random waiter. If other threads do so at the same time, one of them gets the result.
    fn look_at_a_waiter(&mut self) {
        let zone = self.random.of(&crate::accounts::ZONES);
        let entry = self.storm.waiters[zone as usize].any(&mut self.random);
        let Some(waiter) = entry.get() else { return };
        let calls = if zone == Zone::Exact { 3 } else { 4 };
        let call = self.random.below(calls);
        self.end_waiter(entry, zone, waiter, call);
    }

    /// Checks or ends a waiter. Returns whether it has ended.
    pub fn end_waiter(&mut self, entry: &Entry, zone: Zone, waiter: u64, call: usize) -> bool {
        let (name, answer) = self.call_waiter(waiter, call);
        let still_there = [libc::EINPROGRESS, libc::EBUSY, libc::EBADF].map(|errno| -c_long::from(errno));
        if name == "ufutex_waiter_deadline" || still_there.contains(&answer) {
            return false;
        }
        entry.is_armed.store(false, std::sync::atomic::Ordering::SeqCst);
        self.storm.history.freed(Kind::Waiter, waiter, &mut self.random);
        entry.put(0);
        if name != "ufutex_waiter_free" {
            self.storm.accounts.received(zone, answer);
        }
        true
    }

    /// Frees an object that other threads may be using. The library frees it, or refuses because it is in use.
    fn free_something(&mut self) {
        let storm = self.storm;
        use Kind::{Domain, System, Task, Timers};
        let kind = self.random.of(&[System, Domain, Domain, Task, Task, Task, Timers]);
        let entry = match kind {
            Kind::System => storm.systems.any(&mut self.random),
            Kind::Domain => storm.domains.any(&mut self.random),
            Kind::Timers => storm.timers.any(&mut self.random),
            _ => storm.tasks.any(&mut self.random),
        };
        if self.random.one_in(16) {
            // A waiter is queued there until the end.
            let domain = storm.history.anchor(Kind::Domain);
            let (name, answer) = self.free(Kind::Domain, domain);
            assert_eq!(answer, c_long::from(-libc::EBUSY), "seed {}: {name} of a domain in use", storm.seed);
        } else if let Some(handle) = entry.take() {
            self.free_taken(kind, entry, handle);
        }
    }

    /// Frees an object that was taken from its entry. Returns whether the library freed it.
    pub fn free_taken(&mut self, kind: Kind, entry: &Entry, handle: u64) -> bool {
        match self.free(kind, handle) {
            (_, 0) => {
                entry.is_armed.store(false, std::sync::atomic::Ordering::SeqCst);
                self.storm.history.freed(kind, handle, &mut self.random);
                entry.put(0);
                true
            }
            (name, answer) => {
                let seed = self.storm.seed;
                assert_eq!(answer, c_long::from(-libc::EBUSY), "seed {seed}: {name} of the live {kind:?} {handle:#x}");
                entry.put(handle);
                false
            }
        }
    }

    /// Makes an object of a random kind.
    fn make_something(&mut self) {
        let storm = self.storm;
        let mut handles = self.anchors();
        match self.random.below(5) {
            4 => {
                handles.system = storm.systems.any(&mut self.random).get().unwrap_or(handles.system);
                self.new_timers(handles.system);
            }
            0 => drop(self.new_system()),
            1 => {
                handles.system = storm.systems.any(&mut self.random).get().unwrap_or(handles.system);
                self.new_domain(handles.system);
            }
            _ => {
                handles.domain = storm.domains.any(&mut self.random).get().unwrap_or(handles.domain);
                self.new_task(handles.domain);
            }
        }
    }

    /// Keeps what a call has made in an entry that this thread has reserved. Without an entry, frees the object again.
    pub fn keep<T>(&mut self, kind: Kind, entry: Option<&Entry>, (name, answer): Named, made: *mut T) -> Named {
        assert_eq!(answer == 0, !made.is_null(), "seed {}: {name} stores a handle, or an error", self.storm.seed);
        let handle = made.addr() as u64;
        if answer == 0 {
            self.storm.history.made(handle);
        }
        match entry {
            Some(entry) => entry.put(handle),
            None if answer != 0 => {}
            None => {
                let (name, answer) = self.free(kind, handle);
                assert_eq!(answer, 0, "seed {}: {name} of {handle:#x}, which no other thread knows", self.storm.seed);
                self.storm.history.freed(kind, handle, &mut self.random);
            }
        }
        (name, answer)
    }

    /// Writes a word as a program does: small numbers, and TIDs of owners in the zone with locks.
    fn write(&mut self) {
        let zone = self.random.of(&crate::accounts::ZONES);
        let value = match zone {
            Zone::Any => {
                let tid = self.storm.some_tid(&mut self.random);
                self.random.of(&[0, 0, 1, tid, tid | 1 << 31, tid | 1 << 30])
            }
            _ => self.random.of(&[0, 0, 0, 1]),
        };
        embedder::write(zone, self.random.below(WORDS as usize), value);
    }
}
