//! The locks: each library's mutex and reader-writer lock around a number, and parking_lot_core's calls without a lock.

use std::marker::PhantomData;

/// A lock that the measured threads use.
pub trait Lock: Send + Sync {
    fn new() -> Self;
    fn write(&self, f: impl FnOnce(&mut f64));
    fn read(&self, f: impl FnOnce(&f64));
}

/// A library with a mutex and a reader-writer lock.
pub trait Library: Send + Sync {
    type Mutex: Send + Sync;
    type RwLock: Send + Sync;
    fn mutex() -> Self::Mutex;
    fn lock(mutex: &Self::Mutex, f: impl FnOnce(&mut f64));
    fn rwlock() -> Self::RwLock;
    fn write(lock: &Self::RwLock, f: impl FnOnce(&mut f64));
    fn read(lock: &Self::RwLock, f: impl FnOnce(&f64));
}

/// A mutex. Readers lock it as writers do.
pub struct Mutex<L: Library>(L::Mutex, PhantomData<L>);

impl<L: Library> Lock for Mutex<L> {
    fn new() -> Self {
        Self(L::mutex(), PhantomData)
    }
    #[inline]
    fn write(&self, f: impl FnOnce(&mut f64)) {
        L::lock(&self.0, f);
    }
    #[inline]
    fn read(&self, f: impl FnOnce(&f64)) {
        L::lock(&self.0, |value| f(value));
    }
}

/// A reader-writer lock.
pub struct RwLock<L: Library>(L::RwLock, PhantomData<L>);

impl<L: Library> Lock for RwLock<L> {
    fn new() -> Self {
        Self(L::rwlock(), PhantomData)
    }
    #[inline]
    fn write(&self, f: impl FnOnce(&mut f64)) {
        L::write(&self.0, f);
    }
    #[inline]
    fn read(&self, f: impl FnOnce(&f64)) {
        L::read(&self.0, f);
    }
}

macro_rules! parking_lot {
    ($name:ident, $library:ident) => {
        pub struct $name;

        impl Library for $name {
            type Mutex = $library::Mutex<f64>;
            type RwLock = $library::RwLock<f64>;
            fn mutex() -> Self::Mutex {
                $library::Mutex::new(0.0)
            }
            #[inline]
            fn lock(mutex: &Self::Mutex, f: impl FnOnce(&mut f64)) {
                f(&mut mutex.lock());
            }
            fn rwlock() -> Self::RwLock {
                $library::RwLock::new(0.0)
            }
            #[inline]
            fn write(lock: &Self::RwLock, f: impl FnOnce(&mut f64)) {
                f(&mut lock.write());
            }
            #[inline]
            fn read(lock: &Self::RwLock, f: impl FnOnce(&f64)) {
                f(&lock.read());
            }
        }
    };
}

parking_lot!(ParkingLot012, parking_lot_0_12);
parking_lot!(ParkingLot013, parking_lot_0_13);

pub struct Std;

impl Library for Std {
    type Mutex = std::sync::Mutex<f64>;
    type RwLock = std::sync::RwLock<f64>;
    fn mutex() -> Self::Mutex {
        std::sync::Mutex::new(0.0)
    }
    #[inline]
    fn lock(mutex: &Self::Mutex, f: impl FnOnce(&mut f64)) {
        f(&mut mutex.lock().expect("no thread panics"));
    }
    fn rwlock() -> Self::RwLock {
        std::sync::RwLock::new(0.0)
    }
    #[inline]
    fn write(lock: &Self::RwLock, f: impl FnOnce(&mut f64)) {
        f(&mut lock.write().expect("no thread panics"));
    }
    #[inline]
    fn read(lock: &Self::RwLock, f: impl FnOnce(&f64)) {
        f(&lock.read().expect("no thread panics"));
    }
}

macro_rules! lot {
    ($name:ident, $core:ident) => {
        /// No lock: only the calls of an uncontended lock and unlock to parking_lot_core.
        pub struct $name(f64);

        impl Lock for $name {
            fn new() -> Self {
                Self(0.0)
            }
            #[inline]
            fn write(&self, f: impl FnOnce(&mut f64)) {
                let key = std::ptr::from_ref(self).addr();
                // SAFETY: the key is the address of `self`, and the callbacks do nothing.
                unsafe {
                    $core::park(key, || false, || {}, |_, _| {}, $core::DEFAULT_PARK_TOKEN, None);
                    let mut own = self.0;
                    f(&mut own);
                    $core::unpark_one(key, |_| $core::DEFAULT_UNPARK_TOKEN);
                }
            }
            #[inline]
            fn read(&self, f: impl FnOnce(&f64)) {
                self.write(|value| f(value));
            }
        }
    };
}

lot!(Lot09, parking_lot_core_0_9);
lot!(Lot010, parking_lot_core_0_10);
