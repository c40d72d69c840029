//! The report, when the process ends or SIGUSR1 asks for it.

use core::sync::atomic::Ordering;

use crate::process::process;
use crate::settings;

/// Writes the report, if one was asked for and there is anything to tell; once for each process.
pub fn report() {
    if settings::get().stats.is_none() {
        return;
    }
    let Some(process) = process() else { return };
    if !process.is_borrowed() && !process.reported.swap(true, Ordering::Relaxed) {
        report_now();
    }
}

/// Writes the report now.
pub fn report_now() {}
