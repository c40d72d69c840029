//! Takes one sample of `ufutex bench locks`: threads that lock and unlock for some time.
//!
//! The packages `original` and `ufutex` build this file on the published `parking_lot_core` and on ours. The arguments
//! describe the sample. The output is one line: the number of lock and unlock pairs, and nanoseconds.

mod lock;
mod work;

use lock::{Mutex, RwLock, Std};
use std::process::ExitCode;
use std::time::Duration;
use work::Parameters;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((library, parameters)) = parse(&arguments) else {
        eprintln!(
            "usage: LIBRARY WRITERS READERS LOCKS WORK-INSIDE WORK-BETWEEN YIELDS MILLISECONDS (it is for `ufutex bench locks`)"
        );
        return ExitCode::from(2);
    };
    let done = match (library, parameters.readers) {
        ("std", 0) => work::run::<Mutex<Std>>(&parameters),
        ("std", _) => work::run::<RwLock<Std>>(&parameters),
        ("lot-0.12", _) => work::run::<lock::Lot09>(&parameters),
        ("lot-0.13", _) => work::run::<lock::Lot010>(&parameters),
        ("parking_lot-0.12", 0) => work::run::<Mutex<lock::ParkingLot012>>(&parameters),
        ("parking_lot-0.12", _) => work::run::<RwLock<lock::ParkingLot012>>(&parameters),
        (_, 0) => work::run::<Mutex<lock::ParkingLot013>>(&parameters),
        (_, _) => work::run::<RwLock<lock::ParkingLot013>>(&parameters),
    };
    println!("{} {}", done.operations, done.time.as_nanos());
    ExitCode::SUCCESS
}

fn parse(arguments: &[String]) -> Option<(&str, Parameters)> {
    let [library, numbers @ ..] = arguments else { return None };
    let numbers: Vec<u32> = numbers.iter().map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [writers, readers, locks, inside, between, yields, milliseconds] = numbers[..] else { return None };
    let is_known = ["std", "parking_lot-0.12", "parking_lot-0.13", "lot-0.12", "lot-0.13"].contains(&library.as_str());
    let is_sensible = is_known && writers + readers > 0 && locks > 0;
    let length = Duration::from_millis(milliseconds.into());
    is_sensible.then_some((library, Parameters { writers, readers, locks, inside, between, yields: yields != 0, length }))
}
