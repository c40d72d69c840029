//! schbench's threads, as in the C program ([schbench-program]): message threads, and workers that post to a message
//! thread and sleep until it wakes them. All sleep on futexes of a target.
//!
//! A worker writes the time, joins its message thread's list, wakes the message thread, and sleeps. The message thread
//! takes the whole list, writes the present time into each worker on it, and wakes each. The *wakeup* latency is the
//! time from there to the worker's next instruction. Then the worker does a *request*, a sleep and some multiplications
//! of matrices, and begins again.

mod latencies;
mod message;
mod shared;
mod work;
mod worker;

pub use latencies::Latencies;
pub use message::serve as serve_messages;
pub use shared::{Plan, SharedState, Worker};
pub use worker::work;
