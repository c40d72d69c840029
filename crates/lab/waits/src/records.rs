//! A program's records while it runs, and what they add up to.

use crate::account::{Account, Process};
use crate::files::Files;
use crate::hang;
use crate::names::Names;
use crate::past::Newest;
use crate::word::{self, Sum};
use crate::{kind, report, table};
use anyhow::Result;
use serde::Serialize;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Most call sites that are kept unless the user says otherwise. A call site takes some 3 KiB if few threads wait there.
pub const LIMIT: usize = 50_000;

/// The records of a program and, if that is asked for, of its children.
pub struct Records {
    pub(crate) files: Files,
    pub(crate) account: Account,
    /// `None` if single waits are not needed.
    pub(crate) newest: Option<Newest>,
    limit: usize,
}

impl Records {
    /// Keeps at most `limit` call sites.
    ///
    /// # Errors
    /// There is no place for the files.
    pub fn new(limit: usize) -> Result<Self> {
        Ok(Self { files: Files::new()?, account: Account::default(), newest: None, limit })
    }

    /// The setting of the library that makes a program write its records here.
    pub fn setting(&self) -> OsString {
        OsString::from_vec([b"profile=", self.files.directory().as_os_str().as_encoded_bytes()].concat())
    }

    /// Takes the records that are there. Returns whether there were any. To be called many times a second.
    pub fn drain(&mut self) -> bool {
        let any = self.files.drain(&mut self.account, self.limit);
        self.take_past();
        any
    }

    fn take_past(&mut self) {
        let past = self.account.take_past();
        if let Some(newest) = &mut self.newest {
            newest.add(past);
        }
    }

    /// Takes the last records, and ends the waits that have not ended. The program has ended; its children may go on.
    pub fn end(&mut self) {
        // The first call notes which processes are gone.
        self.files.close_gone(&mut self.account);
        self.drain();
        self.files.close_gone(&mut self.account);
        let end = hang::now_ns();
        self.account.processes.values_mut().for_each(|process| process.end_all(end));
        self.take_past();
        self.account.trim(self.limit);
    }

    /// What the figures lack, in sentences.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for Process { pid, dropped, is_broken, .. } in self.account.processes.values() {
            if *dropped != 0 {
                missing.push(format!("{dropped} records of process {pid} found no room: its figures are incomplete"));
            }
            if *is_broken {
                missing.push(format!("process {pid} has overwritten its records: its later waits are missing"));
            }
        }
        let Sum { waits, total_ns } = self.account.dropped.waits;
        if waits != 0 {
            missing.push(format!(
                "{waits} more waits of {} are left out to save memory; --limit keeps more than {} call sites",
                table::time(total_ns),
                self.limit
            ));
        }
        missing
    }

    /// The lock for which threads waited longest. `None` if no thread slept for a lock.
    pub fn costliest(&self) -> Option<Lock> {
        let lines = report::lines(&self.account, &mut Names::default());
        let locks = || lines.iter().filter(|line| line.is_lock);
        let line = locks().max_by_key(|line| line.total_ns)?;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut places: HashMap<String, u64> = HashMap::new();
        for site in &line.sites {
            let place = kind::caller(&site.stack).map_or_else(|| "an unknown place".to_string(), ToString::to_string);
            let time = places.entry(place).or_default();
            *time = time.saturating_add(site.total_ns);
        }
        let mut places: Vec<(String, f64)> =
            places.into_iter().map(|(place, ns)| (place, ns as f64 / line.total_ns.max(1) as f64)).collect();
        places.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        Some(Lock {
            name: table::name(line),
            waits: line.waits,
            waited_seconds: seconds(line.total_ns),
            mean_seconds: seconds(line.mean_ns),
            share_of_waited: line.total_ns as f64 / word::sum(locks().map(|line| line.total_ns)).max(1) as f64,
            wakes: line.wakes,
            wakes_across_cpus: line.wakes_across_cpus,
            owners: line.owners.len(),
            owner: line.owners.first().map(|owner| (owner.thread.clone(), seconds(owner.held_ns))),
            places,
        })
    }
}

/// A lock for which threads waited.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lock {
    /// The variable, or its kind and where it is locked.
    pub name: String,
    /// Waits that slept.
    pub waits: u64,
    /// For how long in all.
    pub waited_seconds: f64,
    /// For how long on average.
    pub mean_seconds: f64,
    /// Of the time that threads waited for all locks.
    pub share_of_waited: f64,
    /// Waits that were woken.
    pub wakes: u64,
    /// How many of the wakes were by a thread on another CPU.
    pub wakes_across_cpus: u64,
    /// How many threads held it while others waited; at most ten are counted.
    pub owners: usize,
    /// The thread that held it longest while others waited, and for how many seconds.
    pub owner: Option<(String, f64)>,
    /// Where it is taken, and the shares of the time, the largest first.
    pub places: Vec<(String, f64)>,
}
