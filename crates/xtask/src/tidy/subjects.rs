//! The subjects of commits: `component[, component]: change`, at most 72 characters.
//!
//! Commits after a base are checked; older ones followed other rules. A copy without this history,
//! such as an archive or a shallow clone, is not checked.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::workspace::stdout;

/// The last commit that is not checked.
const BASE: &str = "a6147c8c5a54a469ba4059b1d03c625d7ed9e263";

/// The most characters of a subject.
const LENGTH: usize = 72;

/// Components that are neither packages nor files or folders at the root.
const OTHER_COMPONENTS: [&str; 4] = ["ci", "clients", "workspace", "image"];

/// The subjects that break a rule. Fails with a sentence if there is no history to check.
pub(super) fn violations(root: &Path, members: &[&str]) -> Result<Vec<String>> {
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(root).args(words);
        stdout(command)
    };
    // A base that is no ancestor belongs to another history.
    git(&["merge-base", "--is-ancestor", BASE, "HEAD"])?;
    // Merges have subjects that git makes.
    let range = format!("{BASE}..HEAD");
    let log = git(&["log", "--no-merges", "--format=%h %s", &range])?;
    let components = components(root, members)?;
    Ok(log.lines().filter_map(|line| violation(line, &components)).collect())
}

/// The names before the colon of a subject. A folder below `tests` has two names: `clients` and
/// `tests/clients`.
fn components(root: &Path, members: &[&str]) -> Result<BTreeSet<String>> {
    let mut names: BTreeSet<String> =
        members.iter().chain(&OTHER_COMPONENTS).map(|&name| name.to_owned()).collect();
    for folder in [root.to_owned(), root.join("tests"), root.join("docs")] {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            // `.ci` is called `ci`.
            names.insert(stem.trim_start_matches('.').to_owned());
            if path.parent() == Some(&root.join("tests")) {
                names.insert(format!("tests/{stem}"));
            }
        }
    }
    Ok(names)
}

/// The error of one commit, given as its short hash and its subject.
fn violation(commit: &str, components: &BTreeSet<String>) -> Option<String> {
    let (_, subject) = commit.split_once(' ')?;
    let length = subject.chars().count();
    if length > LENGTH {
        return Some(format!("commit {commit}: the subject has {length} characters, not {LENGTH}"));
    }
    // A change may contain another colon, so the first one separates.
    let Some((before, change)) = subject.split_once(": ") else {
        return Some(format!("commit {commit}: the subject names no component before a colon"));
    };
    if change.trim().is_empty() {
        return Some(format!("commit {commit}: the subject names no change"));
    }
    let strange = before.split(", ").find(|name| !components.contains(*name))?;
    Some(format!("commit {commit}: {strange:?} is no crate, page or folder"))
}

#[cfg(test)]
mod tests;
