//! perf's `hash` on virtual cores.

use crate::support::{Words, domain, epyc};
use ufutex_coherence::{Length, Report, Simulation, current};
use ufutex_sim::{Error, Scheme};

const WORDS: usize = 256;

fn hash(scheme: Scheme, cores: usize, buckets: usize, seed: u64) -> Report {
    let (words, domain) = (Words::new(cores * WORDS), domain(scheme, buckets));
    let operations = |each: usize| (cores * each) as u64;
    let report = Simulation::new(&epyc())
        .threads(cores)
        .seed(seed)
        .length(Length::Operations { warm_up: operations(WORDS * 2), measured: operations(WORDS) })
        .run(|thread| {
            current::rendezvous();
            let mut number = 0;
            while !current::is_over() {
                // Uneven: in step, the line would always have left just before the same one of two accesses.
                current::compute(current::below(20) as f64);
                let waited = domain.wait(words.word(thread * WORDS + number), 1234);
                assert_eq!(waited, Err(Error::Again));
                number = (number + 1) % WORDS;
                current::done(1);
            }
        });
    assert_eq!(report.stuck, 0);
    report
}

fn field(report: &Report, object: &str, field: &str) -> f64 {
    let of = |hot: &&ufutex_coherence::statistics::Hot| hot.place.object == object && hot.place.field == field;
    report.hot.iter().filter(of).map(|hot| report.per_operation(hot.hitm())).sum()
}

#[test]
fn a_shared_count_costs_many_cores_and_not_one() {
    let live = hash(Scheme::Live, 64, 1024, 1);
    let atomic = hash(Scheme::Atomic, 64, 1024, 1);
    assert!(live.per_second() > 4.0 * atomic.per_second(), "{} {}", live.per_second(), atomic.per_second());
    // Incremented and decremented, sometimes while the line is still in the cache.
    assert!(field(&atomic, "Atomic", "count") > 0.5, "{:?}", atomic.hot);
    assert_eq!(field(&live, "Atomic", "count"), 0.0);
    let (live, atomic) = (hash(Scheme::Live, 1, 1024, 1), hash(Scheme::Atomic, 1, 1024, 1));
    assert!(live.per_second() < 2.0 * atomic.per_second(), "{} {}", live.per_second(), atomic.per_second());
    assert_eq!((live.counts.hitm, atomic.counts.hitm), (0, 0));
}

#[test]
fn an_operation_is_one_locked_instruction_in_live_three_in_atomic_and_one_in_percpu() {
    let locked = |report: Report| report.per_operation(report.counts.locked);
    assert_eq!(locked(hash(Scheme::Live, 1, 1024, 1)), 1.0);
    assert_eq!(locked(hash(Scheme::Fixed, 1, 1024, 1)), 1.0);
    assert_eq!(locked(hash(Scheme::Atomic, 1, 1024, 1)), 3.0);
    assert_eq!(locked(hash(Scheme::PerCpu, 1, 1024, 1)), 1.0);
}

#[test]
fn counting_by_core_moves_no_line() {
    let (percpu, live) = (hash(Scheme::PerCpu, 16, 4096, 1), hash(Scheme::Live, 16, 4096, 1));
    assert_eq!(field(&percpu, "PerCpu slot", "taken") + field(&percpu, "PerCpu", "state"), 0.0, "{:?}", percpu.hot);
    assert!(percpu.counts.stores > live.counts.stores);
}

#[test]
fn more_buckets_are_shared_less() {
    let by_buckets = [16, 256, 4096].map(|buckets| hash(Scheme::Live, 16, buckets, 1).per_second());
    assert!(by_buckets[0] * 1.5 < by_buckets[1] && by_buckets[1] < by_buckets[2], "{by_buckets:?}");
}

#[test]
fn a_seed_decides_everything() {
    let first = hash(Scheme::Atomic, 16, 64, 3);
    assert_eq!(first, hash(Scheme::Atomic, 16, 64, 3));
    assert_ne!(first.window_ns, hash(Scheme::Atomic, 16, 64, 4).window_ns);
}

#[test]
fn who_touches_a_line_is_told_by_function() {
    let report = hash(Scheme::Atomic, 8, 1024, 1);
    let hottest = &report.hot[0];
    assert_eq!((hottest.place.object, hottest.place.field), ("Atomic", "count"));
    let functions = ufutex_sim::source::FUNCTIONS;
    let names: Vec<_> = hottest
        .sites
        .iter()
        .map(|site| ufutex_coherence::functions::at(functions, site.file, site.line).expect("a function of the engine"))
        .collect();
    assert!(names.contains(&"get") && names.contains(&"put"), "{names:?}");
}
