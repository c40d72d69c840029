//! What the words of the tables mean: a line for each word, below the first table of a run that has it.

use lab_measure::machine::NEAR_NS_MAX;
use lab_measure::names::Named;
use lab_targets::{Name, timers};
use std::collections::BTreeSet;

/// The words, without the targets' names, whose meaning is their documentation.
const WORDS: [(&str, &str); 26] = [
    ("early return", "the wait compares the word before it locks the bucket"),
    ("spin", "a thread spins for up to --spin microseconds before it sleeps"),
    ("p10", "the 10th percentile of the rounds; p90: the 90th"),
    ("Mop/s", "million operations a second of all threads"),
    ("buckets", "size of the target's table at the end; 0: the operation needs no table; -: it cannot be seen"),
    ("of the best -b", "the rate divided by that of the best fixed size"),
    ("returns", "until the request returned; its thread may have waited for a CPU"),
    ("completed", "whether the new size came into use, or in how many of the tries"),
    ("rate meanwhile", "operations a second until the request returned, divided by those before it"),
    ("missed", "work not done until the request returned, as the time that it takes at the rate before"),
    ("op p99", "how long one operation took until the request returned; max: the longest"),
    ("first wait p50", "from the call until the thread sleeps"),
    ("ns one way", "from a wake to the next one, which the woken thread makes"),
    ("CPU ns", "the CPU time of all threads in that time"),
    ("work ns", "how long a thread works before each wake"),
    ("at once", "waiters that one call wakes or moves"),
    ("distinct", "each waiter waits for a word of its own; same-bucket: for one of two words of one bucket"),
    ("future", "the waiter is a Rust future; custom: a waiter of an embedder"),
    ("/ fewest", "divided by the row of this case and kind with the fewest waiters"),
    ("many-locks", "threads on several mutexes, which yield their CPU while they hold one"),
    ("lot", "the parking lot below the locks: looking up keys without parked threads"),
    ("stuck", "share of the time that operations of more than 1 ms took"),
    ("alone", "beside attackers that only burn CPU; attacked: beside the attack"),
    ("late p50", "how late a timer is delivered, half of them at most so late"),
    ("RPS", "requests a second"),
    ("request p50", "how long a request takes, half of them at most so long"),
];

/// The lines about the words in the tables of `text` that `explained` does not have yet. Each ends with a line feed.
pub fn lines(text: &str, explained: &mut BTreeSet<String>) -> String {
    let cells = text.lines().filter(|line| line.starts_with('|')).flat_map(|line| line.split('|'));
    let words = cells.flat_map(|cell| cell.split([',', '(', ')'])).map(str::trim).collect::<BTreeSet<_>>();
    let has = |word: &str| words.iter().any(|one| *one == word || is_alone(one, word));
    let mut lines = String::new();
    for (word, meaning) in all().into_iter().filter(|(word, _)| has(word)) {
        if explained.insert(format!("{word}: {meaning}")) {
            lines += &format!("- {word}: {meaning}\n");
        }
    }
    lines
}

/// Whether a header of `neighbour` is `alone p50`, for the word `alone`.
fn is_alone(cell: &str, word: &str) -> bool {
    word == "alone" && cell == "alone p50"
}

/// All words. A name that two lists of targets have, `kernel`, has the meaning of the first.
fn all() -> Vec<(String, String)> {
    let near = format!("a cache line takes less than {NEAR_NS_MAX} ns from one of the two CPUs to the other");
    let far = format!("a cache line takes {NEAR_NS_MAX} ns or more from one of the two CPUs to the other");
    let own = WORDS.into_iter().chain([("near", near.as_str()), ("far", &far)]);
    let own = own.map(|(word, meaning)| (word.to_string(), meaning.to_string()));
    let timers = of::<timers::Name>().into_iter().filter(|(word, _)| word != timers::Name::Kernel.text());
    of::<Name>().into_iter().chain(timers).chain(own).collect()
}

/// The names of an enum and their documentation, as part of a line.
fn of<T: Named>() -> Vec<(String, String)> {
    let meaning = |name: &T| {
        let text = name.get_documentation().unwrap_or_default().trim_end_matches('.');
        let mut letters = text.chars();
        let first = letters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
        first + letters.as_str()
    };
    let named = |name: &T| {
        let text: &'static str = (*name).into();
        (text.to_string(), meaning(name))
    };
    T::VARIANTS.iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Words of a sentence, such as far and floor, are not explained.
| target              |  threads | ns/op |  p10 |
|---------------------|----------|-------|------|
| live (early return) | 2 (near) |   1.6 |  0.9 |
| floor               | 2 (near) |   3.2 |  2.9 |";

    #[test]
    fn each_word_of_a_table_is_explained_in_one_line() {
        let lines = lines(TABLE, &mut BTreeSet::new());
        for line in [
            "- floor: lower bound: one compare-and-swap and one store on a bucket (hash, wake)\n",
            "- early return: the wait compares the word before it locks the bucket\n",
            "- near: a cache line takes less than 60 ns from one of the two CPUs to the other\n",
            "- live: the engine's default scheme, which resizes under load\n",
        ] {
            assert!(lines.contains(line), "{line}{lines}");
        }
        assert_eq!(lines.lines().count(), 5, "{lines}");
    }

    #[test]
    fn a_word_is_explained_once_in_a_run() {
        let mut explained = BTreeSet::new();
        lines(TABLE, &mut explained);
        let more = "| target | threads |\n| live   | 2 (far) |\n| alone p50, us |";
        let lines = lines(more, &mut explained);
        let words: Vec<_> = lines.lines().filter_map(|line| line[2..].split(':').next()).collect();
        assert_eq!(words, ["alone", "far"], "{lines}");
    }

    #[test]
    fn each_target_has_a_meaning() {
        assert!(all().iter().all(|(word, meaning)| !word.is_empty() && meaning.len() >= 8), "{:?}", all());
    }
}
