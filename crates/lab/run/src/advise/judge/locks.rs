//! What the waits for locks say: which lock to split or to hold for less time, and whether it goes from CPU to CPU.

use super::{Figures, Sentence, counted, percent, say};
use lab_waits::Lock;

/// A lock for which threads waited a smaller share of the time is no reason to change the program.
const CHEAP: f64 = 0.01;
/// A place with at least this share of the time is the one to change.
const MOST: f64 = 0.8;
/// From this share of the wakes on, the lock goes between CPUs.
const ACROSS: f64 = 0.5;
/// A wait that takes longer is mostly that of the lock's owner, and not of the hand-over.
const HAND_OVER_SECONDS: f64 = 200e-6;

/// The sentences about the lock that cost the most time.
pub fn sentences(figures: &Figures) -> Vec<Sentence> {
    let Some(lock) = &figures.lock else { return Vec::new() };
    let mut sentences = vec![cost(figures, lock)];
    if lock.waited_seconds >= CHEAP * figures.seconds {
        sentences.extend(change(lock));
        sentences.extend(across_cpus(figures, lock));
    }
    sentences
}

fn cost(figures: &Figures, lock: &Lock) -> Sentence {
    let worth = if lock.waited_seconds < CHEAP * figures.seconds { ": too little to matter" } else { "" };
    let text = format!(
        "The lock that cost most is {}: threads waited {} for it in {}, in {} waits of {} each, {} of the time that they waited \
         for locks{worth}.",
        lock.name,
        time(lock.waited_seconds),
        time(figures.seconds),
        counted(lock.waits),
        time(lock.mean_seconds),
        percent(lock.share_of_waited),
    );
    say(text, &["lock"])
}

/// What to do about it: by the places where it is taken, and by its owner.
fn change(lock: &Lock) -> Option<Sentence> {
    let (first, share) = lock.places.first()?;
    let holds = lock.owner.as_ref().map(|(thread, seconds)| match lock.owners {
        1 => format!(" {thread} held it for {} while others waited.", time(*seconds)),
        number => format!(
            " {number} threads or more held it by turns; {thread} longest, for {} while others waited.",
            time(*seconds)
        ),
    });
    let advice = match lock.places.get(1) {
        Some((second, other)) if *share < MOST => format!(
            "{} of the time for this lock was waited in {first}, {} in {second}: if they protect different data, give each a \
             lock of its own.",
            percent(*share),
            percent(*other)
        ),
        _ => format!(
            "{} of the time for this lock was waited in {first}: hold it for less time there, or split what it protects \
             into parts with a lock each.",
            percent(*share)
        ),
    };
    Some(say(advice + &holds.unwrap_or_default(), &["lock"]))
}

fn across_cpus(figures: &Figures, lock: &Lock) -> Option<Sentence> {
    let share = lock.wakes_across_cpus as f64 / lock.wakes.max(1) as f64;
    (lock.wakes > 0 && share >= ACROSS && lock.mean_seconds < HAND_OVER_SECONDS).then(|| {
        let text = format!(
            "The lock is handed over {} times a second, {} of these to a thread on another CPU, and waits are so short that \
             much of each is the hand-over: take the lock less often and do more each time, keep its threads on one CPU \
             (taskset), or let waiting threads spin (`ufutex run --spin`).",
            counted((lock.wakes as f64 / figures.seconds.max(1e-9)).round() as u64),
            percent(share)
        );
        say(text, &["lock"])
    })
}

fn time(seconds: f64) -> String {
    lab_waits::time((seconds * 1e9) as u64)
}
