//! Fairness between owners of timers, and between groups of them. An owner with many due timers delays another owner by at
//! most a share, `SHARE` deliveries, and so does a group of owners, a PID namespace. The simulated clock advances with each
//! delivery.
//!
//! Promise: shares of a turn

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use ufutex::timer::{Base, Clocks, Deliver, Driver, Expiry, Notice, Notify, TimerClock, TimerOptions, Timers};
use ufutex::{Clock, Domain, DomainOptions, Error, PidNamespace, System, SystemConfig, Timeout, WaitOptions};

use crate::clock::{BASES, ManualClocks};

const SIGNAL: Option<Notify> = Some(Notify::Signal { signal: 10, value: 5 });
const START: Duration = Duration::from_secs(100_000);
/// The simulated duration of a delivery.
const STEP: Duration = Duration::from_nanos(100);
/// Maximum number of deliveries to one owner before the next owner's.
const SHARE: usize = 64;

/// The deliveries in order, with owner and time. Each one advances the clocks.
struct Log {
    clocks: Arc<ManualClocks>,
    served: Mutex<Vec<(char, Duration)>>,
}

impl Log {
    fn new(clocks: &Arc<ManualClocks>) -> Arc<Self> {
        Arc::new(Self { clocks: clocks.clone(), served: Mutex::default() })
    }

    fn note(&self, name: char) {
        self.served.lock().unwrap().push((name, self.clocks.now(Base::Monotonic)));
        self.clocks.advance(STEP);
    }

    fn count(&self, name: char) -> usize {
        self.served.lock().unwrap().iter().filter(|(who, _)| *who == name).count()
    }

    /// For each delivery to `name`, the number of deliveries to other owners since its deadline.
    fn passed_by(&self, name: char, deadlines: impl IntoIterator<Item = Duration>) -> Vec<usize> {
        let mut deadlines: VecDeque<_> = deadlines.into_iter().collect();
        let mut passes = vec![];
        let mut passed = 0;
        for &(who, at) in &*self.served.lock().unwrap() {
            if who == name {
                deadlines.pop_front().expect("it has expired once for each deadline");
                passes.push(std::mem::take(&mut passed));
            } else if deadlines.front().is_some_and(|deadline| *deadline <= at) {
                passed += 1;
            }
        }
        passes
    }
}

/// The action of a delivery.
enum Then {
    /// Takes the notice, so that an interval timer continues.
    Take,
    /// Sets the timer again, to this time from now, and records its deadline.
    Again(Duration, Mutex<Vec<Duration>>),
    /// Sets the timer again, to a time that has long passed.
    ToThePast,
}

struct Owner(char, Arc<Log>, Then);

impl Deliver for Owner {
    fn expired(&self, timers: &Timers, notice: Notice) {
        let Self(name, log, then) = self;
        log.note(*name);
        let id = notice.id();
        match then {
            Then::Take => _ = timers.take(notice),
            Then::Again(length, deadlines) => {
                deadlines.lock().unwrap().push(log.clocks.now(Base::Monotonic) + *length);
                timers.settime(id, Expiry::After(*length), Duration::ZERO).expect("it is there");
            }
            Then::ToThePast => {
                _ = timers.settime(id, Expiry::At(Duration::from_secs(1)), Duration::ZERO).expect("it is there")
            }
        }
    }
}

/// An owner with `timers` timers that are always due.
fn crowd(name: char, log: &Arc<Log>, driver: &Driver, clocks: &[TimerClock], timers: usize) -> Timers {
    let options = TimerOptions::new().max_timers(timers);
    let all = Timers::with_options(driver, Arc::new(Owner(name, log.clone(), Then::Take)), options).unwrap();
    for i in 0..timers {
        let id = all.create(clocks[i % clocks.len()], SIGNAL).expect("there is room");
        let nanosecond = Duration::from_nanos(1);
        all.settime(id, Expiry::After(nanosecond), nanosecond).expect("it is there");
    }
    all
}

/// An owner with one timer that is set to 200 microseconds again and again.
fn single(log: &Arc<Log>, driver: &Driver, clock: TimerClock) -> (Timers, Arc<Owner>) {
    const LENGTH: Duration = Duration::from_micros(200);
    let owner = Arc::new(Owner('1', log.clone(), Then::Again(LENGTH, Mutex::default())));
    let timers = Timers::new(driver, owner.clone()).unwrap();
    let id = timers.create(clock, SIGNAL).expect("there is room");
    let Then::Again(_, deadlines) = &owner.2 else { unreachable!() };
    deadlines.lock().unwrap().push(log.clocks.now(Base::Monotonic) + LENGTH);
    timers.settime(id, Expiry::After(LENGTH), Duration::ZERO).expect("it is there");
    (timers, owner)
}

fn driver() -> (Arc<Log>, Driver) {
    let clocks = ManualClocks::at(START);
    (Log::new(&clocks), Driver::with_clocks(clocks).unwrap())
}

/// Checks the delay of a single timer on the clock `its` beside owners with many timers on `clocks` that are always
/// due.
fn single_beside_crowds(clocks: &[TimerClock], its: TimerClock) {
    let (log, driver) = driver();
    let (_single, owner) = single(&log, &driver, its);
    let crowds = [('m', 100_000), ('n', 3_000)].map(|(name, timers)| crowd(name, &log, &driver, clocks, timers));
    log.clocks.advance(STEP);
    assert!(driver.turn() >= 103_000, "what was due at the beginning has passed");
    let Then::Again(_, deadlines) = &owner.2 else { unreachable!() };
    let passes = log.passed_by('1', deadlines.lock().unwrap().iter().copied());
    // 103,000 deliveries take 10.3 ms.
    assert!(passes.len() >= 45, "it expired {} times", passes.len());
    // The rest of the current share and one share of each other owner. With several clocks, each clock has its own
    // shares.
    let most = (1 + crowds.len()) * clocks.len() * SHARE;
    assert!(passes.iter().all(|passed| *passed <= most), "too many deliveries to others: {passes:?}");
    // The turn has ended although many timers are due again. `next` returns their deadlines.
    assert!(BASES.iter().any(|base| driver.next(*base).is_some_and(|at| at <= log.clocks.now(*base))));
}

#[test]
fn deadline_that_comes_during_a_turn_waits_for_one_share_of_each_other_owner() {
    single_beside_crowds(&[TimerClock::Monotonic], TimerClock::Monotonic);
}

#[test]
fn deadline_on_one_clock_does_not_wait_for_those_on_another() {
    single_beside_crowds(&[TimerClock::Monotonic], TimerClock::Boottime);
    single_beside_crowds(&[TimerClock::Tai], TimerClock::Monotonic);
    single_beside_crowds(&[TimerClock::Monotonic, TimerClock::Boottime, TimerClock::Tai], TimerClock::Boottime);
}

/// A system whose namespaces all use the driver that the embedder turns, and some namespaces.
fn guests<const N: usize>() -> (Arc<Log>, System, [PidNamespace; N]) {
    let clocks = ManualClocks::at(START);
    let system = System::with_config(SystemConfig::new().clocks(clocks.clone())).unwrap();
    let guests = std::array::from_fn(|_| PidNamespace::new(&system).unwrap());
    (Log::new(&clocks), system, guests)
}

/// The name of a process of a guest that has many.
fn process(number: usize) -> char {
    char::from_u32(0xe000 + number as u32).expect("for private use")
}

/// One guest has many processes and another has many timers, which are all always due.
#[test]
fn deadline_waits_for_one_share_of_each_other_namespace_however_many_processes_it_has() {
    const PROCESSES: usize = 500;
    let (log, system, [guest, of_many, of_one]) = guests();
    let (_single, owner) = single(&log, guest.driver(), TimerClock::Monotonic);
    let monotonic = [TimerClock::Monotonic];
    let _many: Vec<_> = (0..PROCESSES).map(|i| crowd(process(i), &log, of_many.driver(), &monotonic, 3)).collect();
    let _one = crowd('m', &log, of_one.driver(), &monotonic, 3000);
    log.clocks.advance(STEP);
    assert!(system.driver().turn() >= 3 * PROCESSES + 3000);
    // What was due at the beginning has passed.
    assert!((0..PROCESSES).all(|i| log.count(process(i)) >= 3) && log.count('m') >= 3000);
    let Then::Again(_, deadlines) = &owner.2 else { unreachable!() };
    let passes = log.passed_by('1', deadlines.lock().unwrap().iter().copied());
    assert!(passes.len() >= 20, "it expired {} times", passes.len());
    // The rest of the current share, and one share of each other namespace.
    assert!(passes.iter().all(|passed| *passed <= 3 * SHARE), "too many deliveries to others: {passes:?}");
}

/// Futures of many domains of one guest time out now, and one of another guest a little later.
#[test]
fn timeout_of_a_future_waits_for_one_share_of_another_namespace_however_many_domains_it_has() {
    const DOMAINS: usize = 2000;
    let (log, system, [guest, other]) = guests();
    let [one, many] = [(&guest, 1), (&other, DOMAINS)].map(|(guest, count)| {
        (0..count).map(|_| Domain::in_namespace(guest, DomainOptions::new())).collect::<Vec<Domain>>()
    });
    let word = AtomicU32::new(0);
    let due = STEP * 200;
    let wait = |domain, name, after| {
        let until = WaitOptions::new().timeout(Timeout::At(Clock::Monotonic, START + after));
        let mut wait = Box::pin(Domain::wait_async(domain, &word, 0, &until));
        let waker = Waker::from(Arc::new(Task(name, log.clone())));
        assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        wait
    };
    let _waits: Vec<_> = many.iter().map(|domain| wait(domain, 'm', STEP)).collect();
    let _wait = wait(&one[0], '1', due);
    log.clocks.advance(STEP);
    assert_eq!(system.driver().turn(), DOMAINS + 1);
    let passes = log.passed_by('1', [START + due]);
    assert!(passes[0] <= 2, "{} others were woken first", passes[0]);
}

/// Namespaces take turns, and so do the processes of one.
#[test]
fn namespaces_that_are_always_due_take_turns() {
    let (log, system, [two, one]) = guests();
    let of = |name, guest: &PidNamespace| crowd(name, &log, guest.driver(), &[TimerClock::Monotonic], 300);
    let _crowds = [of('a', &two), of('b', &two), of('c', &one)];
    log.clocks.advance(STEP);
    system.driver().turn();
    let order: Vec<char> = log.served.lock().unwrap().iter().map(|(name, _)| *name).collect();
    let shares: Vec<(char, usize)> = order.chunk_by(|a, b| a == b).map(|share| (share[0], share.len())).collect();
    assert!(shares.iter().all(|(_, length)| *length <= SHARE), "{shares:?}");
    let takes_turns = |w: &[(char, usize)]| {
        let [first, second, third, fourth] = [0, 1, 2, 3].map(|i| w[i].0);
        (first == 'c') == (third == 'c') && (second == 'c') == (fourth == 'c') && {
            let [x, y] = if first == 'c' { [second, fourth] } else { [first, third] };
            x != y
        }
    };
    assert!(shares.len() > 10 && shares.windows(4).all(takes_turns), "{shares:?}");
}

/// A delivery that ends other processes of its guest, which are in line.
struct Ends(Mutex<Vec<Timers>>, Arc<Log>);

impl Deliver for Ends {
    fn expired(&self, _: &Timers, _: Notice) {
        self.1.note('e');
        self.0.lock().unwrap().clear();
    }
}

#[test]
fn processes_that_end_while_they_are_in_line_leave_it() {
    for ended in [1, 2, 50] {
        let (log, system, [guest, other]) = guests();
        let ends = Arc::new(Ends(Mutex::default(), log.clone()));
        let first = Timers::new(guest.driver(), ends.clone()).unwrap();
        let id = first.create(TimerClock::Monotonic, SIGNAL).unwrap();
        first.settime(id, Expiry::After(STEP), Duration::ZERO).unwrap();
        let of = |name, guest: &PidNamespace| crowd(name, &log, guest.driver(), &[TimerClock::Monotonic], 1);
        ends.0.lock().unwrap().extend((0..ended).map(|_| of('m', &guest)));
        let (_stays, _other) = (of('s', &guest), of('o', &other));
        log.clocks.set(Base::Monotonic, START + STEP);
        system.driver().turn();
        assert_eq!(log.count('e'), 1);
        let [gone, stays, others] = ['m', 's', 'o'].map(|name| log.count(name));
        assert!(gone <= SHARE && stays >= 1 && others >= 1, "{gone} {stays} {others}");
        let before = log.count('m');
        system.driver().turn();
        assert_eq!(log.count('m'), before);
        assert!(log.count('s') > stays && log.count('o') > others);
    }
}

/// Owners whose timers are always due take turns.
#[test]
fn owners_that_are_always_due_take_turns() {
    let (log, driver) = driver();
    let _crowds = ['a', 'b', 'c'].map(|name| crowd(name, &log, &driver, &[TimerClock::Monotonic], 1000));
    log.clocks.advance(STEP);
    driver.turn();
    let order: Vec<char> = log.served.lock().unwrap().iter().map(|(name, _)| *name).collect();
    let shares: Vec<(char, usize)> = order.chunk_by(|a, b| a == b).map(|share| (share[0], share.len())).collect();
    assert!(shares.iter().all(|(_, length)| *length <= SHARE), "{shares:?}");
    let differ = |w: &[(char, usize)]| w[0].0 != w[1].0 && w[1].0 != w[2].0 && w[0].0 != w[2].0;
    assert!(shares.windows(3).all(differ), "{shares:?}");
}

/// A timer that is set to the past during a turn expires exactly once in the next turn, however many other timers are
/// due.
#[test]
fn timer_set_to_the_past_expires_once_per_turn() {
    let (log, driver) = driver();
    let owner = Arc::new(Owner('p', log.clone(), Then::ToThePast));
    let past = Timers::new(&driver, owner).unwrap();
    let id = past.create(TimerClock::Monotonic, SIGNAL).unwrap();
    past.settime(id, Expiry::At(Duration::from_secs(1)), Duration::ZERO).unwrap();
    let _crowd = crowd('m', &log, &driver, &[TimerClock::Monotonic], 1000);
    // The same owner gets 200 more such timers.
    for _ in 0..200 {
        let id = past.create(TimerClock::Monotonic, SIGNAL).unwrap();
        past.settime(id, Expiry::At(Duration::from_secs(1)), Duration::ZERO).unwrap();
    }
    log.clocks.advance(STEP);
    for turn in 1..=20 {
        driver.turn();
        assert_eq!(log.count('p'), 201 * turn);
    }
}

/// Many timers that were armed long ago have to be sorted before the first of them can expire. The sorting counts
/// towards the share, so that another owner does not wait for all of it.
#[test]
fn sorting_many_timers_counts_towards_the_share() {
    const HOUR: Duration = Duration::from_secs(3600);
    let (log, driver) = driver();
    let many = Timers::new(&driver, Arc::new(Owner('m', log.clone(), Then::Take))).unwrap();
    for i in 0..50_000 {
        let id = many.create(TimerClock::Monotonic, SIGNAL).expect("there is room");
        many.settime(id, Expiry::After(HOUR + Duration::from_nanos(i)), Duration::ZERO).expect("it is there");
    }
    let (one, _) = single(&log, &driver, TimerClock::Monotonic);
    one.settime(0, Expiry::After(HOUR + Duration::from_millis(1)), Duration::ZERO).expect("it is there");
    log.clocks.advance(HOUR + Duration::from_millis(2));
    driver.turn();
    assert_eq!(log.served.lock().unwrap()[0].0, '1', "the other one's share has gone by before one has expired");
    assert_eq!(log.count('m'), 50_000);
}

struct Task(char, Arc<Log>);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.1.note(self.0);
    }
}

/// Many futures of one domain time out now, and one of another domain a little later.
#[test]
fn timeout_of_a_future_waits_for_one_share_of_another_domain() {
    const MANY: usize = 20_000;
    for clock in [Clock::Monotonic, Clock::Realtime] {
        let clocks = ManualClocks::at(START);
        let log = Log::new(&clocks);
        let system = System::with_config(SystemConfig::new().clocks(clocks.clone())).unwrap();
        let (crowd, other) = (Domain::new(&system), Domain::new(&system));
        let word = AtomicU32::new(0);
        let until = |after| WaitOptions::new().timeout(Timeout::At(clock, START + after));
        let poll = |wait: Pin<&mut dyn Future<Output = Result<(), Error>>>, name| {
            let waker = Waker::from(Arc::new(Task(name, log.clone())));
            assert!(wait.poll(&mut Context::from_waker(&waker)).is_pending());
        };
        let mut waits: Vec<_> = (0..MANY).map(|_| Box::pin(crowd.wait_async(&word, 0, &until(STEP)))).collect();
        waits.iter_mut().for_each(|wait| poll(wait.as_mut(), 'm'));
        let due = STEP * 1000;
        let mut one = pin!(other.wait_async(&word, 0, &until(due)));
        poll(one.as_mut(), '1');
        clocks.advance(STEP);
        assert_eq!(system.driver().turn(), MANY + 1);
        let passes = log.passed_by('1', [START + due]);
        assert!(passes[0] <= 2 * SHARE, "{} others were woken first", passes[0]);
    }
}

/// Dropping a domain removes the timeouts of its waits and no others.
#[test]
fn timeouts_of_a_domain_are_removed_with_it() {
    let clocks = ManualClocks::at(START);
    let log = Log::new(&clocks);
    let system = System::with_config(SystemConfig::new().clocks(clocks.clone())).unwrap();
    let word = AtomicU32::new(0);
    let until = WaitOptions::new().timeout(Timeout::After(STEP));
    let other = Domain::new(&system);
    let waker = |name| Waker::from(Arc::new(Task(name, log.clone())));
    let mut stays = pin!(other.wait_async(&word, 0, &until));
    assert!(stays.as_mut().poll(&mut Context::from_waker(&waker('s'))).is_pending());
    for _ in 0..10 {
        let domain = Domain::new(&system);
        let mut goes = Box::pin(domain.wait_async(&word, 0, &until));
        assert!(goes.as_mut().poll(&mut Context::from_waker(&waker('g'))).is_pending());
    }
    clocks.advance(STEP);
    assert_eq!(system.driver().turn(), 1);
    assert_eq!((log.count('s'), log.count('g')), (1, 0));
    assert_eq!(system.driver().next(Base::Monotonic), None);
}
