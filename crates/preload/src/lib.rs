//! The library that `ufutex run` loads into a program: it takes the program's futex calls and gives them to the engine.
#[unsafe(no_mangle)]
pub extern "C" fn ufutex_probe() -> i32 { 42 }
