//! Results of the file view as rows of Markdown tables and as JSON.

use serde_json::{Value, json};

use super::super::figure::rounded;
use super::super::rows::Wanted;

/// One row of the result: the value of Ashlar for one kind of work on files, and that of the file
/// system with which it is compared.
#[derive(Debug)]
pub(super) struct FileFigure {
    pub(super) name: String,
    /// The result of the side that Ashlar is compared with.
    pub(super) beside: Option<Beside>,
    /// The result of Ashlar, in `unit`.
    pub(super) ours: f64,
    pub(super) unit: &'static str,
    /// True for rates, false for times.
    pub(super) more_is_better: bool,
    pub(super) target: Target,
    pub(super) cost: Option<FileCost>,
}

/// The result of the same work on another side, for example on a local folder or on s3fs-fuse.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    pub(super) name: &'static str,
    /// The value in the unit of the figure.
    pub(super) value: f64,
}

/// The target of a figure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// A ratio to the other side.
    Ratio(Wanted),
    /// A value, independent of the other side.
    AtLeast(Wanted),
    /// The largest good value.
    AtMost(f64),
    /// No target. The figure explains another one.
    Nothing,
}

/// The costs of one operation on files, such as one created file. All values except the numbers of
/// requests are medians of rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct FileCost {
    /// FUSE requests of the kernel, as a number and as a list of kinds; `None` if the kernel cannot
    /// count them.
    pub(super) requests: Option<(f64, String)>,
    /// The same for the other side, if it is a FUSE file system.
    pub(super) requests_beside: Option<(f64, String)>,
    /// Round trips to the metadata store.
    pub(super) trips: f64,
    /// Requests to the block store.
    pub(super) block_requests: f64,
    /// CPU time of Ashlar in microseconds.
    pub(super) ashlar: f64,
    /// CPU time of the database server in microseconds.
    pub(super) database: f64,
}

impl FileFigure {
    /// The ratio; a value above 1 means that Ashlar is better. `None` if nothing is compared.
    pub(super) fn ratio(&self) -> Option<f64> {
        let beside = self.beside?.value;
        Some(if self.more_is_better { self.ours / beside } else { beside / self.ours })
    }

    /// The values of both sides and the ratio, for the progress line of a row.
    pub(super) fn sides(&self) -> String {
        let (ours, unit) = (rounded(self.ours), self.unit);
        match (self.beside, self.ratio()) {
            (Some(beside), Some(ratio)) => {
                let there = rounded(beside.value);
                format!("{}: {there} {unit}, ours {ours} {unit}, {ratio:.3}", beside.name)
            }
            _ => format!("{ours} {unit}"),
        }
    }

    /// The head of the table of ratios.
    pub(super) fn titles() -> &'static str {
        "| work | compared with | its result | Ashlar | ratio | must | goal | reached |\n\
         |---|---|---:|---:|---:|---:|---:|---|"
    }

    /// The row of the table of ratios.
    pub(super) fn row(&self) -> String {
        let (ours, unit) = (rounded(self.ours), self.unit);
        let (name, there) = match self.beside {
            Some(beside) => (beside.name, format!("{} {unit}", rounded(beside.value))),
            None => ("–", "–".to_owned()),
        };
        let ratio = self.ratio().map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"));
        let (must, goal, reached) = self.reached();
        format!(
            "| {} | {name} | {there} | {ours} {unit} | {ratio} | {must} | {goal} | {reached} |",
            self.name
        )
    }

    /// Returns three texts for the table: the value that the figure must have, its goal, and the
    /// one of both that it reaches.
    fn reached(&self) -> (String, String, &'static str) {
        let nothing = || "–".to_owned();
        match (self.target, self.ratio()) {
            (Target::Ratio(wanted), Some(ratio)) => {
                let times = |number: f64| format!("× {number}");
                (times(wanted.must), times(wanted.goal), wanted.verdict(ratio))
            }
            (Target::AtLeast(wanted), _) => {
                (wanted.must.to_string(), wanted.goal.to_string(), wanted.verdict(self.ours))
            }
            (Target::AtMost(most), _) => {
                let verdict = if self.ours <= most { "must" } else { "**above**" };
                (format!("≤ {most}"), nothing(), verdict)
            }
            (Target::Ratio(_), None) | (Target::Nothing, _) => (nothing(), nothing(), "–"),
        }
    }

    /// The head of the table of costs.
    pub(super) fn cost_titles() -> &'static str {
        "| one of | FUSE requests | of these kinds | compared with | metadata trips | block requests | \
         Ashlar µs | database µs |\n|---|---:|---|---:|---:|---:|---:|---:|"
    }

    /// The row of the table of costs. `None` if the work does not consist of operations.
    pub(super) fn cost_row(&self) -> Option<String> {
        let cost = self.cost.as_ref()?;
        let number = |requests: &Option<(f64, String)>| {
            requests.as_ref().map_or_else(|| "–".to_owned(), |(each, _)| format!("{each:.1}"))
        };
        let kinds = cost.requests.as_ref().map_or("–", |(_, kinds)| kinds.as_str());
        Some(format!(
            "| {} | {} | {kinds} | {} | {:.3} | {:.3} | {:.0} | {:.0} |",
            self.name,
            number(&cost.requests),
            number(&cost.requests_beside),
            cost.trips,
            cost.block_requests,
            cost.ashlar,
            cost.database
        ))
    }

    pub(super) fn json(&self) -> Value {
        let (must, goal) = match self.target {
            Target::Ratio(wanted) | Target::AtLeast(wanted) => {
                (Some(wanted.must), Some(wanted.goal))
            }
            Target::AtMost(most) => (Some(most), None),
            Target::Nothing => (None, None),
        };
        let requests = |counted: &Option<(f64, String)>| {
            counted.as_ref().map(|(each, kinds)| json!({ "each": each, "kinds": kinds }))
        };
        let cost = self.cost.as_ref().map(|cost| {
            json!({
                "fuse_requests": requests(&cost.requests),
                "fuse_requests_beside": requests(&cost.requests_beside),
                "metadata_trips": cost.trips,
                "block_requests": cost.block_requests,
                "ashlar_us": cost.ashlar,
                "database_us": cost.database,
            })
        });
        json!({
            "name": self.name,
            "unit": self.unit,
            "beside": self.beside.map(|it| json!({ "name": it.name, "value": it.value })),
            "ours": self.ours,
            "ratio": self.ratio(),
            "must": must,
            "goal": goal,
            "reached": self.reached().2.trim_matches('*'),
            "cost": cost,
        })
    }
}

#[cfg(test)]
mod tests;
