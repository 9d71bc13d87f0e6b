//! The tables of one engine in Markdown, which `docs/BENCHMARKS.md` quotes.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Value, json};

use super::figure::Figure;
use super::measurement::Bench;
use super::options::CACHE_MIB;
use crate::engines::Engine;

// The limits of a gateway's resources. The unit is in the name: seconds of CPU for a GB of bodies,
// microseconds of CPU for a request, and memory.
const PUT_SECONDS: Limit = Limit { must: 3.0, goal: 1.6 };
const COLD_SECONDS: Limit = Limit { must: 0.9, goal: 0.6 };
const WARM_SECONDS: Limit = Limit { must: 0.45, goal: 0.3 };
const PUT_MICROS: Limit = Limit { must: 150.0, goal: 70.0 };
const GET_MICROS: Limit = Limit { must: 80.0, goal: 45.0 };
const HEAD_MICROS: Limit = Limit { must: 60.0, goal: 35.0 };
const IDLE_MIB: Limit = Limit { must: 40.0, goal: 20.0 };
const PEAK_MB: Limit = Limit { must: 300.0, goal: 150.0 };

const MB_PER_MIB: f64 = 1.048_576;

/// The limits for the use of a resource, such as memory, in the unit of the resource.
#[derive(Clone, Copy, Debug)]
struct Limit {
    /// More is a defect.
    must: f64,
    /// Up to this the result is good.
    goal: f64,
}

/// A resource of the gateway, such as its memory when idle, with its use and its limit. `limit` is
/// `None` if no limit is set.
#[derive(Debug)]
struct Resource {
    name: String,
    used: f64,
    unit: &'static str,
    limit: Option<Limit>,
}

impl Limit {
    fn verdict(self, used: f64) -> &'static str {
        match used {
            _ if used <= self.goal => "goal",
            _ if used <= self.must => "must",
            _ => "**above**",
        }
    }
}

impl Resource {
    fn row(&self) -> String {
        let (must, goal, reached) = match self.limit {
            Some(limit) => {
                (limit.must.to_string(), limit.goal.to_string(), limit.verdict(self.used))
            }
            None => ("–".to_owned(), "–".to_owned(), "–"),
        };
        let (name, used, unit) = (&self.name, self.used, self.unit);
        format!("| {name} | {used:.2} {unit} | {must} | {goal} | {reached} |")
    }
}

impl Bench<'_> {
    /// Ends the gateway, prints the tables, and returns the figures as JSON.
    pub(super) fn report(&mut self, figures: &[Figure]) -> Result<Value> {
        // The end of the gateway records its peak memory, which the table of resources needs.
        self.end_gateway()?;
        let engine = self.engine;
        let fsync = (engine == Engine::Redis).then(|| self.options.redis_fsync.name());
        let synced = fsync.map_or_else(String::new, |when| format!(" (appendfsync {when})"));
        let resources = self.resources(engine, figures);
        let (rounds, seconds) = (self.options.rounds, self.options.time().as_secs());
        let mut text = format!(
            "\n## {}{synced}, with blocks in MinIO\n\nMedians of {rounds} interleaved rounds of {seconds} s. \
             A ratio above 1 means that Ashlar is better.\n\n",
            engine.name()
        );
        let mut line = |words: &str| writeln!(text, "{words}");
        line(&Figure::ratio_titles())?;
        figures.iter().try_for_each(|figure| line(&figure.ratio_row()))?;
        line("")?;
        line(&Figure::cost_titles())?;
        figures.iter().filter_map(Figure::cost_row).try_for_each(|row| line(&row))?;
        line("\n| resource | used | must | goal | reached |\n|---|---:|---:|---:|---|")?;
        resources.iter().try_for_each(|it| line(&it.row()))?;
        println!("{text}");
        let resources: Vec<Value> = resources
            .iter()
            .map(|it| json!({ "name": it.name, "used": it.used, "unit": it.unit }))
            .collect();
        let figures: Vec<Value> = figures.iter().map(Figure::json).collect();
        Ok(json!({
            "engine": engine.name(),
            "redis_fsync": fsync,
            "rounds": rounds,
            "seconds": seconds,
            "figures": figures,
            "resources": resources,
        }))
    }

    fn resources(&self, engine: Engine, figures: &[Figure]) -> Vec<Resource> {
        let cost = |name: &str| figures.iter().find(|it| it.name.starts_with(name))?.cost;
        let per_gb = [
            ("PUT 16 MiB", PUT_SECONDS),
            ("GET 16 MiB cold", COLD_SECONDS),
            ("GET 16 MiB warm", WARM_SECONDS),
        ];
        let each =
            [("PUT 4 KiB", PUT_MICROS), ("GET 4 KiB warm", GET_MICROS), ("HEAD", HEAD_MICROS)];
        let mut all = Vec::new();
        for (name, limit) in each {
            let used = cost(name).map(|it| it.gateway);
            let named = format!("gateway CPU for a {name}");
            all.extend(used.map(|used| Resource::new(named, used, "µs", Some(limit))));
        }
        for (name, limit) in per_gb {
            let used = cost(name).map(|it| it.seconds_per_gb);
            let named = format!("gateway CPU for a GB of {name}");
            all.extend(used.map(|used| Resource::new(named, used, "s", Some(limit))));
        }
        let (put, stored) = match engine {
            Engine::Redis => (Some((50.0, 30.0)), Some((400.0, 300.0))),
            Engine::Postgres => (None, Some((350.0, 300.0))),
            _ => (None, None),
        };
        let limit = |(must, goal)| Limit { must, goal };
        if let Some(cost) = cost("PUT 4 KiB") {
            let named = "database CPU for a PUT 4 KiB".to_owned();
            all.push(Resource::new(named, cost.database, "µs", put.map(limit)));
        }
        // Objects of these sizes have their content in blocks, so it does not count as metadata.
        for name in ["PUT 4 KiB", "PUT 64 KiB"] {
            let limit = stored.map(limit).filter(|_| name == "PUT 64 KiB");
            let used = cost(name).and_then(|it| it.stored);
            let named = format!("metadata for each {}", &name["PUT ".len()..]);
            all.extend(used.map(|used| Resource::new(named, used, "bytes", limit)));
        }
        let named = "resident memory, idle".to_owned();
        all.push(Resource::new(named, self.idle_mib, "MiB", Some(IDLE_MIB)));
        let named = "resident memory, peak, including the cache".to_owned();
        all.push(Resource::new(named, self.peak_mib, "MiB", None));
        let above = (self.peak_mib - CACHE_MIB).max(0.0) * MB_PER_MIB;
        let named = "resident memory, peak above the size of the cache".to_owned();
        all.push(Resource::new(named, above, "MB", Some(PEAK_MB)));
        all
    }
}

impl Resource {
    fn new(name: String, used: f64, unit: &'static str, limit: Option<Limit>) -> Self {
        Self { name, used, unit, limit }
    }
}
