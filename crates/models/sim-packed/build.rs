//! Copies the engine: see `ufutex_seam`.

fn main() {
    ufutex_seam::sim().with_edits("packed.toml").with_edits("sim-packed.toml").with_functions().write();
}
