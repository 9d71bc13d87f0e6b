//! `cargo xtask tidy`: the architecture's invariants, checked on every change.
//!
//! What a crate depends on is read from cargo; what a file names is read from its tokens. Each rule
//! has a test that plants a violation, so that a rule cannot stop working unnoticed.

mod circles;
mod dependencies;
mod names;
mod naming;
mod outline;
mod source;
mod tests_only;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::workspace::{Member, Workspace};
use names::PublicTypes;
use naming::is_empty_name;
use outline::Outline;

/// Lines from which on a file probably hides a second idea.
const LONG_FILE: usize = 600;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Violations.
    pub(crate) errors: Vec<String>,
    /// Worth a look.
    pub(crate) warnings: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} errors, {} warnings", self.errors.len(), self.warnings.len())?;
        for error in &self.errors {
            write!(f, "\n  error: {error}")?;
        }
        for warning in &self.warnings {
            write!(f, "\n  warning: {warning}")?;
        }
        Ok(())
    }
}

/// Checks every member.
pub(crate) fn check(workspace: &Workspace) -> Result<Report> {
    let mut report = Report::default();
    let mut types = PublicTypes::default();
    for member in &workspace.members {
        if is_empty_name(&member.name) {
            report.errors.push(format!("the name of crate {} says nothing", member.name));
        }
        let reached = dependencies::reached(workspace, &member.name)?;
        let names: Vec<&str> = workspace.members.iter().map(|it| it.name.as_str()).collect();
        report.errors.extend(dependencies::violations(&member.name, &reached, &names));
        check_sources(workspace, member, &mut report)?;
        let outlines = outlines(member)?;
        if member.folder.starts_with(workspace.root.join("crates")) {
            outlines.iter().for_each(|outline| types.add(&member.name, outline));
        }
        let circles = outlines.iter().flat_map(circles::circles);
        let circles = circles.map(|it| format!("{}: modules in a circle: {it}", member.name));
        report.errors.extend(circles);
    }
    report.errors.extend(types.violations());
    Ok(report)
}

/// The modules of a member's library and of its program, if it has one.
fn outlines(member: &Member) -> Result<Vec<Outline>> {
    let roots = ["src/lib.rs", "src/main.rs"].map(|root| member.folder.join(root));
    roots.iter().filter(|root| root.is_file()).map(|root| Outline::read(root)).collect()
}

fn check_sources(workspace: &Workspace, member: &Member, report: &mut Report) -> Result<()> {
    for path in rust_files(&member.folder)? {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let place = path.strip_prefix(&workspace.root).unwrap_or(&path).display().to_string();
        let inside = path.strip_prefix(&member.folder).unwrap_or(&path);
        let lines = text.lines().count();
        if lines > LONG_FILE {
            report.warnings.push(format!("{place} has {lines} lines"));
        }
        if inside.iter().any(|part| is_empty_name(&stem(Path::new(part)))) {
            report.errors.push(format!("{place}: the module's name says nothing"));
        }
        let found = source::violations(&text, &member.name, is_test(inside));
        report
            .errors
            .extend(found.into_iter().map(|(line, what)| format!("{place}:{line}: {what}")));
    }
    Ok(())
}

/// Whether a file, by its path inside its crate, is compiled for tests and benches only.
fn is_test(inside: &Path) -> bool {
    let mut parts = inside.iter().map(|part| stem(Path::new(part)));
    parts.any(|part| matches!(part.as_str(), "tests" | "benches" | "examples"))
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// All Rust files below a folder, but not below a build folder.
fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
