//! Puts all mutants of a file into its text, each behind a switch.

use crate::mutant::Mutant;

/// `text` with the insertions of `mutants`, which have these numbers.
pub fn insert(text: &str, mutants: &[(usize, Mutant)]) -> String {
    // What is found earlier is further outside: it begins before, and ends behind, what is found later.
    let mut insertions = Vec::new();
    for (number, mutant) in mutants {
        let order = *number as isize;
        insertions.push((mutant.at.start, 1, order, filled(&mutant.before, *number)));
        insertions.push((mutant.at.end, 0, -order, filled(&mutant.after, *number)));
    }
    insertions.sort();
    let (mut edited, mut done) = (String::new(), 0);
    for (at, _, _, inserted) in insertions {
        edited.push_str(&text[done..at]);
        edited.push_str(&inserted);
        done = at;
    }
    edited.push_str(&text[done..]);
    edited
}

fn filled(text: &str, number: usize) -> String {
    let active = format!("crate::mutation::active({number})");
    text.replace("{active}", &active).replace("{number}", &number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine;
    use crate::find::find;

    fn edited(text: &str) -> String {
        insert(text, &(7..).zip(find("it.rs", text).mutants).collect::<Vec<_>>())
    }

    #[test]
    fn each_mutant_is_behind_its_own_switch() {
        let off = |number: usize| format!("crate::mutation::active({number})");
        let expected = format!(
            "fn f() {{ /* ä */ if (((a) != {}) && ((b < c) != {})) && !{} {{ return; }} }}",
            off(8),
            off(9),
            off(7)
        );
        assert_eq!(edited("fn f() { /* ä */ if a && b < c { return; } }"), expected);
        let expected = "fn f() { a.swap(crate::mutation::order(7, crate::mutation::order(8, Ordering::AcqRel, \
                        Ordering::Release), Ordering::Acquire)) }";
        assert_eq!(edited("fn f() { a.swap(Ordering::AcqRel) }"), expected);
        let expected = format!("fn f() {{ (if !{} {{ fence(A) }}); (if !{} {{ heavy_barrier() }}); }}", off(7), off(8));
        assert_eq!(edited("fn f() { fence(A); heavy_barrier(); }"), expected);
    }

    #[test]
    fn nothing_of_the_engine_is_lost() {
        let sources = engine::sources(&engine::root());
        assert!(sources.len() > 100, "{} files", sources.len());
        for source in &sources {
            let changed = insert(&source.text, &(0..).zip(source.mutants.iter().cloned()).collect::<Vec<_>>());
            syn::parse_file(&changed).unwrap_or_else(|error| panic!("{}: {error}", source.file));
            let lengths = source
                .mutants
                .iter()
                .enumerate()
                .map(|(number, mutant)| filled(&mutant.before, number).len() + filled(&mutant.after, number).len());
            assert_eq!(changed.len(), source.text.len() + lengths.sum::<usize>(), "{}", source.file);
            let mut characters = changed.chars();
            assert!(source.text.chars().all(|wanted| characters.any(|there| there == wanted)), "{}", source.file);
            let ids: std::collections::BTreeSet<_> = source.mutants.iter().map(|mutant| &mutant.id).collect();
            assert_eq!(ids.len(), source.mutants.len(), "{}", source.file);
        }
    }
}
