//! Shrinks a failing program.

use crate::common::random::fewest;
use crate::program::{Arg, Program, Step};

/// Limit on the number of smaller programs to run.
const TRIALS: usize = 3000;

/// The smallest program found for which `fails` returns true. It must return true for `program`.
pub fn shrink(mut program: Program, mut fails: impl FnMut(&Program) -> bool) -> Program {
    let mut trials = TRIALS;
    let mut fails = |candidate: &Program| {
        let may_try = trials > 0;
        trials = trials.saturating_sub(1);
        may_try && fails(candidate)
    };
    loop {
        let before = program.clone();
        let priorities = program.priorities;
        program.steps = fewest(program.steps, |steps| fails(&Program { priorities, steps: steps.to_vec() }));
        for candidate in simpler_priorities(&program).into_iter().chain(simpler_arguments(&program)) {
            // The other candidates derive from the program before this change, so start again from the new one.
            if candidate != program && size(&candidate) < size(&program) && fails(&candidate) {
                program = candidate;
                break;
            }
        }
        if program == before {
            return program;
        }
    }
}

fn simpler_priorities(program: &Program) -> Vec<Program> {
    let plain = Program { priorities: Default::default(), ..program.clone() };
    if plain == *program { Vec::new() } else { vec![plain] }
}

/// Variants of the program, each with one argument made simpler.
fn simpler_arguments(program: &Program) -> Vec<Program> {
    let mut candidates = Vec::new();
    for (index, step) in program.steps.iter().enumerate() {
        let simpler: Vec<Step> = match step {
            Step::Call(worker, number, args) => (0..args.len())
                .flat_map(|i| simpler(&args[i]).into_iter().map(move |arg| (i, arg)))
                .map(|(i, arg)| {
                    let mut args = args.clone();
                    args[i] = arg;
                    Step::Call(*worker, *number, args)
                })
                .collect(),
            Step::Store(word, value) => simpler(value).into_iter().map(|value| Step::Store(*word, value)).collect(),
            Step::Exit(worker, locks, pending) => {
                let fewer = (0..locks.0.len()).map(|i| {
                    let mut fewer = locks.clone();
                    fewer.0.remove(i);
                    Step::Exit(*worker, fewer, *pending)
                });
                fewer.chain(pending.map(|_| Step::Exit(*worker, locks.clone(), None))).collect()
            }
            Step::Signal(worker, true) => vec![Step::Signal(*worker, false)],
            _ => Vec::new(),
        };
        candidates.extend(simpler.into_iter().map(|step| {
            let mut candidate = program.clone();
            candidate.steps[index] = step;
            candidate
        }));
    }
    candidates
}

fn simpler(arg: &Arg) -> Vec<Arg> {
    let mut simpler = match arg {
        Arg::Op(cmd, flags) if *flags != 0 => vec![Arg::Op(*cmd, flags & 128), Arg::Op(*cmd, 0)],
        Arg::Num(0) | Arg::Op(..) => return Vec::new(),
        Arg::Num(number) => vec![Arg::Num(number & 0xffff_ffff), Arg::Num(1), Arg::Num(0)],
        Arg::Tid(worker, _) => vec![Arg::Tid(*worker, 0), Arg::Num(0)],
        Arg::Past(word, _) => vec![Arg::Word(*word)],
        Arg::Vector(entries) => (0..entries.0.len())
            .map(|i| {
                let mut fewer = entries.clone();
                fewer.0.remove(i);
                Arg::Vector(fewer)
            })
            .collect(),
        Arg::Word(_) | Arg::Same(_) | Arg::Time(_) => vec![Arg::Num(0)],
    };
    simpler.retain(|candidate| candidate != arg);
    simpler
}

/// The measure that shrinking reduces.
fn size(program: &Program) -> usize {
    let of_arg = |arg: &Arg| match arg {
        Arg::Num(0) => 0,
        Arg::Num(1) => 1,
        Arg::Num(number) if *number <= 0xffff_ffff => 2,
        Arg::Num(_) => 3,
        Arg::Op(_, flags) => 1 + flags.count_ones() as usize,
        Arg::Word(_) | Arg::Same(_) | Arg::Time(_) => 4,
        Arg::Past(..) => 5,
        Arg::Tid(_, bits) => 4 + bits.count_ones() as usize,
        Arg::Vector(entries) => 5 + 10 * entries.0.len(),
    };
    let of_step = |step: &Step| match step {
        Step::Call(_, _, args) => 100 + args.iter().map(of_arg).sum::<usize>(),
        Step::Store(_, value) => 100 + of_arg(value),
        Step::Exit(_, locks, pending) => 100 + locks.0.len() + usize::from(pending.is_some()),
        Step::Signal(_, sa_restart) => 100 + usize::from(*sa_restart),
        Step::Protect(..) | Step::Resize(_) => 100,
    };
    let priorities: usize = program.priorities.iter().map(|&p| usize::from(p)).sum();
    priorities + program.steps.iter().map(of_step).sum::<usize>()
}
