//! Defects of other futex tables ([peer-tables]) that show only from inside, one test each, named after the defect's
//! absence.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use ufutex::layout::Lean;
use ufutex::scheme::{Atomic, Fixed, Live, PerCpu, Scheme};
use ufutex::{Domain, Error, Timeout, WaitOptions};

use crate::common::domains::domain;
use crate::common::patient::within_patience;
use crate::common::waiters::idle;
use crate::common::waker::{Calls, Told};

/// A million for all schemes together. Others keep some 50 bytes for each.
const ADDRESSES: usize = 250_000;

fn table_does_not_grow_with_every_address_that_was_waited_on<S: Scheme<Lean>>() {
    let domain = domain::<S, Lean>();
    let words: Box<[AtomicU32]> = (0..ADDRESSES).map(|_| AtomicU32::new(0)).collect();
    let options = WaitOptions::new().timeout(Timeout::After(Duration::ZERO));
    let wait = |word: &AtomicU32| assert_eq!(domain.wait_with(word, 0, &options), Err(Error::TimedOut));
    words[..ADDRESSES / 100].iter().for_each(wait);
    let (slots, bytes) = (domain.slots(), domain.table_bytes());
    words[ADDRESSES / 100..].iter().for_each(wait);
    assert_eq!((domain.slots(), domain.table_bytes()), (slots, bytes));
    assert!(bytes < 1 << 20, "{bytes} bytes for nobody");
}

fn waker_may_use_the_bucket_that_it_was_called_for<S: Scheme<Lean> + 'static>() {
    let domain: Arc<Domain<S, Lean>> = Arc::new(domain());
    let word = Arc::new(AtomicU32::new(0));
    let (told, counts) = Told::new();
    let wakes_the_next = {
        let (domain, word) = (domain.clone(), word.clone());
        Calls::waker(move || assert_eq!(domain.wake(&*word, 1), 1))
    };
    let mut waiters = idle::<S, Lean>(2);
    let [first, second] = &mut waiters[..] else { unreachable!("there are two") };
    let options = WaitOptions::new();
    let first = domain.prepare_with(first.as_mut(), &*word, 0, &options, wakes_the_next).expect("the word is 0");
    let second = domain.prepare_with(second.as_mut(), &*word, 0, &options, counts).expect("the word is 0");
    assert_eq!(domain.wake(&*word, 1), 1);
    assert!(first.is_woken() && second.is_woken());
    assert_eq!(told.times(), 1);
}

/// Makes a `#[test]` of each `fn name<S: Scheme<Lean>>()` on every scheme.
macro_rules! on_every_scheme {
    ($names:tt) => { on_every_scheme! { @ $names live: Live; fixed: Fixed; atomic: Atomic; percpu: PerCpu; } };
    (@ $names:tt $($module:ident: $scheme:ident;)*) => {
        $(on_every_scheme! { @@ $names $module $scheme })*
    };
    (@@ [$($name:ident),* $(,)?] $module:ident $scheme:ident) => {
        mod $module {
            $(
                #[test]
                fn $name() {
                    super::within_patience(stringify!($name), super::$name::<super::$scheme>);
                }
            )*
        }
    };
}

on_every_scheme!([
    table_does_not_grow_with_every_address_that_was_waited_on,
    waker_may_use_the_bucket_that_it_was_called_for,
]);
