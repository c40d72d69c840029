//! Compiles the programs in `c/` and `others/` with the system's compilers when they are first needed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

/// A compiled program, or why there is none.
pub type Made = Result<PathBuf, NotMade>;

#[derive(Clone)]
pub enum NotMade {
    /// The compiler is not installed.
    NoCompiler(String),
    /// The compiler refused the source.
    Refused(String),
}

/// The directory of the sources.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// The directory of the compiled programs.
pub fn products() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Compiles a C program with these flags, once.
pub fn c(source: &'static str, flags: &'static [&'static str]) -> Made {
    c_by("cc", source, flags)
}

/// Compiles a C program with this compiler.
pub fn c_by(compiler: &'static str, source: &'static str, flags: &'static [&'static str]) -> Made {
    let name = format!("{source}{}", flags.concat());
    let name = if compiler == "cc" { name } else { format!("{name}-{compiler}") };
    let file = sources().join("c").join(source).with_extension("c");
    once(name, |product| {
        let always = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"];
        compile(compiler, always.iter().chain(flags).map(OsStr::new), &file, product)
    })
}

/// Compiles a C++ program.
pub fn cxx(source: &'static str) -> Made {
    let file = sources().join("others").join(source).with_extension("cc");
    once(source.into(), |product| {
        let always = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"];
        compile("c++", always.iter().map(OsStr::new), &file, product)
    })
}

/// Compiles a Go program, with cgo or without libc.
pub fn go(source: &'static str, uses_c: bool) -> Made {
    let file = sources().join("others").join(source).with_extension("go");
    once(format!("{source}.go"), |product| {
        let (cgo, mode) = if uses_c { ("1", "-buildmode=exe") } else { ("0", "-buildmode=pie") };
        let mut go = Command::new("go");
        go.env("CGO_ENABLED", cgo).env("GO111MODULE", "off").args(["build", mode, "-o"]).arg(product).arg(&file);
        judge("go", go.output(), product)
    })
}

/// Compiles a Java program. Returns the directory of its classes.
pub fn java(source: &'static str) -> Made {
    let file = sources().join("others").join(source).with_extension("java");
    once(format!("{source}.classes"), |product| {
        let run = Command::new("javac").arg("-d").arg(product).arg(&file).output();
        judge("javac", run, product)
    })
}

fn compile<'a>(compiler: &str, flags: impl Iterator<Item = &'a OsStr>, source: &Path, product: &Path) -> Made {
    // Before glibc 2.34 timers and dlsym are in libraries of their own.
    let run = Command::new(compiler).args(flags).arg(source).args(["-lrt", "-ldl", "-o"]).arg(product).output();
    judge(compiler, run, product)
}

fn judge(compiler: &str, run: std::io::Result<std::process::Output>, product: &Path) -> Made {
    let output = run.map_err(|error| NotMade::NoCompiler(format!("no {compiler} here: {error}")))?;
    if !output.status.success() {
        return Err(NotMade::Refused(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(product.to_owned())
}

/// Compiles a program once. Trials run in parallel: the first that needs a program compiles it, and the others wait.
/// Another run of this test may be using the old program, so the new one replaces it by a rename. It is used until a
/// source or this test is newer.
fn once(name: String, make: impl FnOnce(&Path) -> Made) -> Made {
    type Cell = Arc<OnceLock<Made>>;
    static MADE: LazyLock<Mutex<HashMap<String, Cell>>> = LazyLock::new(Mutex::default);
    let cell = Arc::clone(MADE.lock().unwrap().entry(name.clone()).or_default());
    cell.get_or_init(|| {
        let product = products().join(format!("program-{name}"));
        if is_fresh(&product) {
            return Ok(product);
        }
        let unfinished = products().join(format!("program-{name}-{}", std::process::id()));
        make(&unfinished)?;
        let _ = fs::remove_dir_all(&product); // a rename replaces a file, but not a directory
        let renamed = fs::rename(&unfinished, &product);
        renamed.map(|()| product).map_err(|error| NotMade::Refused(format!("{unfinished:?}: {error}")))
    })
    .clone()
}

fn is_fresh(product: &Path) -> bool {
    let written = |path: &Path| path.metadata().and_then(|status| status.modified()).ok();
    let sources = ["c", "others"].into_iter().flat_map(|part| fs::read_dir(sources().join(part)).into_iter().flatten());
    let newest = sources.flatten().filter_map(|source| written(&source.path())).chain(written(&this_test())).max();
    written(product).is_some_and(|made| Some(made) > newest)
}

fn this_test() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}
