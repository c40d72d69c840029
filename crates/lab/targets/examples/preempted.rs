//! Why the resize of a table that counts its users does not end if threads share CPUs: 16 threads on two CPUs hammer a
//! table of 16 buckets, and a resize to 1024 is requested. Either they lose their CPUs wherever they are, or they give
//! them up between operations, as threads do that the kernel preempts at the end of a system call alone.

use anyhow::{Result, anyhow};
use lab_measure::machine;
use lab_measure::pool::{Gate, Pool};
use lab_targets::{Layout, Name, Operation, Policy, Shape, Words};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const THREADS: usize = 16;
const CPUS: usize = 2;
const REQUESTS: usize = 20;
/// How long the threads hammer before the request.
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
            println!("{name}, threads {how}: {} of {REQUESTS} done, median {median}; {given_up} given up", done_ms.len());
        }
    }
    Ok(())
}

/// The time until a request returned. `None` if it was given up.
fn request(pool: &Pool, name: Name, yields: bool) -> Result<Option<Duration>> {
    let subject = lab_targets::build(name, &Shape::new(Layout::Lean, Policy::Fixed(16)))?;
    let is_over = Arc::new(AtomicBool::new(false));
    let job = {
        let (subject, is_over) = (subject.clone(), is_over.clone());
        move |_| {
            let words = Words::new(1024, size_of::<u32>());
            let gate = Gate::new(1);
            gate.stop();
            while !is_over.load(Ordering::Relaxed) {
                // The gate is stopped, so this is 2048 operations.
                subject.hammer(Operation::WaitDiffers, &words, &gate);
                if yields {
                    std::thread::yield_now();
                }
            }
        }
    };
    let (mut resized, mut took) = (Ok(false), Duration::ZERO);
    pool.run(THREADS, job, || {
        std::thread::sleep(LEAD_IN);
        let start = Instant::now();
        resized = subject.set_slots(1024, &mut || start.elapsed() < GIVE_UP);
        took = start.elapsed();
        is_over.store(true, Ordering::Relaxed);
    })?;
    let is_done = resized.map_err(|reason| anyhow!("{name}: {reason}"))?;
    Ok(is_done.then_some(took))
}
