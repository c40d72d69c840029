//! Enumerates the candidate executions of a test.
//!
//! First the way that each thread takes is chosen: which guards hold, which exchanges fail. That fixes the events.
//! Then, for each location, the order of its stores is chosen, and the store that each load reads. Values follow from
//! that. A candidate in which they contradict the chosen ways is dropped.

use crate::program::{Action, Atom, Change, Mode, Operand, Statement, Test, Value};
use crate::relation::Relation;

/// What an event does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs)]
pub enum Kind {
    Read,
    Write,
    Fence,
}

/// A read, a write or a fence. A read-modify-write is a read and a write.
#[derive(Clone, Debug)]
#[expect(missing_docs)]
pub struct Event {
    pub kind: Kind,
    pub mode: Mode,
    /// `None`: the first value of the location.
    pub thread: Option<usize>,
    /// The location, unless it is a fence.
    pub at: usize,
    /// Part of a read-modify-write.
    pub is_change: bool,
    /// Part of a compare-and-swap.
    pub is_compare: bool,
    /// The membarrier(2) call and its stage, if the fence is one of such a call.
    pub passed: Option<(usize, usize)>,
    stores: Stored,
}

/// The value of a write: that of a read, perhaps, plus a number.
#[derive(Clone, Copy, Debug)]
struct Stored {
    of: Option<usize>,
    plus: Value,
}

/// Events, and how they are related.
pub struct Execution {
    /// The events, in the order of each thread.
    pub events: Vec<Event>,
    /// Whether there are accesses that are not atomic.
    pub has_plain: bool,
    /// Program order, with the first values before everything.
    pub po: Relation,
    /// From the store that is read to the load.
    pub rf: Relation,
    /// The order of the stores to each location.
    pub co: Relation,
    /// From a load to the stores that come after the one that it reads.
    pub fr: Relation,
    /// From the read of a read-modify-write to its write.
    pub rmw: Relation,
    /// From a read to the writes whose value comes from it.
    pub data: Relation,
    /// From a read to what comes after a branch that depends on it.
    pub ctrl: Relation,
    /// From the begin of a membarrier(2) to the fences of the other threads, and from those to its end.
    pub passed: Relation,
}

impl Execution {
    /// The pairs in which `from` holds for the first event and `to` for the second.
    pub fn pairs(&self, from: impl Fn(&Event) -> bool, to: impl Fn(&Event) -> bool) -> Relation {
        Relation::of(self.events.len(), |a, b| from(&self.events[a]) && to(&self.events[b]))
    }

    /// `[holds]`: each event with itself for which `holds`.
    pub fn only(&self, holds: impl Fn(&Event) -> bool) -> Relation {
        Relation::of(self.events.len(), |a, b| a == b && holds(&self.events[a]))
    }

    /// The pairs of accesses to one location.
    pub fn same_location(&self) -> Relation {
        let is_access = |event: &Event| event.kind != Kind::Fence;
        Relation::of(self.events.len(), |a, b| {
            let (a, b) = (&self.events[a], &self.events[b]);
            is_access(a) && is_access(b) && a.at == b.at
        })
    }

    /// The pairs within one thread.
    pub fn same_thread(&self) -> Relation {
        Relation::of(self.events.len(), |a, b| {
            self.events[a].thread.is_some() && self.events[a].thread == self.events[b].thread
        })
    }
}

/// The events of the chosen ways, and what must hold for these ways to be taken.
#[derive(Default)]
struct Ways {
    events: Vec<Event>,
    /// A read, and whether it must return the value.
    conditions: Vec<(usize, bool, Value)>,
    rmw: Vec<(usize, usize)>,
    data: Vec<(usize, usize)>,
    ctrl: Vec<(usize, usize)>,
    /// The read whose value a register holds.
    registers: Vec<(String, usize)>,
    /// The axioms that are checked here.
    per_location: bool,
    atomicity: bool,
}

/// A choice of the order of a location's stores and of what its loads read.
struct Order {
    stores: Vec<usize>,
    reads: Vec<(usize, usize)>,
}

/// Whether `accept` returns `true` for any candidate. It is also told whether the candidate has the test's outcome.
///
/// `without`: an axiom that a caller leaves out, of which "per location" (and "coherence", which contains it) and
/// "atomicity" are checked here.
pub fn any(test: &Test, without: Option<&str>, mut accept: impl FnMut(&Execution, bool) -> bool) -> bool {
    let is_choice = |statement: &&Statement| {
        let may_fail =
            matches!(&statement.action, Action::Change { change: Change::Compare { or_load: Some(_), .. }, .. });
        usize::from(may_fail) + usize::from(statement.guard.is_some())
    };
    let choices: usize = test.threads.iter().flatten().map(|statement| is_choice(&statement)).sum();
    let per_location = !matches!(without, Some("per location" | "coherence"));
    let rules = || Ways { per_location, atomicity: without != Some("atomicity"), ..Ways::default() };
    (0..1u32 << choices).filter_map(|choice| rules().take(test, choice)).any(|ways| {
        let orders: Vec<_> = (0..test.init.len()).map(|at| ways.orders(at)).collect();
        ways.any_product(test, &orders, &mut Vec::new(), &mut accept)
    })
}

impl Ways {
    /// The ways that the bits of `choice` stand for. `None` if they contradict each other.
    fn take(mut self, test: &Test, mut choice: u32) -> Option<Self> {
        for (at, (_, value)) in test.init.iter().enumerate() {
            self.push(Event::new(Kind::Write, Mode::Relaxed, None, at, Stored { of: None, plus: *value }));
        }
        let mut next = || {
            let bit = choice & 1 == 1;
            choice >>= 1;
            bit
        };
        for (thread, statements) in test.threads.iter().enumerate() {
            let mut branches = Vec::new();
            for statement in statements {
                let is_taken = match &statement.guard {
                    Some(guard) => self.guard(guard, next(), &mut branches)?,
                    None => true,
                };
                let first = self.events.len();
                if !self.run(thread, statement, is_taken, &mut next, &mut branches) {
                    return None;
                }
                let new = first..self.events.len();
                // An awaited load is a branch for what comes after it alone.
                let earlier = branches.iter().filter(|&&branch| branch < first);
                self.ctrl.extend(earlier.flat_map(|&branch| new.clone().map(move |event| (branch, event))));
            }
        }
        Some(self)
    }

    fn push(&mut self, event: Event) -> usize {
        self.events.push(event);
        self.events.len() - 1
    }

    fn read_of(&self, register: &str) -> Option<usize> {
        self.registers.iter().rev().find(|(name, _)| name == register).map(|(_, read)| *read)
    }

    fn stored(&self, value: &Operand) -> Stored {
        match value {
            Operand::Number(value) => Stored { of: None, plus: *value },
            Operand::Register(name) => {
                let of = self.read_of(name).unwrap_or_else(|| panic!("'{name}' is neither location nor register"));
                Stored { of: Some(of), plus: 0 }
            }
        }
    }

    fn guard(&mut self, guard: &Atom, is_taken: bool, branches: &mut Vec<usize>) -> Option<bool> {
        let Some(read) = self.read_of(&guard.name) else {
            // The register has no value, since a guard before it does not hold.
            return (!is_taken).then_some(false);
        };
        self.conditions.push((read, guard.is_equal == is_taken, guard.value));
        branches.push(read);
        Some(is_taken)
    }

    /// Adds the events of a statement. `false` if the choices contradict each other.
    fn run(
        &mut self,
        thread: usize,
        statement: &Statement,
        is_taken: bool,
        next: &mut impl FnMut() -> bool,
        branches: &mut Vec<usize>,
    ) -> bool {
        let mode = statement.mode;
        let event = |kind, at, stores| Event::new(kind, mode, Some(thread), at, stores);
        let nothing = Stored { of: None, plus: 0 };
        match &statement.action {
            Action::Change { into, at, change } => {
                let fails = matches!(change, Change::Compare { or_load: Some(_), .. }) && next();
                if !is_taken {
                    return !fails;
                }
                let read = self.push(event(Kind::Read, *at, nothing));
                self.registers.extend(into.iter().map(|name| (name.clone(), read)));
                let stores = match change {
                    Change::Add(plus) => Stored { of: Some(read), plus: *plus },
                    Change::Exchange(value) => self.stored(value),
                    Change::Compare { old, new, .. } => {
                        self.conditions.push((read, !fails, *old));
                        Stored { of: None, plus: *new }
                    }
                };
                // One that fails is the same instruction: on x86-64 it is locked all the same.
                self.events[read].is_change = true;
                self.events[read].is_compare = matches!(change, Change::Compare { .. });
                if let (true, Change::Compare { or_load: Some(mode), .. }) = (fails, change) {
                    self.events[read].mode = *mode;
                    return true;
                }
                let write = Event { kind: Kind::Write, stores, ..self.events[read].clone() };
                let write = self.push(write);
                self.rmw.push((read, write));
                self.data.extend(stores.of.map(|of| (of, write)));
            }
            _ if !is_taken => {}
            Action::Load { into, at, awaits } => {
                let read = self.push(event(Kind::Read, *at, nothing));
                self.registers.extend(into.iter().map(|name| (name.clone(), read)));
                self.conditions.extend(awaits.map(|value| (read, true, value)));
                branches.extend(awaits.map(|_| read));
            }
            Action::Store { at, value } => {
                let stores = self.stored(value);
                let write = self.push(event(Kind::Write, *at, stores));
                self.data.extend(stores.of.map(|of| (of, write)));
            }
            Action::Fence => _ = self.push(event(Kind::Fence, 0, nothing)),
            Action::Passed { call, stage } => {
                let fence = self.push(event(Kind::Fence, 0, nothing));
                self.events[fence].passed = Some((*call, *stage));
            }
            Action::CompilerFence => {}
            Action::Membarrier => unreachable!("replaced by `Test::placements`"),
        }
        true
    }

    /// The orders of a location's stores, each with all choices of what its loads read.
    fn orders(&self, at: usize) -> Vec<Order> {
        let here =
            |kind| (0..self.events.len()).filter(move |&e| self.events[e].kind == kind && self.events[e].at == at);
        let (mut stores, reads): (Vec<_>, Vec<_>) = (here(Kind::Write).collect(), here(Kind::Read).collect());
        let mut all = Vec::new();
        // The first value comes first.
        self.permute(&mut vec![stores.remove(0)], &mut stores, &mut |stores| {
            self.read(stores, &reads, &mut Vec::new(), &mut all);
        });
        all
    }

    fn permute(&self, order: &mut Vec<usize>, left: &mut Vec<usize>, found: &mut dyn FnMut(&[usize])) {
        if left.is_empty() {
            return found(order);
        }
        for place in 0..left.len() {
            let thread = self.events[left[place]].thread;
            // Stores are listed in program order.
            let is_late = left[..place].iter().any(|&earlier| self.events[earlier].thread == thread);
            if !(self.per_location && is_late) {
                order.push(left.remove(place));
                self.permute(order, left, found);
                left.insert(place, order.pop().expect("pushed above"));
            }
        }
    }

    fn read(&self, stores: &[usize], left: &[usize], reads: &mut Vec<(usize, usize)>, all: &mut Vec<Order>) {
        let Some((&read, left)) = left.split_first() else {
            let order = Order { stores: stores.to_vec(), reads: reads.clone() };
            if !self.per_location || self.is_coherent(&order) {
                all.push(order);
            }
            return;
        };
        let own = self.rmw.iter().find(|(of, _)| *of == read).map(|(_, write)| *write);
        for (place, &store) in stores.iter().enumerate() {
            // "Atomicity": a read-modify-write comes directly after the store that it reads.
            let is_atomic = own.is_none() || stores.get(place + 1).copied() == own;
            if Some(store) != own && (is_atomic || !self.atomicity) {
                reads.push((store, read));
                self.read(stores, left, reads, all);
                reads.pop();
            }
        }
    }

    /// "Per location": each thread sees the stores to this location in their order.
    fn is_coherent(&self, order: &Order) -> bool {
        let place = |store| order.stores.iter().position(|&other| other == store).expect("a store of this location");
        let stores = order.stores.iter().map(|&store| (store, place(store), 1));
        let mut seen: Vec<_> = stores.chain(order.reads.iter().map(|&(store, read)| (read, place(store), 0))).collect();
        seen.sort_unstable();
        let thread = |event: usize| self.events[event].thread;
        seen.iter().enumerate().all(|(index, &(event, from, _))| {
            let mut later = seen[index + 1..].iter().filter(|next| thread(next.0) == thread(event));
            later.all(|&(_, to, is_store)| from + is_store <= to)
        })
    }

    /// Calls `accept` for each choice of one order a location.
    fn any_product<'o>(
        &self,
        test: &Test,
        orders: &'o [Vec<Order>],
        chosen: &mut Vec<&'o Order>,
        accept: &mut impl FnMut(&Execution, bool) -> bool,
    ) -> bool {
        let Some(next) = orders.get(chosen.len()) else { return self.accepts(test, chosen, accept) };
        next.iter().any(|order| {
            chosen.push(order);
            let found = self.any_product(test, orders, chosen, accept);
            chosen.pop();
            found
        })
    }

    fn accepts(&self, test: &Test, chosen: &[&Order], accept: &mut impl FnMut(&Execution, bool) -> bool) -> bool {
        let Some(values) = self.values(chosen) else { return false };
        if self.conditions.iter().any(|&(read, is_equal, value)| (values[read] == value) != is_equal) {
            return false;
        }
        let holds = |atom: &Atom| {
            let location = test.init.iter().position(|(name, _)| *name == atom.name);
            let last = location.map(|at| *chosen[at].stores.last().expect("the first value"));
            let event = last.or_else(|| self.read_of(&atom.name));
            event.is_some_and(|event| (values[event] == atom.value) == atom.is_equal)
        };
        let has_outcome = test.outcome.iter().any(|atoms| atoms.iter().all(holds));
        let has_plain = self.events.iter().any(|event| event.mode == Mode::Plain);
        (has_outcome || has_plain) && accept(&self.execution(chosen, has_plain), has_outcome)
    }

    /// What each event reads or writes. `None` if values depend on themselves.
    fn values(&self, chosen: &[&Order]) -> Option<Vec<Value>> {
        let mut values = vec![None; self.events.len()];
        for _ in 0..=self.events.len() {
            for (event, Event { kind, stores, .. }) in self.events.iter().enumerate() {
                match (kind, stores.of) {
                    (Kind::Write, Some(of)) => values[event] = values[of].map(|value: Value| value + stores.plus),
                    (Kind::Write, None) => values[event] = Some(stores.plus),
                    _ => {}
                }
            }
            let reads = chosen.iter().flat_map(|order| &order.reads);
            reads.for_each(|&(store, read)| values[read] = values[store]);
        }
        let is_known = |event: &Event| event.kind != Kind::Fence;
        let all = values.iter().zip(&self.events);
        all.map(|(value, event)| if is_known(event) { *value } else { Some(0) }).collect()
    }

    fn execution(&self, chosen: &[&Order], has_plain: bool) -> Execution {
        let count = self.events.len();
        let event = |index: usize| &self.events[index];
        let pairs = |pairs: &[(usize, usize)]| Relation::from_pairs(count, pairs.iter().copied());
        let rf = Relation::from_pairs(count, chosen.iter().flat_map(|order| order.reads.iter().copied()));
        let place = |store| chosen[event(store).at].stores.iter().position(|&other| other == store);
        let is_write = |index: usize| event(index).kind == Kind::Write;
        let co =
            Relation::of(count, |a, b| is_write(a) && is_write(b) && event(a).at == event(b).at && place(a) < place(b));
        Execution {
            events: self.events.clone(),
            has_plain,
            po: Relation::of(count, |a, b| {
                a < b && event(b).thread.is_some() && (event(a).thread.is_none() || event(a).thread == event(b).thread)
            }),
            fr: rf.inverse().then(&co),
            rf,
            co,
            rmw: pairs(&self.rmw),
            data: pairs(&self.data),
            ctrl: pairs(&self.ctrl),
            passed: Relation::of(count, |a, b| match (event(a).passed, event(b).passed) {
                (Some((call, from)), Some((same, to))) => call == same && from + 1 == to,
                _ => false,
            }),
        }
    }
}

impl Event {
    fn new(kind: Kind, mode: Mode, thread: Option<usize>, at: usize, stores: Stored) -> Self {
        Self { kind, mode, thread, at, is_change: false, is_compare: false, passed: None, stores }
    }
}
