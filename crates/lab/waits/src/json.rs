//! The output as JSON: an object for each word.

use crate::hang::Waiting;
use crate::report::Line;
use serde_json::{Value, json};

/// The object of a word.
pub fn line(line: &Line) -> Value {
    let site = |site: &crate::report::Site| {
        let wakers: Vec<Value> = site.wakers.iter().map(|waker| {
            json!({"thread": waker.thread, "waits": waker.waits, "total_ns": waker.total_ns, "stack": waker.stack})
        }).collect();
        json!({"waits": site.waits, "total_ns": site.total_ns, "stack": site.stack, "wakers": wakers})
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
        "timeouts": line.timeouts,
        "sites": line.sites.iter().map(site).collect::<Vec<_>>(),
        "owners": line.owners.iter().map(owner).collect::<Vec<_>>(),
    })
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
