//! Tests the report and the most frequent words. The modules are compiled alone here, because the whole library would
//! replace functions of libc and the allocator.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#![allow(dead_code, missing_docs)] // what only the rest of the library uses

#[path = "../src/hot.rs"]
mod hot;
#[path = "../src/raw.rs"]
mod raw;
#[path = "../src/report/mod.rs"]
mod report;

use std::alloc::{Layout, alloc_zeroed};
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use hot::{Hot, Word};
use report::{Cpu, HotWord, Report};
use ufutex::{Domain, DomainOptions, System, Timeout, WaitOptions, observe::Counters};
use ufutex_program::settings::Format;

/// All zeroes, like the library's mapping.
fn hot() -> Box<Hot> {
    // SAFETY: the memory has the type's layout, and all zeroes is a valid initial value.
    unsafe { Box::from_raw(alloc_zeroed(Layout::new::<Hot>()).cast()) }
}

fn word(address: u64, calls_at_most: u64, calls_at_least: u64) -> Word {
    Word { address, calls_at_most, calls_at_least, ..Word::default() }
}

#[test]
fn times_belong_to_the_word_that_has_the_counter() {
    let hot = hot();
    hot.slept(0x1000, 0, 7); // no call has named it
    hot.changed(0x1000, 7, 7);
    hot.count(0x1000);
    hot.count(0x2000);
    hot.count(0x2000);
    hot.sleeps(0x1000, 1000);
    hot.sleeps(0x1000, 1200);
    hot.slept(0x1000, 1000, 1500);
    hot.slept(0x1000, 1200, 1500);
    hot.slept(0x1000, 1600, 1800); // its beginning was not counted
    hot.changed(0x1000, 2, 0);
    hot.changed(0x1000, 1, 3);
    hot.sleeps(0x1000, 9000);
    let slept = Word {
        waits: 3,
        waited_ns: 1000,
        p99_ns: 500,
        longest_ns: 500,
        waiters_most: 2,
        waiters_mean: 1.5, // in 500 ns from the first sleep to the end of the last, and in those since 9000
        wakes: 3,
        requeues: 3,
        ..word(0x1000, 1, 1)
    };
    assert_eq!(hot.top(9, 9500), [slept, word(0x2000, 2, 2)], "the time slept comes first");
    assert_eq!(hot.most_calls(), 2);
    // More words than counters, so that others take over each counter.
    for address in 0..1_000_000 {
        hot.count(0x1_0000_0000 + 4 * address);
    }
    assert!(hot.top(9, 9500).iter().all(|word| (word.waits, word.wakes, word.waiters_mean) == (0, 0, 0.0)));
}

#[test]
fn ninety_nine_of_a_hundred_waits_are_not_longer_than_their_p99() {
    for (most, one) in
        [(4_000, 5_000), (20_000, 1_000_000), (1_000_000, 3_000_000_000), (14_000_000_000, 90_000_000_000)]
    {
        let hot = hot();
        hot.count(0x1000);
        let p99 = || hot.top(1, 0)[0].p99_ns;
        (0..100).for_each(|_| hot.slept(0x1000, 0, most));
        assert_eq!(p99(), most, "no longer than the longest");
        (0..100).for_each(|_| hot.slept(0x1000, 0, one));
        assert!((one * 4 / 5..=one).contains(&p99()), "half of them: {}", p99());
        (0..9_800).for_each(|_| hot.slept(0x1000, 0, most));
        assert!((most..=most * 5 / 4 + 1024).contains(&p99()), "one of a hundred: {}", p99());
        hot.slept(0x1000, 0, one);
        assert!((one * 4 / 5..=one).contains(&p99()), "101 of 10,001: {}", p99());
    }
}

#[test]
fn words_are_counted_exactly_as_long_as_there_is_room() {
    let hot = hot();
    let address = |i: u64| 0x7f00_0000_1000 + 4 * i;
    for i in 0..500 {
        for _ in 0..=i {
            hot.count(address(i));
        }
    }
    let top = hot.top(1000, 0);
    assert_eq!(top.len(), 500);
    assert_eq!(hot.words(), (500, true));
    for (place, found) in top.iter().enumerate() {
        let calls = 500 - place as u64;
        assert_eq!(*found, word(address(calls - 1), calls, calls));
    }
    assert_eq!(hot.top(3, 0), top[..3]);
}

#[test]
fn words_named_often_are_found_among_many_and_their_counts_enclose_the_truth() {
    let hot = hot();
    let mut random = 1u64;
    let mut truth = [0u64; 5];
    for round in 0..400_000u64 {
        // About half of all calls are for one of a million words.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        hot.count(0x1000_0000 + (random >> 44 << 2));
        // The other calls are for five words, each half as often as the one before.
        let which = round.trailing_ones() as usize;
        if let Some(calls) = truth.get_mut(which) {
            *calls += 1;
            hot.count(0x40 + 4 * which as u64);
        }
    }
    let top = hot.top(5, 0);
    for (which, word) in top.iter().enumerate() {
        assert_eq!(word.address, 0x40 + 4 * which as u64);
        assert!(
            word.calls_at_least <= truth[which] && truth[which] <= word.calls_at_most,
            "{word:?}: {}",
            truth[which]
        );
        assert!(word.calls_at_most - word.calls_at_least <= truth[which] / 50, "{word:?} is hardly known");
    }
}

#[test]
fn words_without_a_counter_of_their_own_are_not_reported() {
    let hot = hot();
    for i in 0..1_000_000u64 {
        hot.count(0x1000 + 64 * i);
    }
    // Each word was named once, so none is known to be frequent.
    assert_eq!(hot.top(10, 0), []);
    assert_eq!(hot.words(), (4096, false), "as many as there are counters, and more");
}

#[test]
fn threads_lose_no_call_of_a_word_that_keeps_its_counter() {
    const THREADS: u64 = 4;
    const CALLS: u64 = 50_000;
    let hot = hot();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let hot = &hot;
            scope.spawn(move || {
                for i in 0..CALLS {
                    hot.count(0x1000);
                    hot.count(0x2000 + 4 * (thread * CALLS + i)); // each takes over another word's counter
                }
            });
        }
    });
    let top = hot.top(1, 0)[0];
    assert_eq!(top.address, 0x1000);
    assert!(top.calls_at_most >= THREADS * CALLS, "{top:?}");
}

/// Counters from the engine, because the struct cannot be constructed elsewhere.
fn counters() -> Counters {
    let domain = Domain::with_options(&System::new(), DomainOptions::new().counters(true));
    for _ in 0..3 {
        assert!(domain.wait(&AtomicU32::new(0), 1).is_err());
    }
    domain.wake(&AtomicU32::new(0), 1);
    let briefly = WaitOptions::new().timeout(Timeout::After(Duration::from_millis(1)));
    assert!(domain.wait_with(&AtomicU32::new(1), 1, &briefly).is_err());
    domain.counters()
}

fn report() -> Report {
    Report {
        command: "perf bench\nfutex".to_string(),
        pid: 4711,
        trap: false,
        slots: 16,
        table_bytes: 1024,
        elapsed: Duration::from_micros(2_500_000),
        cpu: Cpu { user: Duration::from_millis(1200), system: Duration::from_nanos(34) },
        calls: vec![("FUTEX_WAIT", 1_234_567), ("FUTEX_WAKE", 100), ("FUTEX_REQUEUE", 0)],
        kernel_calls: 7,
        shared_calls: 5,
        threads_most: 9,
        waiting_most: 4,
        words: 12,
        words_exact: false,
        most_calls: 1_000_000,
        counters: counters(),
        hottest: vec![
            HotWord { place: Some("libc.so.6+0x1000".to_string()), word: word(0x7f00_0000_1000, 1_000_000, 1_000_000) },
            HotWord {
                place: None,
                word: Word {
                    waits: 4,
                    waited_ns: 10_000,
                    p99_ns: 6_000,
                    longest_ns: 7_000,
                    waiters_most: 2,
                    waiters_mean: 1.25,
                    wakes: 3,
                    requeues: 1,
                    ..word(0x3000, 9, 9)
                },
            },
            HotWord { place: None, word: word(0x1000, 200_009, 200_000) },
            HotWord { place: None, word: word(0x2000, 1_000_000, 12_000) },
        ],
        timers: None,
    }
}

#[test]
fn text_is_aligned_and_leaves_out_what_is_zero_or_too_little() {
    let expected = "
 Futexes of 'perf bench\\nfutex' (process 4711):

         1,234,667      calls                      #  493.87 K/sec
         1,234,567        FUTEX_WAIT               #   99.99 % of all calls
               100        FUTEX_WAKE               #    0.01 % of all calls
                 7      kernel calls               #  shared futexes, PI locks, robust lists: left to the kernel
                12      words                      #  at least

                 1      waits                      #  found the value they were to wait for
                 4      most waiters               #  at a time, of 9 threads
                 3      mismatches                 #   75.00 % of all waits: found another value (EAGAIN)
                 1      empty wakes                #  100.00 % of all wakes: nobody waited

                16      slots                      #  1.0 KiB in all

         1,000,000      0x7f0000001000             #   80.99 % of all calls, in libc.so.6+0x1000
                 9      0x3000                     #    0.00 % of all calls, in anonymous memory
                                                   #  slept 10.0µs in 4 waits of 2 threads at most, 1.25 on average
                                                   #  2.5µs each, p99 6.0µs, 7.0µs at most
                                                   #  3 woken, 1 moved to another word
          ~200,000      0x1000                     #   16.20 % of all calls, in anonymous memory
                 ~      at least: more words were used than are counted one by one

       2.500000000 seconds time elapsed

       1.200000000 seconds user
       0.000000034 seconds sys

";
    assert_eq!(report().render(Format::Text), expected);
}

#[test]
fn the_report_of_a_program_without_calls_names_the_calls_that_are_served() {
    let empty = |trap| Report { trap, calls: Vec::new(), hottest: Vec::new(), ..report() }.render(Format::Text);
    assert!(
        empty(false).contains(" 0      calls                      #  by libc's syscall(); with --trap those inside")
    );
    assert!(empty(true).contains(" 0      calls                      #  that are taken\n"));
    assert!(!empty(true).contains("slots"));
}

#[test]
fn timers_are_reported_if_the_library_serves_them() {
    let timers = report::Timers { made: 3, settings: 1200, expiries: 40, signals: 39, overruns: 2 };
    let with = |timers| Report { timers: Some(timers), ..report() };
    let text = with(timers).render(Format::Text);
    let expected = "
                 3      timers made
             1,200      settings
                40      expiries                   #  with a notification
                39      signals                    #  delivered, or threads started
                 2      overruns                   #  expiries that passed before a signal was delivered

       2.500000000 seconds";
    assert!(text.contains(expected), "{text}");
    assert!(with(report::Timers::default()).render(Format::Text).contains("\n                 0      timers\n"));
    let json: serde_json::Value = serde_json::from_str(&with(timers).render(Format::Json)).expect("JSON");
    let expected = serde_json::json!({"made": 3, "settings": 1200, "expiries": 40, "signals": 39, "overruns": 2});
    assert_eq!(json["timers"], expected);
}

#[test]
fn the_global_table_is_named_and_large_ones_have_units() {
    let global = Report { slots: 0, ..report() }.render(Format::Text);
    assert!(global.contains("\n            global      table\n"), "{global}");
    let large = Report { slots: 65536, table_bytes: 8 << 20, ..report() }.render(Format::Text);
    let line = "\n            65,536      slots                      #  8.0 MiB in all\n";
    assert!(large.contains(line), "{large}");
}

#[test]
fn json_is_one_line_with_units_in_its_names() {
    let line = report().render(Format::Json);
    assert_eq!(line.matches('\n').count(), 1);
    let json: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let expected = serde_json::json!({
        "command": "perf bench\nfutex", "pid": 4711, "trap": false,
        "slots": 16, "table_bytes": 1024,
        "elapsed_ns": 2_500_000_000u64, "cpu_user_ns": 1_200_000_000, "cpu_system_ns": 34,
        "calls": {"FUTEX_WAIT": 1_234_567, "FUTEX_WAKE": 100, "FUTEX_REQUEUE": 0}, "kernel_calls": 7,
        "shared_calls": 5, "threads_most": 9, "waiting_most": 4, "words": 12, "words_exact": false,
        "most_calls": 1_000_000, "counters": {
            "waits": 1, "mismatches": 3, "wakes": 0, "woken": 0, "empty_wakes": 1, "requeues": 0, "requeued": 0,
            "resizes": 0, "contended_locks": 0, "longest_chain": 1,
            "refused_waiters": 0, "refused_slots": 0, "refused_tables": 0, "refused_waitv": 0,
        },
        "hottest": [
            {"address": "0x7f0000001000", "place": "libc.so.6+0x1000", "calls_at_most": 1_000_000,
             "calls_at_least": 1_000_000, "waits": 0, "waited_ns": 0, "p99_ns": 0, "longest_ns": 0, "waiters_most": 0,
             "waiters_mean": 0.0, "wakes": 0, "requeues": 0},
            {"address": "0x3000", "place": null, "calls_at_most": 9, "calls_at_least": 9, "waits": 4, "waited_ns": 10_000,
             "p99_ns": 6_000, "longest_ns": 7_000, "waiters_most": 2, "waiters_mean": 1.25,
             "wakes": 3, "requeues": 1},
            {"address": "0x1000", "place": null, "calls_at_most": 200_009, "calls_at_least": 200_000, "waits": 0,
             "waited_ns": 0, "p99_ns": 0, "longest_ns": 0, "waiters_most": 0,
             "waiters_mean": 0.0, "wakes": 0, "requeues": 0},
            {"address": "0x2000", "place": null, "calls_at_most": 1_000_000, "calls_at_least": 12_000, "waits": 0,
             "waited_ns": 0, "p99_ns": 0, "longest_ns": 0, "waiters_most": 0,
             "waiters_mean": 0.0, "wakes": 0, "requeues": 0},
        ],
    });
    assert_eq!(json, expected);
}

#[test]
fn json_has_every_counter_of_the_engine() {
    // The struct's `Debug` output lists all counters.
    let all = format!("{:?}", Counters::default());
    let names = all.split(['{', '}', ',']).filter_map(|part| part.split_once(": 0")).map(|(name, _)| name.trim());
    let json: serde_json::Value = serde_json::from_str(&report().render(Format::Json)).expect("JSON");
    let mut count = 0;
    for name in names {
        assert!(json["counters"][name].is_u64(), "{name}");
        count += 1;
    }
    assert_eq!(count, json["counters"].as_object().expect("a map").len());
}

#[test]
fn a_place_is_an_offset_in_its_file_or_the_name_that_the_kernel_gives() {
    let maps = "\
55d0c0000000-55d0c0002000 r--p 00000000 fe:00 1234                       /usr/bin/a program
55d0c0002000-55d0c0005000 r-xp 00002000 fe:00 1234                       /usr/bin/a program
55d0c0005000-55d0c0006000 rw-p 00004000 fe:00 1234                       /usr/bin/a program
55d0c0006000-55d0c0009000 rw-p 00000000 00:00 0 
55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0                          [heap]
55d0c1021000-55d0c1022000 rw-p 00000000 00:00 0 
7f0000000000-7f0000010000 rw-p 00000000 00:00 0 
7f0000010000-7f0000012000 rw-s 00000000 00:01 99                         /dev/shm/x (deleted)
7f0000012000-7f0000013000 r--p 00000000 fe:00 77                         /usr/lib/libx.so
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
";
    let cases = [
        (0x55d0_c000_0000, Some("a program+0x0")),
        (0x55d0_c000_5ffc, Some("a program+0x5ffc")),
        (0x55d0_c000_6000, Some("a program+0x6000")), // zeroed pages without a file belong to the file before them
        (0x55d0_c000_9000, None),
        (0x55d0_c100_0010, Some("[heap]")),
        (0x55d0_c102_1000, None),
        (0x7f00_0000_0010, None),
        (0x7f00_0001_0004, Some("x (deleted)+0x4")),
        (0x7f00_0001_2008, Some("libx.so+0x8")),
        (0x7ffd_0000_0000, Some("[stack]")),
        (0x7ffd_0002_1000, None),
    ];
    for (address, place) in cases {
        assert_eq!(report::place::find(maps, address).as_deref(), place, "{address:#x}");
    }
    assert_eq!(report::place::find("nonsense\n1-x\n", 5), None);
}

#[test]
fn words_of_this_process_are_reported_with_their_place() {
    static DATA: AtomicU32 = AtomicU32::new(1);
    static ZEROES: AtomicU32 = AtomicU32::new(0);
    let own = std::env::current_exe().expect("procfs").file_name().expect("a name").to_string_lossy().into_owned();
    let mapped = vec![0u8; 64 << 20];
    let word = |address: u64| word(address, 1, 1);
    let words = [
        word(&raw const DATA as u64),
        word(&raw const ZEROES as u64),
        word(libc::getpid as *const () as u64),
        word(mapped.as_ptr() as u64 + (32 << 20)),
        word(8),
    ];
    let told = HotWord::of_this_process(&words);
    let place = |i: usize| told[i].place.as_deref();
    let offset = |i: usize| {
        let (file, offset) = place(i).and_then(|place| place.split_once("+0x")).expect("a file and a place in it");
        assert_eq!(file, own);
        u64::from_str_radix(offset, 16).expect("a number")
    };
    let apart = words[1].address.wrapping_sub(words[0].address);
    assert_eq!(offset(1).wrapping_sub(offset(0)), apart, "what is zero lies behind the file's own data");
    assert!(place(2).is_some_and(|place| place.starts_with("libc.so.6+0x")), "{:?}", place(2));
    assert_eq!((place(3), place(4)), (None, None));
}

#[test]
fn a_reader_that_has_gone_does_not_end_the_program() {
    let mut pipe = [0; 2];
    // SAFETY: the array has room for two descriptors, which this test owns. SIGPIPE is reset to its default, because
    // the test runtime ignores it.
    unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        libc::close(pipe[0]);
        let before = libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        report::write(pipe[1], &report().render(Format::Text));
        let mut pending = std::mem::zeroed();
        assert_eq!((libc::sigpending(&mut pending), libc::sigismember(&pending, libc::SIGPIPE)), (0, 0));
        libc::signal(libc::SIGPIPE, before);
        libc::close(pipe[1]);
    }
}

#[test]
fn the_written_report_is_the_rendered_one() {
    let path = std::env::temp_dir().join(format!("ufutex-report-{}", std::process::id()));
    let mut file = std::fs::File::options().read(true).append(true).create(true).open(&path).expect("a temporary file");
    std::fs::remove_file(&path).expect("our own file");
    report::write(file.as_raw_fd(), &report().render(Format::Json));
    report::write(file.as_raw_fd(), &report().render(Format::Text));
    file.rewind().expect("a file");
    let mut text = String::new();
    file.read_to_string(&mut text).expect("UTF-8");
    assert_eq!(text, report().render(Format::Json) + &report().render(Format::Text));
}
