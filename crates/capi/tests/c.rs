//! Builds the C tests in `tests/c` with the system's compiler, and runs them with both libraries and under sanitizers.

#[path = "../../ufutex/tests/common/skipped.rs"]
mod skipped;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use skipped::skip;

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory of this test, where cargo puts the libraries.
fn libraries() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// The system's compiler. `None` if there is none.
fn compiler(variable: &str, default: &str) -> Option<String> {
    let name = env::var(variable).unwrap_or_else(|_| default.into());
    let works = Command::new(&name).arg("--version").output().is_ok_and(|output| output.status.success());
    if !works {
        skip(format_args!("no {name} here"));
    }
    works.then_some(name)
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

const STRICT: [&str; 6] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-O1"];
/// The system libraries that Rust's standard library needs and a C compiler does not link by default.
const SYSTEM: [&str; 4] = ["-lpthread", "-ldl", "-lm", "-lgcc_s"];

/// How a test is built.
#[derive(Clone, Copy)]
struct Build {
    name: &'static str,
    flags: &'static [&'static str],
    is_static: bool,
}

const STATIC: Build = Build { name: "static", flags: &[], is_static: true };
const SHARED: Build = Build { name: "shared", flags: &[], is_static: false };
const SANITIZED: Build = Build {
    name: "sanitized",
    flags: &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"],
    is_static: true,
};

/// Compiles a test of `tests/c`.
fn compile(compiler: &str, name: &str, program: &Path) -> Command {
    let (mut command, tests) = (Command::new(compiler), package().join("tests/c"));
    command.args(STRICT).args(["-std=c11", "-D_GNU_SOURCE", "-I"]).arg(package().join("include"));
    command.arg(tests.join(name).with_extension("c")).arg("-o").arg(program);
    command
}

impl Build {
    fn command(&self, compiler: &str, name: &str, program: &Path) -> Command {
        let mut command = compile(compiler, name, program);
        command.args(self.flags);
        if self.is_static {
            command.arg(libraries().join("libufutex_capi.a"));
        } else {
            let rpath = format!("-Wl,-rpath,{}", libraries().display());
            command.arg("-L").arg(libraries()).arg("-lufutex_capi").arg(rpath);
        }
        command.args(SYSTEM);
        command
    }

    fn program(&self, name: &str) -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", self.name))
    }

    fn run(&self, name: &str) {
        let Some(cc) = compiler("CC", "cc") else { return };
        if self.name == SANITIZED.name && !has_sanitizers(&cc) {
            skip(format_args!("{cc} has no sanitizers here"));
            return;
        }
        let program = self.program(name);
        succeed(&mut self.command(&cc, name, &program));
        let mut run = Command::new("timeout");
        run.arg("120").arg(&program).env("ASAN_OPTIONS", "detect_leaks=1");
        // Cargo's own value begins with a directory in which an earlier `cargo build` may have left another library.
        run.env("LD_LIBRARY_PATH", libraries());
        succeed(&mut run);
    }
}

/// Whether the compiler and the system support sanitizers.
fn has_sanitizers(cc: &str) -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sanitizers.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let program = SANITIZED.program("sanitizers");
        let built = Command::new(cc).args(SANITIZED.flags).arg(&source).arg("-o").arg(&program).output();
        built.is_ok_and(|output| output.status.success())
            && Command::new(&program).output().is_ok_and(|output| output.status.success())
    })
}

#[test]
fn header_alone_is_strict_c11_and_cpp17() {
    let lines = include_str!("../include/ufutex.h").lines();
    let inits = lines.filter_map(|line| line.strip_prefix("#define UFUTEX_")?.split_once("_INIT"));
    let (mut structs, mut checks) = (String::new(), String::new());
    for name in inits.map(|(name, _)| name) {
        let of = name.to_lowercase();
        structs += &format!("static struct ufutex_{of} a_{of} = UFUTEX_{name}_INIT;\n");
        checks += &format!("if (a_{of}.size != sizeof a_{of}) return 1;\n");
    }
    assert!(structs.contains("ufutex_options") && structs.contains("ufutex_restart"), "{structs}");
    let text = format!(
        "#include <ufutex.h>\n{structs}int main(void) {{\n{checks}\
         if (a_wait_options.bitset != UFUTEX_BITSET_ANY) return 1;\n\
         return ufutex_system_free(NULL) == -22 ? 0 : 2;\n}}\n"
    );
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (variable, default, standard, name) in
        [("CC", "cc", "-std=c11", "header.c"), ("CXX", "c++", "-std=c++17", "header.cpp")]
    {
        let Some(compiler) = compiler(variable, default) else { continue };
        let (source, program) = (directory.join(name), directory.join(format!("{name}-program")));
        std::fs::write(&source, &text).unwrap();
        let mut command = Command::new(compiler);
        command.args(STRICT).arg(standard).arg("-I").arg(package().join("include")).arg(&source);
        command.arg(libraries().join("libufutex_capi.a")).args(SYSTEM).arg("-o").arg(&program);
        succeed(&mut command);
        succeed(&mut Command::new(&program));
    }
}

macro_rules! programs {
    ($($name:ident),*) => {$(
        mod $name {
            use super::{SANITIZED, SHARED, STATIC};

            #[test]
            fn runs_with_the_static_library() {
                STATIC.run(stringify!($name));
            }
            #[test]
            fn runs_with_the_shared_library() {
                SHARED.run(stringify!($name));
            }
            #[test]
            fn runs_under_sanitizers() {
                SANITIZED.run(stringify!($name));
            }
        }
    )*};
}

programs!(waits, misuse, pi, namespaces, nodes, platform, scheduler, syscalls, timers, fork);

/// Runs a test that opens libraries at run time, so that it has one build.
fn run_with_opened(name: &str, opened: &[PathBuf]) {
    let Some(cc) = compiler("CC", "cc") else { return };
    let program = SHARED.program(name);
    succeed(compile(&cc, name, &program).args(["-lpthread", "-ldl"]));
    succeed(Command::new("timeout").arg("120").arg(&program).args(opened));
}

#[test]
fn handlers_allocate_nothing() {
    run_with_opened("handler", &[libraries().join("libufutex_capi.so")]);
}

#[test]
fn copies_do_not_take_each_others_handles() {
    let library = libraries().join("libufutex_capi.so");
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libufutex_copy.so");
    std::fs::copy(&library, &copy).unwrap();
    run_with_opened("copies", &[library, copy]);
}
