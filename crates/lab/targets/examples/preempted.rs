//! Why the resize of a table that counts its users does not end if threads share CPUs: 16 threads on two CPUs hammer a
//! table of 16 buckets, and a resize to 1024 is requested. Either they lose their CPUs wherever they are, or they give
//! them up between operations, as threads do that the kernel preempts at the end of a system call alone.

use anyhow::{Result, anyhow};
use lab_measure::machine;
use lab_measure::pool::{Gate, Pool};
use lab_targets::{Layout, Name, Operation, Policy, Shape, Words};
use std::time::{Duration, Instant};

const THREADS: usize = 16;
const CPUS: usize = 2;
const REQUESTS: usize = 20;
/// How long the threads hammer before the request, from when all have begun: so long that each has lost its CPU.
const LEAD_IN: Duration = Duration::from_millis(50);
const GIVE_UP: Duration = Duration::from_millis(200);

fn main() -> Result<()> {
    let cpus: Vec<usize> = machine::allowed_cpus().into_iter().take(CPUS).collect();
    let pool = Pool::new(THREADS, &cpus)?;
    for name in [Name::Live, Name::Atomic, Name::PerCpu] {
        for yields in [false, true] {
            let (mut done_ms, mut given_up) = (Vec::new(), 0);
            for _ in 0..REQUESTS {
                match request(&pool, name, yields)? {
                    Some(took) => done_ms.push(took.as_secs_f64() * 1e3),
                    None => given_up += 1,
                }
            }
            done_ms.sort_by(f64::total_cmp);
            let median = done_ms.get(done_ms.len() / 2).map_or("-".to_string(), |ms| format!("{ms:.2} ms"));
            let how = if yields { "give their CPU up between operations" } else { "lose their CPU anywhere" };
            println!(
                "{name}, threads {how}: {} of {REQUESTS} done, median {median}; {given_up} given up",
                done_ms.len()
            );
        }
    }
    Ok(())
}

/// The time until a request returned. `None` if it was given up.
fn request(pool: &Pool, name: Name, yields: bool) -> Result<Option<Duration>> {
    let subject = lab_targets::build(name, &Shape::new(Layout::Lean, Policy::Fixed(16)))?;
    let (all, stopped) = (Gate::new(THREADS), Gate::new(THREADS));
    stopped.stop();
    let job = {
        let (subject, all) = (subject.clone(), all.clone());
        move |_| {
            let words = Words::new(1024, size_of::<u32>());
            all.pass_together();
            while yields && !all.stopped() {
                // The gate is stopped, so this is two batches of 1024 operations.
                subject.hammer(Operation::WaitDiffers, &words, &stopped);
                std::thread::yield_now();
            }
            subject.hammer(Operation::WaitDiffers, &words, &all);
        }
    };
    let (mut resized, mut took) = (Ok(false), Duration::ZERO);
    pool.run(THREADS, job, || {
        all.sleep_until_passed();
        std::thread::sleep(LEAD_IN);
        let start = Instant::now();
        resized = subject.set_slots(1024, &mut || start.elapsed() < GIVE_UP);
        took = start.elapsed();
        all.stop();
    })?;
    let is_done = resized.map_err(|reason| anyhow!("{name}: {reason}"))?;
    Ok(is_done.then_some(took))
}
