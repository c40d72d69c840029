//! `include/ufutex.h` is what cbindgen generates from the sources, and the manual pages say what it says.

#[path = "../man.rs"]
mod man;
#[path = "../../ufutex/tests/common/skipped.rs"]
mod skipped;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use man::Kind;

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The sources in the order of the header.
fn sources() -> Vec<PathBuf> {
    let src = package().join("src");
    let names = [
        "version", "fork", "system", "domain", "task", "wait", "wake", "requeue", "pi", "syscall", "waiter", "timers",
        "driver",
    ];
    let mut files = vec![src.join("types.rs")];
    files.extend(names.map(|name| src.join("api").join(name).with_extension("rs")));
    let mut all: Vec<_> = fs::read_dir(src.join("api")).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| !path.ends_with("mod.rs") && !files.contains(path));
    assert!(all.is_empty(), "no part of the header: {all:?}");
    files
}

fn generated() -> String {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut builder = cbindgen::Builder::new()
        .with_config(cbindgen::Config::from_file(package().join("cbindgen.toml")).expect("a configuration"));
    for (i, path) in sources().iter().enumerate() {
        // build.rs decides whether rustc exports the names without versions. cbindgen must see them in any case.
        let hidden = "#[cfg_attr(not(symbol_versions), unsafe(no_mangle))]";
        let source = fs::read_to_string(path).unwrap().replace(hidden, "#[unsafe(no_mangle)]");
        let copy = temporary.join(format!("{i:02}-{}", path.file_name().unwrap().display()));
        fs::write(&copy, source).unwrap();
        builder = builder.with_src(copy);
    }
    let mut header = Vec::new();
    builder.generate().expect("a header").write(&mut header);
    String::from_utf8(header).unwrap()
}

#[test]
fn header_is_what_the_sources_say() {
    let path = package().join("include/ufutex.h");
    let generated = generated();
    if env::var_os("UFUTEX_WRITE_HEADER").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    let differs = checked_in.lines().zip(generated.lines()).position(|(old, new)| old != new);
    assert!(
        checked_in == generated,
        "include/ufutex.h is stale from line {} on; regenerate it with\n    \
         UFUTEX_WRITE_HEADER=1 cargo test -p ufutex-capi --test header",
        differs.map_or(checked_in.lines().count(), |line| line) + 1
    );
}

/// Macros are all on one page.
#[test]
fn every_function_and_type_has_a_page_with_all_words_of_its_comment() {
    let header = generated();
    let pages: HashMap<_, _> = man::pages(&header, "0.1.0").into_iter().collect();
    for man::Item { kind, name, comment, .. } in man::items(&header) {
        let file = if kind == Kind::Macro { "ufutex.3".into() } else { format!("{name}.3") };
        let page = pages[&file].replace("\\fB", "").replace("\\fR", "").replace("\\(ha", "^");
        let comment = comment.join(" ");
        let words = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').map(String::from).collect();
        let [said, kept]: [Vec<String>; 2] = [words(&format!("{name} {comment}")), words(&page)];
        let lost: Vec<_> = said.iter().filter(|word| !kept.contains(word)).collect();
        assert!(lost.is_empty(), "{lost:?} in {page}");
        assert!(
            pages["ufutex.3"].contains(&format!("\n.B {name}(3)\n"))
                || pages["ufutex.3"].contains(&name) && kind == Kind::Macro,
            "{name} is not listed"
        );
        let (_, errors) = page.split_once(".SH ERRORS").unwrap_or_default();
        assert!(!errors.contains(". \\-E"), "an error within another's text: {page}");
        if let Some((_, returns)) = page.split_once(".SH RETURN VALUE\n") {
            let begins = ["Returns", "Stores", "None.", "See"]
                .iter()
                .any(|word| returns.trim_start_matches(".PP\n").starts_with(word));
            assert!(begins, "{page}");
        }
        let names_errors = kind == Kind::Function
            && comment.split(' ').any(|word| word.starts_with("-E") && word.ends_with([':', ',']));
        assert_eq!(page.contains(".SH RETURN VALUE"), kind == Kind::Function, "{page}");
        assert_eq!(page.contains(".SH ERRORS"), names_errors || comment.contains("Errors as for"), "{page}");
    }
}

#[test]
fn formatters_accept_the_pages_and_need_no_more_than_80_columns() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let pages = man::pages(&generated(), "0.1.0").into_iter().map(|(name, page)| (directory.join(name), page));
    let files: Vec<_> = pages.map(|(file, page)| fs::write(&file, page).map(|()| file).unwrap()).collect();
    let run = |formatter: &[&str]| match Command::new(formatter[0]).args(&formatter[1..]).args(&files).output() {
        Ok(output) => [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()),
        Err(error) => {
            skipped::skip(format_args!("no {} here: {error}", formatter[0]));
            Default::default()
        }
    };
    let [text, warnings] = run(&["groff", "-man", "-ww", "-Tutf8", "-P-cbou", "-rLL=80n"]);
    assert_eq!(warnings, "");
    let too_long: Vec<_> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(too_long.is_empty(), "{too_long:#?}");
    // The pages have a version in place of a date.
    let [warnings, errors] = run(&["mandoc", "-T", "lint", "-W", "warning"]);
    let warnings: Vec<_> = warnings.lines().filter(|line| !line.contains("missing date")).collect();
    assert!(warnings.is_empty() && errors.is_empty(), "{warnings:#?}{errors}");
}
