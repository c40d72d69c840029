//! One sample of `ufutex bench locks`: threads that lock and unlock for a while.
//!
//! Built twice from this one file, by the packages `original` and `ufutex`: on the published `parking_lot_core` and on ours.
//! It takes one line of arguments and prints one line: locks and unlocks, and nanoseconds.

mod lock;
mod work;

use lock::{Mutex, RwLock, Std};
use std::process::ExitCode;
use std::time::Duration;
use work::Shape;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((library, shape)) = parse(&arguments) else {
        eprintln!(
            "usage: LIBRARY WRITERS READERS LOCKS WORK-INSIDE WORK-BETWEEN YIELDS MILLISECONDS (it is for `ufutex bench locks`)"
        );
        return ExitCode::from(2);
    };
    let done = match (library, shape.readers) {
        ("std", 0) => work::run::<Mutex<Std>>(&shape),
        ("std", _) => work::run::<RwLock<Std>>(&shape),
        ("lot-0.12", _) => work::run::<lock::Lot09>(&shape),
        ("lot-0.13", _) => work::run::<lock::Lot010>(&shape),
        ("parking_lot-0.12", 0) => work::run::<Mutex<lock::ParkingLot012>>(&shape),
        ("parking_lot-0.12", _) => work::run::<RwLock<lock::ParkingLot012>>(&shape),
        (_, 0) => work::run::<Mutex<lock::ParkingLot013>>(&shape),
        (_, _) => work::run::<RwLock<lock::ParkingLot013>>(&shape),
    };
    println!("{} {}", done.operations, done.time.as_nanos());
    ExitCode::SUCCESS
}

fn parse(arguments: &[String]) -> Option<(&str, Shape)> {
    let [library, numbers @ ..] = arguments else { return None };
    let numbers: Vec<u32> = numbers.iter().map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [writers, readers, locks, inside, between, yields, milliseconds] = numbers[..] else { return None };
    let is_known = ["std", "parking_lot-0.12", "parking_lot-0.13", "lot-0.12", "lot-0.13"].contains(&library.as_str());
    let is_sensible = is_known && writers + readers > 0 && locks > 0;
    let length = Duration::from_millis(milliseconds.into());
    is_sensible.then_some((library, Shape { writers, readers, locks, inside, between, yields: yields != 0, length }))
}
