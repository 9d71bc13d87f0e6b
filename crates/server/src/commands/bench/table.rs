//! The figures of a measurement as lines of a table, and as JSON.

use load::{FileVerb, Round, Workload, median};
use serde_json::{Value, json};

use crate::config::Size;

/// The names of two endpoints in a table.
pub(super) const NAMES: [&str; 2] = ["A", "B"];

/// The results of one workload at each endpoint.
pub(super) struct Row {
    pub(super) workload: Workload,
    /// The rounds of each endpoint.
    pub(super) sides: Vec<Vec<Round>>,
}

/// The percentiles of the table.
const PERCENTS: [f64; 3] = [50.0, 90.0, 99.0];

/// Returns the titles of the columns, for one endpoint or two.
pub(super) fn titles(endpoints: usize) -> String {
    let ratio = if endpoints > 1 { "   A ÷ B" } else { "" };
    let title = format!(
        "{:<12} {:>7} {:>3}{} {:>10} {:<10} {:>8} {:>9} {:>9} {:>9} {:>7}{ratio}",
        "workload",
        "size",
        "×",
        if endpoints > 1 { "  " } else { "" },
        "median",
        "a second",
        "MiB/s",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "errors"
    );
    title.trim_end().to_owned()
}

/// Returns a line for each endpoint, with medians over its rounds.
pub(super) fn lines(row: &Row) -> Vec<String> {
    let several = row.sides.len() > 1;
    let ratio = ratio(row).filter(|_| several);
    let lines = row.sides.iter().zip(NAMES).enumerate().map(|(place, (rounds, name))| {
        let workload = row.workload;
        // The name of the workload is on the line of the first endpoint only.
        let first = place == 0;
        let label = if first { workload.verb.name() } else { "" };
        let size = if first { Size(workload.object_bytes).to_string() } else { String::new() };
        let clients = if first { workload.clients.to_string() } else { String::new() };
        let letter = if several { format!(" {name}") } else { String::new() };
        let [p50, p90, p99] = PERCENTS.map(|percent| millis(rounds, percent));
        let errors: u64 = rounds.iter().map(|round| round.errors).sum();
        let rate = rates(rounds, Round::rate);
        let moved = rates(rounds, Round::mib_rate);
        let ratio = match ratio {
            Some(ratio) if first => format!(" {ratio:>7.2}"),
            _ => String::new(),
        };
        format!(
            "{label:<12} {size:>7} {clients:>3}{letter} {rate:>10.1} {:<10} {moved:>8.1} {p50:>9.2} \
             {p90:>9.2} {p99:>9.2} {errors:>7}{ratio}",
            workload.verb.unit()
        )
    });
    lines.collect()
}

/// Returns the rate of the first endpoint divided by that of the second, or `None` without a
/// second.
fn ratio(row: &Row) -> Option<f64> {
    match row.sides.as_slice() {
        [one, other] => Some(rates(one, Round::rate) / rates(other, Round::rate)),
        _ => None,
    }
}

/// Returns the median over the rounds of the figure that `of` computes from each.
fn rates(rounds: &[Round], of: fn(&Round) -> f64) -> f64 {
    median(rounds.iter().map(of).collect())
}

/// Returns the median of a percentile of latencies over the rounds, in milliseconds.
fn millis(rounds: &[Round], percent: f64) -> f64 {
    median(rounds.iter().map(|it| it.percentile(percent).as_secs_f64() * 1e3).collect())
}

/// Returns all results of a workload.
pub(super) fn json(row: &Row) -> Value {
    let sides: Vec<Value> = row.sides.iter().map(|rounds| side(rounds)).collect();
    json!({
        "workload": row.workload,
        "unit": row.workload.verb.unit(),
        "sides": sides,
        "ratio": ratio(row),
    })
}

/// Returns the rounds of one endpoint, or of a directory.
pub(super) fn side(rounds: &[Round]) -> Value {
    let all: Vec<Value> = rounds.iter().map(one_round).collect();
    json!({ "median_rate": rates(rounds, Round::rate), "rounds": all })
}

/// Returns the titles of the columns, for a directory.
pub(super) fn file_titles() -> String {
    format!(
        "{:<12} {:>12} {:>9} {:>10} {:>10} {:>10}",
        "calls", "a second", "MiB/s", "p50 µs", "p90 µs", "p99 µs"
    )
}

/// Returns the line of a file operation, with medians over its rounds.
pub(super) fn file_line(verb: FileVerb, rounds: &[Round]) -> String {
    let [p50, p90, p99] = PERCENTS.map(|percent| millis(rounds, percent) * 1e3);
    let (rate, moved) = (rates(rounds, Round::rate), rates(rounds, Round::mib_rate));
    format!("{verb:<12} {rate:>12.1} {moved:>9.1} {p50:>10.1} {p90:>10.1} {p99:>10.1}")
}

/// Returns the figures of one round. Times are in microseconds.
fn one_round(round: &Round) -> Value {
    let micros = |percent| round.percentile(percent).as_micros();
    json!({
        "requests": round.requests,
        "units": round.units,
        "bytes": round.bytes,
        "seconds": round.took.as_secs_f64(),
        "rate": round.rate(),
        "mib_rate": round.mib_rate(),
        "p50_us": micros(50.0),
        "p90_us": micros(90.0),
        "p99_us": micros(99.0),
        "max_us": micros(100.0),
        "errors": round.errors,
        "samples": round.samples,
    })
}
