//! Every input of `fuzz/corpus`, without a fuzzer.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::path::Path;

#[test]
fn every_input_of_the_corpora_holds_the_invariants() {
    for (name, target) in ufutex_fuzz_targets::TARGETS {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(name);
        let mut inputs: Vec<_> =
            corpus.read_dir().expect("each target has a corpus").map(|file| file.expect("a file").path()).collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{name} has no inputs");
        for path in &inputs {
            let input = std::fs::read(path).expect("a file");
            if std::panic::catch_unwind(|| target(&input)).is_err() {
                panic!("{} fails", path.display());
            }
        }
        println!("{name}: {} inputs", inputs.len());
    }
}
