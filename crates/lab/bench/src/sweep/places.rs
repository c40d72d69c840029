//! The CPUs on which the processes of the second table run.

use super::Table;
use lab_measure::machine;

/// The CPUs of each process.
pub struct Places {
    /// For the first table's one process.
    all: Vec<usize>,
    /// For each process of the second table.
    pub sets: Vec<Vec<usize>>,
}

impl Places {
    /// One set for each node. On one node, or for another number of processes, equal sets of CPUs.
    pub fn new(cpus: &[usize], asked: Option<usize>, notes: &mut Vec<String>) -> Places {
        let nodes = machine::nodes();
        let all = cpus.to_vec();
        if nodes.len() > 1 && asked.is_none_or(|asked| asked == nodes.len()) {
            return Places { all, sets: nodes };
        }
        let sets = shares(cpus, asked.unwrap_or(cpus.len().min(2)));
        if asked.is_none() {
            let count = sets.len();
            notes.push(format!(
                "this machine has one node: the second table has {count} processes, each on its own CPUs"
            ));
        }
        Places { all, sets }
    }

    /// The CPU of each thread, process by process.
    pub fn of(&self, table: Table, threads: usize) -> Vec<usize> {
        let of = |set: &Vec<usize>| set.iter().copied().cycle().take(threads).collect::<Vec<_>>();
        match table {
            Table::ByThreads => of(&self.all),
            Table::ByProcesses(_) => self.sets.iter().flat_map(of).collect(),
        }
    }
}

/// Splits the CPUs into `count` sets of neighbours. With fewer CPUs than sets, sets share CPUs.
fn shares(cpus: &[usize], count: usize) -> Vec<Vec<usize>> {
    if count > cpus.len() {
        return (0..count).map(|number| vec![cpus[number % cpus.len()]]).collect();
    }
    (0..count).map(|number| cpus[number * cpus.len() / count..(number + 1) * cpus.len() / count].to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_shared_out_and_none_is_left_over() {
        assert_eq!(shares(&[0, 1, 2, 3, 4], 2), [vec![0, 1], vec![2, 3, 4]]);
        assert_eq!(shares(&[7], 2), [[7], [7]]);
    }

    #[test]
    fn threads_take_their_processs_cpus_in_turn() {
        let places = Places { all: vec![0, 1, 2, 3], sets: vec![vec![0, 1], vec![2, 3]] };
        assert_eq!(places.of(Table::ByThreads, 5), [0, 1, 2, 3, 0]);
        assert_eq!(places.of(Table::ByProcesses(2), 3), [0, 1, 0, 2, 3, 2]);
    }
}
