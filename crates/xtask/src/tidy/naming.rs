//! Names of crates and modules that say nothing.

/// Words that say nothing, alone or as the last part of a name.
const EMPTY_NAMES: [&str; 12] = [
    "util", "utils", "common", "helper", "helpers", "manager", "misc", "core", "base", "data",
    "info", "process",
];

/// Whether a name of a crate or module says nothing.
pub(super) fn is_empty_name(name: &str) -> bool {
    name.rsplit(['_', '-']).next().is_some_and(|last| EMPTY_NAMES.contains(&last))
}
