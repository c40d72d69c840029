//! The limits on the number of timers and on their IDs, and memory use.

use std::collections::BTreeSet;
use std::time::Duration;

use ufutex::Error;
use ufutex::timer::{Expiry, Notify, Setting, TimerClock, TimerOptions, Timers};

use crate::clock::Process;

const MONOTONIC: TimerClock = TimerClock::Monotonic;
const SILENT: Option<Notify> = Some(Notify::None);
const SIGNAL: Option<Notify> = Some(Notify::Signal { signal: 10, value: 0 });

fn timers(options: TimerOptions) -> Timers {
    Process::new(options).timers
}

fn create(timers: &Timers) -> Result<i32, Error> {
    timers.create(MONOTONIC, SILENT)
}

#[test]
fn limit_is_eagain_until_a_timer_is_deleted() {
    for limit in [1, 2, 30, 31, 32, 100, 1000] {
        let timers = timers(TimerOptions::new().max_timers(limit));
        let mut ids: Vec<i32> = (0..limit).map(|_| create(&timers).expect("there is room")).collect();
        for round in 0..20 {
            assert_eq!(create(&timers), Err(Error::Again), "limit {limit}");
            assert_eq!(timers.create_as(1 << 20, MONOTONIC, SILENT), Err(Error::Again));
            let freed = ids.swap_remove(round * 7 % limit);
            assert_eq!(timers.delete(freed), Ok(()));
            assert_eq!(timers.count(), limit - 1);
            assert_eq!(create(&timers), Ok((limit + round) as i32));
            ids.push((limit + round) as i32);
        }
    }
}

#[test]
fn default_limit_is_65536_timers() {
    let by_default = timers(TimerOptions::new());
    for _ in 0..TimerOptions::DEFAULT_MAX_TIMERS {
        create(&by_default).expect("there is room");
    }
    assert_eq!((create(&by_default), by_default.count()), (Err(Error::Again), 65_536));
    let more = timers(TimerOptions::new().max_timers(TimerOptions::DEFAULT_MAX_TIMERS + 1));
    for _ in 0..=TimerOptions::DEFAULT_MAX_TIMERS {
        create(&more).expect("there is room");
    }
    assert_eq!(create(&more), Err(Error::Again));
}

#[test]
fn limit_of_0_is_eagain() {
    let timers = timers(TimerOptions::new().max_timers(0));
    assert_eq!(create(&timers), Err(Error::Again));
    assert_eq!(timers.count(), 0);
}

#[test]
fn create_beyond_the_limit_consumes_no_id() {
    let timers = timers(TimerOptions::new().max_timers(2));
    let ids = [create(&timers), create(&timers)];
    for _ in 0..5 {
        assert_eq!(create(&timers), Err(Error::Again));
    }
    assert_eq!(ids, [Ok(0), Ok(1)]);
    assert_eq!(timers.delete(0), Ok(()));
    assert_eq!(create(&timers), Ok(2));
}

/// A create that fails does not count towards the limit.
#[test]
fn failed_creates_do_not_count_towards_the_limit() {
    let timers = timers(TimerOptions::new().max_timers(3));
    let bad_signal = Some(Notify::Signal { signal: 65, value: 0 });
    let bad_thread = Some(Notify::Thread { signal: 1, value: 0, thread: 5 });
    let missing = TimerClock::Cpu(ufutex::timer::CpuClock::Thread(7));
    assert_eq!(timers.create_as(100, MONOTONIC, SILENT), Ok(100));
    for _ in 0..50 {
        assert_eq!(timers.create(MONOTONIC, bad_signal), Err(Error::Invalid));
        assert_eq!(timers.create(MONOTONIC, bad_thread), Err(Error::Invalid));
        assert_eq!(timers.create(missing, SILENT), Err(Error::Invalid));
        assert_eq!(timers.create_as(100, MONOTONIC, SILENT), Err(Error::Busy));
        assert_eq!(timers.create_as(-1, MONOTONIC, SILENT), Err(Error::Invalid));
    }
    assert_eq!(timers.count(), 1);
    assert!(create(&timers).is_ok() && create(&timers).is_ok());
    assert_eq!(create(&timers), Err(Error::Again));
}

#[test]
fn no_free_id_is_eagain_and_a_deleted_id_is_reused() {
    for max in [0, 1, 7, 63, 127, 4095] {
        let timers = timers(TimerOptions::new().max_id(max));
        let ids: Vec<i32> = (0..=max).map(|_| create(&timers).expect("there is an ID")).collect();
        assert!(ids.into_iter().eq(0..=max));
        for freed in [max / 2, 0, max] {
            assert_eq!(create(&timers), Err(Error::Again), "IDs up to {max}");
            assert_eq!(timers.delete(freed), Ok(()));
            assert_eq!(create(&timers), Ok(freed));
        }
        assert_eq!(timers.create_as(max + 1, MONOTONIC, SILENT), Err(Error::Invalid));
    }
}

#[test]
fn ids_wrap_around_to_0() {
    let timers = timers(TimerOptions::new().max_id(7));
    for round in 0..5 {
        for id in 0..8 {
            assert_eq!(create(&timers), Ok(id), "round {round}");
            assert_eq!(timers.delete(id), Ok(()));
        }
    }
    let timers = self::timers(TimerOptions::new());
    assert_eq!(timers.create_as(i32::MAX, MONOTONIC, SILENT), Ok(i32::MAX));
    assert_eq!(create(&timers), Ok(0));
    assert_eq!(timers.delete(i32::MAX), Ok(()));
    assert_eq!(timers.create_as(i32::MAX - 1, MONOTONIC, SILENT), Ok(i32::MAX - 1));
    assert_eq!([create(&timers), create(&timers)], [Ok(i32::MAX), Ok(1)]);
}

#[test]
fn maximum_id_must_be_one_less_than_a_power_of_two() {
    let process = Process::new(TimerOptions::new());
    for max in [-1, i32::MIN, 2, 8, 100, i32::MAX - 1] {
        let made = Timers::with_options(&process.driver, process.notices.clone(), TimerOptions::new().max_id(max));
        assert!(matches!(made, Err(Error::Invalid)), "{max}");
    }
}

/// All timers are found while the table of IDs grows through many sizes.
#[test]
fn many_timers_are_all_found() {
    let timers = timers(TimerOptions::new());
    const MANY: i32 = 30_000;
    for expected in 0..MANY {
        assert_eq!(timers.create(MONOTONIC, SIGNAL), Ok(expected));
        // Checks also while the table is growing.
        for id in [expected, expected / 2, expected / 3 * 2, 0] {
            assert_eq!(timers.getoverrun(id), Ok(0), "timer {id} of {expected}");
        }
        assert_eq!(timers.getoverrun(expected + 1), Err(Error::Invalid));
    }
    assert_eq!(timers.count(), MANY as usize);
    for id in 0..MANY {
        let value = Duration::from_secs(id as u64 + 1);
        assert_eq!(timers.settime(id, Expiry::After(value), Duration::ZERO), Ok(Setting::default()));
    }
    for id in 0..MANY {
        assert_eq!(timers.gettime(id).map(|setting| setting.value), Ok(Duration::from_secs(id as u64 + 1)));
    }
    for id in (0..MANY).filter(|id| id % 3 != 0) {
        assert_eq!(timers.delete(id), Ok(()));
    }
    for id in 0..MANY {
        assert_eq!(timers.getoverrun(id).is_ok(), id % 3 == 0, "timer {id}");
    }
    assert_eq!(timers.count(), MANY as usize / 3);
}

/// IDs as a checkpoint may contain them, with any stride. The table's memory does not depend on the largest ID.
#[test]
fn sparse_ids_are_found_and_use_little_memory() {
    for stride in [1, 2, 3, 63, 64, 65, 512, 4096, 10_007, 1 << 19] {
        let timers = timers(TimerOptions::new());
        const COUNT: i32 = 2048;
        let ids: Vec<i32> = (0..COUNT).map(|i| i * stride).collect();
        for &id in &ids {
            assert_eq!(timers.create_as(id, MONOTONIC, SILENT), Ok(id));
        }
        assert_eq!(create(&timers), Ok((COUNT - 1) * stride + 1));
        for &id in &ids {
            assert_eq!(timers.getoverrun(id), Ok(0), "timer {id} with stride {stride}");
            assert_eq!(timers.create_as(id, MONOTONIC, SILENT), Err(Error::Busy));
        }
        assert!(timers.bytes() <= 512 << 10, "stride {stride}: {} bytes", timers.bytes());
        for &id in ids.iter().rev() {
            assert_eq!(timers.delete(id), Ok(()));
            assert_eq!(timers.delete(id), Err(Error::Invalid));
        }
        assert_eq!(timers.count(), 1);
    }
}

#[test]
fn memory_is_reused() {
    let timers = timers(TimerOptions::new());
    let mut bytes = Vec::new();
    for _ in 0..20 {
        let ids: Vec<i32> = (0..1000).map(|_| create(&timers).expect("there is room")).collect();
        // All IDs are different.
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 1000);
        ids.iter().for_each(|&id| timers.delete(id).expect("it was made"));
        bytes.push(timers.bytes());
    }
    // There are eight shards, and a call may use any of them. Each may hold up to 62 free timers while the others have none.
    let chunk = 8 << 10;
    assert!(bytes[19] <= bytes[0] + 10 * chunk, "{bytes:?}");
}

/// One thread makes timers and others delete them.
#[test]
fn memory_freed_by_other_threads_is_reused() {
    let timers = timers(TimerOptions::new());
    let mut most = 0;
    for round in 0..64 {
        let ids: Vec<i32> = (0..1000).map(|_| create(&timers).expect("there is room")).collect();
        std::thread::scope(|scope| {
            for ids in ids.chunks(250) {
                scope.spawn(|| ids.iter().for_each(|&id| timers.delete(id).expect("it was made")));
            }
        });
        if round < 16 {
            most = most.max(timers.bytes());
        }
    }
    assert!(timers.bytes() <= most * 3 / 2, "{} bytes after {most}", timers.bytes());
}

/// The same at the same time. The free timers are found although the shards that have them are in use again and again.
#[test]
fn memory_freed_at_the_same_time_is_reused() {
    const PAIRS: usize = 4;
    const EACH: usize = 500_000;
    let timers = timers(TimerOptions::new());
    std::thread::scope(|scope| {
        for _ in 0..PAIRS {
            let (made, gone) = std::sync::mpsc::sync_channel(100);
            let timers = &timers;
            scope.spawn(move || (0..EACH).for_each(|_| made.send(create(timers).expect("there is room")).unwrap()));
            scope.spawn(move || gone.iter().for_each(|id| timers.delete(id).expect("it was made")));
        }
    });
    // Each pair has up to 102 timers in use, and each shard may hold up to 62 free timers that others do not take.
    assert_eq!(timers.count(), 0);
    assert!(timers.bytes() < 600_000, "{} bytes", timers.bytes());
}

#[test]
#[cfg(not(ufutex_random_hints))] // With which one thread takes timers of all shards' chunks: 40 have memory for 500.
fn the_table_of_ids_has_a_slot_for_each_timer_and_no_more_than_six() {
    /// Sixteen pointers share a line of 64 bytes.
    const BYTES_A_SLOT: usize = size_of::<usize>() + 64 / 16;
    let timers = timers(TimerOptions::new());
    let mut count = 0;
    for timers_now in [40, 200, 1000, 10_000, 50_000] {
        while count < timers_now {
            create(&timers).expect("there is room");
            count += 1;
        }
        let slots = timers.table_bytes() / BYTES_A_SLOT;
        assert!((count..=6 * count).contains(&slots), "{slots} slots for {count} timers");
    }
}

/// `clear` does what execve(2) does with timers.
#[test]
fn clear_keeps_the_id_counter() {
    let process = Process::new(TimerOptions::new());
    let timers = &process.timers;
    for _ in 0..100 {
        let id = timers.create(MONOTONIC, SIGNAL).expect("there is room");
        let soon = Setting { value: Duration::from_nanos(1), interval: Duration::from_nanos(1) };
        timers.settime(id, Expiry::After(soon.value), soon.interval).expect("it was made");
    }
    process.clocks.advance(Duration::from_nanos(1));
    assert_eq!(process.driver.turn(), 100);
    timers.restore_ids(true);
    timers.clear();
    assert_eq!(timers.count(), 0);
    assert!(!timers.restores_ids());
    assert_eq!(create(timers), Ok(100));
    // The notices of the cleared timers are not valid for new timers with the same IDs.
    for id in 0..100 {
        assert_eq!(timers.create_as(id, MONOTONIC, SIGNAL), Ok(id));
    }
    for notice in process.notices.drain() {
        assert_eq!(timers.take(notice), None);
    }
}
