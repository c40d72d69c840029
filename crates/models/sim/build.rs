//! Copies the engine: see `ufutex_seam`.

fn main() {
    ufutex_seam::sim().with_functions().write();
}
