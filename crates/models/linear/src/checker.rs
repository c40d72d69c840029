//! The search for an order of the calls.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;

use crate::history::{Call, History};

/// What has become of a call that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It is blocked, or has another step to take.
    Open,
    /// It has returned what the history says.
    Over,
    /// It has returned something else.
    Wrong,
}

/// A sequential model: the state that calls read and change.
pub trait Spec: Clone {
    /// A call, its arguments and its result.
    type Op: fmt::Display;
    /// What of the state later steps depend on.
    type Key: Eq + Hash;

    /// The part of the state that later steps depend on.
    fn key(&self) -> Self::Key;

    /// Takes the first step of a call. False if the call cannot take place here.
    fn begin(&mut self, thread: usize, call: &Call<Self::Op>) -> bool;

    /// The states after a further step that the call takes by itself, such as leaving a queue after a timeout. None if
    /// there is no such step; several if the model leaves open what the step does.
    fn go_on(&self, thread: usize, call: &Call<Self::Op>) -> Vec<Self>;

    /// What has become of the call, which has begun.
    fn progress(&self, thread: usize, call: &Call<Self::Op>) -> Progress;
}

/// A history is not linearizable.
#[derive(PartialEq, Eq, Debug)]
pub struct Violation {
    /// By thread, how many calls the longest order that was found contains.
    pub longest: Vec<usize>,
}

/// The most states that a search visits. A history of some thirty calls has some hundred.
const STATES_MAX: usize = 3_000_000;

/// Searches for an order of the calls in which `spec` returns what the history says.
///
/// # Errors
/// A [`Violation`] if there is none.
///
/// # Panics
/// If the history is too long for the search.
pub fn check<S: Spec>(history: &History<S::Op>, spec: S) -> Result<(), Violation> {
    let threads = history.threads.len();
    let mut search = Search { history, seen: HashSet::new(), longest: vec![0; threads] };
    let start = Node { at: vec![At::default(); threads], spec };
    if search.finds(start) { Ok(()) } else { Err(Violation { longest: search.longest }) }
}

/// Where a thread is in its calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
struct At {
    /// How many calls are over.
    over: usize,
    /// Whether the next one has begun.
    has_begun: bool,
}

#[derive(Clone)]
struct Node<S> {
    at: Vec<At>,
    spec: S,
}

struct Search<'h, S: Spec> {
    history: &'h History<S::Op>,
    seen: HashSet<(Vec<At>, S::Key)>,
    longest: Vec<usize>,
}

impl<S: Spec> Search<'_, S> {
    /// Whether the calls that are left can be ordered.
    fn finds(&mut self, mut node: Node<S>) -> bool {
        if !self.settle(&mut node) || !self.seen.insert((node.at.clone(), node.spec.key())) {
            return false;
        }
        assert!(self.seen.len() < STATES_MAX, "the history has too many concurrent calls for this search");
        self.note(&node.at);
        // Every call that is left has a point after this step, so the step is before the first of the times by which
        // they take these points.
        let latest = |(at, call): (At, &Call<S::Op>)| if at.has_begun { call.end } else { call.begun };
        let Some(horizon) = self.left(&node.at).map(latest).min() else { return true };
        (0..node.at.len()).any(|thread| self.steps(&node, thread, horizon).into_iter().any(|next| self.finds(next)))
    }

    /// The next call of each thread that has one.
    fn left<'s>(&'s self, at: &'s [At]) -> impl Iterator<Item = (At, &'s Call<S::Op>)> {
        let next = |(thread, at): (usize, &At)| Some((*at, self.history.threads[thread].get(at.over)?));
        at.iter().enumerate().filter_map(next)
    }

    /// The states after the next step of `thread`.
    fn steps(&self, node: &Node<S>, thread: usize, horizon: u64) -> Vec<Node<S>> {
        let Some(call) = self.history.threads[thread].get(node.at[thread].over) else { return Vec::new() };
        let has_begun = node.at[thread].has_begun;
        let earliest = if has_begun { call.goes_on } else { call.begin };
        if earliest > horizon {
            return Vec::new();
        }
        let mut at = node.at.clone();
        at[thread].has_begun = true;
        let specs = if has_begun {
            node.spec.go_on(thread, call)
        } else {
            let mut spec = node.spec.clone();
            if spec.begin(thread, call) { vec![spec] } else { Vec::new() }
        };
        specs.into_iter().map(|spec| Node { at: at.clone(), spec }).collect()
    }

    /// Notes which calls are over. False if one of them has returned something else than the history says.
    fn settle(&self, node: &mut Node<S>) -> bool {
        for thread in 0..node.at.len() {
            let at = &mut node.at[thread];
            if !at.has_begun {
                continue;
            }
            match node.spec.progress(thread, &self.history.threads[thread][at.over]) {
                Progress::Open => {}
                Progress::Over => *at = At { over: at.over + 1, has_begun: false },
                Progress::Wrong => return false,
            }
        }
        true
    }

    fn note(&mut self, at: &[At]) {
        if at.iter().map(|at| at.over).sum::<usize>() > self.longest.iter().sum() {
            self.longest = at.iter().map(|at| at.over).collect();
        }
    }
}
