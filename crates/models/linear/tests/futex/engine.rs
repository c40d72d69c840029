//! The engine, in each layout and with each scheme.

/// The packages, each with the same source and types of its own.
macro_rules! packages {
    ($($package:ident: $name:ident [$($scheme:ident)*];)*) => {$(
        pub mod $package {
            use $name as ufutex;
            include!("native.rs");
            $(
                #[allow(non_snake_case, reason = "the scheme's name")]
                mod $scheme {
                    #[test]
                    fn histories_are_linearizable() {
                        let name = concat!("engine::", stringify!($package), "::", stringify!($scheme));
                        super::run::<super::ufutex::scheme::$scheme>(name);
                    }
                }
            )*
        }
    )*};
}

packages! {
    lean: ufutex [Live];
    lean_counted: ufutex_counted [Fixed Atomic PerCpu];
    packed: ufutex_packed [Live Fixed Atomic PerCpu];
    split: ufutex_split [Live Fixed Atomic PerCpu];
}
