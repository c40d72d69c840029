//! The seccomp filter of `--trap`: which system calls of the program stop with SIGSYS, so that this library makes them.
//!
//! The library's own calls carry a mark (`mark.rs`) in an argument that the kernel ignores, and pass the filter. A
//! filter cannot be removed and applies also to programs that are executed later, which have this library with the same
//! mark.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch};

use crate::calls::{self, OURS, PR_FUTEX_HASH};
use crate::mark::{Mark, PRIVATE_CMP_REQUEUE_PI, UPPER_HALF};
use crate::raw::COOKIE;
use crate::settings::Settings;
use crate::timers::{PR_TIMER_CREATE_RESTORE_IDS, TIMERS, credentials};
use crate::trap::PR_SET_SYSCALL_USER_DISPATCH;

/// The `si_errno` of a SIGSYS that this filter causes.
pub const TAG: u16 = 0x7566;

const PRIVATE_FLAG: u64 = libc::FUTEX_PRIVATE_FLAG as u64;

type Result<T> = core::result::Result<T, seccompiler::BackendError>;

/// Waits and wakes: calls without a second word, so that there is an argument for the mark.
const ONE_WORD: [i32; 4] = [libc::FUTEX_WAIT, libc::FUTEX_WAKE, libc::FUTEX_WAIT_BITSET, libc::FUTEX_WAKE_BITSET];

/// Makes the filter for these settings: calls that the library makes itself, or records, trap.
pub fn program(settings: &Settings<'_>) -> Result<BpfProgram> {
    let mut rules = Rules::new();
    of_futexes(&mut rules, settings.watch || settings.profile.is_some(), settings.profile.is_some())?;
    of_signals(&mut rules)?;
    of_threads_and_programs(&mut rules)?;
    if settings.stats.is_some() {
        all(&mut rules, libc::SYS_exit_group)?;
    }
    of_strict_mode(&mut rules)?;
    if settings.timers {
        of_timers(&mut rules)?;
    }
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Trap, TargetArch::x86_64)?;
    let mut program: BpfProgram = filter.try_into()?;
    for returns in program.iter_mut().filter(|one| one.code == RETURN && one.k == libc::SECCOMP_RET_TRAP) {
        returns.k |= u32::from(TAG);
    }
    Ok(program)
}

/// The rules of each system call. If a rule matches, the call stops with SIGSYS.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Matches calls with this number that do not carry our mark.
fn unmarked(number: i64) -> Result<SeccompCondition> {
    unmarked_op(number, 0)
}

/// As [`unmarked`], for calls whose second argument is `op`.
fn unmarked_op(number: i64, op: u64) -> Result<SeccompCondition> {
    match Mark::of(number, op) {
        Mark::Whole(argument) => SeccompCondition::new(argument, Qword, Ne, COOKIE),
        // In a program's call the upper half of an `int` is 0. A call with any other upper half passes.
        Mark::Upper(argument) => SeccompCondition::new(argument, Qword, MaskedEq(UPPER_HALF), 0),
    }
}

/// Matches if the pointer in this argument is not null.
fn given(argument: u8) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, Qword, Ne, 0)
}

fn one(conditions: Vec<SeccompCondition>) -> Result<Vec<SeccompRule>> {
    Ok(vec![SeccompRule::new(conditions)?])
}

/// Adds the rule that matches all calls with this number that do not carry our mark.
fn all(rules: &mut Rules, number: i64) -> Result<()> {
    rules.insert(number, one(vec![unmarked(number)?])?);
    Ok(())
}

/// Matches prctl(2) with this operation.
fn prctl(op: u64) -> Result<SeccompRule> {
    SeccompRule::new(vec![SeccompCondition::new(0, Dword, Eq, op)?, unmarked(libc::SYS_prctl)?])
}

/// With `shared`, waits and wakes of words that processes may share trap too; with `pi`, locks with priority inheritance.
fn of_futexes(rules: &mut Rules, shared: bool, pi: bool) -> Result<()> {
    let is_private = |argument| SeccompCondition::new(argument, Dword, MaskedEq(PRIVATE_FLAG), PRIVATE_FLAG);
    let mut futex = Vec::new();
    let private = OURS.iter().map(|op| PRIVATE_FLAG | *op as u64);
    let others = ONE_WORD.iter().filter(|_| shared).map(|op| *op as u64);
    let of_locks = calls::PI.iter().filter(|_| pi).flat_map(|op| [*op as u64, PRIVATE_FLAG | *op as u64]);
    for op in private.chain(others).chain(of_locks) {
        // The command must match exactly, apart from the clock flag.
        let command =
            SeccompCondition::new(1, Dword, MaskedEq(!(libc::FUTEX_CLOCK_REALTIME as u64) & 0xffff_ffff), op)?;
        futex.push(SeccompRule::new(vec![command, unmarked_op(libc::SYS_futex, op)?])?);
    }
    // The operation may find plain waiters, which the engine has. Everything else about it belongs to the kernel.
    let op = u64::from(PRIVATE_CMP_REQUEUE_PI);
    let requeue = SeccompCondition::new(1, Dword, Eq, op)?;
    futex.push(SeccompRule::new(vec![requeue, unmarked_op(libc::SYS_futex, op)?])?);
    rules.insert(libc::SYS_futex, futex);
    all(rules, calls::SYS_FUTEX_WAITV)?;
    rules.insert(calls::SYS_FUTEX_WAKE, one(vec![is_private(3)?])?);
    rules.insert(calls::SYS_FUTEX_WAIT, one(vec![is_private(3)?])?);
    all(rules, calls::SYS_FUTEX_REQUEUE)?;
    rules.entry(libc::SYS_prctl).or_default().push(prctl(PR_FUTEX_HASH)?);
    Ok(())
}

/// Calls that could block SIGSYS or replace its handler.
fn of_signals(rules: &mut Rules) -> Result<()> {
    let blocks = |how: libc::c_int| -> Result<SeccompRule> {
        let unmarked = unmarked(libc::SYS_rt_sigprocmask)?;
        SeccompRule::new(vec![SeccompCondition::new(0, Dword, Eq, how as u64)?, given(1)?, unmarked])
    };
    all(rules, libc::SYS_rt_sigaction)?;
    rules.insert(libc::SYS_rt_sigprocmask, vec![blocks(libc::SIG_BLOCK)?, blocks(libc::SIG_SETMASK)?]);
    all(rules, libc::SYS_rt_sigsuspend)?;
    for (number, mask) in
        [(libc::SYS_ppoll, 3), (libc::SYS_pselect6, 5), (libc::SYS_epoll_pwait, 4), (libc::SYS_epoll_pwait2, 4)]
    {
        rules.insert(number, one(vec![given(mask)?, unmarked(number)?])?);
    }
    let dispatch = SeccompCondition::new(0, Dword, Eq, PR_SET_SYSCALL_USER_DISPATCH)?;
    let dispatch = SeccompRule::new(vec![dispatch, given(1)?, unmarked(libc::SYS_prctl)?])?;
    rules.entry(libc::SYS_prctl).or_default().push(dispatch);
    Ok(())
}

/// Calls that make threads which may share another thread's storage, or that execute programs without this library.
fn of_threads_and_programs(rules: &mut Rules) -> Result<()> {
    // A thread in this process's memory without storage of its own.
    let shares = (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_SETTLS) as u64;
    let clone = SeccompCondition::new(0, Dword, MaskedEq(shares), libc::CLONE_VM as u64)?;
    rules.insert(libc::SYS_clone, one(vec![clone, unmarked(libc::SYS_clone)?])?);
    [libc::SYS_clone3, libc::SYS_execve, libc::SYS_execveat].into_iter().try_for_each(|number| all(rules, number))?;
    // See `pkeys.rs`.
    all(rules, libc::SYS_pkey_alloc)
}

/// Calls for the strict mode of seccomp(2). The kernel refuses it to a process with a filter, and a program that does
/// not look at the result would go on without it.
fn of_strict_mode(rules: &mut Rules) -> Result<()> {
    let is = |argument, width, value: u32| SeccompCondition::new(argument, width, Eq, value.into());
    let set = is(0, Dword, libc::PR_SET_SECCOMP.cast_unsigned())?;
    let mode = is(1, Qword, libc::SECCOMP_MODE_STRICT)?;
    let strict = SeccompRule::new(vec![set, mode, unmarked(libc::SYS_prctl)?])?;
    rules.entry(libc::SYS_prctl).or_default().push(strict);
    let operation = is(0, Dword, libc::SECCOMP_SET_MODE_STRICT)?;
    rules.insert(
        libc::SYS_seccomp,
        one(vec![operation, is(1, Dword, 0)?, is(2, Qword, 0)?, unmarked(libc::SYS_seccomp)?])?,
    );
    Ok(())
}

fn of_timers(rules: &mut Rules) -> Result<()> {
    for number in TIMERS.into_iter().chain([libc::SYS_rt_sigtimedwait]).chain(credentials::CALLS) {
        all(rules, number)?;
    }
    for op in credentials::PRCTLS.map(|op| op as u64).into_iter().chain([PR_TIMER_CREATE_RESTORE_IDS]) {
        rules.entry(libc::SYS_prctl).or_default().push(prctl(op)?);
    }
    Ok(())
}

/// The instruction that ends a filter with a constant result.
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
