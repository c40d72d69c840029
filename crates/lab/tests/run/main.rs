//! `ufutex run` as its users see it: the program is the process, with everything that it was given; what cannot be run is
//! refused in one line. What the library does to futexes is tested with the programs.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

mod command;
mod options;
mod process;
mod program;
mod report;
mod slots;
