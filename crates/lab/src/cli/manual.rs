//! `ufutex completions` and `ufutex man`: their arguments, and what all pages have in common.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// For which shell.
#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell that is to complete
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Which page.
#[derive(Args)]
pub struct ManArgs {
    /// The command that the page is about; without it, all of ufutex
    #[arg(value_name = "COMMAND")]
    pub verb: Vec<String>,
    /// All pages as files of this directory, which must be there
    #[arg(short, long, value_name = "DIR", conflicts_with = "verb", value_hint = clap::ValueHint::DirPath)]
    pub output: Option<PathBuf>,
}

impl ManArgs {
    /// As the command line has it: `sim validate`, also where it was named as its page is, `sim-validate`.
    pub fn name(&self) -> String {
        self.verb.join(" ").replace('-', " ")
    }
}

/// Below the commands in `ufutex --help`.
pub const TOP: &str = "\
Exit status, of every command unless its own help says more:
  0    done
  1    it failed, or what is compared or validated has got worse than it may
  2    a mistake in the options or their values: one line on stderr, nothing has been run
  125, 126, 127   run, advise: ufutex itself failed; the program cannot be run; it is not found
  130  interrupted by Ctrl-C: what there is has been printed; a second Ctrl-C ends it at once

Environment:
  NO_COLOR         set and not empty: no colour and no bold letters anywhere
  CLICOLOR         0: the same
  CLICOLOR_FORCE   not 0: colour also where the output is no terminal
  TERM             dumb: the same as NO_COLOR
  UFUTEX_PRELOAD, LD_PRELOAD, UFUTEX_RUN   see `ufutex run --help`
  CARGO            what `bench locks` builds its programs with

Examples:
  ufutex bench hash -t 1,2                     every scheme beside the kernel's futex
  ufutex run --stats -- ./server               a program on the engine
  ufutex advise -- ./server                    which settings it wants
  ufutex completions bash > ~/.local/share/bash-completion/completions/ufutex
  ufutex man | man -l -                        this as a page; ufutex man bench, and so on";

/// Below the options of `ufutex completions --help`.
pub const COMPLETIONS: &str = "\
Exit status:
  0    printed
  2    no such shell

Examples:
  ufutex completions bash > ~/.local/share/bash-completion/completions/ufutex
  ufutex completions zsh > ~/.zfunc/_ufutex          with ~/.zfunc in fpath
  ufutex completions fish > ~/.config/fish/completions/ufutex.fish";

/// Below the options of `ufutex man --help`.
pub const MAN: &str = "\
Exit status:
  0    printed, or written
  1    DIR cannot be written
  2    no such command

Examples:
  ufutex man | man -l -
  ufutex man advise | man -l -
  ufutex man sim validate | man -l -
  ufutex man -o ~/.local/share/man/man1";
