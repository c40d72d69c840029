//! One thread of a guest and its random calls.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ufutex::{Task, syscall::Number};

use crate::accounts::Zone;
use crate::common::random::Random;
use crate::memory::{Area, WORDS};
use crate::{Guest, Storm, THREADS};

// The operations of futex(2).
const WAIT: u64 = 0;
const WAKE: u64 = 1;
const REQUEUE: u64 = 3;
const CMP_REQUEUE: u64 = 4;
const WAKE_OP: u64 = 5;
const WAIT_BITSET: u64 = 9;
const WAKE_BITSET: u64 = 10;
/// Number of operations.
const OPERATIONS: usize = 14;
const PRIVATE_FLAG: u64 = 128;
const CLOCK_REALTIME: u64 = 256;
/// The indices of the words of a page that calls use. There are few, in three cache lines, so that calls often collide.
const IN_USE: [u64; 8] = [0, 1, 2, 3, 16, 17, 32, 33];
/// `FUTEX2_SIZE_U32`
const SIZE_U32: u64 = 2;

pub struct Caller<'s> {
    storm: &'s Storm,
    guest: &'s Guest,
    thread: usize,
    task: Arc<Task>,
    random: Random,
}

impl<'s> Caller<'s> {
    pub fn new(storm: &'s Storm, thread: usize, random: Random) -> Self {
        // The tasks of `Storm::deliver` follow the threads' tasks, one for each domain.
        let guest = storm.guest(thread);
        Self { storm, guest, thread, task: storm.task(thread), random }
    }

    fn number(number: u64) -> Number {
        Number::x86_64(number).expect("these calls exist")
    }

    fn syscall(&self, number: u64, args: [u64; 6]) -> isize {
        if self.thread < THREADS {
            self.storm.accounts.count();
        }
        self.guest.domain.syscall(&self.task, &self.guest.memory, Self::number(number), args)
    }

    fn futex(&self, args: [u64; 6]) -> isize {
        self.syscall(202, args)
    }

    /// `FUTEX_PRIVATE_FLAG` or 0, at random.
    fn scope(&mut self) -> u64 {
        if self.random.one_in(2) { PRIVATE_FLAG } else { 0 }
    }

    fn word(&mut self, area: Area) -> u64 {
        area.word(self.random.of(&IN_USE))
    }

    fn exact(&mut self) -> u64 {
        let area = self.random.of(&[Area::Own, Area::Object]);
        self.word(area)
    }

    /// The address of one of this thread's arguments in memory. Other threads overwrite it occasionally.
    fn argument(&self, number: usize) -> u64 {
        Area::Arguments.word((self.thread % (WORDS as usize / 4)) as u64 * 4 + 2 * number as u64)
    }

    /// Writes a short timeout, relative or absolute, and returns its address.
    fn time(&mut self, is_absolute: bool) -> u64 {
        if self.random.one_in(16) {
            return 0;
        }
        let mut time = Duration::from_micros(self.random.of(&[0, 1, 20, 100, 1000]));
        if is_absolute {
            time += SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        }
        let at = self.argument(0);
        // The thread's four 32-bit words in the page of arguments hold the two 64-bit members of the timespec.
        self.guest.memory.store_wide(at, time.as_secs());
        self.guest.memory.store_wide(at + 8, time.subsec_nanos().into());
        at
    }

    /// Makes one random call, or another random step.
    pub fn call(&mut self) {
        self.task.interrupt().clear();
        match self.random.below(100) {
            0..14 => self.wait(),
            14..40 => self.wake(),
            40..50 => self.requeue(),
            50..58 => self.wake_op(),
            58..63 => self.wait_for_several(),
            63..67 => self.wait_and_drop(),
            67..75 => self.wake_loose(),
            75..94 => self.anything(),
            94..98 => self.write(),
            98 => self.interrupt(),
            _ => self.seldom(),
        }
    }

    fn wait(&mut self) {
        let (word, value, bits) =
            (self.exact(), self.random.below(3) as u64, self.random.of(&[1, 2, 3, u64::from(u32::MAX)]));
        let scope = self.scope();
        let result = if self.random.one_in(2) {
            let time = self.time(false);
            self.futex([word, WAIT | scope, value, time, 0, 0])
        } else {
            let time = self.time(true);
            self.futex([word, WAIT_BITSET | CLOCK_REALTIME | scope, value, time, 0, bits])
        };
        let result = self.continued(result);
        self.storm.accounts.received(Zone::Exact, result);
    }

    /// Continues a timed wait that was interrupted, as the kernel does after a signal without a handler.
    fn continued(&mut self, result: isize) -> isize {
        if result != -ufutex::syscall::ERESTART_RESTARTBLOCK || self.random.one_in(2) {
            self.task.forget_restart();
            return result;
        }
        self.task.interrupt().clear();
        let result = self.syscall(219, [0; 6]);
        self.task.forget_restart();
        result
    }

    fn wake(&mut self) {
        let (word, scope) = (self.exact(), self.scope());
        let count = self.random.of(&[1, 1, 1, 2, 5, i32::MAX as u64]);
        let bits = self.random.of(&[1, 2, u64::from(u32::MAX)]);
        let result = match self.random.below(3) {
            0 => self.futex([word, WAKE | scope, count, 0, 0, 0]),
            1 => self.futex([word, WAKE_BITSET | scope, count, 0, 0, bits]),
            _ => self.syscall(454, [word, bits, count, SIZE_U32 | scope, 0, 0]),
        };
        self.storm.accounts.answered(Zone::Exact, result);
    }

    /// A requeue returns the sum of woken and requeued waiters. So that the sums can be checked, it either wakes or
    /// requeues.
    fn requeue(&mut self) {
        let (from, to, scope) = (self.exact(), self.exact(), self.scope());
        let count = self.random.of(&[1, 2, i32::MAX as u64]);
        let (wake, requeue) = if self.random.one_in(2) { (count, 0) } else { (0, count) };
        let value = self.random.below(3) as u64;
        let operation = self.random.of(&[REQUEUE, CMP_REQUEUE]);
        let result = self.futex([from, operation | scope, wake, requeue, to, value]);
        if requeue == 0 {
            self.storm.accounts.answered(Zone::Exact, result);
        }
    }

    fn wake_op(&mut self) {
        let (first, second, scope) = (self.exact(), self.exact(), self.scope());
        // An operation and a comparison with small operands, sometimes an invalid one.
        let encoded = (self.random.below(6) << 28 | self.random.below(7) << 24 | self.random.below(3) << 12) as u64;
        let encoded = encoded | self.random.below(3) as u64;
        let result = self.futex([first, WAKE_OP | scope, 1, 2, second, encoded]);
        self.storm.accounts.answered(Zone::Exact, result);
    }

    fn wait_for_several(&mut self) {
        let scope = self.scope();
        let array = Area::Arguments.word(0);
        let count = self.random.of(&[1, 2, 3, 8, 200]);
        for i in 0..count.min(3) {
            let at = array + 24 * i;
            let word = self.word(Area::Loose);
            self.guest.memory.store_wide(at, self.random.below(3) as u64);
            self.guest.memory.store_wide(at + 8, word);
            self.guest.memory.store_wide(at + 16, SIZE_U32 | scope);
        }
        let time = self.time(true);
        let result = self.syscall(449, [array, count, 0, time, 0, 0]);
        self.storm.accounts.received(Zone::Loose, result);
    }

    /// A wait as a future that is dropped, whether it has been woken or not.
    fn wait_and_drop(&mut self) {
        let (word, scope, value) = (self.word(Area::Loose), self.scope(), self.random.below(3) as u64);
        let Guest { domain, memory } = self.guest;
        self.storm.accounts.count();
        let mut wait =
            pin!(domain.syscall_async(&self.task, memory, Self::number(202), [word, WAIT | scope, value, 0, 0, 0]));
        let _begun = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if self.random.one_in(2) {
            std::thread::yield_now();
        }
    }

    fn wake_loose(&mut self) {
        let (word, scope) = (self.word(Area::Loose), self.scope());
        let count = self.random.of(&[1, 1, 3]);
        let result = self.futex([word, WAKE | scope, count, 0, 0, 0]);
        self.storm.accounts.answered(Zone::Loose, result);
    }

    /// Any operation with any arguments, on words that are not counted.
    fn anything(&mut self) {
        let (word, other) = (self.word(Area::Any), self.word(Area::Any));
        let odd = self.random.of(&[0, 0, 0, 0, 0, 0, 0, 1]);
        let operation =
            self.random.below(OPERATIONS) as u64 | self.scope() | self.random.of(&[0, 0, CLOCK_REALTIME, 512]);
        let value = self.random.of(&[0, 1, 2, u64::from(self.task.tid()), i32::MAX as u64, u64::MAX]);
        let blocks = matches!(operation & 15, 0 | 6 | 9 | 11 | 13);
        let fourth = if blocks { self.time(operation & 15 != 0) } else { self.random.of(&[0, 1, 5, u64::MAX]) };
        let bits = self.random.of(&[0, 1, u64::from(u32::MAX)]);
        let (flags, list) = (SIZE_U32 | self.random.of(&[0, 4, 8, 128]), self.word(Area::Arguments));
        let _result = match self.random.below(20) {
            0 => self.syscall(455, [word, value, bits, flags, self.argument(0), 1]),
            1 => self.syscall(456, [Area::Arguments.word(0), 0, 0, 5, 0, 0]),
            2 => self.syscall(273, [list, 24, 0, 0, 0, 0]),
            3 => self.syscall(274, [value, self.argument(0), self.argument(1), 0, 0, 0]),
            _ => self.futex([word + odd, operation, value, fourth, other, bits]),
        };
        self.task.forget_restart();
    }

    fn write(&mut self) {
        let area = self.random.of(&[Area::Own, Area::Object, Area::Loose, Area::Any, Area::Any, Area::Arguments]);
        let number = self.random.below(WORDS as usize) as u64;
        let value = match self.random.below(4) {
            0 => u64::from(self.task.tid()) | self.random.of(&[0, 1 << 31, 1 << 30]),
            // An address, for robust lists.
            1 => self.word(Area::Any),
            _ => self.random.below(3) as u64,
        };
        self.guest.memory.store(area.word(number), value);
    }

    fn interrupt(&mut self) {
        let thread = self.random.below(THREADS);
        self.storm.task(thread).interrupt().raise();
    }

    /// Rare steps that change the guest itself: a resize of its table, or the exit of a thread.
    fn seldom(&mut self) {
        if self.random.one_in(4) {
            let _may_have_no_memory = self.guest.domain.set_slots(self.random.of(&[0, 2, 4, 64, 1024]));
        }
        if self.random.one_in(4) {
            self.guest.domain.exit(&self.task, &self.guest.memory).expect("it waits for nothing");
            self.task = self.storm.new_task(self.thread);
            *self.storm.tasks[self.thread].lock().expect("not poisoned") = self.task.clone();
        }
    }

    /// Wakes all waiters for the words of this domain and of the object.
    pub fn wake_all(&mut self) {
        for area in [Area::Own, Area::Object, Area::Loose, Area::Any] {
            for number in IN_USE {
                for scope in [0, PRIVATE_FLAG] {
                    let result = self.futex([area.word(number), WAKE | scope, i32::MAX as u64, 0, 0, 0]);
                    self.storm.accounts.answered(area.zone(), result);
                }
            }
        }
    }
}
