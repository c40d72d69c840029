//! Copies the engine: see `ufutex_seam`.

fn main() {
    ufutex_seam::sim().with_edits("split.toml").with_functions().write();
}
