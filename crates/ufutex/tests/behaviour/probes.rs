//! Static probes: whether their notes are in the binary, where tracers look for them.

/// Of a note's contents: its provider and its name, each with the 0 behind it.
fn note(name: &str) -> Vec<u8> {
    // Put together here, or this test would find its own text.
    ["ufutex", name].map(|part| format!("{part}\0")).concat().into_bytes()
}

#[test]
fn every_probe_is_in_the_binary() {
    let path = std::env::current_exe().expect("a test has a path");
    let binary = std::fs::read(path).expect("and can be read");
    let has = |wanted: &[u8]| binary.windows(wanted.len()).any(|bytes| bytes == wanted);
    for name in ["wait_begin", "wait_end", "wake", "requeue", "resize_begin", "resize_end", "contended"] {
        assert!(has(&note(name)), "no probe {name}");
    }
    assert!(!has(&note("wait")), "the search finds whole names only");
}
