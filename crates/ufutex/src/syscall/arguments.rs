//! Reads and writes the structs in a guest's memory that arguments of its calls point to.

use core::time::Duration;

use crate::error::Error;
use crate::sys::mem::{UserMemory, check_access};

const NSEC_PER_SEC: u64 = 1_000_000_000;

/// The layout of a `struct timespec`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timespec {
    /// Two fields of 64 bits.
    Wide,
    /// Two fields of 64 bits, of a 32-bit program: the upper half of the nanoseconds is padding.
    Padded,
    /// Two fields of 32 bits.
    Narrow,
}

impl Timespec {
    pub fn size(self) -> u64 {
        match self {
            Self::Wide | Self::Padded => 16,
            Self::Narrow => 8,
        }
    }
}

/// Reads a `struct timespec`, and checks it as [`time`] does.
pub fn timespec<M: UserMemory + ?Sized>(memory: &M, address: u64, layout: Timespec) -> Result<Duration, Error> {
    time(timespec_fields(memory, address, layout)?)
}

pub fn timespec_fields<M: UserMemory + ?Sized>(memory: &M, address: u64, layout: Timespec) -> Result<[u64; 2], Error> {
    Ok(match layout {
        Timespec::Wide => read_words(memory, address)?,
        Timespec::Padded => {
            let [seconds, nanoseconds] = read_words(memory, address)?;
            [seconds, u64::from(nanoseconds as u32)]
        }
        Timespec::Narrow => {
            let [both] = read_words(memory, address)?;
            // A negative number stays one.
            [both, both >> 32].map(|field| i64::from(field as i32).cast_unsigned())
        }
    })
}

/// The duration in a `struct timespec`. [`Error::Invalid`] if it is negative, or the nanoseconds are a second or more.
pub fn time([seconds, nanoseconds]: [u64; 2]) -> Result<Duration, Error> {
    if seconds.cast_signed() < 0 || nanoseconds >= NSEC_PER_SEC {
        return Err(Error::Invalid);
    }
    Ok(Duration::new(seconds, nanoseconds as u32))
}

/// Reads bytes, at any alignment.
pub fn read<M: UserMemory + ?Sized>(memory: &M, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
    check_access(memory, address, bytes.len() as u64)?;
    Ok(memory.read(address, bytes)?)
}

/// Reads words of 64 bits, at any alignment.
pub fn read_words<M: UserMemory + ?Sized, const N: usize>(memory: &M, address: u64) -> Result<[u64; N], Error> {
    let mut words = [[0; 8]; N];
    read(memory, address, words.as_flattened_mut())?;
    Ok(words.map(u64::from_le_bytes))
}

/// Writes bytes, at any alignment.
pub fn write<M: UserMemory + ?Sized>(memory: &M, address: u64, bytes: &[u8]) -> Result<(), Error> {
    check_access(memory, address, bytes.len() as u64)?;
    Ok(memory.write(address, bytes)?)
}
