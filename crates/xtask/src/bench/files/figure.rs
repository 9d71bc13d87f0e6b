//! What was measured of the file view, as rows of Markdown tables.

use serde_json::{Value, json};

use super::super::figure::rounded;
use super::super::rows::Wanted;

/// One row of the result.
#[derive(Debug)]
pub(super) struct FileFigure {
    pub(super) name: String,
    /// What was measured beside ours, if anything was.
    pub(super) beside: Option<Beside>,
    pub(super) ours: f64,
    pub(super) unit: &'static str,
    /// More is better, as for rates; less is, as for times.
    pub(super) more_is_better: bool,
    pub(super) bar: Bar,
    pub(super) cost: Option<FileCost>,
}

/// The same work somewhere else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    pub(super) name: &'static str,
    /// In the figure's unit.
    pub(super) value: f64,
}

/// What a figure is to reach.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bar {
    /// To be so many times as good as what is beside it.
    Times(Wanted),
    /// To be so much, whatever is beside it.
    AtLeast(Wanted),
    /// To be no more than this.
    AtMost(f64),
    /// Nothing: it says what something else depends on.
    Nothing,
}

/// What one operation costs; but for its requests, medians of rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct FileCost {
    /// Requests of the kernel, and of which kinds, where it counts them.
    pub(super) requests: Option<(f64, String)>,
    /// Requests for the same at what is beside ours, where that is a file system of this kind.
    pub(super) requests_beside: Option<(f64, String)>,
    /// Round trips to the metadata store.
    pub(super) trips: f64,
    /// Requests to the block store.
    pub(super) block_requests: f64,
    /// CPU time of Ashlar and of the database server, in microseconds.
    pub(super) ashlar: f64,
    pub(super) database: f64,
}

impl FileFigure {
    /// How many times as good ours is.
    pub(super) fn ratio(&self) -> Option<f64> {
        let beside = self.beside?.value;
        Some(if self.more_is_better { self.ours / beside } else { beside / self.ours })
    }

    /// Both sides, for the line that a row ends with.
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
        "| work | beside it | there | Ashlar | ratio | must | goal | reached |\n\
         |---|---|---:|---:|---:|---:|---:|---|"
    }

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

    /// Must, goal, and which of them is reached.
    fn reached(&self) -> (String, String, &'static str) {
        let nothing = || "–".to_owned();
        match (self.bar, self.ratio()) {
            (Bar::Times(wanted), Some(ratio)) => {
                let times = |number: f64| format!("× {number}");
                (times(wanted.must), times(wanted.goal), wanted.verdict(ratio))
            }
            (Bar::AtLeast(wanted), _) => {
                (wanted.must.to_string(), wanted.goal.to_string(), wanted.verdict(self.ours))
            }
            (Bar::AtMost(most), _) => {
                let verdict = if self.ours <= most { "must" } else { "**above**" };
                (format!("≤ {most}"), nothing(), verdict)
            }
            (Bar::Times(_), None) | (Bar::Nothing, _) => (nothing(), nothing(), "–"),
        }
    }

    /// The head of the table of costs.
    pub(super) fn cost_titles() -> &'static str {
        "| one of | FUSE requests | of these kinds | beside it | metadata trips | block requests | \
         Ashlar µs | database µs |\n|---|---:|---|---:|---:|---:|---:|---:|"
    }

    /// `None` for what does not consist of operations.
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
        let (must, goal) = match self.bar {
            Bar::Times(wanted) | Bar::AtLeast(wanted) => (Some(wanted.must), Some(wanted.goal)),
            Bar::AtMost(most) => (Some(most), None),
            Bar::Nothing => (None, None),
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
