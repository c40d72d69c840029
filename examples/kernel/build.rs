//! Links at fixed addresses by `kernel.ld`: no loader relocates this kernel.

fn main() {
    println!("cargo:rerun-if-changed=kernel.ld");
    println!("cargo:rustc-link-arg-bins=--no-pie");
    println!("cargo:rustc-link-arg-bins=-T{}/kernel.ld", env!("CARGO_MANIFEST_DIR"));
}
