//! The settings of a system in the environment.

use core::fmt;
use std::string::String;

use super::config::SystemConfig;
use crate::expiry::thread::{CpuSet, Cpus, DriverThread};

/// An environment variable whose value cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnvError {
    /// The variable's name.
    pub name: &'static str,
    /// The variable's value.
    pub value: String,
    takes: &'static str,
}

impl fmt::Display for EnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, takes } = self;
        write!(f, "{name}={value:?} cannot be used: it takes {takes}")
    }
}

impl core::error::Error for EnvError {}

impl SystemConfig {
    /// The defaults, changed by the environment: `UFUTEX_GLOBAL_SLOTS`, `UFUTEX_DEFAULT_SLOTS`, `UFUTEX_MAX_SLOTS` (powers of
    /// two from 2 to 2^24), `UFUTEX_MAX_TABLE_BYTES`, `UFUTEX_MAX_DOMAIN_TABLE_BYTES` (bytes), and for the driver's thread
    /// `UFUTEX_DRIVER_NICE` (-20 to 19), `UFUTEX_DRIVER_REALTIME` (1 to 99) and `UFUTEX_DRIVER_CPUS` (such as `0,2-5`). The
    /// standard library, which reads it, ends the program if there is no memory.
    ///
    /// ```
    /// let system = ufutex::System::with_config(ufutex::SystemConfig::from_env()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`EnvError`] names a variable whose value cannot be used.
    pub fn from_env() -> Result<Self, EnvError> {
        Self::from_vars(|name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()))
    }

    fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self, EnvError> {
        let slots = Takes("a power of two from 2 to 16777216", |text| {
            text.parse().ok().filter(|slots: &usize| slots.is_power_of_two() && (2..=1 << 24).contains(slots))
        });
        let bytes = Takes("a number of bytes", |text| text.parse().ok());
        let nice = Takes("a number from -20 to 19", |text| text.parse().ok().filter(|n| (-20..=19).contains(n)));
        let priority = Takes("a number from 1 to 99", |text| text.parse().ok().filter(|n| (1..=99).contains(n)));
        let cpus = Takes("CPUs from 0 to 8191, such as 0,2-5", CpuSet::parse);

        let (mut config, mut thread) = (Self::new(), DriverThread::new());
        bytes.read(&var, "UFUTEX_MAX_TABLE_BYTES", |limit| config.max_table_bytes = limit)?;
        bytes.read(&var, "UFUTEX_MAX_DOMAIN_TABLE_BYTES", |limit| config.max_domain_table_bytes = limit)?;
        slots.read(&var, "UFUTEX_GLOBAL_SLOTS", |global| config.global_slots = Some(global))?;
        slots.read(&var, "UFUTEX_DEFAULT_SLOTS", |default| config.default_slots = default)?;
        slots.read(&var, "UFUTEX_MAX_SLOTS", |max| config.max_slots = max)?;
        nice.read(&var, "UFUTEX_DRIVER_NICE", |nice| thread = thread.clone().nice(nice))?;
        priority.read(&var, "UFUTEX_DRIVER_REALTIME", |priority| thread = thread.clone().realtime(priority))?;
        cpus.read(&var, "UFUTEX_DRIVER_CPUS", |cpus| thread = thread.clone().cpus(Cpus::Only(cpus)))?;
        Ok(config.driver_thread(thread))
    }
}

struct Takes<T>(&'static str, fn(&str) -> Option<T>);

impl<T> Takes<T> {
    fn read(
        &self,
        var: impl Fn(&str) -> Option<String>,
        name: &'static str,
        set: impl FnOnce(T),
    ) -> Result<(), EnvError> {
        let Some(value) = var(name) else { return Ok(()) };
        self.1(&value).map(set).ok_or(EnvError { name, value, takes: self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn environment_sets_slots_and_names_what_it_cannot_use() {
        let vars = |name: &str| (name == "UFUTEX_MAX_SLOTS").then(|| String::from("64"));
        assert_eq!(SystemConfig::from_vars(vars).unwrap().max_slots, 64);
        for bad in ["", "0", "1", "3", "-4", "1e3", "33554432"] {
            let vars = |name: &str| name.ends_with("SLOTS").then(|| bad.to_string());
            let error = SystemConfig::from_vars(vars).unwrap_err();
            assert_eq!((error.name, error.value.as_str()), ("UFUTEX_GLOBAL_SLOTS", bad));
            assert!(error.to_string().contains("power of two"));
        }
    }

    #[test]
    fn environment_sets_table_bytes_and_names_what_it_cannot_use() {
        let vars = |name: &str| {
            let value = match name {
                "UFUTEX_MAX_TABLE_BYTES" => "4096",
                "UFUTEX_MAX_DOMAIN_TABLE_BYTES" => "0",
                _ => return None,
            };
            Some(String::from(value))
        };
        let config = SystemConfig::from_vars(vars).unwrap();
        assert_eq!((config.max_table_bytes, config.max_domain_table_bytes), (4096, 0));
        for bad in ["", "-1", "1k", "0x10"] {
            let vars = |name: &str| (name == "UFUTEX_MAX_DOMAIN_TABLE_BYTES").then(|| bad.to_string());
            let error = SystemConfig::from_vars(vars).unwrap_err();
            assert_eq!((error.name, error.value.as_str()), ("UFUTEX_MAX_DOMAIN_TABLE_BYTES", bad));
            assert!(error.to_string().ends_with("it takes a number of bytes"));
        }
    }

    #[test]
    fn environment_says_how_the_drivers_thread_is_scheduled() {
        let with = |name: &'static str, value: &'static str| {
            SystemConfig::from_vars(move |asked| (asked == name).then(|| String::from(value)))
        };
        let thread = |name, value| with(name, value).unwrap().driver_thread;
        assert_eq!(thread("UFUTEX_DRIVER_NICE", "-5"), DriverThread::new().nice(-5));
        assert_eq!(thread("UFUTEX_DRIVER_REALTIME", "99"), DriverThread::new().realtime(99));
        let cpus = |list: &[u32]| DriverThread::new().cpus(Cpus::Only(CpuSet::try_new(list.iter().copied()).unwrap()));
        assert_eq!(thread("UFUTEX_DRIVER_CPUS", "0,2-4"), cpus(&[0, 2, 3, 4]));
        assert_eq!(thread("UFUTEX_DRIVER_CPUS", "8191"), cpus(&[8191]));
        for (name, bad) in [
            ("UFUTEX_DRIVER_NICE", &["", "20", "-21", "low"][..]),
            ("UFUTEX_DRIVER_REALTIME", &["0", "100", "-1", "fifo"]),
            ("UFUTEX_DRIVER_CPUS", &["", "a", "3-1", "0,", "0-8192", "-1", "1-"]),
        ] {
            for value in bad {
                let error = with(name, value).unwrap_err();
                assert_eq!((error.name, error.value.as_str()), (name, *value));
                assert!(!error.to_string().contains("power of two"), "{error}");
            }
        }
    }
}
