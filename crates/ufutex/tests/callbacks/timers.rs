//! Timers whose callbacks panic: clocks, deliveries and guest memory.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ufutex::Error;
use ufutex::timer::{
    Base, Caller, CpuClock, Deliver, Driver, Expiry, Notice, Notify, Setting, TimerCall, TimerClock, TimerOptions,
    Timers,
};

use crate::bomb::{Bomb, Call, panics, pass};
use crate::guest::{Embedder, Notified};

const MS: Duration = Duration::from_millis(1);
const SIGNAL: Option<Notify> = Some(Notify::Signal { signal: 10, value: 5 });

#[derive(Default)]
struct Notices {
    all: Mutex<Vec<Notice>>,
    reserved: AtomicUsize,
}

impl Deliver for Notices {
    fn expired(&self, _timers: &Timers, notice: Notice) {
        self.all.lock().expect("not poisoned").push(notice);
        pass(Call::Expired);
    }
    fn reserve(&self, timers: usize) -> Result<(), Error> {
        pass(Call::Reserve);
        self.reserved.fetch_max(timers, SeqCst);
        Ok(())
    }
    fn has_thread(&self, thread: i32) -> bool {
        pass(Call::HasThread);
        thread == 1
    }
}

impl Notices {
    fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut self.all.lock().expect("not poisoned"))
    }
}

fn timers(it: &Embedder, max: usize) -> (Arc<Notices>, Timers) {
    let notices = Arc::new(Notices::default());
    let options = TimerOptions::new().max_timers(max);
    (notices.clone(), Timers::with_options(it.driver(), notices, options).expect("there is memory"))
}

/// Checks that timers still work: each is set to expire now on each clock, and expires once.
fn assert_good(it: &Embedder, timers: &Timers, notices: &Notices, ids: &[i32]) {
    it.time.advance(MS);
    it.driver().turn();
    notices.take();
    for &id in ids {
        assert!(timers.settime(id, Expiry::After(MS), Duration::ZERO).is_ok());
    }
    it.time.advance(100 * MS);
    let (timers, driver) = (timers.clone(), it.driver().clone());
    std::thread::spawn(move || (0..20).for_each(|_| _ = driver.turn())).join().expect("another thread turns");
    let mut expired: Vec<_> = notices.take().iter().map(Notice::id).collect();
    expired.sort_unstable();
    assert_eq!(expired, ids, "a timer was lost, or came twice");
    for &id in ids {
        assert_eq!(timers.delete(id), Ok(()));
    }
    assert_eq!(timers.count(), 0);
}

/// Timers are set, set again, read and deleted.
fn set_and_delete(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notices, timers) = timers(&it, 100);
    let clocks = [TimerClock::Monotonic, TimerClock::Realtime, TimerClock::Cpu(CpuClock::Process(1)), TimerClock::Tai];
    let ids = clocks.map(|clock| timers.create(clock, SIGNAL).expect("there is room"));
    let other = ids[0];
    timers.settime(other, Expiry::After(500 * MS), Duration::ZERO).expect("it is there");
    for &id in &ids {
        // The realtime timer moves between the queues of relative and absolute deadlines.
        for (absolute, value) in [(false, 5 * MS), (true, 2 * Duration::from_secs(1)), (false, MS), (true, MS)] {
            bomb.during(|| timers.settime(id, if absolute { Expiry::At(value) } else { Expiry::After(value) }, MS));
            bomb.during(|| timers.gettime(id));
        }
        bomb.during(|| timers.settime(id, Expiry::After(7 * MS), Duration::ZERO));
    }
    let gone = timers.create(TimerClock::Boottime, SIGNAL).expect("there is room");
    bomb.during(|| timers.settime(gone, Expiry::After(3 * MS), Duration::ZERO));
    bomb.during(|| timers.settime(gone, Expiry::At(9 * MS), Duration::ZERO));
    if bomb.during(|| timers.delete(gone)).is_none() {
        _ = timers.delete(gone); // fails if the call that panicked had deleted it
    }
    assert_eq!(timers.gettime(gone), Err(Error::Invalid));
    assert_good(&it, &timers, &notices, &ids);
}

/// An earlier deadline moves the owner in the driver's wheel. Later deadlines must not be lost.
fn earlier_and_later(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notices, timers) = timers(&it, 100);
    let ids: Vec<_> = (0..3).map(|_| timers.create(TimerClock::Monotonic, SIGNAL).expect("there is room")).collect();
    timers.settime(ids[0], Expiry::After(50 * MS), Duration::ZERO).expect("it is there");
    bomb.during(|| timers.settime(ids[1], Expiry::After(10 * MS), Duration::ZERO));
    timers.settime(ids[2], Expiry::After(60 * MS), Duration::ZERO).expect("it is there");
    it.time.advance(100 * MS);
    for _ in 0..5 {
        it.driver().turn();
    }
    let mut expired: Vec<_> = notices.take().iter().map(Notice::id).collect();
    expired.sort_unstable();
    assert!(expired.starts_with(&[0]) && expired.ends_with(&[2]), "{expired:?}: a timer was lost");
    assert_good(&it, &timers, &notices, &ids);
}

/// Setting the first deadline panics. The driver must still be notified of later deadlines.
fn first_deadline(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notices, timers) = timers(&it, 100);
    let ids: Vec<_> = (0..2).map(|_| timers.create(TimerClock::Monotonic, SIGNAL).expect("there is room")).collect();
    bomb.during(|| timers.settime(ids[0], Expiry::After(10 * MS), Duration::ZERO));
    timers.settime(ids[1], Expiry::After(60 * MS), Duration::ZERO).expect("it is there");
    assert!(it.driver().next(Base::Monotonic).is_some(), "the driver does not have the deadline");
    it.time.advance(100 * MS);
    it.driver().turn();
    assert!(notices.take().iter().any(|notice| notice.id() == ids[1]), "a timer was lost");
    assert_good(&it, &timers, &notices, &ids);
}

/// Timers of all clocks and of two processes expire in one turn. Notices of interval timers are taken.
fn turn(bomb: &mut Bomb) {
    let it = Embedder::new();
    let both = [timers(&it, 100), timers(&it, 100)];
    let clocks = [TimerClock::Monotonic, TimerClock::Realtime, TimerClock::Boottime, TimerClock::Tai];
    for (_, timers) in &both {
        for clock in clocks {
            let id = timers.create(clock, SIGNAL).expect("there is room");
            timers.settime(id, Expiry::At(Duration::from_secs(1) + MS), Duration::ZERO).expect("it is there");
        }
    }
    it.time.advance(2 * MS);
    for _ in 0..20 {
        bomb.during(|| it.driver().turn());
    }
    for _ in 0..3 {
        it.driver().turn();
    }
    for (notices, timers) in &both {
        let mut ids: Vec<_> = notices.take().iter().map(Notice::id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [0, 1, 2, 3], "a timer was lost, or came twice");
        assert_good(&it, timers, notices, &[0, 1, 2, 3]);
    }
}

/// Deliveries of one clock's timers always panic. Each of them ends a turn on this clock, so that a turn does not go
/// deeper with each. Timers of other clocks still expire.
#[test]
fn clock_whose_deliveries_always_panic_starves_no_other() {
    #[derive(Default)]
    struct Panics(AtomicUsize);
    impl Deliver for Panics {
        fn expired(&self, timers: &Timers, notice: Notice) {
            _ = timers.take(notice);
            self.0.fetch_add(1, SeqCst);
            std::panic::resume_unwind(Box::new(()));
        }
    }
    let it = Embedder::new();
    let panics = Arc::new(Panics::default());
    let bad = Timers::new(it.driver(), panics.clone()).expect("there is memory");
    let (notices, good) = timers(&it, 10);
    for _ in 0..5 {
        let id = bad.create(TimerClock::Monotonic, SIGNAL).expect("there is room");
        bad.settime(id, Expiry::After(MS), Duration::from_nanos(1)).expect("it is there");
    }
    let id = good.create(TimerClock::Tai, SIGNAL).expect("there is room");
    good.settime(id, Expiry::After(MS), Duration::ZERO).expect("it is there");
    for turn in 1..=3 {
        it.time.advance(MS);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| it.driver().turn())).is_err());
        assert_eq!(panics.0.load(SeqCst), turn);
    }
    assert_eq!(notices.take().len(), 1);
}

/// Taking the notice of an interval timer panics. The notice was taken or can be taken again, and the timer continues.
fn take(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notices, timers) = timers(&it, 100);
    let ids = [TimerClock::Monotonic, TimerClock::Cpu(CpuClock::Thread(1)), TimerClock::Realtime].map(|clock| {
        let id = timers.create(clock, SIGNAL).expect("there is room");
        timers.settime(id, Expiry::After(MS), MS).expect("it is there");
        id
    });
    it.time.advance(50 * MS);
    it.driver().turn();
    let all = notices.take();
    assert_eq!(all.len(), ids.len());
    for notice in all {
        if bomb.during(|| timers.take(notice)).is_none() && timers.is_current(&notice) {
            assert!(timers.take(notice).is_some());
        }
    }
    assert_expires(&it, &notices, &ids);
    assert_good(&it, &timers, &notices, &ids);
}

/// Checks that armed timers expire once.
fn assert_expires(it: &Embedder, notices: &Notices, ids: &[i32]) {
    for _ in 0..5 {
        it.time.advance(10 * MS);
        it.driver().turn();
    }
    let mut expired: Vec<_> = notices.take().iter().map(Notice::id).collect();
    expired.sort_unstable();
    assert_eq!(expired, ids, "a timer was lost, or came twice");
}

/// A clock panics while a timer is set. The timer keeps its old setting.
fn set_again(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notices, timers) = timers(&it, 100);
    let ids = [TimerClock::Monotonic, TimerClock::Cpu(CpuClock::Process(1)), TimerClock::Realtime].map(|clock| {
        let id = timers.create(clock, SIGNAL).expect("there is room");
        timers.settime(id, Expiry::After(5 * MS), Duration::ZERO).expect("it is there");
        id
    });
    for &id in &ids {
        let other = Setting { value: 500 * MS, interval: MS };
        if bomb.during(|| timers.settime(id, Expiry::After(other.value), other.interval)).is_some() {
            assert_eq!(timers.settime(id, Expiry::After(5 * MS), Duration::ZERO), Ok(other));
        }
    }
    assert_expires(&it, &notices, &ids);
    assert_good(&it, &timers, &notices, &ids);
}

/// A clock panics while an overdue timer of CPU time is set. Its deadline has not moved on to the next interval.
fn set_when_overdue(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notices, timers) = timers(&it, 100);
    let id = timers.create(TimerClock::Cpu(CpuClock::Process(1)), SIGNAL).expect("there is room");
    timers.settime(id, Expiry::After(5 * MS), 7 * MS).expect("it is there");
    it.time.advance(6 * MS);
    if bomb.during(|| timers.settime(id, Expiry::After(500 * MS), Duration::ZERO)).is_none() {
        let overdue = Setting { value: Duration::from_nanos(1), interval: 7 * MS };
        assert_eq!(timers.gettime(id), Ok(overdue));
    }
    assert_good(&it, &timers, &notices, &[id]);
}

/// Turns read CPU clocks before timers of CPU time are due, and when they are.
fn turn_of_cpu_time(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notices, timers) = timers(&it, 100);
    let ids = [CpuClock::Thread(1), CpuClock::Process(1)].map(|clock| {
        let id = timers.create(TimerClock::Cpu(clock), SIGNAL).expect("there is room");
        timers.settime(id, Expiry::After(40 * MS), Duration::ZERO).expect("it is there");
        id
    });
    // The process and the thread get no CPU time meanwhile.
    it.time.advance_alone(20 * MS);
    for _ in 0..4 {
        it.time.advance_alone(10 * MS);
        bomb.during(|| it.driver().turn());
    }
    assert_eq!(notices.take(), []);
    assert_expires(&it, &notices, &ids);
    assert_good(&it, &timers, &notices, &ids);
}

/// A timer that could not be made uses no ID and does not count against the limit.
fn create(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notices, timers) = timers(&it, 3);
    let thread = Some(Notify::Thread { signal: 10, value: 0, thread: 1 });
    let mut ids: Vec<_> = (0..3)
        .filter_map(|_| bomb.during(|| timers.create(TimerClock::Cpu(CpuClock::Process(1)), thread)))
        .map(|made| made.expect("there is room"))
        .collect();
    assert_eq!(timers.count(), ids.len());
    while ids.len() < 3 {
        ids.push(timers.create(TimerClock::Monotonic, SIGNAL).expect("there is room for three"));
    }
    assert_eq!(timers.create(TimerClock::Monotonic, SIGNAL), Err(Error::Again));
    assert!(notices.reserved.load(SeqCst) >= 3);
    assert_good(&it, &timers, &notices, &ids);
}

/// timer_create(2) of a guest, whose memory panics when the ID is written to it.
fn create_by_a_call(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notices, timers) = timers(&it, 1);
    let caller = Caller { process: 1, thread: 1 };
    let call = TimerCall::x86_64(222).expect("timer_create(2)");
    it.memory.page_out();
    let made = bomb.during(|| timers.syscall(caller, it.memory, call, [1, 0, it.memory.at(0), 0, 0, 0]));
    if made.is_none() {
        assert_eq!(timers.count(), 0, "a timer has leaked");
        assert_eq!(timers.syscall(caller, it.memory, call, [1, 0, it.memory.at(0), 0, 0, 0]), 0);
    }
    let id = it.word(0).load(SeqCst) as i32;
    assert_good(&it, &timers, &notices, &[id]);
}

/// A task waits at a channel.
fn channel(bomb: &mut Bomb) {
    use std::task::{Context, Poll, Waker};
    let it = Embedder::new();
    let (timers, expiries) = Timers::channel(it.driver(), TimerOptions::new()).expect("there is memory");
    let id = timers.create(TimerClock::Monotonic, None).expect("there is room");
    timers.settime(id, Expiry::After(MS), Duration::ZERO).expect("it is there");
    let (notified, waker) = Notified::new();
    let (later, later_waker) = Notified::new();
    for waker in [&waker, &later_waker, &waker] {
        let polled = bomb.during(|| expiries.poll_recv(&mut Context::from_waker(waker)));
        assert!(polled.is_none_or(|polled| polled.is_pending()));
    }
    it.time.advance(2 * MS);
    bomb.during(|| it.driver().turn());
    if notified.times() + later.times() == 0 {
        // The clone of the waker panicked, so no waker was registered.
        assert!(bomb.has_panicked());
    }
    let received = expiries.poll_recv(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(received, Poll::Ready(expired) if expired.id == id), "an expiry was lost");
    assert_eq!(timers.delete(id), Ok(()));
}

/// The embedder calls `Driver::next` for the time of the next turn.
fn next(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notices, timers) = timers(&it, 10);
    let id = timers.create(TimerClock::Monotonic, SIGNAL).expect("there is room");
    timers.settime(id, Expiry::After(MS), Duration::ZERO).expect("it is there");
    bomb.during(|| it.driver().next(Base::Monotonic));
    assert_eq!(it.driver().next(Base::Monotonic), Some(Duration::from_secs(1) + MS));
    assert_good(&it, &timers, &notices, &[id]);
}

mod tests {
    super::panics! {
        set_and_delete: Now 20, CpuTime 8, Changed 4;
        earlier_and_later: Now 1, Changed 1;
        first_deadline: Now 1, Changed 1;
        turn: Now 4, Expired 8;
        take: Now 3, CpuTime 1, Changed 1;
        set_again: Now 3, CpuTime 1;
        set_when_overdue: Now 1, CpuTime 3;
        turn_of_cpu_time: Now 4, CpuTime 2;
        create: Reserve 1, HasThread 3, CpuTime 3;
        create_by_a_call: Exchange 4, FaultIn 1;
        channel: WakerWake 1, WakerClone 3, WakerDrop 2;
        next: Now 1;
    }
}

/// A waker panics with a payload whose drop panics. The driver's thread on the host survives that.
#[test]
fn payload_that_panics_does_not_end_the_drivers_thread() {
    struct Panics;
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            panic!("the payload's own drop");
        }
    }
    impl Deliver for Panics {
        fn expired(&self, _: &Timers, _: Notice) {
            std::panic::resume_unwind(Box::new(Payload));
        }
    }
    #[cfg(target_os = "linux")] // whose tests of threads count them
    let _one = crate::driver_thread::one();
    let driver = Driver::host().expect("there is memory");
    let bad = Timers::new(&driver, Arc::new(Panics)).expect("there is memory");
    let id = bad.create(TimerClock::Monotonic, SIGNAL).expect("there is room");
    bad.settime(id, Expiry::After(MS), Duration::ZERO).expect("it is there");
    while bad.gettime(id).expect("it is there").value != Duration::ZERO {
        std::thread::sleep(MS);
    }
    let (good, expiries) = Timers::channel(&driver, TimerOptions::new()).expect("there is memory");
    let id = good.create(TimerClock::Monotonic, None).expect("there is room");
    good.settime(id, Expiry::After(MS), Duration::ZERO).expect("it is there");
    let patience = ufutex::Timeout::After(crate::common::PATIENCE);
    assert_eq!(expiries.recv_timeout(patience).map(|expired| expired.id), Some(id), "the thread is gone");
}
