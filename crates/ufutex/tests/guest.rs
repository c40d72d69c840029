//! Checks that the example `guest` prints the output that its comments show.

#[path = "../examples/guest/main.rs"]
#[allow(dead_code, reason = "its `main`")]
mod guest;

#[test]
fn example_prints_the_output_in_its_comments() {
    assert_eq!(guest::run(), include_str!("../examples/guest/output.txt"));
}
