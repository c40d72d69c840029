//! Breaks the engine in one place at a time, and runs the tests that reach the place.
//!
//! All mutants are compiled into a copy of the checkout at once, each behind a switch: an environment variable of a test's
//! process says which one is on. So the engine is compiled once for each suite, and not once for each mutant. The tests
//! are first run one by one without a mutant. Each notes how long it takes and which mutants it reaches.

mod arguments;
mod cfg;
mod edit;
mod engine;
mod find;
mod judge;
mod mutant;
mod process;
mod report;
mod suites;

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use arguments::Arguments;
use engine::Source;
use judge::{Verdict, judge};
use mutant::Mutant;
use suites::Test;

/// Of what a run says about itself: passed, too many live unexplained, could not be run.
const BAD: u8 = 1;
const NOT_RUN: u8 = 2;

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--help") {
        println!("{}", arguments::USAGE);
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => return fail(&error),
    };
    let root = engine::root();
    let sources = engine::sources(&root);
    let mutants: Vec<Mutant> = sources.iter().flat_map(|source| source.mutants.clone()).collect();
    let selected = arguments.select(&mutants);
    if arguments.lists {
        selected.iter().for_each(|&number| println!("{}", mutants[number].id));
        return ExitCode::SUCCESS;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let work = target.join("mutants");
    let tests = match prepare(&root, &work, &sources, &arguments.packages) {
        Ok(tests) => tests,
        Err(error) => return fail(&error),
    };
    let results = work.join("results.jsonl");
    if !arguments.resumes {
        let _ = fs::remove_file(&results);
    }
    run(&arguments, &mutants, &selected, &tests, &results);
    finish(&root, &work, &mutants, &results)
}

fn fail(error: &str) -> ExitCode {
    eprintln!("{error}");
    ExitCode::from(NOT_RUN)
}

/// Writes the copy, builds its suites, and runs the baseline, unless one for the same mutants is there.
fn prepare(root: &Path, work: &Path, sources: &[Source], packages: &[String]) -> Result<Vec<Test>, String> {
    let mut hasher = DefaultHasher::new();
    sources.iter().for_each(|source| source.text.hash(&mut hasher));
    packages.hash(&mut hasher);
    let hash = hasher.finish();
    println!("building the suites with all mutants in {}", work.display());
    engine::write_copy(root, &work.join("tree"), sources);
    let tests = suites::build(&work.join("tree"), &work.join("target"), packages)?;
    let kept = work.join("baseline.json");
    if let Some(tests) = suites::stored(&kept, hash) {
        return Ok(tests);
    }
    let all = tests.len();
    let (tests, failed) = suites::baseline(tests, &work.join("reached.txt"), |number| {
        if number % 100 == 0 {
            println!("{number} of {all} tests without a mutant");
        }
    });
    failed.iter().for_each(|test| println!("not used, because it fails without a mutant: {test}"));
    if failed.len() * 20 > all {
        return Err(format!("{} of {all} tests fail without a mutant", failed.len()));
    }
    suites::store(&kept, hash, &tests);
    Ok(tests)
}

/// The verdicts in a file of results.
fn verdicts(results: &Path) -> Vec<Verdict> {
    fs::read_to_string(results).unwrap_or_default().lines().filter_map(Verdict::from_json).collect()
}

/// Judges the selected mutants that have no verdict yet, and appends a line for each.
fn run(arguments: &Arguments, mutants: &[Mutant], selected: &[usize], tests: &[Test], results: &Path) {
    let done: BTreeSet<String> = verdicts(results).into_iter().map(|verdict| verdict.id).collect();
    let left: Vec<usize> = selected.iter().copied().filter(|&number| !done.contains(&mutants[number].id)).collect();
    let file = fs::OpenOptions::new().append(true).create(true).open(results).expect("the results can be written");
    let (file, next, lived) = (Mutex::new(file), AtomicUsize::new(0), AtomicUsize::new(0));
    let began = Instant::now();
    let work = || {
        while let Some(&number) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
            let verdict = judge(tests, number, &mutants[number], arguments.seconds);
            lived.fetch_add(usize::from(!verdict.outcome.is_noticed()), Ordering::Relaxed);
            let mut file = file.lock().expect("no thread panics");
            writeln!(file, "{}", verdict.to_json()).expect("the results can be written");
            drop(file);
            let (at, all) = (next.load(Ordering::Relaxed).min(left.len()), left.len());
            let rest = began.elapsed().mul_f64((all - at) as f64 / at as f64).as_secs() / 60;
            let lived = lived.load(Ordering::Relaxed);
            println!("{at} of {all}, {lived} lived, {rest} min left: {} {}", verdict.outcome.name(), verdict.id);
        }
    };
    std::thread::scope(|scope| (0..arguments.jobs).for_each(|_| _ = scope.spawn(work)));
}

fn finish(root: &Path, work: &Path, mutants: &[Mutant], results: &Path) -> ExitCode {
    let list = fs::read_to_string(root.join(report::LIVED)).expect("the list can be read");
    let explained = report::explanations(&list);
    let summary = report::summary(mutants, &verdicts(results), &explained);
    let _ = fs::write(work.join("summary.md"), &summary.text);
    println!("\n{}", summary.text);
    report::stale(&explained, mutants).iter().for_each(|stale| println!("{}: {stale}", report::LIVED));
    if summary.is_bad { ExitCode::from(BAD) } else { ExitCode::SUCCESS }
}
