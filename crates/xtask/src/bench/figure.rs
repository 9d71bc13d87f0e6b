//! Results as rows of Markdown tables and as JSON.

use serde_json::{Value, json};

use super::rows::Wanted;

/// One row of the result: the values of direct MinIO and of the gateway for one workload, and their
/// costs.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) name: String,
    /// The values of direct MinIO and of the gateway, in `unit`.
    pub(super) sides: [f64; 2],
    pub(super) unit: &'static str,
    /// True for rates, false for times.
    pub(super) more_is_better: bool,
    /// The targets of the ratio.
    pub(super) wanted: Option<Wanted>,
    pub(super) cost: Option<Cost>,
    pub(super) remark: String,
}

/// The costs of one request. Each value is a median of rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// CPU time of the gateway, in microseconds.
    pub(super) gateway: f64,
    /// CPU time of the database server, in microseconds.
    pub(super) database: f64,
    /// CPU time of MinIO in microseconds, for direct requests and for those of the gateway.
    pub(super) minio: [f64; 2],
    /// The median latency in milliseconds, of direct MinIO and of the gateway.
    pub(super) p50: [f64; 2],
    /// The 99th percentile of the latency, like `p50`.
    pub(super) p99: [f64; 2],
    /// Requests to the block store.
    pub(super) block_requests: f64,
    /// Bytes written to and read from the block store.
    pub(super) block_bytes: f64,
    /// Round trips to the metadata store.
    pub(super) trips: f64,
    /// CPU time of the gateway in seconds, for each GB of bodies.
    pub(super) seconds_per_gb: f64,
    /// Growth of the metadata store in bytes for each object; `None` if too few objects were
    /// written.
    pub(super) stored: Option<f64>,
}

impl Figure {
    /// Returns the ratio. A value above 1 means that the gateway is better.
    pub(super) fn ratio(&self) -> f64 {
        let [direct, ours] = self.sides;
        if self.more_is_better { ours / direct } else { direct / ours }
    }

    /// Returns the values of both sides and the ratio, as text.
    pub(super) fn sides(&self) -> String {
        let ([direct, ours], unit) = (self.sides.map(rounded), self.unit);
        format!("{direct} {unit}, {ours} {unit}, {:.2}", self.ratio())
    }

    /// Returns the head of the table of ratios.
    pub(super) fn ratio_titles() -> String {
        "| workload | direct MinIO | Ashlar | ratio | must | goal | reached |\n\
         |---|---:|---:|---:|---:|---:|---|"
            .to_owned()
    }

    pub(super) fn ratio_row(&self) -> String {
        let ([direct, ours], unit) = (self.sides.map(rounded), self.unit);
        let ratio = self.ratio();
        let (must, goal, reached) = match self.wanted {
            Some(wanted) => {
                (wanted.must.to_string(), wanted.goal.to_string(), wanted.verdict(ratio))
            }
            None => ("–".to_owned(), "–".to_owned(), "–"),
        };
        let remark = if self.remark.is_empty() { "" } else { "; " };
        format!(
            "| {} | {direct} {unit} | {ours} {unit} | {ratio:.2} | {must} | {goal} | \
             {reached}{remark}{} |",
            self.name, self.remark
        )
    }

    /// Returns the head of the table of costs.
    pub(super) fn cost_titles() -> String {
        "| a request of | gateway µs | database µs | MinIO µs, ours | MinIO µs, direct | \
         p50 ms, direct / ours | p99 ms, direct / ours | block requests | block bytes | \
         metadata trips |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
            .to_owned()
    }

    /// Returns the row of the table of costs. `None` if the workload does not consist of requests
    /// of the load.
    pub(super) fn cost_row(&self) -> Option<String> {
        let cost = self.cost?;
        let ([p50, p50_ours], [p99, p99_ours]) = (cost.p50, cost.p99);
        Some(format!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.0} | {p50:.2} / {p50_ours:.2} | \
             {p99:.1} / {p99_ours:.1} | {:.3} | {:.0} | {:.3} |",
            self.name,
            cost.gateway,
            cost.database,
            cost.minio[1],
            cost.minio[0],
            cost.block_requests,
            cost.block_bytes,
            cost.trips
        ))
    }

    pub(super) fn json(&self) -> Value {
        let cost = self.cost.map(|cost| {
            json!({
                "gateway_us": cost.gateway,
                "database_us": cost.database,
                "minio_us": { "direct": cost.minio[0], "ours": cost.minio[1] },
                "p50_ms": { "direct": cost.p50[0], "ours": cost.p50[1] },
                "p99_ms": { "direct": cost.p99[0], "ours": cost.p99[1] },
                "block_requests": cost.block_requests,
                "block_bytes": cost.block_bytes,
                "metadata_trips": cost.trips,
                "gateway_seconds_per_gb": Some(cost.seconds_per_gb).filter(|it| it.is_finite()),
                "metadata_bytes_per_object": cost.stored,
            })
        });
        json!({
            "name": self.name,
            "unit": self.unit,
            "direct": self.sides[0],
            "ours": self.sides[1],
            "ratio": self.ratio(),
            "must": self.wanted.map(|it| it.must),
            "goal": self.wanted.map(|it| it.goal),
            "cost": cost,
            "remark": self.remark,
        })
    }
}

/// Returns a number with three digits. Numbers of 100 or more have no decimals.
pub(super) fn rounded(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests;
