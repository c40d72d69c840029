//! `include/ufutex.h` is what cbindgen generates from the sources. Its version is that of the package.

use std::path::{Path, PathBuf};
use std::{env, fs};

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

/// Each function in the header is exported, and its comment says what it returns and where it may be called.
#[test]
fn every_function_says_where_it_may_be_called() {
    let header = generated();
    let lines: Vec<_> = header.lines().collect();
    let functions: Vec<_> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| {
            line.contains(" ufutex_")
                && line.contains('(')
                && !line.starts_with("//")
                && !line.starts_with("typedef")
                && !line.starts_with("#")
                && !line.starts_with(' ')
                || line.contains("*ufutex_version(")
        })
        .collect();
    assert!(functions.len() >= 45, "{}", functions.len());
    for (at, line) in functions {
        let comment: Vec<_> = lines[..at].iter().rev().take_while(|line| line.starts_with("//")).collect();
        let text = comment.iter().rev().map(|line| line.trim_start_matches("//").trim()).collect::<Vec<_>>().join(" ");
        assert!(text.contains("Any thread; "), "{line}: {text}");
        assert!(text.contains("async-signal-safe"), "{line}: {text}");
    }
}
