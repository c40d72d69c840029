//! As culprit.c, with what Rust's standard library has.
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};
use std::thread::{Builder, sleep};
use std::time::Duration;

static ORDERS: Mutex<u32> = Mutex::new(0);
static PRICES: Mutex<u32> = Mutex::new(0);
static QUEUE: Mutex<bool> = Mutex::new(false);
static ARRIVED: Condvar = Condvar::new();
static IS_OVER: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn take_orders(ms: u64) {
    let mut held = ORDERS.lock().unwrap();
    sleep(Duration::from_millis(ms));
    *held += 1;
}

#[inline(never)]
fn take_prices(ms: u64) {
    let mut held = PRICES.lock().unwrap();
    sleep(Duration::from_millis(ms));
    *held += 1;
}

#[inline(never)]
fn wait_for_work() {
    let over = ARRIVED.wait_while(QUEUE.lock().unwrap(), |over| !*over).unwrap();
    assert!(*over);
}

fn main() {
    let is_prices = std::env::args().nth(1).as_deref() == Some("prices");
    let (orders_ms, prices_ms) = if is_prices { (1, 25) } else { (25, 1) };
    let start = |name: &str, body: fn()| Builder::new().name(name.into()).spawn(body).unwrap();
    let idle: Vec<_> = (0..4).map(|_| start("idle", wait_for_work)).collect();
    let buyer = || {
        while !IS_OVER.load(SeqCst) {
            take_orders(0);
            take_prices(0);
        }
    };
    let buyers = [(); 3].map(|()| start("buyer", buyer));
    let clerk = move || {
        for _ in 0..12 {
            take_orders(orders_ms);
            take_prices(prices_ms);
        }
        IS_OVER.store(true, SeqCst);
    };
    Builder::new().name("clerk".into()).spawn(clerk).unwrap().join().unwrap();
    buyers.into_iter().for_each(|thread| thread.join().unwrap());
    *QUEUE.lock().unwrap() = true;
    ARRIVED.notify_all();
    idle.into_iter().for_each(|thread| thread.join().unwrap());
}
