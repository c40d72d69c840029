//! Marks the library that `ufutex run` preloads as `initfirst`: its initialiser runs before those of other libraries,
//! and sees what they do with signals and futexes.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,initfirst");
}
