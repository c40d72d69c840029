//! Small values: words that are numbers or `bool`, objects by address, sets of CPUs.

use std::sync::atomic::AtomicU32;

use ufutex::WordValue;
use ufutex::timer::CpuSet;

use crate::common::domains::{domain, on_domains};
use crate::common::waiters::waiters_on;

fn wake_one_says_whether_there_was_a_waiter() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let queued = waiters_on(&domain, &word, 2);
    assert_eq!([(); 3].map(|()| domain.wake_one(&word)), [true, true, false]);
    assert!(queued.into_iter().all(|mut queued| !queued.cancel()));
}

on_domains!(wake_one_says_whether_there_was_a_waiter);

#[test]
fn value_of_a_word_has_the_bits_that_it_had() {
    assert_eq!([0, 1, 2].map(bool::from_bits), [Some(false), Some(true), None]);
    assert_eq!([false, true].map(WordValue::to_bits), [0, 1]);
    assert_eq!([0x7f, 0xff, 0x100].map(i8::from_bits), [Some(127), Some(-1), None]);
    assert_eq!((-1i8).to_bits(), 0xff);
}

#[test]
#[cfg(target_pointer_width = "64")]
fn address_with_a_tag_is_no_object() {
    use ufutex::ObjectId;
    let id = |address: usize| ObjectId::from_ptr(core::ptr::without_provenance::<u8>(address)).map(ObjectId::get);
    assert_eq!([0, 64, (1 << 61) - 1, 1 << 61].map(id), [Some(0), Some(64), Some((1 << 61) - 1), None]);
}

#[test]
fn set_of_cpus_is_shown_with_its_cpus() {
    assert_eq!(format!("{:?}", CpuSet::from([0, 5, 64])), "{0, 5, 64}");
}
