//! Results of a measurement in company as rows of Markdown tables and as JSON.
//!
//! The first state of a figure is the process without peers. Each other state has as many rounds,
//! and its share is the median of the shares of single rounds: neighbouring rounds see the same
//! machine, so their quotient varies less than the quotient of two medians.

use std::time::Duration;

use load::median;
use serde_json::{Value, json};

use super::super::counters::Counters;
use super::super::figure::rounded;
use super::super::rows::Wanted;

/// One row of the result: the rounds of one kind of work in each state.
#[derive(Debug)]
pub(super) struct CompanyFigure {
    pub(super) name: String,
    pub(super) unit: &'static str,
    /// True for rates, false for times.
    pub(super) more_is_better: bool,
    /// The states with their rounds. The first one is the process without peers.
    pub(super) states: Vec<(&'static str, Vec<Sample>)>,
    /// The targets of the share in the second state.
    pub(super) wanted: Option<Wanted>,
    /// The value of the null file system.
    pub(super) null: Option<f64>,
}

/// The result of one round. All fields except `value` are costs of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// The rate or the time, in the unit of the figure.
    pub(super) value: f64,
    /// Round trips of the measured process to the metadata store that read.
    pub(super) reads: f64,
    /// The same, that committed.
    pub(super) commits: f64,
    /// Reads of metadata that the measured process answered from memory.
    pub(super) cached: f64,
    /// CPU times in microseconds: of the measured process, its peers and the database server.
    pub(super) process: f64,
    pub(super) peers: f64,
    pub(super) database: f64,
    /// The median latency and its 99th percentile in milliseconds, if the load measures them.
    pub(super) latency: Option<[f64; 2]>,
}

/// The costs from the starts of the processes up to a moment, or their differences.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    /// The counters of the measured process.
    pub(super) counters: Counters,
    /// CPU times: of the measured process, its peers and the database server.
    pub(super) cpu: [Duration; 3],
}

impl Spent {
    /// Returns the costs of one of `operations` operations that happened since `before`. `value` is
    /// their rate or time.
    pub(super) fn sample(self, before: Self, operations: u64, value: f64) -> Sample {
        // A round without operations must not divide by zero.
        let operations = number(operations.max(1));
        let counters = self.counters.since(before.counters);
        let micros = |process: usize| {
            let used = self.cpu[process].saturating_sub(before.cpu[process]);
            used.as_secs_f64() * 1e6 / operations
        };
        Sample {
            value,
            reads: number(counters.reads) / operations,
            commits: number(counters.commits) / operations,
            cached: number(counters.cached) / operations,
            process: micros(0),
            peers: micros(1),
            database: micros(2),
            latency: None,
        }
    }
}

impl CompanyFigure {
    /// Returns the median of a value over the rounds of a state.
    fn middle(&self, state: usize, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.states[state].1.iter().map(of).collect())
    }

    /// Returns the share of a state: its speed divided by that of the process without peers.
    pub(super) fn share(&self, state: usize) -> f64 {
        let rounds = self.states[0].1.iter().zip(&self.states[state].1);
        let shares = rounds.map(|(alone, company)| {
            let quotient = company.value / alone.value;
            if self.more_is_better { quotient } else { quotient.recip() }
        });
        median(shares.collect())
    }

    /// Returns the CPU time of one operation without peers, divided by that in a state: of the
    /// measured process, its peers and the database server. It is the share on a machine whose
    /// processors are busy, and varies less with other work of the machine.
    fn cpu_share(&self, state: usize) -> f64 {
        let all = |it: &Sample| it.process + it.peers + it.database;
        self.middle(0, all) / self.middle(state, all)
    }

    /// Returns the median over the rounds of a state of the median latency in milliseconds, if each
    /// round has one.
    pub(super) fn median_latency(&self, state: usize) -> Option<f64> {
        self.latency(state, 0)
    }

    /// Returns the median of one of the two latencies of a [`Sample`].
    fn latency(&self, state: usize, place: usize) -> Option<f64> {
        let rounds = self.states[state].1.iter();
        let all: Option<Vec<f64>> = rounds.map(|it| it.latency.map(|it| it[place])).collect();
        all.map(median)
    }

    /// The values of all states, for the progress line of a row.
    pub(super) fn sides(&self) -> String {
        let texts = self.states.iter().enumerate().map(|(state, (name, _))| {
            let value = rounded(self.middle(state, |it| it.value));
            let share =
                if state == 0 { String::new() } else { format!(" ({:.2})", self.share(state)) };
            format!("{name} {value} {}{share}", self.unit)
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    /// The head of the table of shares.
    fn titles(&self) -> String {
        let mut columns = vec![("work", "---")];
        for (state, (name, _)) in self.states.iter().enumerate() {
            columns.push((name, "---:"));
            columns.extend((state > 0).then_some(("share", "---:")));
        }
        columns.extend([("null", "---:"), ("must", "---:"), ("goal", "---:"), ("reached", "---")]);
        let titles = columns.iter().map(|(title, _)| (*title).to_owned());
        let kinds = columns.iter().map(|(_, kind)| (*kind).to_owned());
        format!("{}\n{}", line(titles), line(kinds))
    }

    /// The row of the table of shares.
    fn row(&self) -> String {
        let mut cells = vec![self.name.clone()];
        for state in 0..self.states.len() {
            cells.push(format!("{} {}", rounded(self.middle(state, |it| it.value)), self.unit));
            cells.extend((state > 0).then(|| format!("{:.2}", self.share(state))));
        }
        let nothing = || "–".to_owned();
        cells.push(self.null.map_or_else(nothing, rounded));
        cells.extend(match self.wanted {
            Some(Wanted { must, goal }) => {
                [must.to_string(), goal.to_string(), self.reached().to_owned()]
            }
            None => [nothing(), nothing(), nothing()],
        });
        line(cells)
    }

    /// Returns the target that the share in the second state reaches.
    fn reached(&self) -> &'static str {
        self.wanted.map_or("–", |wanted| wanted.verdict(self.share(1)))
    }

    /// The rows of the table of costs, one for each state.
    fn cost_rows(&self) -> Vec<String> {
        let row = |state: usize| {
            let middle = |of: fn(&Sample) -> f64| self.middle(state, of);
            let latency = |place: usize| {
                let middle = self.latency(state, place);
                middle.map_or_else(|| "–".to_owned(), |middle| format!("{middle:.2}"))
            };
            format!(
                "| {} | {} | {:.3} | {:.3} | {:.3} | {:.0} | {:.0} | {:.0} | {:.2} | {} | {} |",
                self.name,
                self.states[state].0,
                middle(|it| it.reads),
                middle(|it| it.commits),
                middle(|it| it.cached),
                middle(|it| it.process),
                middle(|it| it.peers),
                middle(|it| it.database),
                self.cpu_share(state),
                latency(0),
                latency(1),
            )
        };
        (0..self.states.len()).map(row).collect()
    }

    pub(super) fn json(&self) -> Value {
        let states = self.states.iter().enumerate().map(|(state, (name, rounds))| {
            let middle = |of: fn(&Sample) -> f64| self.middle(state, of);
            json!({
                "name": name,
                "value": middle(|it| it.value),
                "share": (state > 0).then(|| self.share(state)),
                "cpu_share": Some(self.cpu_share(state)).filter(|it| it.is_finite()),
                "rounds": rounds.iter().map(|it| it.value).collect::<Vec<_>>(),
                "reads": middle(|it| it.reads),
                "commits": middle(|it| it.commits),
                "cached_reads": middle(|it| it.cached),
                "process_us": middle(|it| it.process),
                "peers_us": middle(|it| it.peers),
                "database_us": middle(|it| it.database),
                "latency_ms": rounds.iter().filter_map(|it| it.latency).collect::<Vec<_>>(),
            })
        });
        json!({
            "name": self.name,
            "unit": self.unit,
            "states": states.collect::<Vec<_>>(),
            "null": self.null,
            "must": self.wanted.map(|it| it.must),
            "goal": self.wanted.map(|it| it.goal),
            "reached": self.reached().trim_matches('*'),
        })
    }
}

/// Returns the table of shares of figures that have the same states.
pub(super) fn table(figures: &[CompanyFigure]) -> String {
    let titles = figures.first().map(CompanyFigure::titles);
    let lines = titles.into_iter().chain(figures.iter().map(CompanyFigure::row));
    lines.map(|line| line + "\n").collect()
}

/// Returns the table of the costs of one operation.
pub(super) fn cost_table(figures: &[CompanyFigure]) -> String {
    let titles = "| one of | state | reads | commits | cached reads | process µs | peers µs | \
                  database µs | CPU share | p50 ms | p99 ms |\n\
                  |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|";
    let rows = figures.iter().flat_map(CompanyFigure::cost_rows);
    std::iter::once(titles.to_owned()).chain(rows).map(|line| line + "\n").collect()
}

/// Returns a line of a table.
fn line(cells: impl IntoIterator<Item = String>) -> String {
    format!("| {} |", cells.into_iter().collect::<Vec<_>>().join(" | "))
}

#[expect(clippy::cast_precision_loss, reason = "52 bits are enough for a rate")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
