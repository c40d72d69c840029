//! A scheduler that remembers what it was told last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{Config, Domain, Options, Priority, Scheduler, System, Task};

#[derive(Default)]
pub struct Log(Mutex<HashMap<u32, Priority>>);

impl Scheduler for Log {
    fn set_priority(&self, tid: u32, priority: Priority) {
        self.0.lock().expect("nobody panics with it").insert(tid, priority);
    }
}

impl Log {
    pub fn system<L: Layout>(config: Config) -> (Arc<Self>, System<L>) {
        let log = Arc::new(Self::default());
        let config = config.cpus(2).global_slots(64).hash_seed(1);
        let system = System::with_scheduler(config, log.clone()).expect("the memory is there");
        (log, system)
    }

    pub fn domain<S: Scheme<L>, L: Layout>() -> (Arc<Self>, Domain<S, L>) {
        let (log, system) = Self::system(Config::new());
        (log, Domain::with_options(&system, Options::new()))
    }

    /// What tasks run with, as it was told: real-time priorities, 0 for none.
    pub fn told<L: Layout>(&self, tasks: &[&Task<L>]) -> Vec<u8> {
        let told = self.0.lock().expect("nobody panics with it");
        let one = |task: &&Task<L>| {
            let told = told.get(&task.tid()).copied().unwrap_or(Priority::NORMAL);
            assert_eq!(told, task.priority(), "task {} and what was told of it", task.tid());
            told.as_realtime()
        };
        tasks.iter().map(one).collect()
    }
}

/// Tasks 1, 2 and so on, of these real-time priorities.
pub fn tasks<S: Scheme<L>, L: Layout, const N: usize>(domain: &Domain<S, L>, priorities: [u8; N]) -> [Task<L>; N] {
    let mut tid = 0;
    priorities.map(|priority| {
        tid += 1;
        let task = domain.task(tid).expect("the TID is free");
        task.set_priority(Priority::realtime(priority));
        task
    })
}
