//! Names of crates and modules without a meaning, such as `util`.

/// Words without a meaning, alone or as the last part of a name.
const EMPTY_NAMES: [&str; 12] = [
    "util", "utils", "common", "helper", "helpers", "manager", "misc", "core", "base", "data",
    "info", "process",
];

/// Returns true if a name of a crate or module has no meaning. For example, `request_helper` has
/// none.
pub(super) fn is_empty_name(name: &str) -> bool {
    name.rsplit(['_', '-']).next().is_some_and(|last| EMPTY_NAMES.contains(&last))
}
