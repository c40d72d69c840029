//! The provided deliveries: a channel (blocking, as a future and as a stream), an eventfd, signals.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;
use ufutex::Timeout;
use ufutex::timer::{Driver, Expiry, Notify, Setting, TimerClock, TimerOptions, Timers};

use crate::common::libc;
use crate::common::waker::{Notified, block_on};

const SOON: Duration = Duration::from_millis(2);
const ONCE: Setting = Setting { value: SOON, interval: Duration::ZERO };
const SIGNAL: i32 = libc::SIGUSR1;

fn driver() -> Driver {
    Driver::host().expect("the memory is there")
}

fn armed(timers: &Timers, value: u64, setting: Setting) -> i32 {
    let id = timers.create(TimerClock::Monotonic, Some(Notify::Signal { signal: SIGNAL, value })).expect("room");
    timers.settime(id, Expiry::After(setting.value), setting.interval).expect("it is there");
    id
}

#[test]
fn channel_returns_each_expired_timer_once() {
    let (timers, expiries) = Timers::channel(&driver(), TimerOptions::new()).expect("the memory is there");
    assert_eq!(expiries.try_recv(), None);
    assert_eq!(expiries.recv_timeout(Timeout::After(SOON)), None);
    let id = armed(&timers, 7, ONCE);
    let expired = expiries.recv();
    assert_eq!((expired.id, expired.overrun), (id, 0));
    assert_eq!(expired.notify, Notify::Signal { signal: SIGNAL, value: 7 });
    assert_eq!(expiries.recv_timeout(Timeout::After(SOON)), None, "once");

    let mut ids: Vec<_> = (0..200).map(|value| armed(&timers, value, ONCE)).collect();
    let mut received: Vec<_> = ids.iter().map(|_| expiries.recv().id).collect();
    ids.sort_unstable();
    received.sort_unstable();
    assert_eq!(received, ids);
}

#[test]
fn channel_drops_expiries_of_timers_that_are_deleted_or_set_again() {
    let (timers, expiries) = Timers::channel(&driver(), TimerOptions::new()).expect("the memory is there");
    for _ in 0..300 {
        let [deleted, set] = [armed(&timers, 1, Setting { value: Duration::from_nanos(1), ..ONCE }); 2];
        timers.settime(set, Expiry::Never, Duration::ZERO).expect("it is there");
        timers.delete(deleted).expect("it is there");
    }
    let last = armed(&timers, 2, ONCE);
    assert_eq!(expiries.recv().id, last, "nothing else is left");
    assert_eq!(expiries.try_recv(), None);
}

#[test]
fn interval_timer_waiting_in_a_channel_counts_its_overrun() {
    let (timers, expiries) = Timers::channel(&driver(), TimerOptions::new()).expect("the memory is there");
    let every = Setting { value: Duration::from_micros(100), interval: Duration::from_micros(100) };
    let id = armed(&timers, 0, every);
    std::thread::sleep(Duration::from_millis(20));
    let expired = expiries.recv();
    assert!(expired.overrun > 100, "{expired:?}");
    assert_eq!(timers.getoverrun(id), Ok(expired.overrun));
    assert_eq!(expiries.recv().id, id, "it goes on");
}

#[test]
fn channel_wakes_its_task_and_is_a_stream() {
    let (timers, expiries) = Timers::channel(&driver(), TimerOptions::new()).expect("the memory is there");
    let (notified, waker) = Notified::new();
    assert_eq!(expiries.poll_recv(&mut Context::from_waker(&waker)), Poll::Pending);
    let id = armed(&timers, 0, ONCE);
    assert_eq!(block_on(expiries.next()).id, id);
    assert_eq!(notified.times(), 0, "the last task that looked is notified");
    let again = armed(&timers, 0, ONCE);
    let mut stream = pin!(expiries);
    let next = std::future::poll_fn(|context| stream.as_mut().poll_next(context));
    assert_eq!(block_on(next).map(|expired| expired.id), Some(again));
    assert_eq!(stream.poll_next(&mut Context::from_waker(Waker::noop())), Poll::Pending, "it never ends");
}

#[cfg(target_os = "linux")] // which has eventfds, and signals with a timer's data
mod of_linux {
    use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
    use std::sync::Arc;

    use ufutex::timer::{EventFd, Expired, Signals};

    use super::*;

    #[test]
    fn eventfd_counts_expiries_and_overruns() {
        // SAFETY: a new descriptor that is not owned elsewhere.
        let file = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC)) };
        let eventfd = Arc::new(EventFd::new(file));
        let timers = Timers::new(&driver(), eventfd.clone()).expect("the memory is there");
        armed(&timers, 0, ONCE);
        armed(&timers, 0, ONCE);
        let mut counted = 0;
        while counted < 2 {
            let mut more = 0u64;
            // SAFETY: the buffer has eight bytes.
            let bytes = unsafe { libc::read(eventfd.as_fd().as_raw_fd(), (&raw mut more).cast(), 8) };
            assert_eq!(bytes, 8);
            counted += more;
        }
        assert_eq!(counted, 2);
    }

    #[test]
    fn signals_are_those_of_the_kernels_timers() {
        crate::alone::alone("deliveries::of_linux::signals_are_those_of_the_kernels_timers", || {
            // SAFETY: blocks a set of signals before the test has started other threads.
            let set = unsafe {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, SIGNAL);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
                set
            };
            let timers = Timers::new(&driver(), Arc::new(Signals)).expect("the memory is there");
            let thread = crate::common::asleep::thread_id();
            let missing = Notify::Thread { signal: SIGNAL, value: 3, thread: i32::MAX };
            assert_eq!(timers.create(TimerClock::Monotonic, Some(missing)), Err(ufutex::Error::Invalid));
            let this = Notify::Thread { signal: SIGNAL, value: 3, thread };
            let id = timers.create(TimerClock::Monotonic, Some(this)).expect("room");
            timers.settime(id, Expiry::After(ONCE.value), ONCE.interval).expect("it is there");
            // SAFETY: the buffer has the size of a `siginfo_t`.
            let info = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                assert_eq!(libc::sigwaitinfo(&raw const set, &raw mut info), SIGNAL);
                info
            };
            assert_eq!(info.si_code, libc::SI_TIMER);
            // SAFETY: a timer's signal has a value.
            assert_eq!(unsafe { info.si_value() }.sival_ptr.addr(), 3);

            let sent = |notify| Signals::send(&Expired { id, notify, overrun: 0 });
            assert!(sent(this) && !sent(missing) && sent(Notify::None));
        });
    }
}
