//! `ufutex report`: a page about this machine.

#![cfg_attr(not(test), deny(clippy::print_stderr))]

pub mod page;
