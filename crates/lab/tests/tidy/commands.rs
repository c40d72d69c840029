//! Commands in documents: what they name must be there, and which tests `cargo test` runs with them.

use super::File;
use super::source::code;

/// A package of the workspace.
pub struct Package {
    pub name: String,
    /// Its directory, as `crates/ufutex`.
    pub directory: String,
    manifest: String,
}

/// The packages that these manifests are of.
pub fn packages(manifests: &[(String, String)]) -> Vec<Package> {
    let package = |(path, text): &(String, String)| {
        let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.split('"').next());
        let directory = path.trim_end_matches("/Cargo.toml").to_string();
        Package { name: name.unwrap_or_default().to_string(), directory, manifest: text.clone() }
    };
    manifests.iter().map(package).collect()
}

impl Package {
    /// Whether it has an integration test of this name.
    fn has_test(&self, name: &str, files: &[File]) -> bool {
        let tests = format!("{}/tests/{name}", self.directory);
        let is_it = |file: &File| file.path == format!("{tests}.rs") || file.path == format!("{tests}/main.rs");
        files.iter().any(is_it) || self.manifest.contains(&format!("[[test]]\nname = \"{name}\""))
    }
}

/// The words of a command, behind the variables that it sets.
pub struct Command<'a>(Vec<&'a str>);

/// The commands in a text: what stands between backticks, or in a block of code, and begins with `cargo` or with a
/// script of the repository.
pub fn commands(text: &str) -> Vec<Command<'_>> {
    let spans = text.split('`').skip(1).step_by(2);
    let words = spans.flat_map(str::lines).map(|line| {
        let is_variable = |word: &&str| word.split_once('=').is_some_and(|(name, _)| name.starts_with("UFUTEX_"));
        line.split_whitespace().skip_while(is_variable).collect::<Vec<_>>()
    });
    let is_command = |words: &Vec<&str>| {
        words.first().is_some_and(|first| ["cargo", "bash"].contains(first) || first.starts_with(".ci/"))
    };
    words.filter(is_command).map(Command).collect()
}

impl<'a> Command<'a> {
    /// The values of all options of this name.
    fn values(&self, option: &str) -> Vec<&'a str> {
        let pairs = self.0.windows(2).filter(|pair| pair[0] == option);
        pairs.map(|pair| pair[1]).collect()
    }

    /// The names of which a test must contain one.
    fn filters(&self) -> Vec<&'a str> {
        let mut filters = Vec::new();
        let mut words = self.0.iter().skip(2);
        while let Some(word) = words.next() {
            match *word {
                "-p" | "--test" | "--features" | "--test-threads" | "--skip" => _ = words.next(),
                word if word.starts_with('-') => {}
                word => filters.push(word),
            }
        }
        filters
    }

    /// What the command names and is not there: scripts, packages, and tests.
    pub fn missing(&self, files: &[File], packages: &[Package], is_script: impl Fn(&str) -> bool) -> Vec<String> {
        let mut missing = Vec::new();
        let script = self.0.iter().take(2).find(|word| word.contains('/') && !word.starts_with('-'));
        missing.extend(script.filter(|script| !is_script(script)).map(|script| format!("no script {script}")));
        let named = self.values("-p");
        let is_there = |name: &&str| packages.iter().any(|package| package.name == **name);
        missing.extend(named.iter().filter(|name| !is_there(name)).map(|name| format!("no package {name}")));
        let has_test = |test: &&str| {
            packages.iter().any(|package| named.contains(&package.name.as_str()) && package.has_test(test, files))
        };
        missing
            .extend(self.values("--test").iter().filter(|test| !has_test(test)).map(|test| format!("no test {test}")));
        missing.extend(self.missing_filters(files, packages));
        missing.extend(self.missing_verb(files));
        missing
    }

    /// The filters of `cargo test` that are in the name of no test that it would run without them.
    fn missing_filters(&self, files: &[File], packages: &[Package]) -> Vec<String> {
        let filters = self.filters();
        if !self.0.starts_with(&["cargo", "test"]) || filters.is_empty() {
            return Vec::new();
        }
        let tests = |file: &File| match self.module(&file.path, packages) {
            Some(module) => test_names(module, &file.text),
            None => Vec::new(),
        };
        let names: Vec<String> = files.iter().flat_map(tests).collect();
        let is_missing = |filter: &&str| !names.iter().any(|name| name.contains(filter));
        filters.into_iter().filter(is_missing).map(|filter| format!("no test with {filter} in its name")).collect()
    }

    /// The subcommand of `cargo run -- …`, or the one of `bench` or `sim`, if there is no such one.
    fn missing_verb(&self, files: &[File]) -> Option<String> {
        if !self.0.starts_with(&["cargo", "run"]) {
            return None;
        }
        let mut words = self.0.iter().copied().skip_while(|word| *word != "--").skip(1);
        let verb = words.next().filter(|word| !word.starts_with('-'))?;
        if !subcommands(files, "crates/lab/src/cli/mod.rs", "Verb").any(|name| name == verb) {
            return Some(format!("no subcommand {verb}"));
        }
        let workload = words.next().filter(|word| !word.starts_with('-'))?;
        let is_there = match verb {
            "bench" => {
                let name = format!("    const NAME: &'static str = \"{workload}\";");
                let list = files.iter().find(|file| file.path == "crates/lab/bench/src/workload.rs");
                let is_listed =
                    |module: &str| list.is_some_and(|list| list.text.contains(&format!("    entry::<{module}::")));
                let module = |file: &File| {
                    Some(file.path.strip_prefix("crates/lab/bench/src/")?.split(['/', '.']).next()?.to_string())
                };
                let has_name = |file: &&File| file.text.lines().any(|line| line == name);
                files.iter().filter(has_name).filter_map(module).any(|module| is_listed(&module))
            }
            "sim" => [("crates/lab/src/cli/mod.rs", "OwnSim"), ("crates/lab/sim/src/settings.rs", "Workload")]
                .iter()
                .any(|(path, kind)| subcommands(files, path, kind).any(|name| name == workload)),
            _ => return None,
        };
        (!is_there).then(|| format!("no subcommand {verb} {workload}"))
    }

    /// The module of a file whose tests the command runs unless its filters leave them out. `None` if the file is in
    /// another package or target.
    fn module<'p>(&self, path: &'p str, packages: &[Package]) -> Option<&'p str> {
        let named = self.values("-p");
        let below = |package: &Package| path.strip_prefix(&package.directory)?.strip_prefix('/');
        let below = packages.iter().filter(|package| named.contains(&package.name.as_str())).find_map(below)?;
        let tests = self.values("--test");
        let has_targets = !tests.is_empty() || self.0.contains(&"--lib");
        let (is_target, module) = match below.strip_prefix("tests/") {
            None => (self.0.contains(&"--lib"), below.strip_prefix("src/").unwrap_or(below)),
            Some(test) => {
                let (name, module) = test.split_once('/').unwrap_or((test.trim_end_matches(".rs"), ""));
                (tests.contains(&name), module)
            }
        };
        (is_target || !has_targets).then_some(module)
    }

    /// Whether it runs the tests of a file, or those of `functions`, which are in the file.
    pub fn runs(&self, path: &str, functions: &[String], packages: &[Package]) -> bool {
        let Some(module) = self.module(path, packages) else { return false };
        let filters = self.filters();
        let is_wanted = |filter: &&str| {
            module.contains(&filter.replace("::", "/")) || functions.iter().any(|function| function.contains(filter))
        };
        let runs_none = ["--no-run", "--doc", "--ignored"].iter().any(|flag| self.0.contains(flag));
        self.0.starts_with(&["cargo", "test"]) && !runs_none && (filters.is_empty() || filters.iter().any(is_wanted))
    }
}

/// The names of a file's tests with the file's module: functions behind `#[test]`, what a macro at the begin of a line makes
/// of its first argument, and what a macro `on_…![…]` makes of each of its arguments.
fn test_names(module: &str, text: &str) -> Vec<String> {
    let module = module.trim_end_matches(".rs");
    let module = ["mod", "main", "lib"].iter().find_map(|file| module.strip_suffix(file)).unwrap_or(module);
    let module = module.trim_end_matches('/').replace('/', "::");
    let (mut names, mut inner, mut is_test, mut makes) = (Vec::new(), "", false, false);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for line in text.lines() {
        let code = code(line);
        let made = code.split_once("!(").filter(|(makes, _)| makes.chars().all(is_word)).map(|(_, rest)| rest);
        let function = code.split_once("fn ").filter(|_| is_test).map(|(_, rest)| rest);
        let list = code.trim_start().strip_prefix("on_").and_then(|rest| rest.split_once(['[', '{']));
        let list = list.map(|(_, rest)| rest).or(makes.then_some(code));
        makes = list.is_some_and(|list| !list.contains([']', '}']));
        let first = made.or(function).into_iter();
        for name in first.chain(list.into_iter().flat_map(|list| list.split(','))) {
            let name = name.trim_start().split(|c| !is_word(c)).next().unwrap_or_default();
            if !name.is_empty() {
                names.push(format!("{module}::{inner}{name}").trim_start_matches("::").to_string());
            }
        }
        if code.starts_with("mod tests {") {
            inner = "tests::";
        }
        is_test =
            code.trim() == "#[test]" || is_test && (code.trim_start().starts_with("#[") || code.trim().is_empty());
    }
    names
}

/// The names that clap makes of an enumeration's variants.
fn subcommands<'f>(files: &'f [File], path: &str, kind: &str) -> impl Iterator<Item = String> + use<'f> {
    let text = files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str());
    let body = text.split_once(&format!("enum {kind} {{\n")).and_then(|(_, rest)| rest.split("\n}").next());
    let is_variant = |line: &&str| line.strip_prefix("    ").is_some_and(|rest| rest.starts_with(char::is_uppercase));
    let kebab = |line: &str| {
        let name = line.trim().split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let parts =
            name.char_indices().map(|(at, c)| if at > 0 && c.is_uppercase() { format!("-{c}") } else { c.into() });
        parts.collect::<String>().to_lowercase()
    };
    body.unwrap_or_default().lines().filter(is_variant).map(kebab)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> (Vec<File>, Vec<Package>) {
        let verbs = "enum Verb {\n    /// A\n    Bench(A),\n    Sim(B),\n}\n\nenum OwnSim {\n    Timers(C),\n}\n";
        let files = [
            (
                "crates/it/tests/one.rs",
                "#[test]\nfn it_is_one() {}\n\nfn helper() {}\n\nmakes!(made_by_it, 1);\non_two![\n    a_scheme,\n    another,\n];\nfn end() {}\n",
            ),
            ("crates/it/tests/two/main.rs", ""),
            ("crates/it/src/deep/seat.rs", "mod tests {\n    #[test]\n    #[cfg(unix)]\n    fn sleeps() {}\n}\n"),
            ("crates/lab/src/cli/mod.rs", verbs),
            (
                "crates/lab/bench/src/it.rs",
                "impl Workload for It {\n    const NAME: &'static str = \"ping-pong\";\n}\n",
            ),
            ("crates/lab/bench/src/unlisted/mod.rs", "    const NAME: &'static str = \"unlisted\";\n"),
            ("crates/lab/bench/src/workload.rs", "static ALL: &[Entry] = &[\n    entry::<it::It>(),\n];\n"),
        ];
        let files = files.map(|(path, text)| File { path: path.to_string(), text: text.to_string() });
        let manifest = "[package]\nname = \"it\"\n\n[[test]]\nname = \"far\"\npath = \"../far.rs\"\n";
        (files.into(), packages(&[("crates/it/Cargo.toml".to_string(), manifest.to_string())]))
    }

    fn missing(text: &str) -> Vec<String> {
        let (files, packages) = workspace();
        let is_script = |path: &str| path == ".ci/there";
        commands(text).iter().flat_map(|command| command.missing(&files, &packages, is_script)).collect()
    }

    #[test]
    fn names_of_what_is_not_there_are_found() {
        let there = "`cargo test -p it --test one --test two --test far -- --nocapture`, `UFUTEX_N=2 .ci/there 60`";
        assert_eq!(missing(there), [""; 0]);
        assert_eq!(missing("`.ci/gone`, `bash .ci/gone`, .ci/no-command"), ["no script .ci/gone"; 2]);
        assert_eq!(missing("`UFUTEX_N=2 cargo test -p its`"), ["no package its"]);
        assert_eq!(missing("`cargo test -p it --test three`"), ["no test three"]);
        assert_eq!(missing("```sh\n.ci/there\n.ci/gone\n```"), ["no script .ci/gone"]);
    }

    #[test]
    fn filters_that_no_test_matches_are_found() {
        for filter in [
            "is_one",
            "made_by",
            "a_scheme",
            "another",
            "deep::seat",
            "deep::seat::tests::sle",
            "is_one -- sleeps --nocapture",
        ] {
            assert_eq!(missing(&format!("`cargo test -p it {filter}`")), [""; 0], "{filter}");
        }
        let none = |filter: &str| [format!("no test with {filter} in its name")];
        assert_eq!(missing("`cargo test -p it is_two`"), none("is_two"));
        assert_eq!(missing("`cargo test -p it end`"), none("end"));
        assert_eq!(missing("`cargo test -p it -- is_one helper --test-threads 1`"), none("helper"));
        assert_eq!(missing("`cargo test -p it --lib is_one`"), none("is_one"), "of another target");
        assert_eq!(missing("`cargo test -p it --test one seat`"), none("seat"));
    }

    #[test]
    fn subcommands_that_are_not_there_are_found() {
        let there =
            "`cargo run -- bench ping-pong -n 2`, `cargo run --release -- sim timers`, `cargo run -- bench --all`";
        assert_eq!(missing(there), [""; 0]);
        assert_eq!(missing("`cargo run --release -- bunch`"), ["no subcommand bunch"]);
        assert_eq!(missing("`cargo run --release -- bench pingpong`"), ["no subcommand bench pingpong"]);
        assert_eq!(missing("`cargo run -- bench unlisted`"), ["no subcommand bench unlisted"]);
        assert_eq!(missing("`cargo run -- sim ping-pong`"), ["no subcommand sim ping-pong"]);
    }

    #[test]
    fn a_command_runs_what_its_packages_targets_and_filters_select() {
        let (_, packages) = workspace();
        let runs = |command: &str, path: &str| {
            let text = format!("`{command}`");
            commands(&text)[0].runs(path, &["thread_sleeps".to_string()], &packages)
        };
        let (one, two, seat) = ("crates/it/tests/one.rs", "crates/it/tests/two/deep.rs", "crates/it/src/deep/seat.rs");
        assert!(runs("cargo test -p it", one) && runs("cargo test -p it", two) && runs("cargo test -p it", seat));
        assert!(runs("cargo test -p it --lib --test two", two) && runs("cargo test -p it --lib", seat));
        assert!(!runs("cargo test -p its", one) && !runs("cargo build -p it", one), "another package, no test");
        assert!(!runs("cargo test -p it --test one", two) && !runs("cargo test -p it --test one", seat));
        assert!(!runs("cargo test -p it --lib", one));
        assert!(runs("cargo test -p it --test two deep", two) && runs("cargo test -p it -- other deep", two));
        assert!(!runs("cargo test -p it --test two -- shallow", two));
        assert!(runs("cargo test -p it --lib deep::seat", seat) && !runs("cargo test -p it --lib deep::sea::t", seat));
        assert!(runs("cargo test -p it --lib -- thread_sl --test-threads 1", seat), "a function");
    }
}
