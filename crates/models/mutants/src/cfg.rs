//! In which builds of the engine an item is compiled.

use syn::punctuated::Punctuated;
use syn::{Attribute, Lit, Meta, Token};

const PARTS: [&str; 6] = ["std", "timers", "pi", "robust", "requeue", "default"];

/// The features of the builds whose tests are run, besides [`PARTS`]: `ufutex`, `ufutex-loom`, `ufutex-shuttle`. All of them are
/// for x86-64 Linux.
const BUILDS: [&[&str]; 3] = [&["_host", "probes", "parking", "stream"], &["counted", "loom"], &["counted", "shuttle"]];

/// A set of builds: bit `n` is the build `BUILDS[n]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Builds(u8);

impl Builds {
    pub const ALL: Self = Self(0b111);

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of `self` that compile what has these attributes. Tests are not compiled here: nothing in a test is a mutant.
    pub fn with(self, attributes: &[Attribute]) -> Self {
        let conditions: Vec<Meta> = attributes
            .iter()
            .filter(|attribute| attribute.path().is_ident("cfg"))
            .filter_map(|attribute| attribute.parse_args().ok())
            .collect();
        let compiles = |build: &usize| conditions.iter().all(|condition| holds(condition, BUILDS[*build]));
        let bits = (0..BUILDS.len()).filter(compiles).map(|build| 1 << build).sum::<u8>();
        Self(self.0 & bits)
    }
}

fn holds(condition: &Meta, features: &[&str]) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("unix"),
        Meta::NameValue(pair) => {
            let syn::Expr::Lit(syn::ExprLit { lit: Lit::Str(value), .. }) = &pair.value else { return false };
            let value = value.value();
            let name = pair.path.get_ident().map(ToString::to_string).unwrap_or_default();
            match name.as_str() {
                "feature" => PARTS.contains(&value.as_str()) || features.contains(&value.as_str()),
                "target_os" => value == "linux",
                "target_arch" => value == "x86_64",
                "target_family" => value == "unix",
                "target_has_atomic" => true,
                "target_pointer_width" => value == "64",
                _ => false,
            }
        }
        Meta::List(list) => {
            let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
            let Ok(inner) = list.parse_args_with(parser) else { return false };
            let mut inner = inner.iter();
            if list.path.is_ident("not") {
                !inner.any(|meta| holds(meta, features))
            } else if list.path.is_ident("all") {
                inner.all(|meta| holds(meta, features))
            } else {
                inner.any(|meta| holds(meta, features))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn builds(attribute: &str) -> u8 {
        let item: syn::ItemFn = syn::parse_str(&format!("{attribute} fn f() {{}}")).expect("a function");
        Builds::ALL.with(&item.attrs).0
    }

    #[test]
    fn conditions_are_evaluated_for_each_build() {
        assert_eq!(builds(""), 0b111);
        assert_eq!(builds("#[cfg(test)]"), 0);
        assert_eq!(builds("#[cfg(feature = \"sim\")]"), 0);
        assert_eq!(builds("#[cfg(any(feature = \"loom\", feature = \"shuttle\"))]"), 0b110);
        assert_eq!(
            builds("#[cfg(all(feature = \"std\", target_os = \"linux\", not(any(feature = \"sim\", miri))))]"),
            0b111
        );
        assert_eq!(builds("#[cfg(all(feature = \"_host\", windows))]"), 0);
        assert_eq!(builds("#[cfg(not(feature = \"loom\"))] #[cfg(unix)]"), 0b101);
    }
}
