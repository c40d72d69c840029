//! Descriptions of machines.

use ufutex_coherence::topology::{Distance, Topology};

/// Parses a description, and measures distances.
pub fn text(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Topology::parse(text) {
        Err(message) => assert!(!message.is_empty() && message.lines().count() == 1, "{message:?}"),
        Ok(topology) => {
            assert!((1..=usize::from(u16::MAX)).contains(&topology.cpus()));
            assert!(topology.cores() <= topology.cpus());
            let last = topology.cpus() as u16 - 1;
            for other in [0, last / 2, last] {
                assert_eq!(topology.distance(other, other), Distance::Smt);
                assert_eq!(topology.distance(last, other), topology.distance(other, last));
            }
        }
    }
}
