//! The variables that begin with `ASHLAR_` and that no option reads: most are misspelt.
//!
//! For example, `ASHLAR_DATADIR=/srv/ashlar` has no effect, and a gateway would create a new volume
//! in the current folder. The log of its start names the variable and the nearest known name, and
//! `ashlar check-config` fails.

use std::collections::BTreeSet;
use std::fmt;

use clap::Command;
use problem::{Cause, Problem};

/// The prefix of the variables of this program.
const PREFIX: &str = "ASHLAR_";

/// The prefixes of variables that builds, tests and tools of the repository read.
const OF_TOOLS: [&str; 4] = ["ASHLAR_TEST_", "ASHLAR_BIN", "ASHLAR_XTASK_", "ASHLAR_BUILD_"];

/// The secrets that [`crate::environment::secret`] reads. The same name with `_FILE` names a file
/// with the secret.
const SECRETS: [&str; 10] = [
    "ASHLAR_BENCH_COMPARE_SECRET_KEY",
    "ASHLAR_BENCH_SECRET_KEY",
    "ASHLAR_BENCH_SESSION_TOKEN",
    "ASHLAR_BLOCKS_ACCESS_KEY",
    "ASHLAR_BLOCKS_SECRET_KEY",
    "ASHLAR_META_PASSWORD",
    "ASHLAR_ROOT_PASSWORD",
    "ASHLAR_ROOT_USER",
    "ASHLAR_SECRET_KEY",
    "ASHLAR_TOKEN",
];

/// Other variables that are read by name and are no options.
const NAMED: [&str; 3] = ["ASHLAR_ACCESS_KEY", "ASHLAR_MASTER_KEY", "ASHLAR_REGION"];

/// The most letters to change from an unknown name to the known name that is shown with it.
const CHANGES_MAX: usize = 5;

/// A variable that no option reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    name: String,
    /// The known name that is most alike.
    nearest: Option<String>,
}

impl Unknown {
    /// Writes the line of the log.
    pub(crate) fn log(&self) {
        tracing::warn!("{self}");
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no option reads the variable {}, so it has no effect", self.name)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; the nearest known name is {nearest}"),
            None => Ok(()),
        }
    }
}

/// Returns the unknown variables of this process. `command` is the description of the command line.
/// `document` is the text of the bootstrap file, which can name variables with secrets.
pub(crate) fn find(command: &Command, document: &str) -> Vec<Unknown> {
    // Names that are not UTF-8 are not misspelt.
    let names = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let names = names.filter_map(|(name, _)| name.into_string().ok());
    of(names.filter(|name| !document.contains(name.as_str())), &known(command))
}

/// Fails if there are unknown variables.
pub(crate) fn check(unknown: &[Unknown]) -> Result<(), Problem> {
    if unknown.is_empty() {
        return Ok(());
    }
    let texts: Vec<_> = unknown.iter().map(ToString::to_string).collect();
    let problem = Problem::new("accept the environment", texts.join("; "));
    Err(problem.remedy("correct or unset it").because(Cause::Settings))
}

/// Returns the names in `names` that begin with `ASHLAR_` and are not in `known`, in their order.
fn of(names: impl Iterator<Item = String>, known: &BTreeSet<String>) -> Vec<Unknown> {
    let mut unknown: Vec<_> = names
        .filter(|name| name.starts_with(PREFIX) && !known.contains(name))
        .filter(|name| !OF_TOOLS.iter().any(|prefix| name.starts_with(prefix)))
        .filter(|name| !is_service_link(name))
        .map(|name| Unknown { nearest: nearest(&name, known), name })
        .collect();
    unknown.sort_by(|a, b| a.name.cmp(&b.name));
    unknown
}

/// Returns true if Kubernetes sets a variable of this name in each container beside a service whose
/// name begins with `ashlar`: for example `ASHLAR_SERVICE_HOST` and `ASHLAR_PORT_9700_TCP`.
fn is_service_link(name: &str) -> bool {
    let after = |words: &str| name.split_once(words).map(|(_, after)| after);
    name.ends_with("_SERVICE_HOST")
        || after("_SERVICE_PORT").is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        || name.ends_with("_PORT")
        || after("_PORT_").is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
}

/// Returns the names of all variables that the program reads.
fn known(command: &Command) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    of_options(command, &mut known);
    for name in SECRETS {
        known.insert(name.to_owned());
        known.insert(format!("{name}_FILE"));
    }
    known.extend(NAMED.map(str::to_owned));
    known
}

/// Adds the variables of a command's options and of the commands below it.
fn of_options(command: &Command, known: &mut BTreeSet<String>) {
    let names = command.get_arguments().filter_map(|arg| arg.get_env()?.to_str());
    known.extend(names.map(str::to_owned));
    command.get_subcommands().for_each(|below| of_options(below, known));
}

/// Returns the known name with the fewest changes from `name`, if these are few.
fn nearest(name: &str, known: &BTreeSet<String>) -> Option<String> {
    let nearest = known.iter().map(|it| (changes(name, it), it)).min()?;
    (nearest.0 <= CHANGES_MAX).then(|| nearest.1.clone())
}

/// Returns the number of letters to add, remove or replace to get from `from` to `to` (the distance
/// of Levenshtein).
fn changes(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, letter) in from.bytes().enumerate() {
        // The value above and to the left.
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in to.bytes().enumerate() {
            let above = row[column + 1];
            let replaced = diagonal + usize::from(letter != other);
            row[column + 1] = replaced.min(above + 1).min(row[column] + 1);
            diagonal = above;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
