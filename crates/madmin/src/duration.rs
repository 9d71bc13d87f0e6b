//! Spans of time as Go writes them.

use std::time::Duration;

/// The units, the longer names first, in nanoseconds.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// Parses a span of time such as `1m30.5s` or `10ms`. Returns `None` for another text, and for one
/// longer than a year.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    const YEAR: f64 = 365.0 * 24.0 * 3600e9;
    let (mut rest, mut nanoseconds) = (text, 0.0);
    if text.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit() && char != '.');
        let (number, after) = rest.split_at(digits.unwrap_or(rest.len()));
        let number: f64 = number.parse().ok()?;
        // The plain zero has no unit.
        if after.is_empty() && number == 0.0 && text == "0" {
            return Some(Duration::ZERO);
        }
        let unit = after.find(|char: char| char.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
        nanoseconds += number * scale;
        rest = after;
    }
    (nanoseconds <= YEAR).then(|| Duration::from_secs_f64(nanoseconds / 1e9))
}

#[cfg(test)]
mod tests;
