//! The example `guest`, whose console has to show what its reader is told.

#[path = "../examples/guest/main.rs"]
#[allow(dead_code, reason = "its `main`")]
mod guest;

#[test]
fn example_prints_what_stands_beside_it() {
    assert_eq!(guest::run(), include_str!("../examples/guest/output.txt"));
}
