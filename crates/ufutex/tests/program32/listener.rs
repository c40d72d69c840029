//! The file descriptor by which the supervisor receives the guest's system calls and answers them: seccomp_unotify(2).

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libc::{c_ulong, seccomp_notif, seccomp_notif_resp};

/// The requests of ioctl(2), which the crate `libc` does not have.
const RECV: c_ulong = request(3, 0, size_of::<seccomp_notif>());
const SEND: c_ulong = request(3, 1, size_of::<seccomp_notif_resp>());
const ID_VALID: c_ulong = request(1, 2, size_of::<u64>());

/// `_IOC` for requests of seccomp.
const fn request(direction: c_ulong, number: c_ulong, size: usize) -> c_ulong {
    direction << 30 | (size as c_ulong) << 16 | (b'!' as c_ulong) << 8 | number
}

/// The listener's descriptor in the guest, from which [`Listener::of`] gets it.
pub const IN_GUEST: i32 = 100;

/// What the guest's thread gets as an answer.
#[derive(Clone, Copy)]
pub enum Answer {
    /// This result of the call.
    Result(isize),
    /// The kernel makes the call.
    Continue,
}

/// A file descriptor for the calls of one guest.
pub struct Listener(OwnedFd);

/// Installs the filter for the calling thread, whose calls are then answered by the process that has the listener.
///
/// # Errors
/// Those of the system calls.
///
/// # Safety
/// Must run in a child of fork(2), which then calls execve(2).
pub unsafe fn install(filter: &[libc::sock_filter]) -> Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // A signal that came while a call waits for its answer would make the kernel repeat the call.
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the program and its instructions are borrowed for the call. A child may replace its descriptors.
    unsafe {
        checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        let listener = checked(libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &program))?;
        // `dup2` leaves the descriptor open in the program.
        checked(libc::dup2(listener as i32, IN_GUEST).into())?;
    }
    Ok(())
}

impl Listener {
    /// Takes over the listener of a guest that has called [`install`].
    ///
    /// # Errors
    /// Those of the system calls. The guest must be one that this process may trace.
    pub fn of(guest: u32) -> Result<Self> {
        // SAFETY: both descriptors are new, so that nothing else owns them.
        unsafe {
            let process = OwnedFd::from_raw_fd(checked(libc::syscall(libc::SYS_pidfd_open, guest, 0))? as i32);
            let listener = checked(libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), IN_GUEST, 0))?;
            Ok(Self(OwnedFd::from_raw_fd(listener as i32)))
        }
    }

    /// Waits until a call can be received. Returns `false` when the time is up, or the guest has ended.
    pub fn wait(&self, time: Duration) -> bool {
        let mut event = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the array has one element.
        unsafe { libc::poll(&mut event, 1, time.as_millis() as i32) };
        event.revents & libc::POLLIN != 0
    }

    /// Receives a call. `None` if its thread has been killed meanwhile.
    pub fn receive(&self) -> Option<seccomp_notif> {
        // SAFETY: zeroes are a value of the struct, and the kernel asks for them.
        let mut call: seccomp_notif = unsafe { std::mem::zeroed() };
        match self.control(RECV, (&raw mut call).cast()) {
            Ok(()) => Some(call),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => None,
            Err(error) => panic!("SECCOMP_IOCTL_NOTIF_RECV: {error}"),
        }
    }

    /// Whether the call still waits for its answer. If not, its thread has been killed.
    pub fn is_valid(&self, mut id: u64) -> bool {
        self.control(ID_VALID, (&raw mut id).cast()).is_ok()
    }

    /// Answers a call. Does nothing if its thread has been killed.
    pub fn answer(&self, id: u64, answer: Answer) {
        let mut response = seccomp_notif_resp { id, val: 0, error: 0, flags: 0 };
        match answer {
            Answer::Result(result) if result < 0 => response.error = result as i32,
            Answer::Result(result) => response.val = result as i64,
            Answer::Continue => response.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        }
        match self.control(SEND, (&raw mut response).cast()) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => panic!("SECCOMP_IOCTL_NOTIF_SEND: {error}"),
            _ => {}
        }
    }

    /// Makes a request whose argument is a struct of the request's size.
    fn control(&self, request: c_ulong, argument: *mut libc::c_void) -> Result<()> {
        loop {
            // SAFETY: the callers pass a struct of the request's size, which they own.
            match checked(unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) }.into()) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                result => return result.map(|_| ()),
            }
        }
    }
}

fn checked(result: libc::c_long) -> Result<libc::c_long> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}
