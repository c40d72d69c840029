//! The CPUs that schbench's threads may use: `-M`, `-W` and `-P`.

use crate::schbench::Cpus;
use std::fs;

/// The CPUs that threads are pinned to. `None` leaves these threads to the scheduler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pinning {
    /// The CPU of each message thread, in turn.
    pub messages: Option<Vec<usize>>,
    /// The CPUs that the workers of each message thread share, in turn.
    pub workers: Option<Vec<Vec<usize>>>,
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
            return Pinning { messages: Some(cpus[..own].to_vec()), workers: Some(vec![others.to_vec()]) };
        }
        let list = |cpus: Option<&Cpus>| match cpus {
            Some(Cpus::These(cpus)) => Some(cpus.clone()),
            _ => None,
        };
        Pinning { messages: list(messages), workers: list(workers).map(|cpus| vec![cpus]) }
    }

    /// `-P ccx`: the message threads and their workers share the CPUs of one last-level cache, in turn.
    pub fn by_cache(cpus: &[usize]) -> Pinning {
        let caches = caches(cpus, |cpu| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index3/shared_cpu_list");
            fs::read_to_string(path).unwrap_or_default().trim().to_string()
        });
        Pinning { messages: Some(caches.iter().map(|cache| cache[0]).collect()), workers: Some(caches) }
    }
}

/// CPUs in groups that share a cache, by the cache's name. One group if no cache is known.
fn caches(cpus: &[usize], name: impl Fn(usize) -> String) -> Vec<Vec<usize>> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for cpu in cpus {
        let name = name(*cpu);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, group)) => group.push(*cpu),
            None => groups.push((name, vec![*cpu])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
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
        assert_eq!(auto(2, &[0, 1, 2, 3, 4]), (vec![0, 1], vec![vec![2, 3, 4]]));
        assert_eq!(auto(4, &[0, 1]), (vec![0], vec![vec![1]]), "too few: they share");
        assert_eq!(auto(1, &[5]), (vec![5], vec![vec![5]]), "one for all");
    }

    #[test]
    fn lists_are_taken_as_they_are() {
        let pinning = Pinning::new(Some(&Cpus::These(vec![3])), None, 2, &[0, 1, 2, 3]);
        assert_eq!(pinning, Pinning { messages: Some(vec![3]), workers: None });
    }

    #[test]
    fn cpus_of_one_cache_belong_together() {
        let groups = caches(&[0, 1, 2, 3], |cpu| if cpu % 2 == 0 { "0,2".into() } else { "1,3".into() });
        assert_eq!(groups, [[0, 2], [1, 3]]);
        assert_eq!(caches(&[0, 1], |_| String::new()), [[0, 1]]);
    }
}
