//! Random programs. The generator runs the model step by step, so that it can choose steps that have an effect: calls
//! by idle workers, expected values that match the words, signals for sleeping workers.

use crate::common::random::Random;
use crate::layout::{Layout, PROTECTED, WORDS};
use crate::model::Model;
use crate::program::{
    Arg, Cmd, Entries, Entry, Lock, Locks, Number, OWNER_DIED, PRIVATE, Program, REALTIME, Rights, Step, TID_MASK,
    Time, WAITERS, WORKERS,
};

/// A TID that no thread has. Linux TIDs are below 2^22.
const DEAD: u64 = 0x2000_0001;

/// Number of words in readable and writable pages. The words after them lie in pages without access or read-only pages.
const USABLE: usize = 6;

/// Addresses at which no program has memory.
const NOWHERE: [u64; 6] = [0, 8, (1 << 47) - 4100, 0x8000_0000_0000, 0xffff_8000_0000_0000, 0xffff_ffff_ffff_fffc];

/// The kind of operations that a program mostly uses.
#[derive(Clone, Copy)]
enum Theme {
    Plain,
    Pi,
    RequeuePi,
    Mixed,
}

/// A call to generate: an operation of futex(2), or one of the newer system calls.
#[derive(Clone, Copy)]
enum Call {
    Futex(Cmd),
    Waitv,
    Wake2,
    Wait2,
    Requeue2,
    Restart,
}

pub struct Generator {
    rng: Random,
    model: Model,
    tids: [u32; WORKERS],
    theme: Theme,
    /// The words that this program mostly uses.
    words: Vec<usize>,
    is_private: bool,
    /// Whether the workers have different priorities.
    has_priorities: bool,
    /// The weight of a thread exit among the steps. It is 0 in most programs, because an exit is slow.
    exits: usize,
    /// The probability, in percent, that a call gets one completely random argument.
    wild_percent: usize,
}

impl Generator {
    pub fn program(mut rng: Random, layout: Layout, tids: [u32; WORKERS], may_have_priorities: bool) -> Program {
        let mut priorities = [0; WORKERS];
        if may_have_priorities && rng.percent(20) {
            priorities = std::array::from_fn(|_| rng.below(3) as u8);
        }
        let theme = rng.weighted(&[(35, Theme::Plain), (30, Theme::Pi), (25, Theme::RequeuePi), (10, Theme::Mixed)]);
        let count = rng.of(&[1, 2, 2, 3]);
        let words = (0..count).map(|_| rng.of(&[0, 0, 1, 2, 3, 3, 4, 5])).collect();
        let is_private = rng.percent(60);
        let wild_percent = rng.of(&[0, 0, 3, 30]);
        let has_priorities = priorities != [priorities[0]; WORKERS];
        let exits = if rng.percent(10) { 8 } else { 0 };
        let most = if rng.percent(5) { 80 } else { 22 };
        let length = 3 + rng.below(most);
        let model = Model::new(layout, tids, priorities);
        let mut this = Self { rng, model, tids, theme, words, is_private, has_priorities, exits, wild_percent };
        let mut steps = Vec::with_capacity(length);
        for _ in 0..length {
            let step = this.step();
            if this.model.step(&step).is_none() {
                break;
            }
            steps.push(step);
        }
        Program { priorities, steps }
    }

    fn step(&mut self) -> Step {
        let idle: Vec<usize> = (0..WORKERS).filter(|&worker| self.model.is_idle(worker)).collect();
        let blocked: Vec<usize> = (0..WORKERS).filter(|&worker| self.model.is_blocked(worker)).collect();
        let calls = if idle.is_empty() { 0 } else { 75 };
        let signals = if blocked.is_empty() { 1 } else { 8 };
        let exits = if idle.is_empty() { 0 } else { self.exits };
        match self.rng.weighted(&[(calls, 0), (signals, 1), (12, 2), (3, 3), (3, 4), (exits, 5)]) {
            0 => {
                let worker = self.rng.of(&idle);
                self.call(worker)
            }
            1 => {
                let worker = if blocked.is_empty() { self.rng.below(WORKERS) } else { self.rng.of(&blocked) };
                Step::Signal(worker, self.rng.percent(50))
            }
            2 => Step::Store(self.word(), self.stored()),
            3 => {
                let rights = self.rng.weighted(&[(50, Rights::ReadWrite), (25, Rights::Read), (25, Rights::Nothing)]);
                Step::Protect(self.rng.of(&PROTECTED), rights)
            }
            4 => Step::Resize(self.rng.of(&[2, 4, 16, 64, 256])),
            _ => {
                let worker = self.rng.of(&idle);
                self.exit(worker)
            }
        }
    }

    /// A thread exit. The robust list mostly names locks that the thread owns, if it owns any.
    fn exit(&mut self, worker: usize) -> Step {
        let owned: Vec<usize> =
            (0..USABLE).filter(|&word| self.model.value(word) & TID_MASK == self.tids[worker]).collect();
        let lock = |this: &mut Self| {
            let word = match this.rng.below(20) {
                0 => this.rng.below(WORDS.len()),
                1..15 if !owned.is_empty() => this.rng.of(&owned),
                _ => this.word(),
            };
            Lock(word, this.rng.percent(50))
        };
        let count = self.rng.weighted(&[(30, 0), (40, 1), (20, 2), (10, 4)]);
        let locks = (0..count).map(|_| lock(self)).collect();
        let pending = self.rng.percent(30).then(|| lock(self));
        Step::Exit(worker, Locks(locks), pending)
    }

    fn word(&mut self) -> usize {
        self.rng.of(&self.words)
    }

    /// The address of a word, in nearly all cases `word` itself.
    fn address(&mut self, word: usize) -> Arg {
        match self.rng.below(60) {
            0 => Arg::Word(USABLE + self.rng.below(WORDS.len() - USABLE)),
            1 => Arg::Num(self.rng.of(&NOWHERE)),
            2 => Arg::Past(word, self.rng.of(&[1, 2, 3])),
            _ => Arg::Word(word),
        }
    }

    /// A value for a word. In PI programs this is mostly the TID of a worker.
    fn stored(&mut self) -> Arg {
        let bits = self.rng.weighted(&[(60, 0), (20, WAITERS), (10, OWNER_DIED), (10, WAITERS | OWNER_DIED)]);
        let owners = if matches!(self.theme, Theme::Plain) { 5 } else { 50 };
        match self.rng.weighted(&[(owners, 0), (30, 1), (10, 2), (5, 3)]) {
            0 => Arg::Tid(self.rng.below(WORKERS), bits),
            1 => Arg::Num(bits.into()),
            2 => Arg::Num(DEAD | u64::from(bits)),
            _ => Arg::Num(self.rng.of(&[1, 2, 0x3fff_ffff, 0x7fff_ffff, 0xffff_ffff])),
        }
    }

    /// The expected value of a word. This is mostly the current one.
    fn expected(&mut self, word: usize) -> Arg {
        match self.rng.below(20) {
            0 => Arg::Num(0),
            1 => self.stored(),
            2 => Arg::Same(self.word()),
            _ => Arg::Same(word),
        }
    }

    fn count(&mut self) -> Arg {
        let counts = [
            (40, 1),
            (20, i32::MAX as u64),
            (15, 2),
            (10, 0),
            (5, 3),
            (2, u64::from(u32::MAX)),
            (2, u64::MAX),
            (2, 1 << 31),
            (2, 1 << 32 | 1),
        ];
        Arg::Num(self.rng.weighted(&counts))
    }

    fn mask(&mut self) -> Arg {
        Arg::Num(self.rng.weighted(&[(40, 0xffff_ffff), (20, 1), (20, 2), (10, 3), (5, 0), (3, 1 << 32), (2, 1 << 31)]))
    }

    fn time(&mut self) -> Arg {
        let times =
            [Time::Passed, Time::Farthest, Time::BadNanoseconds, Time::NegativeNanoseconds, Time::NegativeSeconds];
        match self.rng.below(100) {
            0..70 => Arg::Num(0),
            70..80 => Arg::Time(Time::Far),
            80..94 => Arg::Time(Time::Passed),
            94..98 => Arg::Time(self.rng.of(&times)),
            98 => Arg::Word(6),
            _ => Arg::Num(self.rng.of(&NOWHERE)),
        }
    }

    fn cmd(&mut self) -> Call {
        use Cmd::*;
        let futex = |(weight, cmd)| (weight, Call::Futex(cmd));
        let choices: Vec<(usize, Call)> = match self.theme {
            Theme::Plain => {
                let older = [
                    (22, Wait),
                    (12, Wake),
                    (10, WaitBitset),
                    (6, WakeBitset),
                    (5, Requeue),
                    (10, CmpRequeue),
                    (10, WakeOp),
                ];
                let newer =
                    [(10, Call::Waitv), (5, Call::Wake2), (6, Call::Wait2), (6, Call::Requeue2), (1, Call::Restart)];
                older.map(futex).into_iter().chain(newer).collect()
            }
            Theme::Pi => {
                [(40, LockPi), (24, UnlockPi), (8, TrylockPi), (8, LockPi2), (2, Wait), (2, Wake), (1, WakeOp)]
                    .map(futex)
                    .to_vec()
            }
            Theme::RequeuePi => [
                (32, WaitRequeuePi),
                (20, CmpRequeuePi),
                (12, LockPi),
                (16, UnlockPi),
                (2, TrylockPi),
                (2, Wait),
                (2, Wake),
                (2, CmpRequeue),
                (1, WakeOp),
            ]
            .map(futex)
            .to_vec(),
            Theme::Mixed => {
                let newer = [(1, Call::Waitv), (1, Call::Wake2), (1, Call::Wait2), (1, Call::Requeue2)];
                Cmd::KNOWN.map(|cmd| (1, Call::Futex(cmd))).into_iter().chain(newer).collect()
            }
        };
        self.rng.weighted(&choices)
    }

    fn call(&mut self, worker: usize) -> Step {
        let call = self.cmd();
        let owns = |worker: usize| (0..USABLE).any(|word| self.model.value(word) & TID_MASK == self.tids[worker]);
        let owner = (0..WORKERS).find(|&worker| self.model.is_idle(worker) && owns(worker));
        let worker = match call {
            Call::Futex(Cmd::UnlockPi) if self.rng.percent(80) => owner.unwrap_or(worker),
            _ => worker,
        };
        let (number, mut args) = match call {
            Call::Futex(cmd) => (Number::Futex, self.futex(worker, cmd)),
            Call::Waitv => (Number::Waitv, self.waitv()),
            Call::Wake2 => (Number::Wake2, self.wake2()),
            Call::Wait2 => (Number::Wait2, self.wait2()),
            Call::Requeue2 => (Number::Requeue2, self.requeue2()),
            Call::Restart => (Number::Restart, [const { Arg::Num(0) }; 6]),
        };
        if self.rng.percent(self.wild_percent) {
            let which = self.rng.below(args.len());
            args[which] = self.wild();
        }
        Step::Call(worker, number, args)
    }

    /// A completely random argument.
    fn wild(&mut self) -> Arg {
        match self.rng.below(8) {
            0 => Arg::Num(0),
            1 => Arg::Num(self.rng.of(&[1, 2, 3, 1 << 32, 1 << 32 | 1, u64::MAX, 1 << 31])),
            2 => Arg::Num(self.rng.of(&NOWHERE)),
            3 => Arg::Past(self.word(), self.rng.of(&[1, 2, 3])),
            4 => Arg::Word(self.rng.below(WORDS.len())),
            5 => Arg::Word(self.word()),
            6 => self.stored(),
            _ => {
                // Bit 512 is left out. Since Linux 7.2 it is `FUTEX_ROBUST_UNLOCK` ([robust-unlock]), which the host
                // kernel may not know.
                let unknown = Cmd::Unknown(self.rng.of(&[14, 15, 16, 63, 64, 127, 1024, 1 << 30, 1 << 31]));
                let flags = self.rng.of(&[0, PRIVATE, REALTIME, PRIVATE | REALTIME]);
                let known = self.rng.of(&Cmd::KNOWN);
                let cmd = self.rng.of(&[unknown, known]);
                Arg::Op(cmd, flags)
            }
        }
    }

    fn privacy(&mut self) -> u32 {
        if self.is_private != self.rng.percent(5) { PRIVATE } else { 0 }
    }

    fn futex(&mut self, worker: usize, cmd: Cmd) -> [Arg; 6] {
        let has_clock = matches!(cmd, Cmd::WaitBitset | Cmd::WaitRequeuePi | Cmd::LockPi2);
        let realtime = if self.rng.percent(if has_clock { 30 } else { 1 }) { REALTIME } else { 0 };
        let op = Arg::Op(cmd, self.privacy() | realtime);
        let (mut word, mut other) = (self.word(), self.word());
        if matches!(cmd, Cmd::WaitRequeuePi | Cmd::CmpRequeuePi) {
            // Waits use the first word, locks the last one.
            (word, other) = (self.words[0], *self.words.last().expect("there is one"));
            if self.words.len() == 1 && self.rng.percent(80) {
                other = (word + 1) % USABLE;
            }
        }
        if cmd == Cmd::UnlockPi && self.rng.percent(80) {
            let owned = (0..USABLE).find(|&w| self.model.value(w) & TID_MASK == self.tids[worker]);
            word = owned.unwrap_or(word);
        }
        let (address, address2) = (self.address(word), self.address(other));
        let nothing = || Arg::Num(0);
        match cmd {
            Cmd::Wait | Cmd::WaitBitset => [address, op, self.expected(word), self.time(), nothing(), self.mask()],
            Cmd::Wake | Cmd::WakeBitset => [address, op, self.count(), nothing(), nothing(), self.mask()],
            Cmd::Requeue | Cmd::CmpRequeue => [address, op, self.count(), self.count(), address2, self.expected(word)],
            Cmd::WakeOp => {
                let encoded = self.wake_op();
                [address, op, self.count(), self.count(), address2, encoded]
            }
            Cmd::LockPi | Cmd::LockPi2 => [address, op, nothing(), self.time(), nothing(), nothing()],
            Cmd::UnlockPi | Cmd::TrylockPi => [address, op, nothing(), nothing(), nothing(), nothing()],
            Cmd::WaitRequeuePi => [address, op, self.expected(word), self.time(), address2, nothing()],
            Cmd::CmpRequeuePi => {
                let wake_count = if self.rng.percent(95) { Arg::Num(1) } else { self.count() };
                [address, op, wake_count, self.count(), address2, self.expected(word)]
            }
            Cmd::Fd | Cmd::Unknown(_) => [address, op, self.count(), nothing(), address2, nothing()],
        }
    }

    /// The encoded operation and comparison of a `FUTEX_WAKE_OP`.
    fn wake_op(&mut self) -> Arg {
        let op = if self.rng.percent(95) { self.rng.below(5) } else { self.rng.below(8) };
        let shift = if self.rng.percent(30) { 8 } else { 0 };
        let cmp = if self.rng.percent(95) { self.rng.below(6) } else { self.rng.below(16) };
        let args = [0, 0, 1, 1, 2, 31, 33, 0x7ff, 0x800, 0xfff];
        let (arg, cmp_arg) = (self.rng.of(&args), self.rng.of(&args));
        Arg::Num(((op | shift) << 28 | cmp << 24 | arg << 12 | cmp_arg) as u64)
    }

    fn flags2(&mut self) -> u32 {
        const SIZE_32: u32 = 2;
        // `FUTEX2_NUMA` (4) and `FUTEX2_MPOL` (8) are left out.
        if self.rng.percent(4) { self.rng.of(&[0, 1, 3, 16, 256, 512, 1 << 31]) } else { SIZE_32 | self.privacy() }
    }

    fn clock(&mut self) -> Arg {
        Arg::Num(self.rng.weighted(&[(50, 1), (40, 0), (4, 2), (3, u64::MAX), (3, 1 << 32)]))
    }

    fn vector(&mut self, count: usize) -> Arg {
        let entries = (0..count).map(|_| {
            let word = self.word();
            let value = if self.rng.percent(2) { Arg::Num(1 << 32) } else { self.expected(word) };
            let reserved = u32::from(self.rng.percent(1));
            Entry { value, address: self.address(word), flags: self.flags2(), reserved }
        });
        Arg::Vector(Entries(entries.collect()))
    }

    fn waitv(&mut self) -> [Arg; 6] {
        let mut length = self.rng.weighted(&[(30, 1), (40, 2), (20, 3), (10, 4)]);
        // A target may wake many waiters in several batches. A waiter with a higher priority than the waker then
        // returns between two batches, so long vectors are only used if all priorities are equal.
        let vector = if !self.has_priorities && self.rng.percent(1) {
            length = self.rng.of(&[128, 129]);
            let word = self.word();
            let entry = Entry { value: Arg::Same(word), address: Arg::Word(word), flags: 2 | PRIVATE, reserved: 0 };
            Arg::Vector(Entries(vec![entry; length]))
        } else {
            self.vector(length)
        };
        let count = if self.rng.percent(96) { length as u64 } else { self.rng.of(&[0, 1, 2, 129, 1 << 32 | 1]) };
        let flags = if self.rng.percent(98) { 0 } else { self.rng.of(&[1, 1 << 32, 256]) };
        [vector, Arg::Num(count), Arg::Num(flags), self.time(), self.clock(), Arg::Num(0)]
    }

    fn wake2(&mut self) -> [Arg; 6] {
        let word = self.word();
        let nothing = Arg::Num(0);
        [self.address(word), self.mask(), self.count(), Arg::Num(self.flags2().into()), nothing.clone(), nothing]
    }

    fn wait2(&mut self) -> [Arg; 6] {
        let word = self.word();
        let flags = Arg::Num(self.flags2().into());
        [self.address(word), self.expected(word), self.mask(), flags, self.time(), self.clock()]
    }

    fn requeue2(&mut self) -> [Arg; 6] {
        let flags = if self.rng.percent(97) { 0 } else { self.rng.of(&[1, 1 << 32]) };
        let nothing = Arg::Num(0);
        [self.vector(2), Arg::Num(flags), self.count(), self.count(), nothing.clone(), nothing]
    }
}
