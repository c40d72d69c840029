//! Methods of settings: each sets one field.

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

pub(crate) use setters;
