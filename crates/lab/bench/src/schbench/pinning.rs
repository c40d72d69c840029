//! The CPUs that schbench's threads may use: `-M` and `-W`.

use crate::schbench::Cpus;

/// The CPUs that threads are pinned to. `None` leaves these threads to the scheduler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pinning {
    /// The CPU of each message thread, in turn.
    pub messages: Option<Vec<usize>>,
    /// The CPUs that all workers share.
    pub workers: Option<Vec<usize>>,
}

impl Pinning {
    /// `-M` and `-W` as in schbench, for `threads` message threads on `cpus`.
    ///
    /// With `auto` each message thread has a CPU, and the workers have the rest. If there are too few CPUs, the workers
    /// have one, and the message threads share the rest.
    pub fn new(messages: Option<&Cpus>, workers: Option<&Cpus>, threads: usize, cpus: &[usize]) -> Pinning {
        if messages == Some(&Cpus::Auto) || workers == Some(&Cpus::Auto) {
            let own = threads.min(cpus.len() - 1).max(1);
            let others = if own < cpus.len() { &cpus[own..] } else { cpus };
            return Pinning { messages: Some(cpus[..own].to_vec()), workers: Some(others.to_vec()) };
        }
        let list = |cpus: Option<&Cpus>| match cpus {
            Some(Cpus::These(cpus)) => Some(cpus.clone()),
            _ => None,
        };
        Pinning { messages: list(messages), workers: list(workers) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_gives_each_message_thread_a_cpu_and_the_workers_the_others() {
        let auto = |threads, cpus: &[usize]| {
            let pinning = Pinning::new(Some(&Cpus::Auto), None, threads, cpus);
            (pinning.messages.unwrap_or_default(), pinning.workers.unwrap_or_default())
        };
        assert_eq!(auto(2, &[0, 1, 2, 3, 4]), (vec![0, 1], vec![2, 3, 4]));
        assert_eq!(auto(4, &[0, 1]), (vec![0], vec![1]), "too few: they share");
        assert_eq!(auto(1, &[5]), (vec![5], vec![5]), "one for all");
    }

    #[test]
    fn lists_are_taken_as_they_are() {
        let pinning = Pinning::new(Some(&Cpus::These(vec![3])), None, 2, &[0, 1, 2, 3]);
        assert_eq!(pinning, Pinning { messages: Some(vec![3]), workers: None });
    }
}
