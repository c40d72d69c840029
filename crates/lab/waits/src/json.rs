//! The output as JSON: an object for each word.

use crate::hang::Waiting;
use crate::report::{Line, texts};
use crate::word::Sum;
use serde_json::{Value, json};

/// The object of a word.
pub fn line(line: &Line) -> Value {
    let site = |site: &crate::report::Site| {
        let wakers: Vec<Value> = site.wakers.iter().map(|waker| {
            json!({"thread": waker.thread, "waits": waker.waits, "total_ns": waker.total_ns, "stack": waker.stack})
        }).collect();
        json!({"waits": site.waits, "total_ns": site.total_ns, "stack": texts(&site.stack), "wakers": wakers})
    };
    let owner = |owner: &crate::report::Owner| json!({"thread": owner.thread, "held_ns": owner.held_ns, "taken_at": owner.taken_at});
    json!({
        "pid": line.pid,
        "word": (line.address != 0).then(|| format!("{:#x}", line.address)),
        "name": line.name,
        "defined_at": line.defined_at,
        "kind": line.kind.name,
        "is_lock": line.is_lock,
        "waits": line.waits,
        "total_ns": line.total_ns,
        "mean_ns": line.mean_ns,
        "p99_ns": line.p99_ns,
        "longest_ns": line.longest_ns,
        "waiters_most": line.waiters_most,
        "waiters_mean": line.waiters_mean,
        "wakes": line.wakes,
        "wakes_across_cpus": line.wakes_across_cpus,
        "timeouts": line.timeouts,
        "requeues": line.requeues,
        "sites": line.sites.iter().map(site).collect::<Vec<_>>(),
        "owners": line.owners.iter().map(owner).collect::<Vec<_>>(),
    })
}

/// The object of the waits that were dropped for lack of room. `None` if there were none.
pub fn dropped(sum: Sum) -> Option<Value> {
    (sum != Sum::default()).then(|| json!({"dropped": {"waits": sum.waits, "total_ns": sum.total_ns}}))
}

/// The object of a deadlock, or of threads that wait.
pub fn waiting(key: &str, threads: &[&Waiting]) -> Value {
    let thread = |thread: &&Waiting| {
        json!({
            "pid": thread.pid, "thread": thread.thread, "waits_for": thread.waits_for, "word": format!("{:#x}", thread.word),
            "waited_ns": thread.waited_ns, "held_by": thread.held_by, "stack": thread.stack,
        })
    };
    json!({key: threads.iter().map(thread).collect::<Vec<_>>()})
}
