//! The functions of the interface, by subject.

mod domain;
mod driver;
mod fork;
mod pi;
mod requeue;
mod syscall;
mod system;
mod task;
mod timers;
mod version;
mod wait;
mod waiter;
mod wake;

pub use domain::*;
pub use driver::*;
pub use fork::*;
pub use pi::*;
pub use requeue::*;
pub use syscall::*;
pub use system::*;
pub use task::*;
pub use timers::*;
pub use version::*;
pub use wait::*;
pub use waiter::*;
pub use wake::*;

use core::num::NonZeroU32;
use core::time::Duration;

use engine::{Clock, Timeout, WaitOptions};

use crate::abi;
use crate::errno::Errno;
use crate::objects::{DomainObject, TaskObject};
use crate::registry::{Counted, Held, Object};
use crate::types::{
    UFUTEX_AFTER, UFUTEX_FOREVER, UFUTEX_UNTIL_MONOTONIC, UFUTEX_UNTIL_REALTIME, ufutex_domain, ufutex_task,
    ufutex_wait_options,
};

/// Gives functions their names in the shared library, with versions: rustc must not know these names (see build.rs).
#[cfg(symbol_versions)]
macro_rules! export {
    ($jump:literal, $($name:ident),+) => {$(
        core::arch::global_asm!(
            concat!(".pushsection .text.", stringify!($name), ", \"ax\", %progbits"),
            ".p2align 4",
            concat!(".globl ", stringify!($name)),
            concat!(".type ", stringify!($name), ", %function"),
            concat!(stringify!($name), ":"),
            ".cfi_startproc",
            $jump,
            ".cfi_endproc",
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            ".popsection",
            function = sym $name,
        );
    )+};
}
// `export!` of all functions in these files.
#[cfg(symbol_versions)]
include!(concat!(env!("OUT_DIR"), "/export.rs"));

/// An object used by an operation that may block.
enum InUse<T: Object> {
    Held(Held<T>),
    Counted(Counted<T>),
}

impl<T: Object> InUse<T> {
    /// Held by this thread. If the operation may continue on another thread, counted instead.
    fn new(held: Held<T>, may_migrate: bool) -> Self {
        if may_migrate { Self::Counted(held.count()) } else { Self::Held(held) }
    }
}

impl<T: Object> core::ops::Deref for InUse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Held(object) => object,
            Self::Counted(object) => object,
        }
    }
}

/// The domain of an operation that may block.
fn to_block_in(domain: *mut ufutex_domain) -> Result<InUse<DomainObject>, Errno> {
    Ok(in_use(Held::new(domain)?))
}

/// A domain that is held, for an operation that may block.
fn in_use(held: Held<DomainObject>) -> InUse<DomainObject> {
    let may_migrate = held.parker.is_some();
    InUse::new(held, may_migrate)
}

/// The task of an operation that may block.
fn to_block_as(task: *mut ufutex_task, domain: &DomainObject) -> Result<InUse<TaskObject>, Errno> {
    Ok(InUse::new(Held::new(task)?, domain.parker.is_some()))
}

/// A program's options of a wait.
struct HowToWait {
    /// Without the timeout.
    options: WaitOptions,
    timeout: Option<Timeout>,
    task: *mut ufutex_task,
}

impl HowToWait {
    /// # Safety
    /// As for [`abi::read`].
    unsafe fn read(from: *const ufutex_wait_options) -> Result<Self, Errno> {
        // SAFETY: the caller guarantees it.
        let Some(said) = (unsafe { abi::read(from)? }) else {
            return Ok(Self { options: WaitOptions::new(), timeout: None, task: core::ptr::null_mut() });
        };
        let timeout = timeout_of(said.timeout, said.nanoseconds)?;
        let bitset = NonZeroU32::new(said.bitset).ok_or(Errno::INVALID)?;
        if said.priority > 99 || said.reserved != 0 {
            return Err(Errno::INVALID);
        }
        let options = WaitOptions::new().bitset(bitset).realtime_priority(said.priority as u8);
        Ok(Self { options, timeout, task: said.task })
    }

    fn with_timeout(&self) -> WaitOptions {
        match self.timeout {
            Some(timeout) => self.options.timeout(timeout),
            None => self.options,
        }
    }
}

/// A program's timeout. `None` means that it has none.
fn timeout_of(timeout: u32, nanoseconds: u64) -> Result<Option<Timeout>, Errno> {
    let time = Duration::from_nanos(nanoseconds);
    match timeout {
        UFUTEX_FOREVER => Ok(None),
        UFUTEX_AFTER => Ok(Some(Timeout::After(time))),
        UFUTEX_UNTIL_MONOTONIC => Ok(Some(Timeout::At(Clock::Monotonic, time))),
        UFUTEX_UNTIL_REALTIME => Ok(Some(Timeout::At(Clock::Realtime, time))),
        _ => Err(Errno::INVALID),
    }
}

/// A number of waiters. As in futex(2), `INT_MAX` or more means all.
fn count(count: u32) -> usize {
    if count >= i32::MAX as u32 { usize::MAX } else { count as usize }
}
