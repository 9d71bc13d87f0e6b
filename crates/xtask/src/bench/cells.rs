//! The rounds of one row, and the costs of all processes during each round.
//!
//! For example, the row `PUT 4 KiB ×16` with three rounds is measured in the order MinIO, gateway,
//! gateway, MinIO, MinIO, gateway.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use load::{Round, Verb, Workload, median};

use super::counters::Counters;
use super::figure::{Cost, Figure};
use super::measurement::Bench;
use super::meter;
use super::rows::Row;
use crate::progress::Mark;

/// The fewest new objects from which the metadata bytes of one object are computed. The files of
/// stores grow in steps of some MiB, so with fewer objects the result would be wrong.
const COUNTABLE_OBJECTS: u64 = 10_000;

/// The fewest objects that a cold round reads, that is, a round in which each object is read once
/// by a gateway with empty caches. They take a second or two, so the one-time costs of a new
/// gateway, such as the first use of memory, are a small part of the round.
const COLD_ROUND_OBJECTS: usize = 150;

/// The most rounds that write objects for cold rounds. They are not timed.
const COLD_PUT_ROUNDS_MAX: u32 = 4;

/// The result of one round on one side of the comparison, MinIO or the gateway, and the costs of
/// all processes during the round.
struct Cell {
    round: Round,
    /// The CPU time of the gateway. The next two fields are the CPU times of the other processes.
    gateway: Duration,
    database: Duration,
    minio: Duration,
    counters: Counters,
}

impl Bench<'_> {
    /// Measures one row of the table: rounds of its workload that alternate between direct MinIO
    /// and the gateway. Returns the medians.
    pub(super) fn row(&mut self, row: &Row) -> Result<Figure> {
        let mut workload = row.workload(self.options.time());
        if row.cold {
            self.share_unread(&mut workload).context(row.name)?;
            // The gateway restarts after the objects are written, so its caches do not have them.
            self.begin_cold()?;
        }
        let mut cells: [Vec<Cell>; 2] = [Vec::new(), Vec::new()];
        let progress = Rc::clone(&self.progress);
        let running = progress.begin(row.name);
        let before = self.metadata.bytes()?;
        for number in 0..self.options.rounds {
            // Rounds begin with a different side in turn, so that no side always runs first.
            let order = if number % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                // Preparation writes the objects that the round reads. Its costs are not part of
                // the round.
                self.runners[side].prepare(&workload, &self.gauge).context(row.name)?;
                cells[side].push(self.cell(side, &workload).context(row.name)?);
            }
        }
        let grown = self.metadata.bytes()?.saturating_sub(before);
        let requests = cells[1].iter().map(|cell| cell.round.requests).sum();
        let countable = row.verb == Verb::Put && requests >= COUNTABLE_OBJECTS;
        let stored = countable.then(|| each(grown, requests));
        let figure = figure(row, &cells, stored);
        running.end(Mark::Passed, &figure.sides());
        Ok(figure)
    }

    /// Measures one round of a workload on one side: 0 is direct MinIO, 1 is the gateway. Fails if
    /// a request failed.
    fn cell(&mut self, side: usize, workload: &Workload) -> Result<Cell> {
        let before = self.spent()?;
        let round = self.runners[side].round(workload, &self.gauge)?;
        let after = self.spent()?;
        // A failed request is often faster than a successful one, so the figure would be wrong.
        if round.errors > 0 {
            let endpoint = [&self.minio, &self.gateway][side].endpoint.as_str();
            bail!("{} requests to {endpoint} failed: {}", round.errors, round.samples.join("; "));
        }
        let used = |of: usize| after.0[of].saturating_sub(before.0[of]);
        let counters = after.1.since(before.1);
        Ok(Cell { round, gateway: used(0), database: used(1), minio: used(2), counters })
    }

    /// Returns the CPU times of gateway, database and MinIO up to now, and the gateway's counters.
    fn spent(&self) -> Result<([Duration; 3], Counters)> {
        let gateway = meter::cpu_time(self.gateway.child.pid())?;
        let minio = meter::cpu_time(self.minio.child.pid())?;
        Ok(([gateway, self.metadata.cpu(), minio], Counters::read(&self.admin)?))
    }

    /// Sets the number of objects that each cold round reads. A cold round reads objects that were
    /// not read before, so this first writes more of them until each round has
    /// [`COLD_ROUND_OBJECTS`] or until [`COLD_PUT_ROUNDS_MAX`] rounds have written. Fails if a
    /// round would have no object.
    fn share_unread(&mut self, workload: &mut Workload) -> Result<()> {
        let bytes = workload.object_bytes;
        let rounds = usize::try_from(self.options.rounds)?;
        let enough = if self.options.quick { rounds } else { rounds * COLD_ROUND_OBJECTS };
        let put = Workload { verb: Verb::Put, ..*workload };
        for runner in &mut self.runners {
            for _ in 0..COLD_PUT_ROUNDS_MAX {
                if runner.unread(bytes) >= enough {
                    break;
                }
                let round = runner.round(&put, &self.gauge)?;
                if round.errors > 0 {
                    bail!("{} writes of objects failed", round.errors);
                }
            }
        }
        // Both sides read the same number of objects, so the side with fewer objects decides.
        let fewest = self.runners.iter().map(|runner| runner.unread(bytes)).min().unwrap_or(0);
        let share = fewest / rounds;
        if share == 0 {
            bail!("too few objects were written for {rounds} cold rounds");
        }
        workload.once = Some(share);
        Ok(())
    }
}

/// Returns the figure of a row: the medians of its rounds, which `cells` has for each side.
/// `stored` is the size in bytes of the metadata of one object, `None` if it was not measured.
fn figure(row: &Row, cells: &[Vec<Cell>; 2], stored: Option<f64>) -> Figure {
    let middle =
        |side: usize, of: &dyn Fn(&Cell) -> f64| median(cells[side].iter().map(of).collect());
    let latency = |side, percent| {
        middle(side, &|cell: &Cell| cell.round.percentile(percent).as_secs_f64() * 1e3)
    };
    // A round without requests must not divide by zero.
    let requests = |cell: &Cell| cell.round.requests.max(1);
    let cost = Cost {
        gateway: middle(1, &|cell| micros_each(cell.gateway, requests(cell))),
        database: middle(1, &|cell| micros_each(cell.database, requests(cell))),
        minio: [0, 1].map(|side| middle(side, &|it| micros_each(it.minio, requests(it)))),
        p50: [latency(0, 50.0), latency(1, 50.0)],
        p99: [latency(0, 99.0), latency(1, 99.0)],
        block_requests: middle(1, &|it| each(it.counters.block_requests, requests(it))),
        block_bytes: middle(1, &|it| each(it.counters.block_bytes, requests(it))),
        trips: middle(1, &|it| each(it.counters.trips(), requests(it))),
        seconds_per_gb: middle(1, &|it| it.gateway.as_secs_f64() * 1e9 / each(it.round.bytes, 1)),
        stored,
    };
    // Large objects are bound by bytes, small ones by requests.
    let large = row.object_bytes >= 1 << 20;
    let rate = |cell: &Cell| if large { cell.round.mib_rate() } else { cell.round.rate() };
    let keys = matches!(row.verb, Verb::List | Verb::DeleteBatch);
    Figure {
        name: row.name.to_owned(),
        sides: [middle(0, &rate), middle(1, &rate)],
        unit: if large {
            "MiB/s"
        } else if keys {
            "keys/s"
        } else {
            "/s"
        },
        more_is_better: true,
        wanted: Some(row.wanted),
        cost: Some(cost),
        remark: String::new(),
    }
}

/// Returns a time in microseconds for each request.
fn micros_each(time: Duration, requests: u64) -> f64 {
    each(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), requests)
}

#[expect(clippy::cast_precision_loss, reason = "52 bits are enough for a median")]
fn each(sum: u64, requests: u64) -> f64 {
    sum as f64 / requests as f64
}
