//! The settings of `ufutex run`, as one environment variable: `UFUTEX_RUN`.
//!
//! Its value is a comma-separated list in any order, except that `output=` must be last: its path is the whole rest of
//! the value, so that a path may contain commas. An item that is missing has its default.

use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::time::Duration;

/// What decides the size of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Contention and crowding.
    #[default]
    Load,
    /// The number of threads: the kernel's rule.
    Threads,
    /// A fixed number of slots, a power of two.
    Fixed(usize),
}

/// The format of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Lines for people.
    Text,
    /// One line of JSON.
    Json,
}

/// The settings of `ufutex run`. The output path is borrowed from the parsed text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings<'a> {
    /// What decides the size of the table, if `slots` is `None`.
    pub policy: Policy,
    /// The number of slots to set with `prctl(PR_FUTEX_HASH)` before the program begins. 0 means the global table.
    pub slots: Option<usize>,
    /// The number of slots is set for good. Only together with `slots`.
    pub immutable: bool,
    /// Futexes stay with the kernel, which gets `slots`. All other settings are ignored. Only together with `slots`.
    pub kernel: bool,
    /// Futex system call instructions anywhere in the program are trapped.
    pub trap: bool,
    /// With `trap`: libc's instructions are not replaced by jumps, so that all calls stop with SIGSYS.
    pub no_patch: bool,
    /// For a measurement of the load that the kernel's table would get. The table exists from the start, as in the
    /// kernel, so that calls which never wait contend for it, too. With `trap`, waits and wakes of words that processes
    /// may share also trap, only to be counted.
    pub watch: bool,
    /// timer_create(2) and its family are done by the engine, too.
    pub timers: bool,
    /// How long a waiting thread may spin before it sleeps, in whole microseconds.
    pub spin: Duration,
    /// Write a report at exit.
    pub stats: Option<Format>,
    /// The PID of the process that `ufutex run` became. It writes a report even if it did nothing.
    pub process: Option<i32>,
    /// Other processes write a report, too, if they did anything.
    pub children: bool,
    /// The directory in which each process makes a file for the records of its waits: see [`ring`](crate::ring). The path is
    /// not empty and has no comma.
    pub profile: Option<&'a [u8]>,
    /// The file that the report is appended to. `None` means stderr. The path is not empty.
    pub output: Option<&'a [u8]>,
}

/// The greatest number of slots, as with `PR_FUTEX_HASH`.
pub const MAX_SLOTS: usize = 1 << 20;

impl Policy {
    /// The values that [`parse`](Self::parse) accepts.
    pub const ACCEPTED: &str = "load, threads, or a power of two from 2 to 1048576";

    /// The policy with this text in `UFUTEX_RUN`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        match text {
            b"load" => Some(Self::Load),
            b"threads" => Some(Self::Threads),
            number => parse_slots(number).filter(|slots| *slots != 0).map(Self::Fixed),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load => f.write_str("load"),
            Self::Threads => f.write_str("threads"),
            Self::Fixed(slots) => write!(f, "{slots}"),
        }
    }
}

impl Format {
    const ACCEPTED: &str = "text, json";

    const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }

    fn parse(name: &[u8]) -> Option<Self> {
        [Self::Text, Self::Json].into_iter().find(|one| one.name().as_bytes() == name)
    }
}

/// The values that [`parse_slots`] accepts.
pub const SLOTS_ACCEPTED: &str = "0 for the global table, or a power of two from 2 to 1048576";

/// Parses a number of slots. `None` if it is not accepted.
#[must_use]
pub fn parse_slots(text: &[u8]) -> Option<usize> {
    let slots = parse_digits(text)?;
    (slots == 0 || (slots.is_power_of_two() && (2..=MAX_SLOTS).contains(&slots))).then_some(slots)
}

/// The values that [`parse_spin`] accepts.
pub const SPIN_ACCEPTED: &str = "0 to 10000 microseconds";

/// Parses a number of microseconds for which threads may spin. `None` if it is not accepted.
#[must_use]
pub fn parse_spin(text: &[u8]) -> Option<Duration> {
    parse_digits(text).filter(|us| *us <= 10_000).map(|us| Duration::from_micros(us as u64))
}

fn parse_process(text: &[u8]) -> Option<i32> {
    i32::try_from(parse_digits(text)?).ok()
}

/// A number without a sign: `parse` would accept `+2`, which is more likely a mistake.
fn parse_digits(text: &[u8]) -> Option<usize> {
    text.iter().all(u8::is_ascii_digit).then(|| core::str::from_utf8(text).ok()?.parse().ok())?
}

impl<'a> Settings<'a> {
    /// The settings without any item. A constant, unlike [`Default::default`].
    pub const DEFAULT: Self = Self {
        policy: Policy::Load,
        slots: None,
        immutable: false,
        kernel: false,
        trap: false,
        no_patch: false,
        watch: false,
        timers: false,
        spin: Duration::ZERO,
        stats: None,
        process: None,
        children: false,
        profile: None,
        output: None,
    };

    /// The value of `UFUTEX_RUN` for these settings.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut value = Bytes(Vec::new());
        // Writing to a vector does not fail.
        let _ = self.write_items(&mut value);
        if let Some(path) = self.profile {
            value.0.extend_from_slice(b",profile=");
            value.0.extend_from_slice(path);
        }
        if let Some(path) = self.output {
            value.0.extend_from_slice(b",output=");
            value.0.extend_from_slice(path);
        }
        value.0
    }

    fn write_items(&self, to: &mut impl Write) -> fmt::Result {
        write!(to, "policy={}", self.policy)?;
        if let Some(slots) = self.slots {
            write!(to, ",slots={slots}")?;
        }
        if self.immutable {
            to.write_str(",immutable")?;
        }
        if self.kernel {
            to.write_str(",kernel")?;
        }
        if self.trap {
            to.write_str(",trap")?;
        }
        if self.no_patch {
            to.write_str(",no-patch")?;
        }
        if self.watch {
            to.write_str(",watch")?;
        }
        if self.timers {
            to.write_str(",timers")?;
        }
        if !self.spin.is_zero() {
            write!(to, ",spin={}", self.spin.as_micros())?;
        }
        if let Some(format) = self.stats {
            write!(to, ",stats={}", format.name())?;
        }
        if let Some(process) = self.process {
            write!(to, ",process={process}")?;
        }
        if self.children { to.write_str(",children") } else { Ok(()) }
    }

    /// Reads the value of `UFUTEX_RUN`. Allocates nothing.
    ///
    /// ```
    /// use ufutex_program::settings::{Policy, Settings};
    ///
    /// let settings = Settings::parse(b"policy=threads,slots=64,stats=json,output=/tmp/a,b")?;
    /// assert_eq!((settings.policy, settings.slots), (Policy::Threads, Some(64)));
    /// assert_eq!(settings.output, Some(&b"/tmp/a,b"[..]));
    /// # Ok::<(), ufutex_program::settings::Invalid<'static>>(())
    /// ```
    ///
    /// # Errors
    /// The first item that is not accepted, with the accepted ones.
    pub fn parse(value: &'a [u8]) -> Result<Self, Invalid<'a>> {
        let mut settings = Self::default();
        let mut rest = value;
        while !rest.is_empty() {
            if let Some(path) = rest.strip_prefix(b"output=") {
                settings.output = Some(path).filter(|path| !path.is_empty());
                settings.output.ok_or(Invalid { item: rest, accepted: "output=PATH" })?;
                break;
            }
            let (item, after) = split_once(rest, b',');
            settings.take(item)?;
            rest = after;
        }
        if settings.immutable && settings.slots.is_none() {
            return Err(Invalid { item: b"immutable", accepted: "with slots=N" });
        }
        if settings.kernel && settings.slots.is_none() {
            return Err(Invalid { item: b"kernel", accepted: "with slots=N" });
        }
        Ok(settings)
    }

    fn take(&mut self, item: &'a [u8]) -> Result<(), Invalid<'a>> {
        let (name, value) = split_once(item, b'=');
        let invalid = |accepted| Invalid { item, accepted };
        match name {
            b"policy" => self.policy = Policy::parse(value).ok_or(invalid(Policy::ACCEPTED))?,
            b"slots" => self.slots = Some(parse_slots(value).ok_or(invalid(SLOTS_ACCEPTED))?),
            b"spin" => self.spin = parse_spin(value).ok_or(invalid(SPIN_ACCEPTED))?,
            b"process" => self.process = Some(parse_process(value).ok_or(invalid("process=PID"))?),
            b"profile" => self.profile = Some(value).filter(|path| !path.is_empty()),
            b"stats" => self.stats = Some(Format::parse(value).ok_or(invalid(Format::ACCEPTED))?),
            _ if item == b"immutable" => self.immutable = true,
            _ if item == b"kernel" => self.kernel = true,
            _ if item == b"children" => self.children = true,
            _ if item == b"trap" => self.trap = true,
            _ if item == b"no-patch" => self.no_patch = true,
            _ if item == b"watch" => self.watch = true,
            _ if item == b"timers" => self.timers = true,
            _ => {
                return Err(invalid(
                    "policy=, slots=, immutable, kernel, trap, no-patch, watch, timers, spin=, stats=, process=, children, profile=, output=",
                ));
            }
        }
        Ok(())
    }
}

impl Default for Settings<'_> {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// `text` before and after the first `at`. Without an `at`: all of it, and nothing.
fn split_once(text: &[u8], at: u8) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == at) {
        Some(i) => (&text[..i], &text[i + 1..]),
        None => (text, &[]),
    }
}

struct Bytes(Vec<u8>);

impl Write for Bytes {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// An item of `UFUTEX_RUN` that is not accepted. Displayed in one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invalid<'a> {
    /// The item as it was written.
    pub item: &'a [u8],
    /// The values that would be accepted.
    pub accepted: &'static str,
}

impl fmt::Display for Invalid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UFUTEX_RUN: '{}' is not accepted; accepted: {}", self.item.escape_ascii(), self.accepted)
    }
}

impl core::error::Error for Invalid<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slots() -> impl Strategy<Value = usize> {
        (1..=20u32).prop_map(|log2| 1 << log2)
    }

    fn any_settings() -> impl Strategy<Value = (Settings<'static>, Option<Vec<u8>>)> {
        let policy = prop_oneof![Just(Policy::Load), Just(Policy::Threads), slots().prop_map(Policy::Fixed)];
        let sized = prop_oneof![
            Just((None, false, false)),
            (prop_oneof![Just(0), slots()], any::<bool>(), any::<bool>()).prop_map(|(slots, for_good, kernel)| (
                Some(slots),
                for_good,
                kernel
            )),
        ];
        let stats = prop_oneof![Just(None), Just(Some(Format::Text)), Just(Some(Format::Json))];
        // Any byte that a path can contain. The marks that separate items come more often.
        let byte = prop_oneof![3 => 1..=255u8, 1 => prop::sample::select(&b",=%/ \n"[..])];
        let output = prop::option::of(prop::collection::vec(byte, 1..40));
        let process = prop::option::of(0..=i32::MAX);
        let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
        let spin = (0..=10_000u64).prop_map(Duration::from_micros);
        (policy, sized, flags, spin, stats, process, output).prop_map(
            |(policy, (slots, immutable, kernel), flags, spin, stats, process, output)| {
                let (trap, no_patch, watch, timers, children) = flags;
                let what = Settings { policy, slots, immutable, kernel, trap, no_patch, ..Settings::DEFAULT };
                let settings = Settings { watch, timers, spin, stats, process, children, ..what };
                (settings, output)
            },
        )
    }

    proptest! {
        #[test]
        fn written_settings_are_read_again((settings, output) in any_settings()) {
            let settings = Settings { output: output.as_deref(), ..settings };
            let value = settings.to_bytes();
            prop_assert!(!value.contains(&0), "an environment entry ends at the first NUL");
            prop_assert_eq!(Settings::parse(&value), Ok(settings));
        }

        #[test]
        fn any_bytes_are_read_or_refused(value in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Err(invalid) = Settings::parse(&value) {
                prop_assert_eq!(invalid.to_string().lines().count(), 1);
            }
        }
    }

    #[test]
    fn nothing_means_the_defaults() {
        assert_eq!(Settings::parse(b""), Ok(Settings::default()));
        assert_eq!(Settings::default().to_bytes(), b"policy=load");
    }

    #[test]
    fn items_may_come_in_any_order_but_output_takes_all_that_follows() {
        let settings = Settings::parse(b"trap,slots=0,immutable,policy=threads,output=a,trap=1").unwrap();
        assert_eq!((settings.slots, settings.immutable, settings.trap), (Some(0), true, true));
        assert_eq!(settings.output, Some(&b"a,trap=1"[..]));
    }

    #[test]
    fn an_error_names_the_item_and_what_is_accepted() {
        let line = |value: &[u8]| Settings::parse(value).expect_err("not accepted").to_string();
        assert_eq!(
            line(b"trap,policy=lively"),
            "UFUTEX_RUN: 'policy=lively' is not accepted; accepted: load, threads, or a power of two from 2 to 1048576"
        );
        assert_eq!(line(b"immutable"), "UFUTEX_RUN: 'immutable' is not accepted; accepted: with slots=N");
        assert_eq!(line(b"kernel"), "UFUTEX_RUN: 'kernel' is not accepted; accepted: with slots=N");
        assert_eq!(line(b"output="), "UFUTEX_RUN: 'output=' is not accepted; accepted: output=PATH");
        assert!(line(b"a\nb").starts_with("UFUTEX_RUN: 'a\\nb' is not accepted; accepted: policy=, "));
        for bad in [
            "layout=lean",
            "policy=0",
            "policy=3",
            "slots=",
            "slots=1",
            "slots=+2",
            "slots=2097152",
            "stats",
            "stats=xml",
            "spin",
            "spin=-1",
            "spin=10001",
            "process=",
            "process=-1",
            "process=2147483648",
            "trap=1",
            "timers=1",
            "immutable=",
            ",",
            "trap,,trap",
            " trap",
            "slots=99999999999999999999",
        ] {
            assert!(Settings::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
