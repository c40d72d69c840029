//! futex(2) as a machine, which is the oracle.

use std::sync::Arc;

use crate::call::Call;
use crate::common::arena::Arena;
use crate::common::asleep::{sleeps_in, thread_id};
use crate::common::emulated::lacks_the_kernel;
use crate::common::kernel;
use crate::machine::{Interruption, Machine, Seat, Sharing, System, is_possible};
use crate::tracer;

/// The host's kernel.
pub fn machine(sharing: Sharing) -> Machine {
    Machine::new(Arc::new(Kernel), sharing)
}

/// Whether there is a kernel to compare with. Prints the reason if not.
pub fn is_there() -> bool {
    is_possible(lacks_the_kernel())
}

struct Kernel;

impl System for Kernel {
    fn enter(&self, _memory: &'static Arena) -> Arc<dyn Seat> {
        kernel::set_handlers();
        Arc::new(Caller { tid: thread_id() })
    }

    fn lacks_priorities(&self) -> Option<String> {
        kernel::lacks_priorities()
    }

    fn kernel_thread(&self) -> Result<u32, String> {
        match std::fs::read_to_string("/proc/2/comm") {
            Ok(name) if name.trim() == "kthreadd" => Ok(2),
            _ => Err("process 2 is not the kernel's thread kthreadd here".to_owned()),
        }
    }

    fn lacks_stops(&self) -> Option<String> {
        tracer::lack()
    }
}

struct Caller {
    tid: i32,
}

impl Seat for Caller {
    fn call(&self, call: Call) -> isize {
        // SAFETY: the calls write only to arenas, which live as long as the process and are accessed by atomics, or to
        // addresses that are not mapped.
        unsafe { kernel::syscall(call.number.native(), call.args) }
    }

    fn leave(&self) {
        // The kernel handles the exit itself.
    }

    fn is_gone(&self) -> bool {
        // SAFETY: signal 0 is none, it only asks whether the thread is there.
        let answer = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.tid, 0) };
        answer == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
    }

    fn is_asleep_in(&self, call: Call) -> bool {
        sleeps_in(self.tid).is_some_and(|(number, args)| (number, args) == (call.number.native(), call.args))
    }

    fn is_asleep_again(&self) -> bool {
        sleeps_in(self.tid).is_some_and(|(number, _)| number == libc::SYS_restart_syscall)
    }

    fn interrupt(&self, how: Interruption) {
        let signal = match how {
            Interruption::Handler => kernel::PLAIN,
            Interruption::RestartingHandler => kernel::RESTARTING,
            Interruption::NoHandler => return tracer::stop_and_continue(self.tid),
        };
        kernel::interrupt(self.tid, signal);
    }

    fn set_priority(&self, priority: u8) {
        kernel::set_priority(self.tid, priority).expect("it was permitted to a probe");
    }

    fn priority(&self) -> u8 {
        let path = format!("/proc/self/task/{}/stat", self.tid);
        let line = std::fs::read_to_string(path).expect("the thread is there");
        // The name, the second field, may contain any character. It ends with the last parenthesis.
        let after_name = line.rsplit_once(')').expect("a name in parentheses").1;
        let priority: i32 = after_name.split_ascii_whitespace().nth(15).expect("18 fields").parse().expect("a number");
        // The value is -2 for real-time priority 1, -100 for 99, and 0 or more for other threads.
        if priority < 0 { (-1 - priority) as u8 } else { 0 }
    }
}
