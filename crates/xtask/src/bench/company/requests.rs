//! S3 requests to a gateway in three states: alone on its volume, beside an idle gateway and an
//! idle mount, and beside a gateway that writes in another bucket.
//!
//! For example, the row `HEAD ×16` with three rounds is measured in the order alone, idle, writing;
//! idle, writing, alone; writing, alone, idle.

use std::rc::Rc;

use anyhow::{Context as _, Result, bail};
use load::{Verb, Workload, median};
use serde_json::{Value, json};

use super::super::rows::{self, Row, Wanted};
use super::both::{self, BOTH};
use super::figure::{CompanyFigure, Sample};
use super::ground::Ground;
use super::killed::{KILLED, Killed};
use super::report::print;
use super::scene::{LEAD_IN, Scene};
use super::writer;
use crate::progress::Mark;

/// The targets of reads and of the mixed load.
const READS: Wanted = Wanted { must: 0.8, goal: 0.9 };
/// The targets of writes.
const WRITES: Wanted = Wanted { must: 0.95, goal: 1.0 };

/// The rows, with the names of those of the comparison with MinIO, and the targets of their shares.
const ROWS: [(&str, Option<Wanted>); 6] = [
    ("GET 4 KiB warm ×16", Some(READS)),
    ("HEAD ×16", Some(READS)),
    ("GET 1 MiB warm ×16", Some(READS)),
    ("LIST 5,000 keys ×8", None),
    ("PUT 4 KiB ×16", Some(WRITES)),
    ("mixed 256 KiB ×8", Some(READS)),
];

/// The company of the measured gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Alone,
    Idle,
    Writing,
}

impl State {
    /// All states, in the order of the columns of tables.
    const ALL: [Self; 3] = [Self::Alone, Self::Idle, Self::Writing];

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Idle => "beside idle peers",
            Self::Writing => "beside a writing peer",
        }
    }

    /// The place of the state's volume among the volumes.
    fn volume(self) -> usize {
        match self {
            Self::Alone => 0,
            Self::Idle | Self::Writing => 1,
        }
    }
}

/// Measures all rows that the user wants, prints the tables, and returns the figures as JSON.
pub(super) fn measure(ground: &Ground<'_>) -> Result<Value> {
    let options = ground.options;
    let rows = || table_rows().filter(|(row, _)| options.wants(row.name));
    if rows().next().is_none() && ![BOTH, KILLED].into_iter().any(|name| options.wants(name)) {
        bail!("no row has a name that contains {}", options.only.join(" or "));
    }
    let mut scene = Scene::begin(ground)?;
    let mut figures = Vec::new();
    for (row, wanted) in rows() {
        figures.push(scene.row(&row, wanted)?);
    }
    let both = if options.wants(BOTH) { Some(scene.both()?) } else { None };
    // The killed peers come last: the others regard a killed session as running for half a minute.
    let mut kills = Vec::new();
    if options.wants(KILLED) {
        for side in 0..scene.sides.len() {
            kills.push(scene.kill_peer(side)?);
        }
    }
    let (rounds, seconds) = (options.rounds, options.time().as_secs());
    let written = if scene.written.is_empty() {
        String::new()
    } else {
        let rate = median(scene.written.clone());
        format!(
            " Idle peers are a gateway and a mount. The writing peer has {} clients with at most {} \
             PUT/s of 4 KiB in another bucket, and wrote {rate:.0} /s.",
            writer::CLIENTS,
            writer::RATE
        )
    };
    let remark = format!("Medians of {rounds} interleaved rounds of {seconds} s.{written}");
    if !figures.is_empty() {
        print(ground, "Requests", &remark, &figures);
    }
    if let Some(figure) = &both {
        print(
            ground,
            "Requests to both gateways",
            &both::sentence(figure),
            std::slice::from_ref(figure),
        );
    }
    if !kills.is_empty() {
        println!("{}", Killed::table(&kills));
    }
    let figures: Vec<Value> = figures.iter().chain(&both).map(CompanyFigure::json).collect();
    Ok(json!({
        "engine": ground.engine.name(),
        "redis_fsync": options.redis_fsync.name(),
        "rounds": rounds,
        "seconds": seconds,
        "figures": figures,
        "writer_per_second": scene.written,
        "killed": kills.iter().map(Killed::json).collect::<Vec<_>>(),
    }))
}

/// Returns the rows with their workloads.
fn table_rows() -> impl Iterator<Item = (Row, Option<Wanted>)> {
    ROWS.into_iter().filter_map(|(name, wanted)| {
        let row = rows::ROWS.into_iter().find(|row| row.name == name)?;
        Some((row, wanted))
    })
}

/// Returns the state that is measured at a place of a round. Each state is the first of a round in
/// turn, so that no state profits from its place.
fn state_at(round: u32, place: usize) -> State {
    let first = usize::try_from(round).unwrap_or(0);
    State::ALL[(first + place) % State::ALL.len()]
}

impl Scene<'_> {
    /// Measures one row in all states.
    fn row(&mut self, row: &Row, wanted: Option<Wanted>) -> Result<CompanyFigure> {
        let options = self.ground.options;
        let workload = row.workload(options.time());
        let progress = Rc::clone(self.ground.progress);
        let running = progress.begin(row.name);
        for side in &mut self.sides {
            side.runner.prepare(&workload, &self.gauge).context(row.name)?;
        }
        let mut states = State::ALL.map(|state| (state.name(), Vec::new()));
        for round in 0..options.rounds {
            for state in (0..State::ALL.len()).map(|place| state_at(round, place)) {
                let sample = self.cell(state, &workload).context(row.name)?;
                states[state as usize].1.push(sample);
            }
        }
        let figure = CompanyFigure {
            name: row.name.to_owned(),
            unit: if row.verb == Verb::List { "keys/s" } else { "/s" },
            more_is_better: true,
            states: states.into(),
            wanted,
            null: None,
        };
        running.end(Mark::Passed, &figure.sides());
        Ok(figure)
    }

    /// Measures one round in one state, after a lead-in. Fails if a request failed.
    fn cell(&mut self, state: State, workload: &Workload) -> Result<Sample> {
        if state == State::Writing {
            self.writer.start()?;
        }
        let side = &mut self.sides[state.volume()];
        side.runner.round(&Workload { time: LEAD_IN, ..*workload }, &self.gauge)?;
        let before = side.spent()?;
        let round = side.runner.round(workload, &self.gauge)?;
        let after = side.spent()?;
        if state == State::Writing {
            self.written.push(self.writer.stop()?);
        }
        // A failed request is often faster than a successful one, so the figure would be wrong.
        if round.errors > 0 {
            bail!(
                "{} requests failed {}: {}",
                round.errors,
                state.name(),
                round.samples.join("; ")
            );
        }
        let latency = [50.0, 99.0].map(|percent| round.percentile(percent).as_secs_f64() * 1e3);
        let sample = after.sample(before, round.requests, round.rate());
        Ok(Sample { latency: Some(latency), ..sample })
    }
}

#[cfg(test)]
mod tests;
