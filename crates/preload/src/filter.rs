//! The seccomp filter of `--trap`: which system calls of the program are to stop (SIGSYS) for us to make them.
//!
//! Our own calls carry a mark ([`COOKIE`]) in an argument that the kernel does not look at, and go through. A filter stays
//! for good, also in whatever is executed later, and the mark is the same there.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch};

use crate::calls::{self, OURS, PR_FUTEX_HASH};
use crate::raw::{COOKIE, COOKIE_HIGH};
use crate::timers::{PR_TIMER_CREATE_RESTORE_IDS, TIMERS};

const PRIVATE_FLAG: u64 = libc::FUTEX_PRIVATE_FLAG as u64;

type Result<T> = core::result::Result<T, seccompiler::BackendError>;

/// Waits and wakes: calls without a second word, so that there is room for the mark.
const ONE_WORD: [i32; 4] = [libc::FUTEX_WAIT, libc::FUTEX_WAKE, libc::FUTEX_WAIT_BITSET, libc::FUTEX_WAKE_BITSET];

/// The filter. With `reports`, the end of the process stops too; with `shared`, waits and wakes of words that processes
/// may share; with `timers`, what makes and sets them.
pub fn program(reports: bool, shared: bool, timers: bool) -> Result<BpfProgram> {
    let not_ours = |argument| SeccompCondition::new(argument, Qword, Ne, COOKIE);
    let not_ours_high = || SeccompCondition::new(0, Qword, MaskedEq(0xffff_ffff << 32), 0);
    let is_private = |argument| SeccompCondition::new(argument, Dword, MaskedEq(PRIVATE_FLAG), PRIVATE_FLAG);
    let is_given = |argument| SeccompCondition::new(argument, Qword, Ne, 0);
    let one = |conditions| -> Result<Vec<SeccompRule>> { Ok(vec![SeccompRule::new(conditions)?]) };
    let marked_last = || -> Result<Vec<SeccompRule>> { one(vec![not_ours(5)?]) };

    let mut futex = Vec::new();
    let private = OURS.iter().map(|op| PRIVATE_FLAG | *op as u64);
    let others = ONE_WORD.iter().filter(|_| shared).map(|op| *op as u64);
    for op in private.chain(others) {
        // Whatever else `op` says, but for the clock, is not ours.
        let command =
            SeccompCondition::new(1, Dword, MaskedEq(!(libc::FUTEX_CLOCK_REALTIME as u64) & 0xffff_ffff), op)?;
        futex.push(SeccompRule::new(vec![command, not_ours(4)?])?);
    }
    // A thread in this process's memory without storage of its own.
    let shares = (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_SETTLS) as u64;
    let clone = SeccompCondition::new(0, Dword, MaskedEq(shares), libc::CLONE_VM as u64)?;
    let blocks = |how: libc::c_int| -> Result<SeccompRule> {
        SeccompRule::new(vec![SeccompCondition::new(0, Dword, Eq, how as u64)?, is_given(1)?, not_ours(5)?])
    };
    let mut rules = BTreeMap::from([
        (libc::SYS_futex, futex),
        (calls::SYS_FUTEX_WAITV, marked_last()?),
        (calls::SYS_FUTEX_WAKE, one(vec![is_private(3)?])?),
        (calls::SYS_FUTEX_WAIT, one(vec![is_private(3)?])?),
        (calls::SYS_FUTEX_REQUEUE, marked_last()?),
        (libc::SYS_prctl, one(vec![SeccompCondition::new(0, Dword, Eq, PR_FUTEX_HASH)?, not_ours(5)?])?),
        (libc::SYS_rt_sigaction, marked_last()?),
        (libc::SYS_rt_sigprocmask, vec![blocks(libc::SIG_BLOCK)?, blocks(libc::SIG_SETMASK)?]),
        (libc::SYS_rt_sigsuspend, marked_last()?),
        (libc::SYS_ppoll, one(vec![is_given(3)?, not_ours(5)?])?),
        (libc::SYS_pselect6, one(vec![is_given(5)?, not_ours_high()?])?),
        (libc::SYS_epoll_pwait, one(vec![is_given(4)?, not_ours_high()?])?),
        (libc::SYS_epoll_pwait2, one(vec![is_given(4)?, not_ours_high()?])?),
        (libc::SYS_clone, one(vec![clone, not_ours_high()?])?),
        (libc::SYS_clone3, one(vec![SeccompCondition::new(3, Qword, Ne, COOKIE)?])?),
        (libc::SYS_execve, marked_last()?),
        (libc::SYS_execveat, marked_last()?),
    ]);
    if reports {
        rules.insert(libc::SYS_exit_group, marked_last()?);
    }
    if timers {
        for number in TIMERS.into_iter().chain([libc::SYS_rt_sigtimedwait]) {
            rules.insert(number, marked_last()?);
        }
        let restore = SeccompCondition::new(0, Dword, Eq, PR_TIMER_CREATE_RESTORE_IDS)?;
        rules.entry(libc::SYS_prctl).or_default().push(SeccompRule::new(vec![restore, not_ours(5)?])?);
    }
    const { assert!(COOKIE_HIGH >> 32 != 0) };
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Trap, TargetArch::x86_64)?.try_into()
}
