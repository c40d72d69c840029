//! A Rust program with the waits of `std` and parking_lot: this test's executable, run with [`ARGUMENT`].

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::Ready;

/// The argument that makes the test's executable run as this program.
pub const ARGUMENT: &str = "--as-the-program-of-the-standard-library";

pub fn ready() -> Ready {
    match std::env::current_exe() {
        Ok(own) => Ready::Yes(own.into(), vec![OsString::from(ARGUMENT)]),
        Err(error) => Ready::Broken(format!("the test's own executable: {error}")),
    }
}

pub fn main() {
    for (name, part) in PARTS {
        part();
        println!("ok {name}");
    }
}

const PARTS: &[(&str, fn())] = &[
    ("mutex and condvar", mutex_and_condvar),
    ("timeouts", timeouts),
    ("rwlock", rwlock),
    ("once", once),
    ("channels", channels),
    ("parking", parking),
    ("barrier", barrier),
    ("panics", panics),
    ("parking_lot", parking_lot),
    ("processes", processes),
];

fn on_threads(count: usize, body: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for me in 0..count {
            let body = &body;
            scope.spawn(move || body(me));
        }
    });
}

fn mutex_and_condvar() {
    let (state, turned) = (Mutex::new((0, VecDeque::new())), Condvar::new());
    on_threads(2, |me| {
        for turn in (me..10_000).step_by(2) {
            let mut state = turned.wait_while(state.lock().unwrap(), |state| state.0 != turn).unwrap();
            state.0 += 1;
            state.1.push_back(turn);
            turned.notify_all();
        }
    });
    let state = state.into_inner().unwrap();
    assert!(state.0 == 10_000 && state.1.into_iter().eq(0..10_000));
    let sum = Mutex::new(0);
    on_threads(4, |_| {
        for i in 0..20_000 {
            let mut sum = sum.lock().unwrap();
            if i % 64 == 0 {
                thread::yield_now();
            }
            *sum += 1;
        }
    });
    assert_eq!(sum.into_inner().unwrap(), 80_000);
}

fn timeouts() {
    let (mutex, never) = (Mutex::new(()), Condvar::new());
    let begin = Instant::now();
    let wait = Duration::from_millis(10);
    let (_guard, result) = never.wait_timeout_while(mutex.lock().unwrap(), wait, |()| true).unwrap();
    assert!(result.timed_out() && begin.elapsed() >= wait);
    let (_sender, receiver) = mpsc::channel::<()>();
    assert_eq!(receiver.recv_timeout(wait), Err(mpsc::RecvTimeoutError::Timeout));
    thread::park_timeout(wait);
}

fn rwlock() {
    let pair = RwLock::new((0, 0));
    on_threads(4, |me| {
        for i in 0..8000 {
            if (i + me) % 8 == 0 {
                let mut pair = pair.write().unwrap();
                pair.0 += 1;
                if i % 64 == 0 {
                    thread::yield_now();
                }
                pair.1 += 1;
            } else {
                let pair = pair.read().unwrap();
                assert_eq!(pair.0, pair.1);
            }
        }
    });
    assert_eq!(*pair.read().unwrap(), (4000, 4000));
}

fn once() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    static LAZY: LazyLock<usize> = LazyLock::new(|| {
        thread::sleep(Duration::from_millis(2));
        RUNS.fetch_add(1, SeqCst)
    });
    let (once, cell) = (Once::new(), OnceLock::new());
    on_threads(4, |_| {
        once.call_once(|| {
            thread::sleep(Duration::from_millis(2));
            RUNS.fetch_add(1, SeqCst);
        });
        cell.get_or_init(|| RUNS.fetch_add(1, SeqCst));
        let _ = *LAZY;
    });
    assert_eq!(RUNS.load(SeqCst), 3);
}

fn channels() {
    let (sender, receiver) = mpsc::sync_channel(2);
    thread::scope(|scope| {
        for me in 0..3 {
            let sender = sender.clone();
            scope.spawn(move || (0..3000).for_each(|i| sender.send(me * 3000 + i).unwrap()));
        }
        drop(sender);
        assert_eq!(receiver.iter().sum::<usize>(), 9000 * 8999 / 2);
    });
}

fn parking() {
    let turn = Arc::new(AtomicUsize::new(0));
    let main = thread::current();
    let other = thread::spawn({
        let turn = Arc::clone(&turn);
        move || {
            for i in (1..6000).step_by(2) {
                while turn.load(SeqCst) != i {
                    thread::park();
                }
                turn.store(i + 1, SeqCst);
                main.unpark();
            }
        }
    });
    for i in (0..6000).step_by(2) {
        while turn.load(SeqCst) != i {
            thread::park();
        }
        turn.store(i + 1, SeqCst);
        other.thread().unpark();
    }
    other.join().unwrap();
}

fn barrier() {
    let (barrier, leaders) = (Barrier::new(4), AtomicUsize::new(0));
    on_threads(4, |_| {
        for _ in 0..500 {
            if barrier.wait().is_leader() {
                leaders.fetch_add(1, SeqCst);
            }
        }
    });
    assert_eq!(leaders.load(SeqCst), 500);
}

/// A panic unwinds with a lock held and poisons it.
fn panics() {
    std::panic::set_hook(Box::new(|_| ()));
    let mutex = Mutex::new(());
    let result = thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _guard = mutex.lock().unwrap();
            panic!("as it should");
        });
        thread.join()
    });
    assert!(result.is_err() && mutex.lock().is_err());
    let _ = std::panic::take_hook();
}

fn parking_lot() {
    use parking_lot::{Condvar, FairMutex, Mutex, RwLock};
    let (turn, turned) = (Mutex::new(0), Condvar::new());
    on_threads(2, |me| {
        for i in (me..10_000).step_by(2) {
            let mut turn = turn.lock();
            turned.wait_while(&mut turn, |turn| *turn != i);
            *turn += 1;
            turned.notify_all();
        }
    });
    let (fair, shared) = (FairMutex::new(0), RwLock::new(0));
    on_threads(4, |me| {
        for i in 0..3000 {
            *fair.lock() += 1;
            if (i + me) % 4 == 0 {
                *shared.write() += 1;
            } else {
                assert!(*shared.read() <= 3000);
            }
        }
    });
    assert_eq!((*turn.lock(), *fair.lock(), *shared.read()), (10_000, 12_000, 3000));
    assert!(turned.wait_for(&mut turn.lock(), Duration::from_millis(5)).timed_out());
}

fn processes() {
    on_threads(2, |_| {
        for _ in 0..10 {
            let output = std::process::Command::new("sh").args(["-c", "echo said; exit 7"]).output().unwrap();
            assert_eq!((output.status.code(), &output.stdout[..]), (Some(7), &b"said\n"[..]));
        }
    });
}
