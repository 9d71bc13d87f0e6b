//! A CSV file overwritten by pandas through s3fs, as a user would.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use load::median;

use super::figure::Figure;
use super::measurement::{BUCKET, Bench};
use super::rows::Wanted;
use crate::progress::Mark;
use crate::servers::{ACCESS_KEY, SECRET_KEY, Server};
use crate::workspace::stdout;

/// The row's name.
pub(super) const NAME: &str = "pandas CSV overwrite";

/// Writes a file of some 150 KB to each of two endpoints, then overwrites both in turns; prints the
/// seconds of each overwrite, those of the first endpoint before those of the second.
const PROGRAM: &str = r#"
import sys, time
import numpy, pandas
key, secret, path, count, *endpoints = sys.argv[1:]
sides = [
    {"key": key, "secret": secret, "client_kwargs": {"endpoint_url": endpoint}}
    for endpoint in endpoints
]
random = numpy.random.default_rng(7)
for options in sides:
    pandas.DataFrame(random.random((1000, 8))).to_csv(path, index=False, storage_options=options)
times = [[] for _ in sides]
for number in range(int(count)):
    frame = pandas.DataFrame(random.random((1000, 8)), columns=list("abcdefgh"))
    for side in sorted(range(len(sides)), reverse=number % 2):
        since = time.perf_counter()
        frame.to_csv(path, index=False, storage_options=sides[side])
        times[side].append(time.perf_counter() - since)
for options in sides:
    back = pandas.read_csv(path, storage_options=options)
    pandas.testing.assert_frame_equal(back, frame)
print(*sum(times, []))
"#;

/// Overwrites of each side in a round.
const OVERWRITES: usize = 30;

/// Rounds for each one of other rows. A round is a process of an interpreter, some of which are a
/// quarter slower than others for all of their life; so both sides are measured by the same ones.
const ROUNDS_FACTOR: u32 = 3;

impl Bench<'_> {
    /// Rounds of overwrites, alternating; nothing where there is no pandas.
    pub(super) fn frames(&mut self) -> Result<Option<Figure>> {
        let running = self.progress.begin(NAME);
        let Some(python) = &self.programs.python else {
            running.end(Mark::Skipped, "no pandas: cargo xtask test installs it");
            return Ok(None);
        };
        let mut times: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for number in 0..self.options.rounds * ROUNDS_FACTOR {
            self.stop.check()?;
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

/// The seconds of an overwrite at each of two servers, in the middle of a round.
fn overwrites(python: &Path, servers: [&Server; 2]) -> Result<[f64; 2]> {
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM, ACCESS_KEY, SECRET_KEY]);
    command.arg(format!("s3://{BUCKET}/frame.csv")).arg(OVERWRITES.to_string());
    command.args(servers.map(|server| &server.endpoint));
    let text = stdout(command).context(NAME)?;
    let times: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
    let times = times.context("the program prints seconds")?;
    let (one, other) = times.split_at_checked(OVERWRITES).context("it prints two rounds")?;
    Ok([one, other].map(|round| median(round.to_vec())))
}
