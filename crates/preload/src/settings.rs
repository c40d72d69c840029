//! What `ufutex run` was asked for, from the environment, for as long as the process lives.

use core::cell::UnsafeCell;

use ufutex_program::environment::{SETTINGS, value_of};
pub use ufutex_program::settings::*;

struct Once(UnsafeCell<Settings<'static>>);

// SAFETY: written by the thread that is alone in the process, before the program begins, and only read afterwards.
unsafe impl Sync for Once {}

static ONCE: Once = Once(UnsafeCell::new(Settings::DEFAULT));

/// The settings.
#[inline]
pub fn get() -> &'static Settings<'static> {
    // SAFETY: see `Once`.
    unsafe { &*ONCE.0.get() }
}

/// Reads them from the entries of an environment.
///
/// # Errors
/// Says what it cannot use.
///
/// # Safety
/// Called once, by the only thread.
pub unsafe fn read(mut environment: impl Iterator<Item = &'static [u8]>) -> Result<(), Invalid<'static>> {
    let Some(value) = environment.find_map(|entry| value_of(entry, SETTINGS)) else {
        return Ok(());
    };
    // A copy: programs write their titles over what they were given.
    let settings = Settings::parse(value.to_vec().leak())?;
    // SAFETY: nobody else is there, says the caller.
    unsafe { *ONCE.0.get() = settings };
    Ok(())
}
