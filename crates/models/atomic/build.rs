//! Copies the engine: see `ufutex_seam`.

fn main() {
    ufutex_seam::scheme("atomic", "Atomic").write();
}
