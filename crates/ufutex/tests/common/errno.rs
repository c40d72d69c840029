//! What a system call returns for an error: `-errno`.

use super::libc;

pub const EPERM: isize = -(libc::EPERM as isize);
pub const ESRCH: isize = -(libc::ESRCH as isize);
pub const EINTR: isize = -(libc::EINTR as isize);
pub const EAGAIN: isize = -(libc::EAGAIN as isize);
pub const ENOMEM: isize = -(libc::ENOMEM as isize);
pub const EFAULT: isize = -(libc::EFAULT as isize);
pub const EBUSY: isize = -(libc::EBUSY as isize);
pub const EINVAL: isize = -(libc::EINVAL as isize);
pub const EDEADLK: isize = -(libc::EDEADLK as isize);
pub const ENOSYS: isize = -(libc::ENOSYS as isize);
pub const EOPNOTSUPP: isize = -(libc::EOPNOTSUPP as isize);
pub const ETIMEDOUT: isize = -(libc::ETIMEDOUT as isize);
