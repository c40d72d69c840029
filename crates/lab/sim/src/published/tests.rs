//! Compares the figures with the ratios that the mails give, and with the mails' text if it is available.

#[path = "../../../../ufutex/tests/common/skipped.rs"]
mod skipped;

use super::{Source, TABLES, figure};
use skipped::skip;
use strum::VariantArray;

#[test]
fn each_row_has_a_figure_for_each_column() {
    for (name, table) in TABLES.iter() {
        for (row, figures) in &table.rows {
            assert_eq!(figures.len(), table.columns.len(), "{name}, {row}");
            assert!(figures.iter().all(|figure| figure.is_finite() && *figure > 0.0), "{name}, {row}");
        }
    }
}

/// Ratios are compared at the mail's precision. The mail rounds to the decimals that it prints, or truncates there.
#[test]
fn the_mails_own_ratios_are_those_of_the_figures() {
    let mut checked = 0;
    for (name, table) in TABLES.iter() {
        for said in &table.said {
            let [first, second] = said.cells.each_ref().map(|[row, column]| figure(name, row, column));
            let text = said.times.to_string();
            let places = text.split_once('.').map_or(0, |(_, places)| places.len()).max(2) as i32;
            let step = 0.1_f64.powi(places);
            let off = second / first - said.times;
            assert!((-step / 2.0 - 1e-9..step).contains(&off), "{name}, {:?}: {}", said.cells, second / first);
            checked += 1;
        }
    }
    assert!(checked >= 17, "{checked} ratios are in the mails");
}

/// `UFUTEX_SEEDS` names a directory with the mails' text, which is not part of this repository. A file's name begins
/// with its source's short name or former number, then `_` or `.`: `private-hash.txt` or `003_….txt`.
#[test]
fn each_row_stands_in_its_mail() {
    let Some(directory) = std::env::var_os("UFUTEX_SEEDS") else {
        skip("UFUTEX_SEEDS names no directory with the mails");
        return;
    };
    let files: Vec<_> = std::fs::read_dir(directory).expect("a directory").map(|file| file.expect("a file")).collect();
    for (name, table) in TABLES.iter() {
        let Some(file) = files.iter().find(|file| is_of(&file.file_name().to_string_lossy(), table.source)) else {
            skip(format_args!("{name}: no mail {} there", table.source));
            continue;
        };
        let numbers = numbers(&std::fs::read_to_string(file.path()).expect("text"));
        for (row, figures) in &table.rows {
            assert!(stand_in(&numbers, figures), "{name}, {row}: {figures:?} in {:?}", file.file_name());
        }
    }
}

/// Whether the file has the text of this mail.
fn is_of(file: &str, source: Source) -> bool {
    let start = file.split(['_', '.']).next().unwrap_or_default();
    start.parse() == Ok(source)
}

#[test]
fn a_source_has_one_name_and_is_found_by_its_number() {
    assert!(Source::VARIANTS.iter().all(|source| source.name().parse() == Ok(*source)));
    assert!(is_of("003_be55a604294fe276.txt", Source::PrivateHash) && is_of("001+.txt", Source::PrivRemoved));
    assert!(is_of("timer-hash.txt", Source::TimerHash) && !is_of("readme.txt", Source::TimerHash));
}

/// The most other numbers between two figures of a row: the mail's text may have some there.
const BETWEEN_MAX: usize = 2;

/// Whether all figures are in the text, one after another.
fn stand_in(numbers: &[f64], figures: &[f64]) -> bool {
    let from = |start: usize| {
        let mut rest = &numbers[start..];
        figures.iter().enumerate().all(|(number, figure)| {
            let reach = if number == 0 { 1 } else { BETWEEN_MAX + 1 };
            let found = rest.iter().take(reach).position(|one| one == figure);
            rest = found.map_or(&[][..], |place| &rest[place + 1..]);
            found.is_some()
        })
    };
    (0..numbers.len()).any(from)
}

/// All numbers of a text. A comma or a space may separate thousands.
fn numbers(text: &str) -> Vec<f64> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (mut numbers, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let mut length = digits(at);
        if length == 0 {
            at += 1;
            continue;
        }
        let mut number = text[at..at + length].to_string();
        at += length;
        while length <= 3 && matches!(bytes.get(at), Some(b',' | b' ')) && digits(at + 1) == 3 {
            number.push_str(&text[at + 1..at + 4]);
            at += 4;
            length = 3;
        }
        if bytes.get(at) == Some(&b'.') && digits(at + 1) > 0 {
            let places = digits(at + 1);
            number.push_str(&text[at..=at + places]);
            at += 1 + places;
        }
        numbers.push(number.parse().expect("digits"));
    }
    numbers
}

#[test]
fn numbers_are_found_however_they_are_set() {
    assert_eq!(numbers("rps: 1 586 755.62 HBs: 1024, 0.5"), [1_586_755.62, 1024.0, 0.5]);
    assert_eq!(numbers("1,267,863 ops; 1 8175006 23 ms"), [1_267_863.0, 1.0, 8_175_006.0, 23.0]);
    assert!(stand_in(&[1.0, 7.0, 8.0, 2.0, 3.0], &[1.0, 2.0, 3.0]));
    assert!(!stand_in(&[1.0, 7.0, 8.0, 9.0, 2.0], &[1.0, 2.0]), "too far apart");
    assert!(!stand_in(&[2.0, 1.0], &[1.0, 2.0]));
}
