//! What was measured, as lines of a table.

use std::fmt;

/// One line of the result.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) name: String,
    /// In `unit`, direct and ours.
    pub(super) sides: [f64; 2],
    pub(super) unit: &'static str,
    /// More is better, as for rates; less is, as for times.
    pub(super) more_is_better: bool,
    pub(super) cost: Option<Cost>,
    pub(super) remark: String,
}

/// What one request to the gateway costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// CPU time of the gateway, in microseconds.
    pub(super) gateway: f64,
    /// CPU time of the database server, in microseconds.
    pub(super) database: f64,
    /// Bytes that the metadata store grew by, where enough objects were written to tell.
    pub(super) stored: Option<f64>,
}

impl Figure {
    /// Direct, ours, and how much better ours is.
    pub(super) fn sides(&self) -> String {
        let ([direct, ours], unit) = (self.sides, self.unit);
        let ratio = if self.more_is_better { ours / direct } else { direct / ours };
        format!("{direct:>9.1} {unit:<2} {ours:>9.1} {unit:<2} {ratio:>7.2}")
    }

    /// The titles of the columns.
    pub(super) fn titles() -> String {
        format!(
            "{:<20} {:>12} {:>12} {:>7} {:>10} {:>11} {:>13}",
            "workload", "direct", "ours", "ratio", "gateway µs", "database µs", "bytes/object"
        )
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<20} {}", self.name, self.sides())?;
        match self.cost {
            Some(Cost { gateway, database, stored }) => {
                let stored = stored.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes:.0}"));
                write!(f, " {gateway:>10.0} {database:>11.0} {stored:>13}")?;
            }
            None => write!(f, " {:>10} {:>11} {:>13}", "", "", "")?,
        }
        write!(f, "  {}", self.remark)
    }
}

/// The value in the middle; no number if there is none.
pub(super) fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    match all.as_slice() {
        [] => f64::NAN,
        all if all.len() % 2 == 1 => all[all.len() / 2],
        all => f64::midpoint(all[all.len() / 2 - 1], all[all.len() / 2]),
    }
}

#[cfg(test)]
mod tests;
