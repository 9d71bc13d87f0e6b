//! The printer of lists and properties: as a table, or as JSON.
//!
//! Each command describes its result as cells, and this module alone knows the forms. On a terminal
//! a list has a header, aligned columns and human sizes. In a pipe its lines have neither, and a
//! tab separates the cells, so that `cut` and `awk` read them. With `--output json` a list is an
//! array of objects, with exact numbers, whatever the output is.
//!
//! For example, `ashlar user list | cut -f1` prints the names of all users.

use std::io::{self, IsTerminal as _};

use clap::{Args, ValueEnum};
use indicatif::HumanBytes;
use record::Timestamp;
use serde_json::{Map, Value, json};

use crate::node_report::time;
use crate::output::say;
use crate::safe_name::{safe_document, safe_name};

/// The form of the output of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    /// Lines for people, or with tabs in a pipe
    Table,
    /// JSON for programs
    Json,
}

/// The option for the form of the output.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Printing {
    /// The form of the output
    #[arg(long = "output", value_name = "FORM", default_value = "table")]
    pub(crate) form: OutputForm,
}

impl Printing {
    /// Returns true if the output is JSON.
    pub(crate) fn is_json(self) -> bool {
        self.form == OutputForm::Json
    }
}

/// One value of a list or a property.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Absent,
    Text(String),
    /// A name of a client, which need not be UTF-8.
    Name(Vec<u8>),
    Flag(bool),
    Count(u64),
    /// A number of bytes, which a terminal shows with a unit.
    Bytes(u64),
    /// A usage and its limit.
    Of(Box<Cell>, Option<u64>),
    Names(Vec<String>),
    /// Values with names, which become one object in JSON.
    Pairs(Vec<(String, Cell)>),
    Time(Timestamp),
    /// A JSON document.
    Document(String),
}

impl Cell {
    /// Returns a text, or an absent cell for an empty text.
    pub(crate) fn text(text: &str) -> Cell {
        if text.is_empty() { Cell::Absent } else { Cell::Text(text.to_owned()) }
    }

    pub(crate) fn time(at: Option<Timestamp>) -> Cell {
        at.map_or(Cell::Absent, Cell::Time)
    }

    /// Returns the text for a terminal (`human`) or a pipe.
    pub(crate) fn shown(&self, human: bool) -> String {
        match self {
            Cell::Absent => if human { "-" } else { "" }.to_owned(),
            // A name of a client must not control the terminal, nor break a line.
            Cell::Text(text) => safe_name(text.as_bytes()).to_string(),
            Cell::Name(name) => safe_name(name).to_string(),
            Cell::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
            Cell::Bytes(bytes) if human => HumanBytes(*bytes).to_string(),
            Cell::Count(number) | Cell::Bytes(number) => number.to_string(),
            Cell::Of(used, None) => used.shown(human),
            Cell::Of(used, Some(limit)) => {
                format!("{} of {}", used.shown(human), used.like(*limit).shown(human))
            }
            Cell::Names(names) if names.is_empty() => Cell::Absent.shown(human),
            Cell::Names(names) => {
                let names = names.iter().map(|name| safe_name(name.as_bytes()).to_string());
                names.collect::<Vec<_>>().join(" ")
            }
            Cell::Pairs(pairs) if pairs.is_empty() => Cell::Absent.shown(human),
            Cell::Pairs(pairs) => {
                let pair = |(name, value): &(String, Cell)| {
                    format!("{}={}", safe_name(name.as_bytes()), value.shown(human))
                };
                pairs.iter().map(pair).collect::<Vec<_>>().join(", ")
            }
            Cell::Time(at) => second(*at),
            Cell::Document(text) => {
                // Some hidden characters are white space, so they are escaped first.
                safe_document(text).split_whitespace().collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// Returns a number of the same kind.
    fn like(&self, number: u64) -> Cell {
        if matches!(self, Cell::Bytes(_)) { Cell::Bytes(number) } else { Cell::Count(number) }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Absent => Value::Null,
            Cell::Text(text) => json!(text),
            Cell::Name(name) => json!(String::from_utf8_lossy(name)),
            Cell::Flag(flag) => json!(flag),
            Cell::Count(number) | Cell::Bytes(number) => json!(number),
            Cell::Of(used, limit) => json!({ "used": used.json(), "limit": limit }),
            Cell::Names(names) => json!(names),
            Cell::Pairs(pairs) => {
                let pairs = pairs.iter().map(|(name, value)| (name.clone(), value.json()));
                Value::Object(pairs.collect())
            }
            Cell::Time(at) => json!(second(*at)),
            // A document that is no JSON, for example XML, is a text.
            Cell::Document(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        }
    }
}

/// Returns a time in whole seconds, which is the precision of the API, too.
fn second(at: Timestamp) -> String {
    let whole = at.0 - at.0.rem_euclid(1_000_000_000);
    time(Timestamp(whole)).replace(".000Z", "Z")
}

/// The properties of one thing, each with its name in JSON.
pub(crate) type Properties = Vec<(&'static str, Cell)>;

/// A list with named columns.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Creates a list without rows. The columns have their names in JSON.
    pub(crate) fn new(columns: &[&'static str]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with one cell for each column.
    pub(crate) fn add(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// Prints the list to standard output.
    pub(crate) fn print(&self, printing: Printing) {
        if printing.is_json() {
            say_json(&format!("{:#}", self.json()));
            return;
        }
        for line in self.lines(io::stdout().is_terminal()) {
            say(format_args!("{line}"));
        }
    }

    /// Prints the rows of one page of a long list. JSON is one object a line then, so that no page
    /// waits for the last one.
    pub(crate) fn print_page(&self, printing: Printing) {
        if printing.is_json() {
            self.rows.iter().for_each(|row| say_json(&self.object(row).to_string()));
        } else {
            self.print(printing);
        }
    }

    fn object(&self, row: &[Cell]) -> Value {
        let pairs = self.columns.iter().zip(row);
        Value::Object(pairs.map(|(name, cell)| ((*name).to_owned(), cell.json())).collect())
    }

    fn json(&self) -> Value {
        self.rows.iter().map(|row| self.object(row)).collect()
    }

    fn lines(&self, human: bool) -> Vec<String> {
        let cells = self.rows.iter().map(|row| row.iter().map(|cell| cell.shown(human)).collect());
        let rows: Vec<Vec<String>> = cells.collect();
        if !human {
            return rows.iter().map(|row| row.join("\t")).collect();
        }
        if rows.is_empty() {
            return Vec::new();
        }
        let header =
            self.columns.iter().map(|name| name.replace('_', " ").to_uppercase()).collect();
        let all: Vec<Vec<String>> = [vec![header], rows].concat();
        let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> =
            (0..self.columns.len()).map(|column| width(column).unwrap_or(0)).collect();
        let padded = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(text, width)| format!("{text:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        all.iter().map(padded).collect()
    }
}

/// Prints JSON. Texts of clients in it cannot control a terminal.
fn say_json(json: &str) {
    say(format_args!("{}", safe_document(json)));
}

/// Prints properties: a line for each that is present, or one JSON object.
pub(crate) fn print_properties(properties: &Properties, printing: Printing) {
    if printing.is_json() {
        say_json(&format!("{:#}", object(properties)));
        return;
    }
    for line in property_lines(properties, io::stdout().is_terminal()) {
        say(format_args!("{line}"));
    }
}

/// Prints properties, and a list below them. In JSON the list is one of the properties.
pub(crate) fn print_with_list(
    properties: &Properties,
    (name, list): (&'static str, &Table),
    printing: Printing,
) {
    if printing.is_json() {
        let mut object = object(properties);
        object[name] = list.json();
        say_json(&format!("{object:#}"));
        return;
    }
    print_properties(properties, printing);
    if !list.rows.is_empty() {
        say(format_args!("{name}"));
        list.lines(io::stdout().is_terminal())
            .iter()
            .for_each(|line| say(format_args!("  {line}")));
    }
}

/// Returns properties as a JSON object.
pub(crate) fn object(properties: &Properties) -> Value {
    let pairs = properties.iter().map(|(name, cell)| ((*name).to_owned(), cell.json()));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn property_lines(properties: &Properties, human: bool) -> Vec<String> {
    let width = properties.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, cell): &(&'static str, Cell)| {
        format!("{:width$}  {}", name.replace('_', " "), cell.shown(human)).trim_end().to_owned()
    };
    properties.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
