//! Overwrites of a CSV file by pandas, through s3fs or on a path, as a user does them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use load::median;

use super::figure::Figure;
use super::measurement::{BUCKET, Bench};
use super::rows::Wanted;
use crate::progress::Mark;
use crate::servers::{ACCESS_KEY, SECRET_KEY, Server};
use crate::workspace::stdout;

/// The row's name.
pub(super) const NAME: &str = "pandas CSV overwrite";

/// A program in Python that writes a file of about 150 KB on each of two sides, and then overwrites
/// both files alternately. It prints the seconds of each overwrite: first all of the first side,
/// then all of the second side.
const PROGRAM: &str = r#"
import sys, time
import numpy, pandas
key, secret, count, *places = sys.argv[1:]
sides = []
for path, endpoint in zip(places[::2], places[1::2]):
    options = {"key": key, "secret": secret, "client_kwargs": {"endpoint_url": endpoint}}
    sides.append((path, options if endpoint else None))
random = numpy.random.default_rng(7)
for path, options in sides:
    pandas.DataFrame(random.random((1000, 8))).to_csv(path, index=False, storage_options=options)
times = [[] for _ in sides]
for number in range(int(count)):
    frame = pandas.DataFrame(random.random((1000, 8)), columns=list("abcdefgh"))
    for side in sorted(range(len(sides)), reverse=number % 2):
        path, options = sides[side]
        since = time.perf_counter()
        frame.to_csv(path, index=False, storage_options=options)
        times[side].append(time.perf_counter() - since)
for path, options in sides:
    back = pandas.read_csv(path, storage_options=options)
    pandas.testing.assert_frame_equal(back, frame)
print(*sum(times, []))
"#;

/// The number of overwrites on each side in a round.
const OVERWRITES: usize = 30;

/// The number of rounds for each round of other rows. A round is one interpreter process. Some
/// processes are slower than others by a quarter from start to end, so each process measures both
/// sides, and more processes are needed.
pub(super) const ROUNDS_FACTOR: u32 = 3;

/// The target of the overwrites.
#[derive(Clone, Debug)]
pub(super) struct FrameSide {
    /// A path, or a URL of S3.
    pub(super) path: String,
    /// The endpoint of the URL; `None` for a path.
    pub(super) endpoint: Option<String>,
}

impl Bench<'_> {
    /// Measures the row. Returns `None` if pandas is not installed.
    pub(super) fn frames(&mut self) -> Result<Option<Figure>> {
        let running = self.progress.begin(NAME);
        let Some(python) = &self.programs.python else {
            running.end(Mark::Skipped, "pandas is not installed; cargo xtask test installs it");
            return Ok(None);
        };
        let mut times: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for number in 0..self.options.rounds * ROUNDS_FACTOR {
            self.stop.check()?;
            // The program measures its first side first, so the sides change their places.
            let order = if number % 2 == 0 { [0, 1] } else { [1, 0] };
            let servers = order.map(|side: usize| [&self.minio, &self.gateway][side]);
            for (side, seconds) in order.into_iter().zip(overwrites(python, servers)?) {
                times[side].push(seconds);
            }
        }
        let [direct, ours] = times;
        let figure = Figure {
            name: NAME.to_owned(),
            sides: [direct, ours].map(|all| median(all) * 1e3),
            unit: "ms",
            more_is_better: false,
            wanted: Some(Wanted { must: 1.1, goal: 1.4 }),
            cost: None,
            remark: String::new(),
        };
        running.end(Mark::Passed, &figure.sides());
        Ok(Some(figure))
    }
}

/// Runs one round, and returns the median seconds of an overwrite on each of two servers.
fn overwrites(python: &Path, servers: [&Server; 2]) -> Result<[f64; 2]> {
    let sides = servers.map(|server| FrameSide {
        path: format!("s3://{BUCKET}/frame.csv"),
        endpoint: Some(server.endpoint.clone()),
    });
    let text = stdout(program(python, &sides, OVERWRITES)).context(NAME)?;
    middles(&text, OVERWRITES)
}

/// Returns the command that overwrites a file `count` times on each side.
pub(super) fn program(python: &Path, sides: &[FrameSide; 2], count: usize) -> Command {
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM, ACCESS_KEY, SECRET_KEY]).arg(count.to_string());
    for FrameSide { path, endpoint } in sides {
        command.arg(path).arg(endpoint.as_deref().unwrap_or_default());
    }
    command
}

/// Returns the median seconds of each side from the output of the program.
pub(super) fn middles(text: &str, count: usize) -> Result<[f64; 2]> {
    let times: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
    let times = times.context("the program printed something that is not a number of seconds")?;
    ensure!(
        times.len() == 2 * count,
        "the program printed {} numbers, not {}",
        times.len(),
        2 * count
    );
    let (one, other) = times.split_at(count);
    Ok([one, other].map(|round| median(round.to_vec())))
}

#[cfg(test)]
mod tests;
