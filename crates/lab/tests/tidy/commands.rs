//! Commands in documents: what they name must be there, and which tests `cargo test` runs with them.

use super::File;

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
        missing
    }

    /// Whether it runs the tests of a file, or those of `functions`, which are in the file.
    pub fn runs(&self, path: &str, functions: &[String], packages: &[Package]) -> bool {
        let named = self.values("-p");
        let below = |package: &Package| path.strip_prefix(&package.directory)?.strip_prefix('/').map(str::to_string);
        let Some(below) = packages.iter().filter(|package| named.contains(&package.name.as_str())).find_map(below)
        else {
            return false;
        };
        let tests = self.values("--test");
        let has_targets = !tests.is_empty() || self.0.contains(&"--lib");
        let (is_target, module) = match below.strip_prefix("tests/") {
            None => (self.0.contains(&"--lib"), below.strip_prefix("src/").unwrap_or(&below)),
            Some(test) => {
                let (name, module) = test.split_once('/').unwrap_or((test.trim_end_matches(".rs"), ""));
                (tests.contains(&name), module)
            }
        };
        let filters = self.filters();
        let is_wanted = |filter: &&str| {
            module.contains(&filter.replace("::", "/")) || functions.iter().any(|function| function.contains(filter))
        };
        let runs_none = ["--no-run", "--doc", "--ignored"].iter().any(|flag| self.0.contains(flag));
        self.0.starts_with(&["cargo", "test"])
            && !runs_none
            && (is_target || !has_targets)
            && (filters.is_empty() || filters.iter().any(is_wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> (Vec<File>, Vec<Package>) {
        let files = ["crates/it/tests/one.rs", "crates/it/tests/two/main.rs", "crates/it/src/deep/seat.rs"];
        let files = files.map(|path| File { path: path.to_string(), text: String::new() });
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
