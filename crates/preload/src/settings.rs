//! The settings of `ufutex run`, read from the environment once per process.

use core::cell::UnsafeCell;

use ufutex_program::environment::{SETTINGS, value_of};
pub use ufutex_program::settings::*;

struct Once(UnsafeCell<Settings<'static>>);

// SAFETY: written before the program begins, when the process has only one thread, and only read afterwards.
unsafe impl Sync for Once {}

static ONCE: Once = Once(UnsafeCell::new(Settings::DEFAULT));

/// The settings of this process.
#[inline]
pub fn get() -> &'static Settings<'static> {
    // SAFETY: see `Once`.
    unsafe { &*ONCE.0.get() }
}

/// Reads the settings from the entries of an environment.
///
/// # Errors
/// The item that is not accepted.
///
/// # Safety
/// Called once, while the process has only one thread.
pub unsafe fn read(mut environment: impl Iterator<Item = &'static [u8]>) -> Result<(), Invalid<'static>> {
    let Some(value) = environment.find_map(|entry| value_of(entry, SETTINGS)) else {
        return Ok(());
    };
    let mut settings = Settings::parse(value)?;
    // A copy: programs overwrite their environment with their titles.
    let copied = |path: Option<&[u8]>| path.map(|path| &*path.to_vec().leak());
    (settings.output, settings.profile) = (copied(settings.output), copied(settings.profile));
    // SAFETY: the caller guarantees that there is no other thread.
    unsafe { *ONCE.0.get() = settings };
    Ok(())
}
