//! The parameters of the model that no source gives, and which are therefore chosen. `cross` fits them instead.

use super::model::{CALL_NS, CALL_NS_OF_2016, GLOBAL_HASH_NS_OF_2016};
use ufutex_coherence::Topology;

/// Instructions a cycle by which the files of the machines turn the size of a reorder buffer into `latency.window`.
const INSTRUCTIONS: f64 = 1.6;

/// One value for all machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Instructions a cycle: how fast a core goes through the instructions that it has in flight.
    pub instructions: f64,
    /// By which share a core's work takes longer for each sibling that works too.
    pub sibling: f64,
    /// How long a core keeps a line beyond what the legs of a transfer give it, in nanoseconds.
    pub hold_ns: f64,
    /// A futex call beyond the table, in nanoseconds.
    pub call_ns: f64,
    /// The same in [private-hash].
    pub call_ns_of_2016: f64,
    /// What a call with the global table of [private-hash] takes in addition, in nanoseconds.
    pub global_hash_ns_of_2016: f64,
}

impl Parameters {
    /// The values of `sim validate`. `docs/SIM.md` says where they are from.
    pub const CHOSEN: Parameters = Parameters {
        instructions: INSTRUCTIONS,
        sibling: 0.6,
        hold_ns: 0.0,
        call_ns: CALL_NS,
        call_ns_of_2016: CALL_NS_OF_2016,
        global_hash_ns_of_2016: GLOBAL_HASH_NS_OF_2016,
    };

    /// A given machine with these parameters.
    pub fn topology(&self, name: &str) -> Topology {
        let mut topology = Topology::given(name).expect("a given machine");
        topology.latency.window *= INSTRUCTIONS / self.instructions;
        topology.latency.sibling = self.sibling;
        topology.latency.hold = self.hold_ns;
        topology
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_values_are_those_of_the_machines_files() {
        for name in Topology::names() {
            let given = Topology::given(name).expect("a given machine");
            let chosen = Parameters::CHOSEN.topology(name);
            assert_eq!(format!("{:?}", chosen.latency), format!("{:?}", given.latency), "{name}");
        }
    }

    #[test]
    fn a_core_that_goes_through_its_instructions_faster_sees_less_far_ahead() {
        let other = Parameters { instructions: 3.2, sibling: 0.3, hold_ns: 10.0, ..Parameters::CHOSEN };
        let [chosen, other] = [Parameters::CHOSEN, other].map(|with| with.topology("zen3-2s").latency);
        assert_eq!((other.window, other.sibling, other.hold), (chosen.window / 2.0, 0.3, 10.0));
    }
}
