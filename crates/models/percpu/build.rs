//! Copies the engine: see `ufutex_seam`.

fn main() {
    ufutex_seam::scheme("percpu", "PerCpu").write();
}
