//! The arguments of `ufutex completions` and `ufutex man`, and the help text of `ufutex`.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// Arguments of `ufutex completions`.
#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Arguments of `ufutex man`.
#[derive(Args)]
pub struct ManArgs {
    /// The command whose page is printed [default: ufutex itself]
    #[arg(value_name = "COMMAND")]
    pub verb: Vec<String>,
    /// Write all pages as files into this directory, which is made if it does not exist
    #[arg(short, long, value_name = "DIR", conflicts_with = "verb", value_hint = clap::ValueHint::DirPath)]
    pub output: Option<PathBuf>,
}

impl ManArgs {
    /// The name as it was given: `sim validate` or `sim-validate`.
    pub fn name(&self) -> String {
        self.verb.join(" ")
    }
}

/// Below the commands in `ufutex --help`.
pub const TOP: &str = "\
Exit status, unless a command's own help says more:
  0    done
  1    it failed, compare or validate found something worse, or soak found something that is not accounted for
  2    a mistake in the options or their values: one line on stderr, and nothing was run
  125, 126, 127   run, advise: ufutex itself failed; the program cannot be run; it is not found
  130  interrupted by Ctrl-C or SIGTERM: the results until then were printed; a second one ends it at once

Environment:
  NO_COLOR         if set and not empty: no colour and no bold letters
  CLICOLOR         0: the same
  CLICOLOR_FORCE   not 0: colour also if the output is not a terminal
  TERM             dumb: the same as NO_COLOR
  UFUTEX_PRELOAD, LD_PRELOAD, UFUTEX_RUN   see `ufutex run --help`
  CARGO            the cargo with which `bench locks` builds its programs

Examples:
  ufutex bench hash -t 1,2                     measure every scheme and the kernel's futex
  ufutex run --stats -- ./server               run a program on the engine
  ufutex advise -- ./server                    recommend settings for a program
  ufutex soak                                  use the engine for ten minutes, and account for all wakes and expiries
  ufutex completions bash                      print completions; `ufutex completions --help` says where to put them
  ufutex man | man -l -                        this text as a page; also ufutex man bench, and so on";

/// Below the options of `ufutex completions --help`.
pub const COMPLETIONS: &str = "\
Exit status:
  0    printed
  2    no such shell

Examples:
  mkdir -p ~/.local/share/bash-completion/completions
  ufutex completions bash > ~/.local/share/bash-completion/completions/ufutex
  ufutex completions zsh > ~/.zfunc/_ufutex          with ~/.zfunc in fpath
  ufutex completions fish > ~/.config/fish/completions/ufutex.fish";

/// Below the options of `ufutex man --help`.
pub const MAN: &str = "\
Exit status:
  0    printed, or written
  1    DIR cannot be made or written
  2    no such command

Examples:
  ufutex man | man -l -
  ufutex man advise | man -l -
  ufutex man sim validate | man -l -
  ufutex man -o ~/.local/share/man/man1";
