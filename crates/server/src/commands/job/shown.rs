//! The output of `ashlar job`: a row or the properties of a job.
//!
//! For example, `ashlar job list` in a pipe prints `objects=300, bytes=4096` as the progress of a
//! job, and `--output json` an object with both counts.

use adminapi::resources::jobs::JobJson;

use crate::output::say;
use crate::safe_name::safe_name;
use crate::table::{Cell, Printing, Properties, Table, print_properties};

/// The columns of the list of jobs.
const COLUMNS: [&str; 10] = [
    "number",
    "kind",
    "state",
    "user",
    "place",
    "began",
    "changed",
    "arguments",
    "progress",
    "message",
];

/// Returns the list of jobs.
pub(crate) fn table(jobs: &[JobJson]) -> Table {
    let mut table = Table::new(&COLUMNS);
    jobs.iter().for_each(|job| table.add(cells(job)));
    table
}

fn cells(job: &JobJson) -> Vec<Cell> {
    let arguments = job.arguments.iter();
    let arguments = arguments.map(|one| (one.name.clone(), Cell::text(&one.value)));
    vec![
        Cell::text(&job.number),
        Cell::text(&job.kind),
        Cell::text(&job.state),
        Cell::text(&job.user),
        Cell::text(&job.place),
        Cell::text(&job.began),
        Cell::text(&job.changed),
        Cell::Pairs(arguments.collect()),
        progress(job),
        Cell::text(&job.message),
    ]
}

/// Returns the counts of the finished work.
pub(super) fn progress(job: &JobJson) -> Cell {
    let count = |name: &str, count| {
        if name.ends_with("bytes") { Cell::Bytes(count) } else { Cell::Count(count) }
    };
    let counts = job.progress.iter();
    Cell::Pairs(counts.map(|one| (one.name.clone(), count(&one.name, one.count))).collect())
}

/// Prints a job, and the lines of its result.
pub(crate) fn print(job: &JobJson, printing: Printing) {
    let mut properties: Properties = COLUMNS.into_iter().zip(cells(job)).collect();
    if printing.is_json() {
        properties.push(("lines", Cell::Names(job.lines.clone())));
        properties.push(("has_more_lines", Cell::Flag(job.has_more_lines)));
        print_properties(&properties, printing);
        return;
    }
    print_properties(&properties, printing);
    // A line is a sentence, for example a finding, and can have a name of a client.
    job.lines.iter().for_each(|line| say(format_args!("{}", safe_name(line.as_bytes()))));
    if job.has_more_lines {
        say(format_args!("and more"));
    }
}
