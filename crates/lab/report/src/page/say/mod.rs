//! Turns results into sections: a title that states the finding, pictures, tables, and a sentence with the meaning.

pub mod machine;
pub mod memory;
pub mod modelled;
pub mod published;
pub mod resize;
pub mod scaling;
pub mod timers;

/// A whole number with commas.
pub fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (number, digit) in digits.chars().enumerate() {
        if number > 0 && (digits.len() - number).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 && text.chars().any(|digit| digit != '0') { format!("-{text}") } else { text }
}

/// Millions per second, with three significant digits.
pub fn mops(rate: f64) -> String {
    match rate / 1e6 {
        mops if mops >= 100.0 => format!("{mops:.0}"),
        mops if mops >= 10.0 => format!("{mops:.1}"),
        mops => format!("{mops:.2}"),
    }
}

/// `×1.15`, or `-` for `None`.
pub fn factor(factor: Option<f64>) -> String {
    match factor {
        Some(factor) if factor >= 10.0 => format!("×{factor:.1}"),
        Some(factor) => format!("×{factor:.2}"),
        None => "-".to_string(),
    }
}

/// `2.3 times as fast as`, `as fast as`, `0.4 times as fast as`.
pub fn times_as_fast(ratio: f64) -> String {
    match ratio {
        ratio if (0.95..=1.05).contains(&ratio) => "as fast as".to_string(),
        ratio if ratio >= 10.0 => format!("{ratio:.0} times as fast as"),
        ratio => format!("{ratio:.1} times as fast as"),
    }
}

/// `1 thread`, `2 threads`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A time in milliseconds or microseconds.
pub fn duration_ms(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{:.0} µs", ms * 1000.0),
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms => format!("{ms:.0} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [0.0, 999.0, 1000.0, 1234567.0, -1234.0].map(thousands),
            ["0", "999", "1,000", "1,234,567", "-1,234"]
        );
        assert_eq!([5.0e6, 46.4e6, 743.2e6].map(mops), ["5.00", "46.4", "743"]);
        assert_eq!([0.4, 1.0, 2.26, 17.9].map(times_as_fast)[3], "18 times as fast as");
        assert_eq!(duration_ms(0.021), "21 µs");
    }
}
