//! The library that `ufutex run` loads begins before any other: whatever their initialisers do with signals and futexes is
//! to be seen.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,initfirst");
}
