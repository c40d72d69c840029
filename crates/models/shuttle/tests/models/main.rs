//! Models of the engine's own source with many threads, run by shuttle on random schedules. Unlike loom, shuttle does
//! not explore all schedules, and its memory is sequentially consistent. But 4 to 16 threads may sleep, time out, be
//! dropped, wake and resize together. A waiter that is never woken is a deadlock, which shuttle reports.

mod apart;
mod conservation;
mod graph;
mod growth;
mod lock;
mod parking;
mod pi;
mod requeue;
mod runs;
mod semaphore;
mod support;
mod timers;
