//! Methods that set one field each, and `Default` by `new`.

macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $type:ty => $value:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub const fn $field(mut self, $field: $type) -> Self {
            self.$field = $value;
            self
        }
    )*};
}

/// `Default` for a type by its `new`.
macro_rules! default_is_new {
    ($type:ty) => {
        impl Default for $type {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

pub(crate) use {default_is_new, setters};
