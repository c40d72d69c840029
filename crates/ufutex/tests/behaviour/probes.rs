//! Static probes: their ELF notes are in the binary, where tracers look for them.

/// A part of a probe's note: the provider and the name, each with its terminating 0.
fn note(name: &str) -> Vec<u8> {
    // Concatenated at run time, so that the search does not find this test's own constants.
    ["ufutex", name].map(|part| format!("{part}\0")).concat().into_bytes()
}

#[test]
fn every_probe_is_in_the_binary() {
    let path = std::env::current_exe().expect("a test has a path");
    let binary = std::fs::read(path).expect("and can be read");
    // SAFETY: memmem(3) reads the bytes of both slices.
    let find = |wanted: &[u8]| unsafe {
        libc::memmem(binary.as_ptr().cast(), binary.len(), wanted.as_ptr().cast(), wanted.len())
    };
    let has = |wanted: &[u8]| !find(wanted).is_null();
    for name in ["wait_begin", "wait_end", "wake", "requeue", "resize_begin", "resize_end", "contended"] {
        assert!(has(&note(name)), "no probe {name}");
    }
    assert!(!has(&note("wait")), "the search finds whole names only");
}
