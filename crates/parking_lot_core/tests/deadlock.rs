//! The deadlock detector of both lines finds every deadlock and nothing else.

/// The package of the 0.9 line, compiled as a module.
#[path = "../v0_9/src/lib.rs"]
#[allow(dead_code, unused_imports, reason = "the rest is tested elsewhere")]
mod v0_9;

/// The package of the 0.10 line, compiled as a module.
#[path = "../v0_10/src/lib.rs"]
#[allow(dead_code, unused_imports, reason = "the rest is tested elsewhere")]
mod v0_10;

use std::sync::{Mutex, PoisonError};

/// Runs one test at a time, because a check sees the threads of all tests of the process.
fn alone<R>(test: impl FnOnce() -> R) -> R {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    test()
}

mod line_0_9 {
    use crate::v0_9 as core;
    include!("deadlock/bodies.rs");
}

mod line_0_10 {
    use crate::v0_10 as core;
    include!("deadlock/bodies.rs");
}

/// The 0.10 line aborts, so the test runs it in a child process.
mod unowned {
    use std::panic::catch_unwind;
    use std::process::Command;

    const CHILD: &str = "UFUTEX_TEST_UNOWNED";

    #[test]
    fn release_of_what_is_not_owned_panics_in_0_9_and_aborts_in_0_10() {
        // SAFETY: the key is not owned, and both lines define what happens then.
        assert!(catch_unwind(|| unsafe { crate::v0_9::deadlock::release_resource(1) }).is_err());
        if std::env::var_os(CHILD).is_some() {
            // SAFETY: as above.
            _ = catch_unwind(|| unsafe { crate::v0_10::deadlock::release_resource(1) });
            std::process::exit(0);
        }
        let mut child = Command::new(std::env::current_exe().expect("a test is a program"));
        child.args(["--exact", "unowned::release_of_what_is_not_owned_panics_in_0_9_and_aborts_in_0_10"]);
        let status = child.env(CHILD, "1").output().expect("it starts").status;
        const SIGABRT: i32 = 6;
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(SIGABRT));
    }
}
