//! Programs that once had a history which the model cannot have.

use crate::engine::live::{Engine, system};
use crate::generate::{Program, Theme};
use crate::ops::{How, Op};
use crate::run::Bench;

const ALL: i32 = i32::MAX;

fn wait(word: usize) -> Op {
    Op::Wait { word, expected: 0, bitset: u32::MAX, timeout: None, how: How::Thread }
}

/// In the system's table, which other domains use too.
const GLOBAL: u64 = 24;

fn check(number: u64, program: &Program) {
    let (bench, system) = (Bench::new(), system());
    for _ in 0..1000 {
        bench.check(&Engine::new(&system, number, program), program, "this test");
    }
}

/// The thread that it has woken at the first word must not find one that it has not yet woken at the second.
#[test]
fn wake_op_of_all_waiters_of_two_words_in_a_global_table_is_one_step() {
    let first = [(0, wait(2)), (0, Op::Wake { word: 0, count: 1, bitset: u32::MAX })];
    let second = [(0, wait(0))];
    let waker = [(3000, Op::WakeOp { words: [2, 0], counts: [ALL, ALL], value: 1, old: 0 })];
    let program = Program::of(Theme::Waits, &[0, 1, 2], [&first, &second, &[], &waker]);
    check(GLOBAL, &program);
}
