//! The output for pprof, which speedscope reads too: a compressed profile.proto with the sample types of Go's mutex profile.

use crate::account::Account;
use crate::hang;
use crate::names::Frame;
use crate::report::{Line, Site};
use anyhow::Result;
use flate2::{Compression, write::GzEncoder};
use indexmap::IndexSet;
use prost::Message;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// The parts of pprof's messages that are written, with the numbers of their fields in proto/profile.proto of
/// github.com/google/pprof. A text is an index into `string_table`. IDs begin at 1.
#[derive(PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(PartialEq, Message)]
struct Sample {
    /// The innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

/// Stands for all files with code. It says that functions have names: otherwise pprof looks for them itself, and for a file.
#[derive(Clone, Copy, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    /// The innermost first: all but the last are inlined.
    #[prost(message, repeated, tag = "4")]
    line: Vec<InLine>,
}

/// The message `Line`.
#[derive(Clone, Copy, PartialEq, Message)]
struct InLine {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// What samples refer to. Indexes are the order in which things were added.
struct Tables<'l> {
    texts: IndexSet<String>,
    /// A name and a source file.
    functions: IndexSet<(i64, i64)>,
    /// A frame, after those that are inlined in it.
    locations: IndexSet<&'l [Frame]>,
}

impl<'l> Tables<'l> {
    fn text(&mut self, text: &str) -> i64 {
        self.texts.insert_full(text.to_string()).0 as i64
    }

    fn value(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType { r#type: self.text(name), unit: self.text(unit) }
    }

    fn sample(&mut self, line: &Line, site: &'l Site) -> Sample {
        let frames = site.stack.chunk_by(|inner, _| inner.is_inlined);
        let labels = [("lock", line.name.as_str()), ("kind", line.kind.name)];
        Sample {
            location_id: frames.map(|frames| id(self.locations.insert_full(frames).0)).collect(),
            value: [site.waits, site.total_ns].map(signed).to_vec(),
            label: labels.map(|(key, text)| Label { key: self.text(key), str: self.text(text) }).to_vec(),
        }
    }

    fn location(&mut self, index: usize, frames: &[Frame]) -> Location {
        let line = frames.iter().map(|frame| self.line(frame)).collect();
        Location { id: id(index), mapping_id: 1, address: frames[0].address, line }
    }

    fn line(&mut self, frame: &Frame) -> InLine {
        let (file, line) = frame.line.as_ref().map_or(("", 0), |(file, line)| (file, *line));
        // Without a function it is the name of the file with code, and the address there.
        let name = frame.function.clone().unwrap_or_else(|| frame.to_string());
        let function = (self.text(&name), self.text(file));
        InLine { function_id: id(self.functions.insert_full(function).0), line: line.into() }
    }
}

fn id(index: usize) -> u64 {
    index as u64 + 1
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The compressed profile of all sites.
pub fn profile(account: &Account, lines: &[Line]) -> Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&message(account, lines).encode_to_vec())?;
    Ok(packed.finish()?)
}

fn message(account: &Account, lines: &[Line]) -> Profile {
    // The first text is empty.
    let texts = IndexSet::from([String::new()]);
    let mut tables = Tables { texts, functions: IndexSet::new(), locations: IndexSet::new() };
    let sample_type = vec![tables.value("contentions", "count"), tables.value("delay", "nanoseconds")];
    let sites = lines.iter().flat_map(|line| line.sites.iter().map(move |site| (line, site)));
    let sample = sites.map(|(line, site)| tables.sample(line, site)).collect();
    let locations = std::mem::take(&mut tables.locations);
    let location = locations.into_iter().enumerate().map(|(index, frames)| tables.location(index, frames)).collect();
    let function = |(index, (name, filename))| Function { id: id(index), name, filename };
    // The clock of records is another than that of the calendar. 0 is a process that has left no record.
    let first = account.processes.values().map(|process| process.first_ns).filter(|ns| *ns != 0).min().unwrap_or(0);
    let last = account.processes.values().map(|process| process.last_ns).max().unwrap_or(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64);
    Profile {
        period_type: Some(sample_type[0]),
        period: 1,
        default_sample_type: sample_type[1].r#type,
        sample_type,
        sample,
        location,
        mapping: vec![Mapping { id: 1, has_functions: true }],
        function: tables.functions.into_iter().enumerate().map(function).collect(),
        string_table: tables.texts.into_iter().collect(),
        time_nanos: now - signed(hang::now_ns().saturating_sub(first)),
        duration_nanos: signed(last.saturating_sub(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::tests::waits;
    use crate::names::Names;
    use crate::{json, report};
    use flate2::read::GzDecoder;
    use std::collections::HashMap;
    use std::io::Read;

    /// Two words with two sites each, whose addresses are in no file.
    fn account() -> Account {
        let mut account = Account::default();
        for (number, (word, address)) in (0..).zip([(0x10, 7), (0x10, 8), (0x20, 8), (0x20, 9), (0x20, 9)]) {
            let time = 1000 * (number + 1);
            waits(&mut account, 3, word, &[address, 99], time..time + 100 + number);
        }
        account
    }

    fn unpacked(account: &Account, lines: &[Line]) -> Profile {
        let mut message = Vec::new();
        let packed = profile(account, lines).expect("it is packed into memory");
        GzDecoder::new(&packed[..]).read_to_end(&mut message).expect("gzip");
        Profile::decode(&message[..]).expect("a profile")
    }

    #[test]
    fn profile_has_the_sums_of_json_for_each_lock() {
        let account = account();
        let lines = report::lines(&account, &mut Names::default());
        let profile = unpacked(&account, &lines);
        let text = |index: i64| profile.string_table[index as usize].as_str();
        let types: Vec<_> = profile.sample_type.iter().map(|of| (text(of.r#type), text(of.unit))).collect();
        assert_eq!(types, [("contentions", "count"), ("delay", "nanoseconds")]);
        assert_eq!((text(0), text(profile.default_sample_type)), ("", "delay"));
        let mut sums: HashMap<&str, (u64, u64)> = HashMap::new();
        for sample in &profile.sample {
            let label = |name: &str| sample.label.iter().find(|label| text(label.key) == name).map(|of| text(of.str));
            assert_eq!(label("kind"), Some("futex"));
            let sum = sums.entry(label("lock").expect("a lock")).or_default();
            *sum = (sum.0 + sample.value[0] as u64, sum.1 + sample.value[1] as u64);
        }
        let lines: Vec<_> = lines.iter().map(json::line).collect();
        let of_json = lines.iter().map(|line| {
            let number = |key: &str| line[key].as_u64().expect("a number");
            (line["name"].as_str().expect("a name"), (number("waits"), number("total_ns")))
        });
        assert_eq!(sums, of_json.collect());
        assert_eq!((sums.len(), profile.sample.len()), (2, 4));
        assert_eq!(profile.duration_nanos, 4104);
        assert!(profile.time_nanos > 0);
    }

    #[test]
    fn frames_that_are_inlined_are_lines_of_one_location() {
        let account = account();
        let mut lines = report::lines(&account, &mut Names::default());
        let frame = |function: &str, is_inlined| Frame {
            function: Some(function.to_string()),
            line: Some((format!("/src/{function}.c"), 5)),
            is_inlined,
            module: None,
            address: 7,
        };
        // `recurses` calls itself: one address, and yet two frames.
        let [recurses, within] = [frame("recurses", false), frame("within", true)];
        lines[0].sites[0].stack = vec![within.clone(), recurses.clone(), within, recurses];
        lines[0].sites.truncate(1);
        lines.truncate(1);
        let profile = unpacked(&account, &lines);
        assert_eq!(profile.sample[0].location_id, [1, 1]);
        let text = |index: i64| profile.string_table[index as usize].as_str();
        let functions = profile.location[0].line.iter().map(|line| {
            let function = profile.function.iter().find(|of| of.id == line.function_id).expect("a function");
            (text(function.name), text(function.filename), line.line)
        });
        let functions: Vec<_> = functions.collect();
        assert_eq!(functions, [("within", "/src/within.c", 5), ("recurses", "/src/recurses.c", 5)]);
        assert_eq!((profile.location.len(), profile.function.len(), profile.location[0].address), (1, 2, 7));
    }
}
