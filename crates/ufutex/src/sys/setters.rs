//! What settings have in common: methods that set one field each, and `Default`.

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

/// `Default` for types whose `new` has the default settings.
macro_rules! default_is_new {
    ($settings:ty) => {
        impl Default for $settings {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

pub(crate) use {default_is_new, setters};
