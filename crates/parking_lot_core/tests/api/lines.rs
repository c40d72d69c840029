//! The four crates that each body runs on: both lines as published, and both of ours. The published crates show that
//! the bodies expect the right results.

use std::time::Instant;

/// The package of the 0.9 line, compiled as a module.
#[path = "../../v0_9/src/lib.rs"]
#[allow(dead_code, reason = "deadlocks are in a test of their own")]
pub mod v0_9;

/// The package of the 0.10 line, compiled as a module.
#[path = "../../v0_10/src/lib.rs"]
#[allow(dead_code, reason = "deadlocks are in a test of their own")]
pub mod v0_10;

/// An `UnparkResult` of either line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unparked {
    pub unparked: usize,
    pub requeued: usize,
    pub have_more: bool,
    /// Always `false` in the 0.10 line.
    pub be_fair: bool,
}

/// The result of an unpark of `unparked` threads. `have_more`: other threads stay parked at the key.
pub fn unparked(unparked: usize, have_more: bool) -> Unparked {
    Unparked { unparked, have_more, ..Unparked::default() }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parked {
    Token(usize),
    Invalid,
    TimedOut,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    Unpark,
    Skip,
    Stop,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Abort,
    UnparkOneRequeueRest,
    RequeueAll,
    UnparkOne,
    RequeueOne,
}

impl Unparked {
    /// Without `be_fair`, which depends on time and chance.
    pub fn plain(self) -> Self {
        Self { be_fair: false, ..self }
    }
}

/// The callbacks of a park.
pub struct Calls<'a> {
    pub validate: &'a mut dyn FnMut() -> bool,
    pub before_sleep: &'a mut dyn FnMut(),
    pub timed_out: &'a mut dyn FnMut(usize, bool),
}

/// One of the four crates.
pub trait Core: Send + Sync + 'static {
    fn park(key: usize, calls: Calls<'_>, token: usize, timeout: Option<Instant>) -> Parked;
    fn unpark_one(key: usize, callback: &mut dyn FnMut(Unparked) -> usize) -> Unparked;
    fn unpark_all(key: usize, token: usize) -> usize;
    fn unpark_requeue(
        from: usize,
        to: usize,
        validate: &mut dyn FnMut() -> Op,
        callback: &mut dyn FnMut(Op, Unparked) -> usize,
    ) -> Unparked;
    fn unpark_filter(
        key: usize,
        filter: &mut dyn FnMut(usize) -> Filter,
        callback: &mut dyn FnMut(Unparked) -> usize,
    ) -> Unparked;
    /// How often `SpinWait::spin` returns `true` in a row: on a new counter, and after a reset and one `spin_no_yield`.
    fn spins() -> [usize; 2];
}

macro_rules! core {
    ($name:ident, $module:path, $be_fair:expr) => {
        pub struct $name;

        const _: () = {
            use $module as core;

            fn result(it: core::UnparkResult) -> Unparked {
                let be_fair: fn(&core::UnparkResult) -> bool = $be_fair;
                Unparked {
                    unparked: it.unparked_threads,
                    requeued: it.requeued_threads,
                    have_more: it.have_more_threads,
                    be_fair: be_fair(&it),
                }
            }

            fn op(it: core::RequeueOp) -> Op {
                match it {
                    core::RequeueOp::Abort => Op::Abort,
                    core::RequeueOp::UnparkOneRequeueRest => Op::UnparkOneRequeueRest,
                    core::RequeueOp::RequeueAll => Op::RequeueAll,
                    core::RequeueOp::UnparkOne => Op::UnparkOne,
                    core::RequeueOp::RequeueOne => Op::RequeueOne,
                }
            }

            // SAFETY of all calls: the tests use keys of their own, and their callbacks park and unpark no threads.
            impl Core for $name {
                fn park(key: usize, calls: Calls<'_>, token: usize, timeout: Option<Instant>) -> Parked {
                    let Calls { validate, before_sleep, timed_out } = calls;
                    // SAFETY: see above the `impl`.
                    match unsafe { core::park(key, validate, before_sleep, timed_out, core::ParkToken(token), timeout) }
                    {
                        core::ParkResult::Unparked(core::UnparkToken(token)) => Parked::Token(token),
                        core::ParkResult::Invalid => Parked::Invalid,
                        core::ParkResult::TimedOut => Parked::TimedOut,
                    }
                }

                fn unpark_one(key: usize, callback: &mut dyn FnMut(Unparked) -> usize) -> Unparked {
                    // SAFETY: see above the `impl`.
                    result(unsafe { core::unpark_one(key, |it| core::UnparkToken(callback(result(it)))) })
                }

                fn unpark_all(key: usize, token: usize) -> usize {
                    // SAFETY: see above the `impl`.
                    unsafe { core::unpark_all(key, core::UnparkToken(token)) }
                }

                fn unpark_requeue(
                    from: usize,
                    to: usize,
                    validate: &mut dyn FnMut() -> Op,
                    callback: &mut dyn FnMut(Op, Unparked) -> usize,
                ) -> Unparked {
                    let validate = || match validate() {
                        Op::Abort => core::RequeueOp::Abort,
                        Op::UnparkOneRequeueRest => core::RequeueOp::UnparkOneRequeueRest,
                        Op::RequeueAll => core::RequeueOp::RequeueAll,
                        Op::UnparkOne => core::RequeueOp::UnparkOne,
                        Op::RequeueOne => core::RequeueOp::RequeueOne,
                    };
                    let callback = |it, outcome| core::UnparkToken(callback(op(it), result(outcome)));
                    // SAFETY: see above the `impl`.
                    result(unsafe { core::unpark_requeue(from, to, validate, callback) })
                }

                fn unpark_filter(
                    key: usize,
                    filter: &mut dyn FnMut(usize) -> Filter,
                    callback: &mut dyn FnMut(Unparked) -> usize,
                ) -> Unparked {
                    let filter = |token: core::ParkToken| match filter(token.0) {
                        Filter::Unpark => core::FilterOp::Unpark,
                        Filter::Skip => core::FilterOp::Skip,
                        Filter::Stop => core::FilterOp::Stop,
                    };
                    let callback = |it| core::UnparkToken(callback(result(it)));
                    // SAFETY: see above the `impl`.
                    result(unsafe { core::unpark_filter(key, filter, callback) })
                }

                fn spins() -> [usize; 2] {
                    let mut spin_wait = core::SpinWait::new();
                    let first = (0..100).take_while(|_| spin_wait.spin()).count();
                    spin_wait.reset();
                    spin_wait.spin_no_yield();
                    let second = (0..100).take_while(|_| spin_wait.spin()).count();
                    [first, second]
                }
            }
        };
    };
}

core!(Published09, parking_lot_core_0_9, |it| it.be_fair);
core!(Published010, parking_lot_core_0_10, |_| false);
core!(Ours09, v0_9, |it| it.be_fair);
core!(Ours010, v0_10, |_| false);
