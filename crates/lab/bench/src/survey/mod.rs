//! The measurements of the report. Parts are independent: if one fails or is not reached, the others remain.

pub mod hammer;
pub mod memory;
pub mod published;
pub mod resize;
pub mod scaling;
pub mod timers;

/// How much time the parts take.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Share of the seconds of a full report.
    pub share: f64,
}

impl Effort {
    /// The seconds of a part that takes `usual` seconds in a full report.
    pub fn seconds(self, usual: f64) -> f64 {
        usual * self.share
    }

    /// Whether the samples are too short to be meaningful.
    pub fn is_quick(self) -> bool {
        self.share < 0.5
    }
}
