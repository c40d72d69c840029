//! The tests: how they are built, what each reaches, and which can notice a mutant.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mutant::{Kind, Mutant};
use crate::process::{End, run};

/// The packages whose tests can be run.
pub const PACKAGES: [&str; 3] = ["ufutex", "ufutex-loom", "ufutex-shuttle"];

/// Suites that are not run: they have no harness, run for as long as they are told to, or need programs of other kinds.
const APART: [&str; 3] = ["memory", "program32", "guest"];

/// A test, and what it did without a mutant.
#[derive(Clone)]
pub struct Test {
    /// As `ufutex-loom models`.
    pub suite: String,
    pub name: String,
    program: PathBuf,
    directory: PathBuf,
    pub time: Duration,
    /// The numbers of the mutants that it reaches, in order.
    pub reached: Vec<usize>,
}

impl Test {
    /// Whether it could notice this mutant. On x86-64 every load acquires and every store releases, and shuttle runs one
    /// thread at a time. So only loom sees a weaker ordering, and shuttle sees no fence.
    pub fn may_notice(&self, mutant: &Mutant) -> bool {
        match mutant.kind {
            Kind::Ordering => self.suite.starts_with("ufutex-loom"),
            Kind::Fence => !self.suite.starts_with("ufutex-shuttle"),
            Kind::Recheck | Kind::Condition => true,
        }
    }

    fn is_of(&self, packages: &[String]) -> bool {
        packages.iter().any(|package| self.suite.split(' ').next() == Some(package))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.directory).args([&self.name, "--exact", "--test-threads=1"]);
        command.env("RUST_BACKTRACE", "0").env_remove("UFUTEX_MUTANT").env_remove("UFUTEX_MUTANTS_REACHED");
        command
    }

    /// Runs it with the mutant switched on, or with none.
    pub fn run(&self, mutant: Option<usize>) -> End {
        let mut command = self.command();
        command.envs(mutant.map(|number| ("UFUTEX_MUTANT", number.to_string())));
        run(&mut command, Duration::from_secs(5) + self.time * 8)
    }

    /// Runs it without a mutant, and notes its time and what it reaches. `None` if it fails.
    fn measure(mut self, log: &Path) -> Option<Self> {
        let _ = fs::remove_file(log);
        let began = Instant::now();
        if run(self.command().env("UFUTEX_MUTANTS_REACHED", log), Duration::from_secs(300)) != End::Passed {
            return None;
        }
        self.time = began.elapsed();
        let text = fs::read_to_string(log).unwrap_or_default();
        self.reached = text.lines().filter_map(|line| line.parse().ok()).collect();
        self.reached.sort_unstable();
        self.reached.dedup();
        Some(self)
    }

    fn to_json(&self) -> Value {
        json!({
            "suite": self.suite, "name": self.name, "program": self.program, "directory": self.directory,
            "seconds": self.time.as_secs_f64(), "reached": self.reached,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |key: &str| value[key].as_str().map(str::to_string);
        Some(Self {
            suite: text("suite")?,
            name: text("name")?,
            program: text("program")?.into(),
            directory: text("directory")?.into(),
            time: Duration::from_secs_f64(value["seconds"].as_f64()?),
            reached: value["reached"].as_array()?.iter().filter_map(|n| Some(n.as_u64()? as usize)).collect(),
        })
    }
}

/// Builds the suites of these packages in the copy, and lists their tests. An error is the compiler's message.
pub fn build(tree: &Path, target: &Path, packages: &[String]) -> Result<Vec<Test>, String> {
    let mut command = Command::new("cargo");
    command.args(["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]);
    // Always all packages: what features a dependency has must not depend on which are asked for, or it is compiled again.
    command.args(PACKAGES.iter().flat_map(|package| ["-p", package]));
    let has_only_models = !packages.iter().any(|package| package == "ufutex");
    command.args(if has_only_models { &["--test", "models"][..] } else { &["--tests"] });
    command.current_dir(tree).env("CARGO_TARGET_DIR", target).env("CARGO_INCREMENTAL", "0");
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.filter_map(|message| list(&message)).flatten().filter(|test| test.is_of(packages)).collect())
}

/// The tests of a program that Cargo reports.
fn list(message: &Value) -> Option<Vec<Test>> {
    let program = PathBuf::from(message["executable"].as_str()?);
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    if !["lib", "test"].contains(&kind) || APART.contains(&target) {
        return None;
    }
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let package = PACKAGES.iter().rev().find(|package| is_of(package, &directory))?;
    let listed = Command::new(&program).args(["--list", "--format", "terse"]).output().ok()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    // The tests of the engine's own mutants pass if a model fails.
    let names = names.filter(|name| !name.contains("_catches_") && !name.contains("_hangs_"));
    let test = |name: &str| Test {
        suite: format!("{package} {}", if kind == "lib" { "lib" } else { target }),
        name: name.to_string(),
        program: program.clone(),
        directory: directory.clone(),
        time: Duration::ZERO,
        reached: Vec::new(),
    };
    Some(names.map(test).collect())
}

fn is_of(package: &str, directory: &Path) -> bool {
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned());
    name.as_deref() == Some(package.trim_start_matches("ufutex-"))
}

/// Runs all tests without a mutant. Returns those that pass, and the names of those that fail twice.
pub fn baseline(tests: Vec<Test>, log: &Path, progress: impl Fn(usize)) -> (Vec<Test>, Vec<String>) {
    let (mut passed, mut failed) = (Vec::new(), Vec::new());
    for (number, test) in tests.into_iter().enumerate() {
        progress(number);
        match test.clone().measure(log).or_else(|| test.clone().measure(log)) {
            Some(test) => passed.push(test),
            None => failed.push(format!("{} {}", test.suite, test.name)),
        }
    }
    (passed, failed)
}

/// Keeps the baseline in `path`, for the mutants whose hash is `hash`.
pub fn store(path: &Path, hash: u64, tests: &[Test]) {
    let all: Vec<Value> = tests.iter().map(Test::to_json).collect();
    let _ = fs::write(path, json!({ "hash": hash, "tests": all }).to_string());
}

/// The baseline that was kept for these mutants.
pub fn stored(path: &Path, hash: u64) -> Option<Vec<Test>> {
    let value: Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    if value["hash"].as_u64() != Some(hash) {
        return None;
    }
    value["tests"].as_array()?.iter().map(Test::from_json).collect()
}

/// The tests that reach a mutant and may notice it: first the engine's own, beside the file or in its directory, then
/// the others, the fastest first of each.
pub fn that_may_notice<'a>(tests: &'a [Test], number: usize, mutant: &Mutant) -> Vec<&'a Test> {
    let reaches = |test: &&Test| test.may_notice(mutant) && test.reached.binary_search(&number).is_ok();
    let mut all: Vec<&Test> = tests.iter().filter(reaches).collect();
    let directory = mutant.file.rsplit_once('/').map_or("", |(directory, _)| directory).replace('/', "::");
    let is_beside = |test: &Test| test.suite.ends_with(" lib") && test.name.starts_with(&directory);
    all.sort_by_key(|test| (!is_beside(test), test.time));
    all
}
