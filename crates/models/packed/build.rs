//! Copies the engine: see `ufutex_seam`.

fn main() {
    ufutex_seam::counted_on_the_host().without_tests().with_edits("packed.toml").with_features(&["packed"]).write();
}
