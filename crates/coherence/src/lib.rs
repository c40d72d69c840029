//! Estimates what shared memory costs on a machine that is not at hand: atomics on virtual cores, in virtual time.
//!
//! A [`Simulation`] runs a closure on any number of virtual threads, all of them on one thread of the host. Each access
//! to an [`atomic`] is an event. The core with the smallest clock goes on, a directory says where the line is, and the
//! clock of the core that needs the line advances by the time that the [`Topology`] gives for the transfer. Requests
//! for a line that is in transfer queue. Statistics show which field of which [object](objects) was transferred, and
//! which code asked for it.
//!
//! Outside of a simulation the atomics are plain ones, so setting up before and checking afterwards costs nothing.
//!
//! Values are sequentially consistent: an access takes effect when it is made. A store buffer is modelled only in its
//! effect on time. Orderings that are too weak are not found here; crates/models/loom is for that.
//!
//! | to change | look in |
//! |---|---|
//! | the description of a machine, with the times of transfers | `topology.rs`, `topologies/*.toml` |
//! | which cores hold a line, and which have to give it up | `directory.rs` |
//! | the queue at a line; what an access costs | `machine/line.rs`, `machine/access.rs` |
//! | which thread runs next; sleeping, waking, sharing a core | `machine/schedule.rs`, `machine/sleep.rs` |
//! | what is counted | `statistics.rs`, `objects.rs` |
//! | what code under test calls | `atomic.rs`, `current.rs`, `memory.rs` |

mod arbiter;
pub mod atomic;
mod coroutine;
pub mod current;
mod directory;
pub mod functions;
mod machine;
pub mod memory;
pub mod objects;
#[path = "../../ufutex/tests/common/random.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod random;
mod set;
mod simulation;
pub mod statistics;
pub mod topology;

pub use directory::{Line, Supply};
pub use set::{CORES, Set};
pub use simulation::{Length, Simulation, give_up_when};
pub use statistics::Report;
pub use topology::{Distance, Topology};
