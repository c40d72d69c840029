//! Tests the directory against a table of the rules of MESI.

use ufutex_coherence::{Distance, Line, Set, Supply, Topology};

const ME: u16 = 0;
const NEIGHBOUR: u16 = 1;
const ELSEWHERE: u16 = 8;
const THIRD: u16 = 16;

fn shared(cores: &[u16]) -> Line {
    Line::Shared(Box::new(cores.iter().copied().collect::<Set>()))
}

fn from(distance: Distance, modified: bool) -> Supply {
    Supply::Core { distance, modified }
}

/// For each state of a line: the supply of a read by `ME`, the state after it, and the supply of a write. A write
/// always leaves `Modified(ME)`.
fn rules() -> Vec<(Line, Supply, Line, Supply)> {
    use Distance::{Chiplet, Socket};
    vec![
        (Line::Invalid, Supply::Memory, Line::Exclusive(ME), Supply::Memory),
        (Line::Exclusive(ME), Supply::Hit, Line::Exclusive(ME), Supply::Hit),
        (Line::Modified(ME), Supply::Hit, Line::Modified(ME), Supply::Hit),
        (Line::Exclusive(NEIGHBOUR), from(Chiplet, false), shared(&[ME, NEIGHBOUR]), from(Chiplet, false)),
        (Line::Modified(NEIGHBOUR), from(Chiplet, true), shared(&[ME, NEIGHBOUR]), from(Chiplet, true)),
        (Line::Modified(ELSEWHERE), from(Socket, true), shared(&[ME, ELSEWHERE]), from(Socket, true)),
        // A core with a copy reads it without a transfer. Its write waits until the farthest copy is invalidated.
        (shared(&[ME, NEIGHBOUR]), Supply::Hit, shared(&[ME, NEIGHBOUR]), from(Chiplet, false)),
        (shared(&[ME, NEIGHBOUR, ELSEWHERE]), Supply::Hit, shared(&[ME, NEIGHBOUR, ELSEWHERE]), from(Socket, false)),
        // A core without a copy gets one from the nearest core that has one.
        (
            shared(&[NEIGHBOUR, ELSEWHERE]),
            from(Chiplet, false),
            shared(&[ME, NEIGHBOUR, ELSEWHERE]),
            from(Socket, false),
        ),
        (shared(&[ELSEWHERE, THIRD]), from(Socket, false), shared(&[ME, ELSEWHERE, THIRD]), from(Socket, false)),
    ]
}

#[test]
fn a_line_goes_by_the_rules_of_mesi() {
    let topology = Topology::given("epyc-9d64").unwrap();
    for (state, read_from, after_read, written_from) in rules() {
        assert_eq!(state.supply_read(ME, &topology), read_from, "a read of {state:?}");
        assert_eq!(state.supply_write(ME, &topology), written_from, "a write to {state:?}");
        let mut line = state.clone();
        line.read(ME);
        assert_eq!(line, after_read, "after a read of {state:?}");
        let mut line = state.clone();
        line.write(ME);
        assert_eq!(line, Line::Modified(ME), "after a write to {state:?}");
    }
}

#[test]
fn never_do_two_cores_own_a_line_and_never_does_a_reader_meet_a_stale_one() {
    let topology = Topology::given("epyc-9d64").unwrap();
    let (mut line, mut chance) = (Line::Invalid, 1_u32);
    for step in 0..10_000 {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let core = (chance >> 16) as u16 % 32;
        let writes = chance >> 31 == 1;
        if writes {
            line.write(core)
        } else {
            line.read(core)
        }
        let hits = |core: &u16| line.supply_write(*core, &topology) == Supply::Hit;
        let owners: Vec<u16> = (0..32).filter(hits).collect();
        assert!(owners.len() <= 1, "step {step}: {owners:?} own {line:?}");
        assert_eq!(line.supply_read(core, &topology), Supply::Hit, "step {step}: core {core} has just had {line:?}");
        if writes {
            let readers = (0..32).filter(|core| line.supply_read(*core, &topology) == Supply::Hit).count();
            assert_eq!(readers, 1, "step {step}: copies outlive a write: {line:?}");
        }
    }
}

#[test]
fn cores_are_numbered_chiplet_by_chiplet_and_siblings_last() {
    let topology = Topology::given("epyc-9d64").unwrap();
    assert_eq!(topology.cpus(), 176);
    assert_eq!(topology.distance(0, 88), Distance::Smt);
    assert_eq!(topology.distance(0, 7), Distance::Chiplet);
    assert_eq!(topology.distance(0, 95), Distance::Chiplet);
    assert_eq!(topology.distance(7, 8), Distance::Socket);
    let two = Topology::parse(&TWO_SOCKETS.replace("SOCKETS", "2")).unwrap();
    assert_eq!(two.distance(0, 4), Distance::Far);
    assert_eq!(two.distance(2, 3), Distance::Chiplet);
}

const TWO_SOCKETS: &str = "
name = \"t\"
ghz = 2.0
sockets = SOCKETS
chiplets_per_socket = 2
cores_per_chiplet = 2
[latency]
hit = 1.0
locked = 5.0
barrier = 6.0
smt = 5.0
chiplet = 20.0
socket = 80.0
far = 200.0
memory = 100.0
";

#[test]
fn all_given_topologies_can_be_read() {
    for name in Topology::names() {
        assert_eq!(Topology::given(name).unwrap().name, name);
    }
}

#[test]
fn an_error_in_a_topology_is_reported_in_one_line() {
    let with = |key: &str, from: &str, to: &str| {
        let text = TWO_SOCKETS.replace("SOCKETS", "1");
        assert!(Topology::parse(&text).is_ok());
        text.replace(&format!("\n{key} = {from}\n"), &format!("\n{key} = {to}\n"))
    };
    for (text, says) in [
        (TWO_SOCKETS.replace("SOCKETS", "0"), "sockets = 0: 1 to 1024 are accepted"),
        (TWO_SOCKETS.replace("SOCKETS", "900"), "3600 hardware threads in all: at most 1024 are accepted"),
        (TWO_SOCKETS.replace("SOCKETS", "1").replace("hit = 1.0", "hit = -1.0"), "latency.hit = -1"),
        (TWO_SOCKETS.replace("SOCKETS", "1").replace("hit = 1.0", "hitt = 1.0"), "unknown field `hitt`"),
        (with("ghz", "2.0", "1e10"), "ghz = 10000000000: 0.01 to 1e9 are accepted"),
        (with("hit", "1.0", "1.0\nhold = -1.0"), "latency.hold = -1: 0 to 1e9 are accepted"),
        (with("hit", "1.0", "1.0\nwindow = nan"), "latency.window = NaN: 0 to 1e9 are accepted"),
        (with("hit", "1.0", "1.0\nsibling = -0.5"), "latency.sibling = -0.5: 0 to 1e9 are accepted"),
        (with("memory", "100.0", "100.0\n[thread]\nwakeup = inf"), "thread.wakeup = inf: 0 to 1e9 are accepted"),
        (with("memory", "100.0", "100.0\n[thread]\nslice = 0.0"), "thread.slice = 0: 0.01 to 1e9 are accepted"),
    ] {
        let error = Topology::parse(&text).unwrap_err();
        assert!(error.contains(says), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    // The bounds themselves are accepted.
    for text in [with("ghz", "2.0", "1e9"), with("hit", "1.0", "0.01\nsibling = 0.0\nhold = 1e9")] {
        assert!(Topology::parse(&text).is_ok(), "{text}");
    }
}
