//! What is measured for the report: each part alone, so that one that fails, or is not reached, takes no other with it.

pub mod hammer;
pub mod memory;
pub mod published;
pub mod resize;
pub mod scaling;
pub mod timers;

/// How much time the parts take.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Of the usual seconds of a part, this share.
    pub share: f64,
}

impl Effort {
    /// The seconds of a part that takes `usual` seconds in a full report.
    pub fn seconds(self, usual: f64) -> f64 {
        usual * self.share
    }

    /// Whether the samples are too short to mean anything.
    pub fn is_quick(self) -> bool {
        self.share < 0.5
    }
}
