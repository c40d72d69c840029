//! What is measured for the report: each part alone, so that one that fails, or is not reached, takes no other with it.

pub mod hammer;
pub mod memory;
pub mod resize;
pub mod scaling;
pub mod seeds;
pub mod timers;

use crate::cli::{self, Command};
use crate::settings::Settings;
use anyhow::{Result, anyhow};

/// How much time the parts take.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Of the usual seconds of a part, this share.
    pub share: f64,
}

impl Effort {
    /// So many seconds, where the report takes its usual time.
    pub fn seconds(self, usual: f64) -> f64 {
        usual * self.share
    }

    /// Whether the samples are too short to mean anything.
    pub fn is_quick(self) -> bool {
        self.share < 0.5
    }
}

/// What `ufutex bench` with these flags would have.
pub fn settings(flags: &str) -> Result<Settings> {
    let arguments = ["ufutex", "bench"].into_iter().chain(flags.split_whitespace()).map(Into::into);
    match cli::parse(arguments) {
        Ok(Command::Bench(settings)) => Ok(*settings),
        Err(cli::Refusal::Mistake(line)) => Err(anyhow!("bench {flags}: {line}")),
        _ => Err(anyhow!("bench {flags} is no benchmark")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_those_of_bench() {
        assert_eq!(settings("hash -s -t 3").expect("settings").threads, Some(vec![3]));
        assert!(settings("hush").is_err());
        for flags in timers::ALL_FLAGS {
            settings(flags).expect("settings");
        }
    }
}
