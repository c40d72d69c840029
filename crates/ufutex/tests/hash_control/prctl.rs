//! Scripts of prctl(2) calls that run on the host and on a domain with the same expected results.

use ufutex::Domain;

use crate::common::domains::domain;
use crate::common::errno::{EBUSY, EINVAL, ENOMEM};
use crate::common::skipped::skip;
use crate::host;

/// `arg2` to `arg4` of prctl(2): operation, slots, flags.
pub type Call = (u64, u64, u64);

const SET: u64 = 1;
const GET: u64 = 2;
const GET_IMMUTABLE: u64 = 3;
const IMMUTABLE: u64 = 1;

/// A sequence of calls with their results.
type Script = &'static [(Call, isize)];

fn calls(script: Script) -> Vec<Call> {
    script.iter().map(|&(call, _)| call).collect()
}

fn results(script: Script) -> Vec<isize> {
    script.iter().map(|&(_, result)| result).collect()
}

fn run(domain: &Domain, calls: &[Call]) -> Vec<isize> {
    calls.iter().map(|&(op, slots, flags)| domain.prctl_futex_hash(op, slots, flags)).collect()
}

fn on_a_domain(script: Script) {
    assert_eq!(run(&domain(), &calls(script)), results(script));
}

fn on_the_host(script: Script) {
    match host::lacks() {
        Some(reason) => skip(format_args!("on the host: {reason}")),
        None => assert_eq!(host::run(&calls(script)), results(script), "the host"),
    }
}

/// Makes a module for each script, with one test on the host and one on domains.
macro_rules! on_both {
    ($($name:ident: $script:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn on_the_host() {
                super::on_the_host(&$script);
            }

            #[test]
            #[cfg_attr(feature = "fixed", ignore = "the table is set once")]
            fn on_a_domain() {
                super::on_a_domain(&$script);
            }
        }
    )*};
}

on_both! {
    process_begins_without_slots: [((GET, 0, 0), 0)];
    get_ignores_what_else_it_is_given: [((GET, 3, 7), 0), ((SET, 32, 0), 0), ((GET, 3, 7), 32)];
    set_is_in_effect_on_return: [
        ((SET, 2, 0), 0), ((GET, 0, 0), 2),
        ((SET, 1024, 0), 0), ((GET, 0, 0), 1024),
        ((SET, 64, 0), 0), ((GET, 0, 0), 64),
        ((SET, 64, 0), 0), ((GET, 0, 0), 64)
    ];
    set_takes_up_to_a_million_slots: [((SET, 1 << 20, 0), 0), ((GET, 0, 0), 1 << 20)];
    set_takes_powers_of_two_from_2: [
        ((SET, 1, 0), EINVAL), ((SET, 3, 0), EINVAL), ((SET, 1000, 0), EINVAL), ((SET, 1 << 20 | 1, 0), EINVAL),
        ((SET, u32::MAX as u64, 0), EINVAL), ((GET, 0, 0), 0)
    ];
    set_looks_at_32_bits: [((SET, 1 << 32 | 16, 0), 0), ((GET, 0, 0), 16), ((SET, 1 << 32 | 3, 0), EINVAL)];
    set_of_more_slots_than_there_can_be_is_out_of_memory: [
        ((SET, 1 << 29, 0), ENOMEM), ((SET, 1 << 31, 0), ENOMEM), ((GET, 0, 0), 0),
        ((SET, 16, 0), 0), ((SET, 1 << 29, 0), ENOMEM), ((GET, 0, 0), 16)
    ];
    set_to_0_is_for_good: [
        ((SET, 16, 0), 0), ((SET, 0, 0), 0), ((GET, 0, 0), 0),
        ((SET, 16, 0), EBUSY), ((SET, 0, 0), EBUSY), ((SET, 3, 0), EINVAL), ((GET, 0, 0), 0)
    ];
    set_to_0_at_once_is_for_good: [((SET, 0, 0), 0), ((SET, 16, 0), EBUSY), ((SET, 0, 0), EBUSY)];
    unknown_flags_are_invalid_whatever_the_slots: [
        ((SET, 16, 2), EINVAL), ((SET, 16, 1 << 40), EINVAL), ((SET, 0, 4), EINVAL), ((SET, 3, 6), EINVAL),
        ((GET, 0, 0), 0), ((SET, 16, 0), 0), ((SET, 0, 2), EINVAL), ((GET, 0, 0), 16)
    ];
    unknown_operations_are_invalid: [((0, 0, 0), EINVAL), ((4, 16, 0), EINVAL), ((u32::MAX as u64, 0, 0), EINVAL)];
}

// Linux 6.16 had the immutable flag and later kernels removed it. The engine keeps it.

#[test]
fn immutable_flag_of_6_16_keeps_the_size_for_good_where_later_kernels_refuse_it() {
    const SCRIPT: [(Call, isize); 8] = [
        ((GET_IMMUTABLE, 0, 0), 0),
        ((SET, 32, IMMUTABLE), 0),
        ((GET_IMMUTABLE, 0, 0), 1),
        ((GET, 0, 0), 32),
        ((SET, 64, 0), EBUSY),
        ((SET, 0, 0), EBUSY),
        ((SET, 32, IMMUTABLE), EBUSY),
        ((GET, 0, 0), 32),
    ];
    on_a_domain(&SCRIPT);
    match host::lacks() {
        Some(reason) => skip(format_args!("on the host: {reason}")),
        None => {
            let theirs = host::run(&[(GET_IMMUTABLE, 0, 0), (SET, 32, IMMUTABLE), (GET, 0, 0)]);
            assert_eq!(theirs, [EINVAL, EINVAL, 0]);
        }
    }
}

#[test]
fn immutable_flag_is_not_set_by_a_call_that_fails() {
    on_a_domain(&[
        ((SET, 3, IMMUTABLE), EINVAL),
        ((SET, 1 << 29, IMMUTABLE), ENOMEM),
        ((GET_IMMUTABLE, 0, 0), 0),
        ((SET, 16, 0), 0),
        ((GET, 0, 0), 16),
    ]);
}

#[cfg(feature = "fixed")]
#[test]
fn fixed_table_is_set_once() {
    on_a_domain(&[((SET, 16, 0), 0), ((SET, 16, 0), 0), ((SET, 32, 0), EBUSY), ((GET, 0, 0), 16)]);
    on_a_domain(&[((SET, 16, 0), 0), ((SET, 0, 0), EBUSY), ((GET, 0, 0), 16)]);
    on_a_domain(&[((SET, 0, 0), 0), ((SET, 16, 0), EBUSY), ((GET, 0, 0), 0)]);
}
