//! The longest PUT while a peer is killed that answers reads from its memory.
//!
//! A writer waits for the acknowledgements of such a peer before it commits. If the peer is killed,
//! the writer's promise to it must end first. For example, a gateway that promises for a second
//! stalls its PUTs for at most a second, once.

use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use load::{Gauge, Round, Verb, Workload};
use serde_json::{Value, json};

use super::super::counters::{self, Counters};
use super::scene::{Scene, Side};
use crate::progress::Mark;

/// The name of the row.
pub(super) const KILLED: &str = "longest PUT while a peer is killed";

/// The longest good PUT in milliseconds.
const LONGEST_MS: f64 = 1_300.0;

/// The size of all objects in bytes.
const BYTES: u64 = 4 << 10;

/// The number of clients that write at the measured gateway, and of those that read at the peer.
const WRITERS: usize = 8;
const READERS: usize = 2;

/// The time of writing before the round with the kill. The peer serves reads meanwhile.
const BEFORE: Duration = Duration::from_millis(1_500);

/// The time from the begin of a round of writing to the kill, and from the begin to the end.
const KILL_AFTER: Duration = Duration::from_millis(500);
const DURING: Duration = Duration::from_secs(2);

/// The result of one kill.
#[derive(Debug)]
pub(super) struct Killed {
    /// The volume: without peers before, or with an idle gateway and an idle mount.
    volume: &'static str,
    /// The longest PUT in milliseconds before the round with the kill, and in that round.
    before_ms: f64,
    during_ms: f64,
    /// The reads that the peer answered before the kill: from its memory, and with a round trip.
    cached: u64,
    read: u64,
}

impl Scene<'_> {
    /// Starts one more gateway on a volume, lets it serve reads, and kills it while the measured
    /// gateway of the volume serves PUTs. Fails if a PUT fails.
    pub(super) fn kill_peer(&mut self, side: usize) -> Result<Killed> {
        let progress = Rc::clone(self.ground.progress);
        let volume = super::ground::VOLUMES[side];
        let running = progress.begin(&format!("{KILLED}, {volume}"));
        let stop = self.ground.stop;
        let side = &mut self.sides[side];
        let mut peer = side.volume.gateway()?;
        let admin = counters::admin(peer.child.log())?;
        let mut readers = Side::runner_at(&peer)?;
        let get = Workload::new(Verb::Get, BYTES, READERS, BEFORE + DURING);
        readers.prepare(&get, &self.gauge)?;
        let (gauge, reading) = (&self.gauge, Arc::new(Gauge::default()));
        let runner = &mut side.runner;
        let mut write = |time: Duration| {
            let put = Workload::new(Verb::Put, BYTES, WRITERS, time);
            runner.round(&put, gauge).map_err(anyhow::Error::from).and_then(complete)
        };
        let at_begin = Counters::read(&admin)?;
        let (before, during, at_end) = std::thread::scope(|scope| -> Result<_> {
            // The reads fail after the kill, so their result has no meaning.
            scope.spawn(|| readers.round(&get, &reading).map(|_| ()));
            let before = write(BEFORE)?;
            let writing = scope.spawn(move || write(DURING));
            stop.sleep(KILL_AFTER)?;
            let at_end = Counters::read(&admin)?;
            peer.child.kill()?;
            reading.stop();
            let during = writing.join().expect("the load does not panic")?;
            Ok((before, during, at_end))
        })?;
        let counters = at_end.since(at_begin);
        let [before_ms, during_ms] = [before, during].map(|it| longest_ms(&it));
        let (cached, read) = (counters.cached, counters.reads);
        let killed = Killed { volume, before_ms, during_ms, cached, read };
        running.end(Mark::Passed, &format!("{before_ms:.0} ms, then {during_ms:.0} ms"));
        Ok(killed)
    }
}

/// Returns a round whose requests were all successful.
fn complete(round: Round) -> Result<Round> {
    if round.errors > 0 || round.requests == 0 {
        let samples = round.samples.join("; ");
        bail!("{} PUTs succeeded and {} failed: {samples}", round.requests, round.errors);
    }
    Ok(round)
}

fn longest_ms(round: &Round) -> f64 {
    round.percentile(100.0).as_secs_f64() * 1e3
}

impl Killed {
    /// The table of all kills.
    pub(super) fn table(all: &[Self]) -> String {
        let mut text = format!(
            "| {KILLED} | before the kill | during | at most | reached | reads of the peer from \
             memory | with a round trip |\n|---|---:|---:|---:|---|---:|---:|\n"
        );
        for it in all {
            let reached = if it.during_ms <= LONGEST_MS { "must" } else { "**above**" };
            let Self { volume, before_ms, during_ms, cached, read } = it;
            writeln!(
                text,
                "| volume {volume} | {before_ms:.0} ms | {during_ms:.0} ms | {LONGEST_MS:.0} ms | \
                 {reached} | {cached} | {read} |"
            )
            .expect("a string takes all text");
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "volume": self.volume,
            "before_ms": self.before_ms,
            "during_ms": self.during_ms,
            "at_most_ms": LONGEST_MS,
            "cached_reads": self.cached,
            "reads": self.read,
        })
    }
}

#[cfg(test)]
mod tests;
