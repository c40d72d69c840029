//! Inputs of the corpora with random changes, for hosts on which no fuzzer can be had. The test does not see what code
//! an input reaches, so it finds less than `.ci/fuzz`. `UFUTEX_FUZZ_SECONDS` sets how long the targets run: one second
//! without it.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;

const LONGEST: usize = 4096;

/// Changes a few bytes: single ones, or a part, which is removed, repeated or taken from `other`.
fn change(input: &mut Vec<u8>, other: &[u8], random: &mut Rng) {
    for _ in 0..random.usize(1..=8) {
        let at = random.usize(0..=input.len());
        let length = random.usize(0..=16);
        let part = |of: &[u8], at: usize| of[at.min(of.len())..].iter().take(length).copied().collect::<Vec<_>>();
        let end = (at + length).min(input.len());
        match random.u8(0..6) {
            0 => drop(input.drain(at..end)),
            1 => drop(input.splice(at..at, part(input, at))),
            2 => drop(input.splice(at..at, part(other, random.usize(0..=other.len())))),
            3 => drop(input.splice(at..end, part(other, at))),
            what if at < input.len() => {
                let edges = [0, 1, 0x7f, 0x80, 0xff, b'\n', b' ', random.u8(..)];
                input[at] = if what == 4 { input[at] ^ 1 << random.u8(0..8) } else { edges[random.usize(0..8)] };
            }
            _ => input.push(random.u8(..)),
        }
    }
    input.truncate(LONGEST);
}

/// Each target on a thread of its own. The input that runs is in the file `fails-NAME` of the build's `tmp` directory,
/// and stays there if the target panics, crashes or hangs. The inputs are the same in each run, up to the last, which
/// the time decides.
#[test]
fn changed_inputs_of_the_corpora_hold_the_invariants() {
    let seconds =
        std::env::var("UFUTEX_FUZZ_SECONDS").map_or(1, |seconds| seconds.parse().expect("a number of seconds"));
    let fails: Vec<_> = std::thread::scope(|scope| {
        let targets = ufutex_fuzz_targets::TARGETS.map(|(name, target)| {
            scope.spawn(move || {
                let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(name);
                let files =
                    corpus.read_dir().expect("each target has a corpus").map(|file| file.expect("a file").path());
                let mut files: Vec<_> = files.collect();
                files.sort();
                let inputs: Vec<_> = files.iter().map(|file| std::fs::read(file).expect("a file")).collect();
                let (begin, mut random, mut count) = (Instant::now(), Rng::with_seed(7), 0);
                let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fails-{name}"));
                while begin.elapsed() < Duration::from_secs(seconds) {
                    let [mut input, other] = [(); 2].map(|()| inputs[random.usize(0..inputs.len())].clone());
                    change(&mut input, &other, &mut random);
                    count += 1;
                    // Written before, because the target may end the process.
                    std::fs::write(&file, &input).expect("the build's directory can be written");
                    if std::panic::catch_unwind(|| target(&input)).is_err() {
                        return Some(format!("{name}: input {count}, {}", file.display()));
                    }
                }
                std::fs::remove_file(&file).expect("it has just been written");
                println!("{name}: {count} inputs");
                None
            })
        });
        targets.into_iter().filter_map(|target| target.join().expect("it has caught the panic")).collect()
    });
    assert_eq!(fails, Vec::<String>::new());
}
