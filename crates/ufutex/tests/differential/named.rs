//! Programs that have been wrong somewhere once, and now are not. Each runs on the kernel, the engine and the model.

use crate::program::Arg::*;
use crate::program::Cmd::*;
use crate::program::Number::*;
use crate::program::Step::*;
use crate::program::{PRIVATE, Program, WAITERS};
use crate::suite::check;

#[test]
fn lock_pi_of_an_own_lock_whose_word_says_that_its_owner_died_succeeds() {
    let lock = Op(LockPi, PRIVATE);
    let zero = || Num(0);
    check(&Program {
        priorities: [0; 4],
        steps: vec![
            Call(0, Futex, [Word(0), lock.clone(), zero(), zero(), zero(), zero()]),
            Call(1, Futex, [Word(0), lock.clone(), zero(), zero(), zero(), zero()]),
            Store(0, Num((WAITERS | crate::program::OWNER_DIED).into())),
            Call(0, Futex, [Word(0), lock, zero(), zero(), zero(), zero()]),
        ],
    });
}
