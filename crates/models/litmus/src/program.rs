//! Litmus tests in the notation of ORDERING.md: a column a thread, a statement a line.
//!
//! Names that `init` lists are locations, all others are registers. The statements:
//!
//! ```text
//! x = 1 rel               store                   seen = x acq            load
//! x <- 1 acqrel           exchange                seen = x <- 1 acqrel    exchange that keeps what was there
//! x += 1 acq              add                     seen = x += 1 acq       add that keeps what was there
//! x: 0 -> 1 acq           compare-and-swap in a loop that ends with success
//! seen = try x: 0 -> 1    compare-and-swap that may fail, and then is a Relaxed load (`else sc`: a SeqCst load)
//! await x == 1 acq        load in a loop that ends with this value
//! fence sc                fence
//! compiler fence          holds back the compiler alone
//! membarrier              membarrier(2): a fence here, and one in each other thread, somewhere
//! if seen == 1: ...       a statement that depends on a register (or `!=`)
//! .. x = 1                continues a restartable sequence: no fence of membarrier(2) comes before it
//! ```
//!
//! The mode is `na` (not atomic), `rlx`, `acq`, `rel`, `acqrel` or `sc`, and Relaxed if it is left out. A label in
//! brackets ends a statement whose ordering is to be weakened.

/// What locations and registers hold.
pub type Value = i64;

/// A memory ordering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs)]
pub enum Mode {
    Plain,
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    SeqCst,
}

/// The names of the modes, in the order of [`Mode`].
pub const MODES: [&str; 6] = ["na", "rlx", "acq", "rel", "acqrel", "sc"];

impl Mode {
    fn named(name: &str) -> Option<Self> {
        use Mode::*;
        let place = MODES.iter().position(|mode| *mode == name)?;
        Some([Plain, Relaxed, Acquire, Release, AcqRel, SeqCst][place])
    }

    /// Acquire or stronger.
    pub fn acquires(self) -> bool {
        matches!(self, Mode::Acquire | Mode::AcqRel | Mode::SeqCst)
    }

    /// Release or stronger.
    pub fn releases(self) -> bool {
        matches!(self, Mode::Release | Mode::AcqRel | Mode::SeqCst)
    }
}

/// A number, or a register.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs)]
pub enum Operand {
    Number(Value),
    Register(String),
}

/// What a read-modify-write does.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs)]
pub enum Change {
    Add(Value),
    Exchange(Operand),
    /// `or_load`: with any other value it is a load in this mode. Otherwise no other value counts.
    Compare {
        old: Value,
        new: Value,
        or_load: Option<Mode>,
    },
}

/// What a statement does. `at` is the place of a location in [`Test::init`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs)]
pub enum Action {
    /// `awaits`: executions in which it reads another value do not count.
    Load {
        into: Option<String>,
        at: usize,
        awaits: Option<Value>,
    },
    Store {
        at: usize,
        value: Operand,
    },
    Change {
        into: Option<String>,
        at: usize,
        change: Change,
    },
    Fence,
    CompilerFence,
    Membarrier,
    /// A fence of a membarrier(2) call: 0 at its begin, 1 in another thread, 2 at its end.
    Passed {
        call: usize,
        stage: usize,
    },
}

/// A statement of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs)]
pub struct Statement {
    pub guard: Option<Atom>,
    pub continues_sequence: bool,
    pub action: Action,
    pub mode: Mode,
    pub label: Option<String>,
}

/// `name == value`, or `name != value`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs)]
pub struct Atom {
    pub name: String,
    pub is_equal: bool,
    pub value: Value,
}

/// A program, and the outcome that is asked about.
#[derive(Clone, Debug)]
pub struct Test {
    /// As it is printed.
    pub name: String,
    /// The locations with their first values.
    pub init: Vec<(String, Value)>,
    /// The statements of each thread.
    pub threads: Vec<Vec<Statement>>,
    /// Alternatives, each a list of what must hold at the end.
    pub outcome: Vec<Vec<Atom>>,
}

impl Test {
    /// Reads a test. The first line of `program` names the threads.
    ///
    /// # Panics
    /// If a statement cannot be read.
    pub fn new(name: &str, init: &str, program: &str, outcome: &str) -> Self {
        let init: Vec<_> = init.split(',').map(|pair| assignment(pair, "=")).collect();
        let mut lines = program.lines().filter(|line| !line.trim().is_empty());
        let threads = lines.next().expect("the names of the threads").split('|').count();
        let mut threads = vec![Vec::new(); threads];
        for line in lines {
            let cells = line.split('|').map(str::trim).enumerate().filter(|(_, cell)| !cell.is_empty());
            cells.for_each(|(thread, cell)| threads[thread].push(statement(&init, cell)));
        }
        let atoms = |all: &str| all.split("&&").map(atom).collect();
        Self { name: name.to_string(), init, threads, outcome: outcome.split("||").map(atoms).collect() }
    }

    /// The same test with each membarrier(2) replaced by fences: one in the caller at the begin and one at the end of
    /// the call, and one in each other thread, in every place. A thread without a CPU has passed one when it lost it.
    pub fn placements(&self) -> Vec<Self> {
        let is_call = |statement: &Statement| statement.action == Action::Membarrier;
        let found =
            self.threads.iter().enumerate().find_map(|(thread, all)| Some((thread, all.iter().position(is_call)?)));
        let Some((caller, place)) = found else { return vec![self.clone()] };
        let fence = |stage| Statement {
            guard: None,
            continues_sequence: false,
            action: Action::Passed { call: caller * 64 + place, stage },
            mode: Mode::SeqCst,
            label: None,
        };
        let mut first = self.clone();
        first.threads[caller].splice(place..=place, [fence(0), fence(2)]);
        let mut all = vec![first];
        for other in (0..self.threads.len()).filter(|&other| other != caller) {
            let insert = |test: &Self, at| {
                let mut test = test.clone();
                test.threads[other].insert(at, fence(1));
                test
            };
            let all_places = 0..=self.threads[other].len();
            let splits = |&at: &usize| self.threads[other].get(at).is_some_and(|next| next.continues_sequence);
            let places = all_places.filter(|at| !splits(at));
            all = all.iter().flat_map(|test| places.clone().map(|at| insert(test, at))).collect();
        }
        all.iter().flat_map(Self::placements).collect()
    }
}

fn assignment(pair: &str, sign: &str) -> (String, Value) {
    let (name, value) = pair.split_once(sign).unwrap_or_else(|| panic!("'{pair}' has no '{sign}'"));
    (name.trim().to_string(), number(value))
}

fn number(text: &str) -> Value {
    text.trim().parse().unwrap_or_else(|_| panic!("'{text}' is no number"))
}

fn atom(text: &str) -> Atom {
    let is_equal = !text.contains("!=");
    let (name, value) = assignment(text, if is_equal { "==" } else { "!=" });
    Atom { name, is_equal, value }
}

fn operand(text: &str) -> Operand {
    text.parse().map_or_else(|_| Operand::Register(text.to_string()), Operand::Number)
}

fn statement(init: &[(String, Value)], cell: &str) -> Statement {
    let (cell, label) = match cell.split_once('[') {
        Some((cell, label)) => (cell, Some(label.trim_end_matches(']').to_string())),
        None => (cell, None),
    };
    let (cell, continues_sequence) = cell.strip_prefix("..").map_or((cell, false), |rest| (rest, true));
    let (guard, body) = match cell.trim().strip_prefix("if ").and_then(|rest| rest.split_once(": ")) {
        Some((guard, body)) => (Some(atom(guard)), body),
        None => (None, cell),
    };
    let (body, or_load) = body.split_once(" else ").unwrap_or((body, "rlx"));
    let or_load = Mode::named(or_load.trim());
    let mut words: Vec<&str> = body.split_whitespace().collect();
    let mode = words.last().and_then(|word| Mode::named(word));
    words.truncate(words.len() - usize::from(mode.is_some()));
    let location = |name: &str| init.iter().position(|(known, _)| known == name.trim_end_matches(':'));
    let at = |name: &str| location(name).unwrap_or_else(|| panic!("'{cell}': '{name}' is no location"));
    let compare = |into, name, old, new, or_load| Action::Change {
        into,
        at: at(name),
        change: Change::Compare { old: number(old), new: number(new), or_load },
    };
    let change = |into, name, change| Action::Change { into, at: at(name), change };
    let action = match words[..] {
        ["fence"] => Action::Fence,
        ["compiler", "fence"] => Action::CompilerFence,
        ["membarrier"] => Action::Membarrier,
        ["await", name, "==", value] => Action::Load { into: None, at: at(name), awaits: Some(number(value)) },
        [name, "+=", value] => change(None, name, Change::Add(number(value))),
        [into, "=", name, "+=", value] => change(Some(into.to_string()), name, Change::Add(number(value))),
        [name, "<-", value] => change(None, name, Change::Exchange(operand(value))),
        [into, "=", name, "<-", value] => change(Some(into.to_string()), name, Change::Exchange(operand(value))),
        ["try", name, old, "->", new] => compare(None, name, old, new, or_load),
        [into, "=", "try", name, old, "->", new] => compare(Some(into.to_string()), name, old, new, or_load),
        [name, old, "->", new] => compare(None, name, old, new, None),
        [name, "=", value] if location(name).is_some() => Action::Store { at: at(name), value: operand(value) },
        [into, "=", name] => Action::Load { into: Some(into.to_string()), at: at(name), awaits: None },
        _ => panic!("'{cell}' is no statement"),
    };
    Statement { guard, continues_sequence, action, mode: mode.unwrap_or(Mode::Relaxed), label }
}
