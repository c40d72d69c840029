//! A scheduler that records the last priority that it was given for each task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ufutex::{
    Domain, DomainOptions, System, SystemConfig, Task,
    pi::{Priority, Scheduler},
};

#[derive(Default)]
pub struct Log(Mutex<HashMap<u32, Priority>>);

impl Scheduler for Log {
    fn set_priority(&self, tid: u32, priority: Priority) {
        self.0.lock().expect("not poisoned").insert(tid, priority);
    }
}

impl Log {
    pub fn system(config: SystemConfig) -> (Arc<Self>, System) {
        let log = Arc::new(Self::default());
        let config = config.cpus(2).global_slots(64).hash_seed(1);
        let system = System::with_scheduler(config, log.clone()).expect("the memory is there");
        (log, system)
    }

    pub fn domain() -> (Arc<Self>, Domain) {
        let (log, system) = Self::system(SystemConfig::new());
        (log, Domain::with_options(&system, DomainOptions::new()))
    }

    /// The real-time priorities that tasks run with, as last given to the scheduler. `0` means none.
    pub fn priorities(&self, tasks: &[&Task]) -> Vec<u8> {
        let priorities = self.0.lock().expect("not poisoned");
        let one = |task: &&Task| {
            let given = priorities.get(&task.tid()).copied().unwrap_or(Priority::NORMAL);
            assert_eq!(given, task.priority(), "the priority of task {} as given to the scheduler", task.tid());
            given.as_realtime()
        };
        tasks.iter().map(one).collect()
    }
}

/// Tasks with the TIDs 1, 2 and so on, and these real-time priorities.
pub fn tasks<const N: usize>(domain: &Domain, priorities: [u8; N]) -> [Task; N] {
    let mut tid = 0;
    priorities.map(|priority| {
        tid += 1;
        let task = domain.task(tid).expect("the TID is free");
        task.set_priority(Priority::realtime(priority));
        task
    })
}
