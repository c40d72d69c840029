//! Calls of all functions of the interface, with random arguments that are valid except perhaps for the handles.

use std::ffi::{c_long, c_void};
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;

use ufutex_capi::*;

use crate::accounts::Zone;
use crate::caller::{Caller, Handles};
use crate::embedder::{self, WORDS, arguments, word};
use crate::handles::{Entry, Kind, callback, expired};

/// The flags of words.
pub const FLAGS: [u32; 4] = [
    UFUTEX_U32,
    UFUTEX_U32 | UFUTEX_SHARED,
    UFUTEX_U32 | 1 << UFUTEX_NODE_SHIFT,
    // Most systems have no such node.
    UFUTEX_U32 | 2 << UFUTEX_NODE_SHIFT,
];

/// A function's name and its result.
pub type Named = (&'static str, c_long);

const NOBODY: ufutex_waited_word =
    ufutex_waited_word { address: 0, object: 0, scope: 0, bitset: 0, threads: 0, tasks: 0, for_lock: 0 };

/// Converts a handle to the type of a function's argument.
pub fn handle<T>(number: u64) -> *mut T {
    ptr::without_provenance_mut(number as usize)
}

fn number<T>(handle: *mut T) -> u64 {
    handle.addr() as u64
}

/// Calls a function of the interface. Returns its name and its result.
macro_rules! call {
    // SAFETY: each pointer that is not a handle points to a value of its type that outlives the call, or is null or
    // misaligned. Addresses are those of words in the arena.
    ($name:ident($($argument:expr),* $(,)?)) => { (stringify!($name), c_long::from(unsafe { $name($($argument),*) })) };
}

impl Caller<'_> {
    fn word(&mut self, zone: Zone) -> u64 {
        word(zone, self.random.below(WORDS as usize))
    }

    fn flags(&mut self) -> u32 {
        let [private, shared, first, second] = FLAGS;
        self.random.of(&[private, private, private, private, shared, shared, first, second])
    }

    fn count(&mut self) -> u32 {
        self.random.of(&[0, 1, 1, 1, 2, 5, i32::MAX as u32, u32::MAX])
    }

    /// Mostly a short timeout. Sometimes none, for calls that another thread will wake or interrupt.
    fn options(&mut self, task: u64) -> ufutex_wait_options {
        let is_endless = self.random.one_in(64);
        ufutex_wait_options {
            timeout: if is_endless {
                UFUTEX_FOREVER
            } else {
                self.random.of(&[
                    UFUTEX_AFTER,
                    UFUTEX_AFTER,
                    UFUTEX_AFTER,
                    UFUTEX_UNTIL_MONOTONIC,
                    UFUTEX_UNTIL_REALTIME,
                ])
            },
            bitset: self.random.of(&[1, 2, 3, u32::MAX]),
            nanoseconds: self.random.of(&[0, 1, 1000, 20_000]),
            priority: self.random.of(&[0, 0, 1, 99]),
            task: handle(task),
            ..Default::default()
        }
    }

    pub fn free(&mut self, kind: Kind, object: u64) -> Named {
        match kind {
            Kind::System => call!(ufutex_system_free(handle(object))),
            Kind::Domain => call!(ufutex_domain_free(handle(object))),
            Kind::Task => call!(ufutex_task_free(handle(object))),
            Kind::Waiter => call!(ufutex_waiter_free(handle(object))),
            Kind::Timers => call!(ufutex_timers_free(handle(object))),
        }
    }

    pub fn new_system(&mut self) -> Named {
        let entry = Some(self.storm.systems.any(&mut self.random)).filter(|entry| entry.reserve());
        let mut config = ufutex_config::default();
        (config.global_slots, config.max_pi_depth) = (self.random.of(&[2, 8]), self.random.of(&[0, 1, 3]));
        (config.max_table_bytes, config.max_domain_table_bytes) =
            (self.random.of(&[0, 1, 4096]), self.random.of(&[0, 1024]));
        let topology = embedder::topology();
        let clocks = embedder::timer_clocks();
        if self.random.one_in(2) {
            config.topology = &topology;
        }
        if self.random.one_in(2) {
            config.timer_clocks = &clocks;
        }
        let mut made = ptr::null_mut();
        let (name, answer) = call!(ufutex_system_new(&config, &mut made));
        // The embedder's nodes may have no memory.
        let is_refused = !config.topology.is_null() && answer == -c_long::from(libc::ENOMEM);
        assert!(answer == 0 || is_refused, "seed {}: {name}", self.storm.seed);
        self.keep(Kind::System, entry, (name, answer), made)
    }

    pub fn new_domain(&mut self, system: u64) -> Named {
        self.make_domain(|options, made| call!(ufutex_domain_new(handle(system), options, made)))
    }

    pub fn new_domain_beside(&mut self, other: u64) -> Named {
        self.make_domain(|options, made| call!(ufutex_domain_new_beside(handle(other), options, made)))
    }

    fn make_domain(&mut self, make: impl FnOnce(*const ufutex_options, *mut *mut ufutex_domain) -> Named) -> Named {
        let entry = Some(self.storm.domains.any(&mut self.random)).filter(|entry| entry.reserve());
        let (memory, clock, parker) = (embedder::memory(), embedder::clock(), embedder::parker());
        let mut made = ptr::null_mut();
        let options = ufutex_options {
            policy: self.random.of(&[UFUTEX_POLICY_LOAD, UFUTEX_POLICY_THREADS]),
            flags: self.random.of(&[0, 0, UFUTEX_COUNT_OPERATIONS, UFUTEX_NO_EARLY_RETURN, UFUTEX_NEW_PID_NAMESPACE]),
            max_waiters: self.random.of(&[0, 0, 2]),
            memory: if self.random.one_in(2) { &memory } else { ptr::null() },
            clock: if self.random.one_in(4) { &clock } else { ptr::null() },
            parker: if self.random.one_in(4) { &parker } else { ptr::null() },
            max_table_bytes: self.random.of(&[0, 0, 1, 4096]),
            spin: self.random.of(&[0, 0, 50_000, u64::MAX]),
            ..Default::default()
        };
        let options = if self.random.one_in(3) { ptr::null() } else { &raw const options };
        let call = make(options, &mut made);
        self.keep(Kind::Domain, entry, call, made)
    }

    pub fn new_task(&mut self, domain: u64) -> Named {
        let entry = Some(self.storm.tasks.any(&mut self.random)).filter(|entry| entry.reserve());
        let (tid, flags) = (self.storm.next_tid(), self.random.of(&[0, 0, 0, UFUTEX_KERNEL_TASK]));
        let mut made = ptr::null_mut();
        let call = call!(ufutex_task_new(handle(domain), tid, flags, &mut made));
        self.keep(Kind::Task, entry, call, made)
    }

    pub fn call_system(&mut self, Handles { system, .. }: Handles) -> Named {
        let mut words = [NOBODY; 3];
        let (mut counters, mut at) = (ufutex_system_counters::default(), 0);
        match self.random.below(9) {
            0 => call!(ufutex_system_nodes(handle(system))),
            1 => call!(ufutex_system_has_node(handle(system), self.random.of(&[0, 1, 2, u32::MAX]))),
            2 => call!(ufutex_system_current_node(handle(system))),
            3 => call!(ufutex_driver_next(handle(system), self.random.of(&[0, 1, 7, 11]), &mut at)),
            4 => call!(ufutex_driver_turn(handle(system))),
            5 => match self.random.below(3) {
                0 => call!(ufutex_driver_start(handle(system))),
                1 => call!(ufutex_driver_clock_was_set(handle(system))),
                _ => self.new_timers(system),
            },
            6 => call!(ufutex_system_get_counters(handle(system), &mut counters)),
            7 => call!(ufutex_system_who_waits(handle(system), words.as_mut_ptr(), size_of::<ufutex_waited_word>(), 3)),
            _ => self.new_domain(system),
        }
    }

    pub fn new_timers(&mut self, system: u64) -> Named {
        let entry = Some(self.storm.timers.any(&mut self.random)).filter(|entry| entry.reserve());
        let (max_timers, max_id) = (self.random.of(&[0, 1, 8]), self.random.of(&[0, 0, 7]));
        let mut options = ufutex_timers_options { max_timers, max_id, ..Default::default() };
        if let Some(entry) = entry.filter(|_| self.random.one_in(2)) {
            options.delivery = UFUTEX_DELIVER_CALL;
            options.context = ptr::from_ref(entry).cast_mut().cast();
            options.expired = Some(expired);
            entry.is_armed.store(true, SeqCst);
        }
        let options = if options.delivery == 0 && self.random.one_in(2) { ptr::null() } else { &raw const options };
        let mut made = ptr::null_mut();
        let call = call!(ufutex_timers_new(handle(system), options, &mut made));
        if let Some(entry) = entry.filter(|_| call.1 != 0) {
            entry.is_armed.store(false, SeqCst);
        }
        self.keep(Kind::Timers, entry, call, made)
    }

    /// Functions of timers.
    pub fn call_timers(&mut self, timers: u64) -> Named {
        let timers = handle::<ufutex_timers>(timers);
        let time = |nanoseconds| ufutex_timespec { seconds: 0, nanoseconds };
        let new = ufutex_itimerspec {
            interval: time(self.random.of(&[0, 0, 1_000_000])),
            value: time(self.random.of(&[0, 1, 1000, 100_000])),
        };
        let (mut id, mut old) = (0, ufutex_itimerspec::default());
        let some_id = self.random.below(10) - 1;
        let clock = self.random.of(&[0, 1, 1, 7, 11]);
        let signal = ufutex_notify { signal: 40, value: 7, ..Default::default() };
        let notify = if self.random.one_in(2) { ptr::null() } else { &raw const signal };
        let flags = self.random.of(&[0, 0, 0, UFUTEX_TIMER_ABSTIME]);
        let mut expired = ufutex_expired::default();
        match self.random.below(16) {
            0..3 => call!(ufutex_timers_create(timers, clock, notify, &mut id)),
            3..6 => call!(ufutex_timers_settime(timers, some_id, flags, &new, ptr::null_mut())),
            6 => call!(ufutex_timers_settime(timers, some_id, flags, &new, &mut old)),
            7 => call!(ufutex_timers_gettime(timers, some_id, &mut old)),
            8 => call!(ufutex_timers_getoverrun(timers, some_id)),
            9 => call!(ufutex_timers_delete(timers, some_id)),
            10..12 => {
                call!(ufutex_timers_receive(timers, UFUTEX_AFTER, self.random.of(&[0, 20_000]), &mut expired))
            }
            12 => {
                let [first, second] = [(); 2].map(|()| self.random.below(1u64 << 32));
                let notice = ufutex_notice { id: some_id, ticket: [first, second], ..Default::default() };
                call!(ufutex_timers_take(timers, &notice, &mut expired))
            }
            13 => match self.random.below(4) {
                0 => call!(ufutex_timers_count(timers)),
                1 => call!(ufutex_timers_bytes(timers)),
                2 => call!(ufutex_timers_create_as(timers, some_id, clock, notify)),
                _ => call!(ufutex_timers_clear(timers)),
            },
            _ => {
                let memory = embedder::memory();
                let memory = if self.random.one_in(2) { ptr::null() } else { &raw const memory };
                let at = arguments(self.thread, 10, &[0, 0, 0, self.random.of(&[0, 1000])]);
                let out = arguments(self.thread, 16, &[]);
                let id = some_id as u64;
                let (number, args) = self.random.of(&[
                    (222, [1, 0, out, 0, 0, 0]),
                    (223, [id, 0, at, 0, 0, 0]),
                    (223, [id, 0, at, out, 0, 0]),
                    (224, [id, out, 0, 0, 0, 0]),
                    (225, [id, 0, 0, 0, 0, 0]),
                    (226, [id, 0, 0, 0, 0, 0]),
                    (UFUTEX_GENERIC_NUMBER + 107, [7, 0, out, 0, 0, 0]),
                    (UFUTEX_I386_NUMBER + 409, [id, 0, 0, 0, 0, 0]),
                ]);
                call!(ufutex_timers_syscall(timers, 1, 1, memory, number, args.as_ptr()))
            }
        }
    }

    pub fn call_task(&mut self, Handles { task, .. }: Handles) -> Named {
        let priority = self.random.of(&[0, 0, 1, 50, 99]);
        let head = self.random.of(&[0, embedder::robust_list()]);
        let mut restart = ufutex_restart {
            bitset: self.random.of(&[0, 1]),
            timeout: self.random.of(&[0, 1, 2, 3]),
            is_private: self.random.of(&[0, 1, 2]),
            ..Default::default()
        };
        match self.random.below(8) {
            6 => call!(ufutex_task_restart(handle(task), &raw mut restart)),
            7 => call!(ufutex_task_set_restart(handle(task), &raw const restart)),
            0 => call!(ufutex_task_set_robust_list(handle(task), 8, head, 24)),
            1 => call!(ufutex_task_set_priority(handle(task), priority)),
            2 => call!(ufutex_task_priority(handle(task))),
            3 => call!(ufutex_task_interrupt(handle(task))),
            4 => call!(ufutex_task_clear_interrupt(handle(task))),
            _ => call!(ufutex_task_forget_restart(handle(task))),
        }
    }

    /// Clears the interrupt of a task, so that its next wait sleeps.
    pub fn clear_interrupt(&mut self, task: u64) {
        call!(ufutex_task_clear_interrupt(handle(task)));
    }

    /// Functions of a domain that do not wait.
    pub fn call_domain(&mut self, Handles { domain, .. }: Handles, zone: Zone) -> Named {
        match self.random.below(16) {
            0 => call!(ufutex_domain_set_slots(handle(domain), self.random.of(&[0, 2, 2, 64, 3]))),
            1 => call!(ufutex_domain_slots(handle(domain))),
            2 => call!(ufutex_domain_note_threads(handle(domain), self.random.of(&[0, 1, 100]))),
            3 => {
                let (op, slots) = (self.random.of(&[1, 2, 3, 9]), self.random.of(&[0, 2, 8, 8]));
                call!(ufutex_prctl_futex_hash(handle(domain), op, slots, self.random.of(&[0, 0, 0, 1])))
            }
            4 => call!(ufutex_domain_get_counters(handle(domain), &mut Default::default())),
            5 => {
                let mut words = [NOBODY; 3];
                let size = size_of::<ufutex_waited_word>();
                call!(ufutex_domain_who_waits(handle(domain), words.as_mut_ptr(), size, self.random.below(4)))
            }
            6 => match self.random.below(4) {
                0 => call!(ufutex_domain_pid_namespace(handle(domain))),
                1 => self.new_domain_beside(domain),
                _ => self.new_task(domain),
            },
            7..9 => self.requeue(domain, zone),
            9 => self.wake_op(domain, zone),
            10 => {
                let (from, lock, flags) = (self.word(Zone::Any), self.word(Zone::Any), self.flags());
                call!(ufutex_cmp_requeue_pi(handle(domain), from, 0, lock, self.count(), flags))
            }
            _ => self.wake(domain, zone),
        }
    }

    fn wake(&mut self, domain: u64, zone: Zone) -> Named {
        let (word, bitset, flags) = (self.word(zone), self.random.of(&[1, 2, u32::MAX]), self.flags());
        let (name, answer) = call!(ufutex_wake(handle(domain), word, self.count(), bitset, flags));
        self.storm.accounts.counted(zone, answer);
        (name, answer)
    }

    fn wake_op(&mut self, domain: u64, zone: Zone) -> Named {
        let operation = ufutex_operation {
            modify: self.random.below(5) as u32,
            argument: self.random.below(2) as u32,
            compare: self.random.below(6) as u32,
            operand: self.random.below(2),
        };
        let (first, second, flags) = (self.word(zone), self.word(zone), self.flags());
        let (one, two) = (self.count(), self.count());
        let (name, answer) = call!(ufutex_wake_op(handle(domain), first, one, second, two, &operation, flags));
        self.storm.accounts.counted(zone, answer);
        (name, answer)
    }

    fn requeue(&mut self, domain: u64, zone: Zone) -> Named {
        let (from, to, flags) = (self.word(zone), self.word(zone), self.flags());
        let (wake, requeue, mut moved) = (self.count(), self.count(), 0);
        let (name, answer) = if self.random.one_in(2) {
            call!(ufutex_requeue(handle(domain), from, to, wake, requeue, flags, &mut moved))
        } else {
            call!(ufutex_cmp_requeue(handle(domain), from, 0, to, wake, requeue, flags, &mut moved))
        };
        if answer >= 0 {
            assert!(c_long::from(moved) <= answer, "seed {}: {name} moved {moved} of {answer}", self.storm.seed);
            self.storm.accounts.counted(zone, answer - c_long::from(moved));
        }
        (name, answer)
    }

    /// The words of a wait on several words.
    fn several(&mut self) -> [ufutex_waitv_word; 3] {
        std::array::from_fn(|_| ufutex_waitv_word {
            expected: 0,
            address: self.word(Zone::Loose),
            flags: self.flags(),
            reserved: 0,
        })
    }

    /// Functions that wait, or prepare a wait. An interrupt can end the wait of `task`. `0` means no task.
    pub fn call_that_waits(&mut self, Handles { domain, task, .. }: Handles, zone: Zone) -> Named {
        let options = self.options(task);
        let (word, flags, expected) = (self.word(zone), self.flags(), self.random.of(&[0, 0, 0, 1]));
        let words = self.several();
        let count = self.random.of(&[1, 2, 3]);
        match self.random.below(8) {
            0..3 => {
                let answer = if task == 0 && self.random.one_in(64) {
                    call!(ufutex_wait(handle(domain), word, expected, flags, ptr::null()))
                } else {
                    call!(ufutex_wait(handle(domain), word, expected, flags, &options))
                };
                self.storm.accounts.received(zone, answer.1);
                answer
            }
            3 => {
                let answer = call!(ufutex_waitv(handle(domain), words.as_ptr(), count, &options));
                self.storm.accounts.received(Zone::Loose, answer.1);
                answer
            }
            4..7 => self.prepare(zone, |context, waiter| {
                let domain = handle(domain);
                call!(ufutex_prepare_wait(domain, word, expected, flags, &options, Some(callback), context, waiter))
            }),
            _ => self.prepare(Zone::Loose, |context, waiter| {
                let (domain, words) = (handle(domain), words.as_ptr());
                call!(ufutex_prepare_waitv(domain, words, count, &options, Some(callback), context, waiter))
            }),
        }
    }

    /// Prepares a wait and keeps its waiter for all threads.
    fn prepare(&mut self, zone: Zone, f: impl FnOnce(*mut c_void, *mut *mut ufutex_waiter) -> Named) -> Named {
        let storm = self.storm;
        let pool = &storm.waiters[zone as usize];
        let Some(entry) = (0..32).map(|_| pool.any(&mut self.random)).find(|entry| entry.reserve()) else {
            // There are as many waiters as there may be.
            return self.prepare_and_end(zone, f);
        };
        entry.is_armed.store(true, SeqCst);
        let (name, answer, waiter) = self.begin(entry, f);
        if waiter == 0 {
            entry.is_armed.store(false, SeqCst);
            storm.accounts.received(zone, answer);
        }
        entry.put(waiter);
        (name, answer)
    }

    /// Prepares a wait whose waiter only this thread knows, and ends it.
    fn prepare_and_end(&mut self, zone: Zone, f: impl FnOnce(*mut c_void, *mut *mut ufutex_waiter) -> Named) -> Named {
        let entry = Entry::default();
        entry.is_armed.store(true, SeqCst);
        let (name, answer, waiter) = self.begin(&entry, f);
        if waiter == 0 {
            self.storm.accounts.received(zone, answer);
        } else {
            entry.put(waiter);
            let has_ended = self.end_waiter(&entry, zone, waiter, 2);
            assert!(has_ended, "seed {}: no other thread knows this waiter", self.storm.seed);
        }
        (name, answer)
    }

    fn begin(
        &self,
        entry: &Entry,
        f: impl FnOnce(*mut c_void, *mut *mut ufutex_waiter) -> Named,
    ) -> (&'static str, c_long, u64) {
        let mut waiter = handle(1);
        let (name, answer) = f(ptr::from_ref(entry).cast_mut().cast(), &mut waiter);
        let is_waiting = answer == -c_long::from(libc::EINPROGRESS);
        assert_eq!(is_waiting, !waiter.is_null(), "seed {}: {name} stores a waiter, or NULL", self.storm.seed);
        if is_waiting {
            self.storm.history.made(number(waiter));
        }
        (name, answer, number(waiter))
    }

    /// Functions with a domain and a task: locks, system calls, the end of a task.
    pub fn call_with_task(&mut self, Handles { domain, task, system: _ }: Handles) -> Named {
        let (domain, task) = (handle::<ufutex_domain>(domain), handle::<ufutex_task>(task));
        let (word, lock, flags) = (self.word(Zone::Any), self.word(Zone::Any), self.flags());
        let options = self.options(0);
        let memory = embedder::memory();
        let memory = if self.random.one_in(2) { ptr::null() } else { &raw const memory };
        let call: ufutex_callback = Some(callback);
        match self.random.below(10) {
            0 => call!(ufutex_lock_pi(domain, task, word, flags, &options)),
            1 => call!(ufutex_trylock_pi(domain, task, word, flags)),
            2..4 => call!(ufutex_unlock_pi(domain, task, word, flags)),
            4 => call!(ufutex_wait_requeue_pi(domain, task, word, 0, lock, flags, &options)),
            5 => self.prepare(Zone::Any, |context, waiter| {
                call!(ufutex_prepare_lock_pi(domain, task, word, flags, &options, call, context, waiter))
            }),
            6 => self.prepare(Zone::Any, |context, waiter| {
                let options = &raw const options;
                call!(ufutex_prepare_wait_requeue_pi(
                    domain, task, word, 0, lock, flags, options, call, context, waiter
                ))
            }),
            7 => {
                let (number, args) = self.system_call();
                call!(ufutex_syscall(domain, task, memory, number, args.as_ptr()))
            }
            8 => {
                let (number, args) = self.system_call();
                self.prepare(Zone::Any, |context, waiter| {
                    let args = args.as_ptr();
                    call!(ufutex_prepare_syscall(domain, task, memory, number, args, call, context, waiter))
                })
            }
            // The tasks of threads must not end.
            _ if self.storm.tasks_of_threads.iter().any(|entry| entry.get() == Some(number(task))) => {
                call!(ufutex_trylock_pi(domain, task, word, flags))
            }
            _ => call!(ufutex_task_exit(domain, task, memory)),
        }
    }

    /// The number and arguments of a random system call, on words of [`Zone::Any`] and on this thread's own memory.
    fn system_call(&mut self) -> (u64, [u64; 6]) {
        let (word, other) = (self.word(Zone::Any), self.word(Zone::Any));
        let time = arguments(self.thread, 0, &[0, self.random.of(&[0, 1000, 20_000])]);
        let private = self.random.of(&[0, 128]);
        let operation = self.random.below(14) as u64;
        let blocks = matches!(operation, 0 | 6 | 9 | 11 | 13);
        let value = self.random.of(&[0, 0, 1, i32::MAX as u64]);
        let fourth = if blocks { time } else { self.random.of(&[0, 1, 5]) };
        let flags = 2 | private;
        match self.random.below(8) {
            0 => (449, [arguments(self.thread, 2, &[0, word, flags, 0, other, flags]), 2, 0, time, 1, 0]),
            1 => (454, [word, 1, value, flags, 0, 0]),
            2 => (455, [word, value, 1, flags, time, 1]),
            3 => (273, [embedder::robust_list(), 24, 0, 0, 0, 0]),
            4 => (274, [0, arguments(self.thread, 8, &[0]), arguments(self.thread, 9, &[0]), 0, 0, 0]),
            5 => (UFUTEX_I386_NUMBER + 422, [word, 1 | private, value, 0, 0, 0]),
            _ => (202, [word, operation | private, value, fourth, other, u64::from(u32::MAX)]),
        }
    }

    /// Functions of waiters, by number: 0 reads the deadline, 1 checks for the end, 2 ends the waiter, 3 frees it.
    pub fn call_waiter(&mut self, waiter: u64, which: usize) -> Named {
        let (mut clock, mut deadline) = (0, 0);
        let cause = self.random.of(&[UFUTEX_TIMED_OUT, UFUTEX_INTERRUPTED]);
        match which {
            0 => call!(ufutex_waiter_deadline(handle(waiter), &mut clock, &mut deadline)),
            1 => call!(ufutex_waiter_finish(handle(waiter))),
            2 => call!(ufutex_waiter_end(handle(waiter), cause)),
            _ => self.free(Kind::Waiter, waiter),
        }
    }

    /// Calls the functions without handles.
    pub fn plain_functions(&mut self) {
        assert_ne!(ufutex_version_number(), 0);
        assert!(!ufutex_version().is_null());
        let mut value = 0;
        let (_, answer) = call!(ufutex_resume(self.random.of(&[0, 5, -11]), UFUTEX_NO_HANDLER, &mut value));
        assert_eq!(answer, c_long::from(UFUTEX_RESUME_RETURN));
        let (_, answer) = call!(ufutex_resume(-512, self.random.of(&[3, u32::MAX]), &mut value));
        assert_eq!(answer, -c_long::from(libc::EINVAL));
    }
}
