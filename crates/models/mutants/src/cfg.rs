//! Whether the engine's build for the tests has an item.

use syn::punctuated::Punctuated;
use syn::{Attribute, Lit, Meta, Token};

/// The features of that build, which is for x86-64 Linux.
const FEATURES: [&str; 8] = ["std", "timers", "pi", "robust", "default", "probes", "parking", "stream"];

/// Whether an item with these attributes is compiled. Tests are not: nothing in a test is a mutant.
pub fn is_compiled(attributes: &[Attribute]) -> bool {
    let conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    conditions.filter_map(|attribute| attribute.parse_args().ok()).all(|condition: Meta| holds(&condition))
}

/// The file of a module with these attributes, without its `.rs`, if a `cfg_attr` that holds gives its `path`.
pub fn file_of(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg_attr")).find_map(|attribute| {
        let inner = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
        let mut inner = inner.iter();
        inner.next().filter(|condition| holds(condition))?;
        let path = inner.find(|attribute| attribute.path().is_ident("path"))?.require_name_value().ok()?;
        let syn::Expr::Lit(syn::ExprLit { lit: Lit::Str(path), .. }) = &path.value else { return None };
        path.value().strip_suffix(".rs").map(str::to_string)
    })
}

fn holds(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("unix"),
        Meta::NameValue(pair) => {
            let syn::Expr::Lit(syn::ExprLit { lit: Lit::Str(value), .. }) = &pair.value else { return false };
            let value = value.value();
            let name = pair.path.get_ident().map(ToString::to_string).unwrap_or_default();
            match name.as_str() {
                "feature" => FEATURES.contains(&value.as_str()),
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
                !inner.any(holds)
            } else if list.path.is_ident("all") {
                inner.all(holds)
            } else {
                inner.any(holds)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(attribute: &str) -> bool {
        let item: syn::ItemFn = syn::parse_str(&format!("{attribute} fn f() {{}}")).expect("a function");
        is_compiled(&item.attrs)
    }

    #[test]
    fn file_is_that_of_the_condition_that_holds() {
        let file = |attributes: &str| {
            let item: syn::ItemMod = syn::parse_str(&format!("{attributes} mod m;")).expect("a module");
            file_of(&item.attrs)
        };
        assert_eq!(file("#[cfg(unix)]"), None);
        assert_eq!(file("#[cfg_attr(windows, path = \"a.rs\")]"), None);
        let unix = file("#[cfg_attr(windows, path = \"a.rs\")] #[cfg_attr(unix, path = \"b.rs\")]");
        assert_eq!(unix.as_deref(), Some("b"));
    }

    #[test]
    fn conditions_are_evaluated() {
        assert!(compiled(""));
        assert!(!compiled("#[cfg(test)]"));
        assert!(compiled("#[cfg(all(feature = \"std\", target_os = \"linux\", not(any(feature = \"sim\", miri))))]"));
        assert!(!compiled("#[cfg(all(feature = \"std\", windows))]"));
        assert!(compiled("#[cfg(not(windows))] #[cfg(unix)]"));
    }
}
