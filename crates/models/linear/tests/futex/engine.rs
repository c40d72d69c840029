//! The engine, in each layout and with each scheme.

/// The packages, each with the same source and types of its own, and how a request for slots is made there.
macro_rules! packages {
    ($($module:ident: $name:ident $set_slots:ident;)*) => {$(
        pub mod $module {
            use $name as ufutex;
            include!("native.rs");

            #[test]
            fn histories_are_linearizable() {
                run(concat!("engine::", stringify!($module)));
            }

            packages!(@$set_slots);
        }
    )*};
    (@set_slots) => {
        fn set_slots(domain: &Domain, slots: usize) -> Result<(), Error> {
            domain.set_slots(slots)
        }
    };
    // The scheme waits for a moment without operations, and may give up.
    (@set_slots_while) => {
        fn set_slots(domain: &Domain, slots: usize) -> Result<(), Error> {
            let mut patience = 200;
            domain.set_slots_while(slots, || {
                patience -= 1;
                patience > 0
            })
        }
    };
}

packages! {
    live: ufutex set_slots;
    fixed: ufutex_fixed set_slots_while;
    atomic: ufutex_atomic set_slots_while;
    percpu: ufutex_percpu set_slots_while;
    packed: ufutex_packed set_slots;
    split: ufutex_split set_slots;
}
