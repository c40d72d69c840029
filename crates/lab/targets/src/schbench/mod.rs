//! schbench's threads, as in the C program ([schbench-program]): message threads, and workers who ask them for a
//! message and sleep until it comes. What they sleep on, and wake one another by, is a target's futex; a worker is a
//! thread or a task.
//!
//! A worker writes the time, puts itself on its message thread's list, wakes that, and sleeps. The message thread takes
//! the whole list, writes one time into all of it, and wakes each. From that time to the worker's next instruction is
//! the *wakeup* latency; a nap and some matrices later the worker has done a *request*, and begins again.
//!
//! With `-R` it is the message thread that begins: it hands out so many requests a second, to the workers in turn.

mod executor;
mod hall;
mod latencies;
mod message;
mod tasks;
mod work;
mod worker;

pub use hall::{Hall, Plan, Worker};
pub use latencies::Latencies;
pub use message::serve as serve_messages;
pub use tasks::{Rest, as_task, as_thread};
