//! Models of the engine's own source with many threads, run by shuttle on schedules that it draws. Unlike loom it does
//! not go through them all, and its memory is sequentially consistent; but 4 to 16 threads may sleep, time out, be
//! dropped, wake and resize together. A waiter that nobody wakes is a deadlock, which shuttle reports.

mod conservation;
mod growth;
mod lock;
mod pi;
mod regions;
mod requeue;
mod semaphore;
mod support;
mod timers;
