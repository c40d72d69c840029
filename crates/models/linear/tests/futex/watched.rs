//! Ends the process if a program hangs.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::generate::Program;

/// After this time without an end a program hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Prints the program that runs, and aborts the process, if it hangs: threads that wait cannot be ended.
pub struct Watched(Arc<Watch>);

#[derive(Default)]
struct Watch {
    running: Mutex<Option<(Instant, Program)>>,
    is_over: AtomicBool,
}

impl Watched {
    pub fn start() -> Self {
        let this = Self(Arc::default());
        let watch = this.0.clone();
        std::thread::spawn(move || {
            while !watch.is_over.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(200));
                if let Some((begin, program)) = &*watch.running.lock().expect("not poisoned")
                    && begin.elapsed() > PATIENCE
                {
                    eprintln!("this program hangs: {program:#?}");
                    std::process::abort();
                }
            }
        });
        this
    }

    pub fn begin(&self, program: &Program) {
        *self.0.running.lock().expect("not poisoned") = Some((Instant::now(), program.clone()));
    }

    pub fn end(&self) {
        *self.0.running.lock().expect("not poisoned") = None;
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.is_over.store(true, SeqCst);
    }
}
