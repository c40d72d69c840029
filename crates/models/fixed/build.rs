//! Copies the engine: see `ufutex_seam`.

fn main() {
    ufutex_seam::scheme("fixed", "Fixed").write();
}
