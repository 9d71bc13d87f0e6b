//! The mixed load at two gateways of one volume at the same time, compared with the same load at a
//! gateway that has its volume alone.
//!
//! Half of the clients use each gateway, so both sides have equally many requests in flight, and
//! the latencies can be compared. For example, each of two gateways with leases notifies the other
//! before it commits a PUT, and the PUT waits for the acknowledgement.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, bail};
use load::{Round, Runner, Trouble, Verb, Workload};

use super::super::counters::{self, Counters};
use super::super::loads::SEED;
use super::super::measurement::BUCKET;
use super::super::rows::Wanted;
use super::figure::{CompanyFigure, Sample, Spent};
use super::ground::Peer;
use super::scene::{LEAD_IN, Scene};
use crate::progress::Mark;

/// The name of the row.
pub(super) const BOTH: &str = "mixed 4 KiB ×8, half at each gateway";

/// The targets of the share.
const WANTED: Wanted = Wanted { must: 0.6, goal: 0.8 };

/// The most that the median latency of a PUT may grow, in milliseconds.
const PUT_GROWTH_MS: f64 = 0.2;

/// The number of all clients.
const CLIENTS: usize = 8;

/// The size of each object in bytes. No other row has a mixed load of this size.
const BYTES: u64 = 4 << 10;

/// The prefix of the keys at the second gateway. Two loads must not delete each other's objects.
const PREFIX: &str = "peer/";

/// The second gateway of the volume in company, and the load on it.
struct Second {
    runner: Runner,
    /// The address of its metrics.
    admin: String,
}

impl Scene<'_> {
    /// Measures the row. The first peer of the volume in company is the second gateway.
    pub(super) fn both(&mut self) -> Result<CompanyFigure> {
        let progress = Rc::clone(self.ground.progress);
        let running = progress.begin(BOTH);
        let mut second = self.second()?;
        let workload = |state| workload(state, self.ground.options.time());
        self.sides[0].runner.prepare(&workload(0), &self.gauge)?;
        self.sides[1].runner.prepare(&workload(1), &self.gauge)?;
        second.runner.prepare(&workload(1), &self.gauge)?;
        let mut states = [("alone", Vec::new()), ("both gateways", Vec::new())];
        for round in 0..self.ground.options.rounds {
            for state in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                let measured = workload(state);
                self.load(state, &mut second, &Workload { time: LEAD_IN, ..measured })?;
                let before = self.spent_by_both(state, &second)?;
                let load = self.load(state, &mut second, &measured)?;
                let after = self.spent_by_both(state, &second)?;
                let sample = after.sample(before, load.requests, load.rate);
                states[state].1.push(Sample { latency: Some(load.put_ms), ..sample });
            }
        }
        let figure = CompanyFigure {
            name: BOTH.to_owned(),
            unit: "/s",
            more_is_better: true,
            states: states.into(),
            wanted: Some(WANTED),
            null: None,
        };
        running.end(Mark::Passed, &figure.sides());
        Ok(figure)
    }

    fn second(&self) -> Result<Second> {
        let Some(Peer::Gateway(peer)) = self.sides[1].peers.first() else {
            bail!("the first peer is no gateway");
        };
        let runner = Runner::new(&peer.target(BUCKET), PREFIX, SEED, 1)?;
        Ok(Second { runner, admin: counters::admin(peer.child.log())? })
    }

    /// Runs a load in a state: 0 at the gateway that is alone, 1 at both others at the same time.
    /// Fails if a request failed.
    fn load(&mut self, state: usize, second: &mut Second, workload: &Workload) -> Result<Load> {
        let (first, gauge) = (&mut self.sides[state].runner, &self.gauge);
        let rounds = std::thread::scope(|scope| {
            let other = (state == 1).then(|| scope.spawn(|| second.runner.round(workload, gauge)));
            let mut rounds = vec![first.round(workload, gauge)];
            rounds.extend(other.map(|it| it.join().expect("the load does not panic")));
            rounds
        });
        Load::of(rounds.into_iter().collect::<Result<_, Trouble>>()?)
    }

    /// Returns the costs up to now, with the round trips of the second gateway in state 1. Its CPU
    /// time is that of a peer.
    fn spent_by_both(&self, state: usize, second: &Second) -> Result<Spent> {
        let mut spent = self.sides[state].spent()?;
        if state == 1 {
            spent.counters = spent.counters.plus(Counters::read(&second.admin)?);
        }
        Ok(spent)
    }
}

/// The sums of rounds at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Load {
    requests: u64,
    rate: f64,
    /// The median latency of a PUT and its 99th percentile in milliseconds, at the slower gateway.
    put_ms: [f64; 2],
}

impl Load {
    /// Fails if a request failed.
    fn of(rounds: Vec<Round>) -> Result<Self> {
        let errors: u64 = rounds.iter().map(|it| it.errors).sum();
        if errors > 0 {
            let samples: Vec<String> = rounds.into_iter().flat_map(|it| it.samples).collect();
            bail!("{errors} requests failed: {}", samples.join("; "));
        }
        let slower = |percent| {
            let all = rounds.iter().map(|it| it.write_percentile(percent).as_secs_f64() * 1e3);
            all.fold(0.0, f64::max)
        };
        Ok(Self {
            requests: rounds.iter().map(|it| it.requests).sum(),
            rate: rounds.iter().map(Round::rate).sum(),
            put_ms: [slower(50.0), slower(99.0)],
        })
    }
}

/// Returns the workload of one gateway in a state.
fn workload(state: usize, time: Duration) -> Workload {
    let clients = if state == 0 { CLIENTS } else { CLIENTS / 2 };
    Workload::new(Verb::Mixed, BYTES, clients, time)
}

/// Returns the sentence about the latency of PUTs, below the table.
pub(super) fn sentence(figure: &CompanyFigure) -> String {
    let [alone, both] = [0, 1].map(|state| figure.median_latency(state).unwrap_or(f64::NAN));
    let growth = both - alone;
    let reached = if growth <= PUT_GROWTH_MS { "must" } else { "**above**" };
    format!(
        "Latencies are those of PUTs at the slower gateway. The median PUT took {alone:.2} ms \
         alone and {both:.2} ms at both gateways: {growth:+.2} ms, at most +{PUT_GROWTH_MS} ms: \
         {reached}."
    )
}

#[cfg(test)]
mod tests;
