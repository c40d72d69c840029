//! `bench wasm`.

use super::common::{self, Own, Shared, Words};
use super::{Asked, One};
use crate::cli::values::{self, List};
use clap::Args;

/// The flags.
#[derive(Args)]
pub struct WasmArgs {
    /// Threads, a comma list [default: 1,2]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads, allow_negative_numbers = true)]
    threads: Option<List<usize>>,
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    own: Own,
}

/// End of the help.
pub fn more() -> String {
    let rows = format!(
        "{}
  operation      wait: on a word that differs; notify: of a word without waiters
  case           words: each thread has its own words; one: all threads use one word
  early_return   of the engine's waits: whether they may compare the word before they lock the bucket
  stride         distance between two words in bytes
  ns_per_op      {{p10, median, p90}} as one thread sees it; ops_per_sec of all threads
  ratio_wasmtime this row's ns_per_op divided by wasmtime's: the median over the rounds (if built with it)",
        super::HEAD
    );
    common::more(&rows, "  cargo run --release -p lab --features wasmtime -- bench wasm")
}

impl WasmArgs {
    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(self) -> Result<One, String> {
        self.own.one(Asked::Wasm(self.words.hammer(self.threads)?), self.shared.shared)
    }
}
