//! `cargo xtask tidy`: rules for the architecture, for English and for pages, checked on every
//! change.
//!
//! Cargo lists the dependencies of a crate; the tokens of a file give the names that it uses. For
//! example, a file of a pure crate that names `std::fs` is an error. Each rule has a test that
//! plants a violation, so that a rule cannot stop working unnoticed.

mod circles;
mod commands;
mod comments;
mod dependencies;
mod markdown;
mod names;
mod naming;
mod outline;
mod pages;
mod prose;
mod source;
mod subjects;
mod tests_only;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::workspace::{Member, Workspace};
use commands::{Program, Types};
use names::PublicTypes;
use naming::is_empty_name;
use outline::Outline;
use pages::Repository;
use prose::Prose;

/// A longer file probably hides a second idea.
const LONG_FILE: usize = 600;

/// Our programs: the words that call each one, and the folder of its sources.
const PROGRAMS: [(&str, &str); 3] = [
    ("cargo xtask", "crates/xtask/src"),
    ("ashlar", "crates/server/src"),
    ("cargo run --release --", "crates/server/src"),
];

/// Options of `cargo xtask tidy`.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Also print a table of the marks of unclear English in each crate and page
    #[arg(long)]
    prose: bool,
}

/// The result of all checks.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Violations of rules.
    pub(crate) errors: Vec<String>,
    /// Findings that a person should look at, and checks that could not run.
    pub(crate) warnings: Vec<String>,
    prose: Prose,
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

/// Checks the workspace and prints the findings. Returns true if there are no errors.
pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<bool> {
    let report = check(workspace)?;
    if options.prose {
        println!("{}", report.prose.table());
    }
    println!("{report}");
    Ok(report.errors.is_empty())
}

/// Checks all members of the workspace, its pages and its commits.
pub(crate) fn check(workspace: &Workspace) -> Result<Report> {
    let mut report = Report::default();
    let mut types = PublicTypes::default();
    for member in &workspace.members {
        if is_empty_name(&member.name) {
            report.errors.push(format!("the name of crate {} has no meaning", member.name));
        }
        let reached = dependencies::reached(workspace, &member.name)?;
        let names: Vec<&str> = workspace.members.iter().map(|it| it.name.as_str()).collect();
        report.errors.extend(dependencies::violations(&member.name, &reached, &names));
        check_sources(workspace, member, &mut report)?;
        // The outline is read once and used by two rules.
        let outlines = outlines(member)?;
        if member.folder.starts_with(workspace.root.join("crates")) {
            outlines.iter().for_each(|outline| types.add(&member.name, outline));
        }
        let circles = outlines.iter().flat_map(circles::circles);
        let circles = circles.map(|it| format!("{}: modules import each other: {it}", member.name));
        report.errors.extend(circles);
    }
    report.errors.extend(types.violations());
    check_pages(workspace, &mut report)?;
    report.errors.extend(report.prose.violations());
    let members: Vec<&str> = workspace.members.iter().map(|it| it.name.as_str()).collect();
    match subjects::violations(&workspace.root, &members) {
        Ok(found) => report.errors.extend(found),
        // An archive and a shallow clone have no history, and are no fault of the change.
        Err(error) => report.warnings.push(format!("subjects of commits not checked: {error:#}")),
    }
    Ok(report)
}

fn check_pages(workspace: &Workspace, report: &mut Report) -> Result<()> {
    let pages = pages::read_pages(&workspace.root)?;
    let members = workspace.members.iter().map(|it| it.name.clone());
    let programs = programs(&workspace.root)?;
    let repository = Repository::read(&workspace.root, members, &pages, programs)?;
    for page in &pages {
        report.errors.extend(repository.violations(page));
        if page.is_prose() {
            report.prose.add_page(&page.path, &page.blocks);
        }
    }
    Ok(())
}

/// The command lines of our programs, in the order of `PROGRAMS`.
fn programs(root: &Path) -> Result<Vec<Program>> {
    let read = |(call, folder): (&'static str, &str)| {
        let folder = root.join(folder);
        let mut types = Types::default();
        for path in rust_files(&folder)? {
            // Tests declare command lines of their own.
            let inside = path.strip_prefix(&folder).unwrap_or(&path);
            if !is_test(inside) {
                let module: Vec<String> = inside.iter().map(|it| stem(Path::new(it))).collect();
                types.add(&module, &read(&path)?)?;
            }
        }
        Program::read(call, &types)
    };
    PROGRAMS.into_iter().map(read).collect()
}

/// Reads the modules of a member's library and of its program.
fn outlines(member: &Member) -> Result<Vec<Outline>> {
    // A crate with a library and a program has two separate trees of modules.
    let roots = ["src/lib.rs", "src/main.rs"].map(|root| member.folder.join(root));
    roots.iter().filter(|root| root.is_file()).map(|root| Outline::read(root)).collect()
}

/// Checks the text of each source file, and counts its prose.
fn check_sources(workspace: &Workspace, member: &Member, report: &mut Report) -> Result<()> {
    for path in rust_files(&member.folder)? {
        let text = read(&path)?;
        let place = path.strip_prefix(&workspace.root).unwrap_or(&path).display().to_string();
        let inside = path.strip_prefix(&member.folder).unwrap_or(&path);
        let lines = text.lines().count();
        if lines > LONG_FILE {
            report.warnings.push(format!("{place} has {lines} lines"));
        }
        if inside.iter().any(|part| is_empty_name(&stem(Path::new(part)))) {
            report.errors.push(format!("{place}: the name of the module has no meaning"));
        }
        let found = source::violations(&text, &member.name, is_test(inside));
        report
            .errors
            .extend(found.into_iter().map(|(line, error)| format!("{place}:{line}: {error}")));
        // Crates for tests alone, and tests, are not held to the limits of prose.
        if !place.starts_with("tests/") && !place.contains("/tests/") && stem(&path) != "tests" {
            report.prose.add_source(&member.name, &place, &text, &comments::read(&text));
        }
    }
    Ok(())
}

/// Returns true if a file is compiled for tests, benches or examples only. `inside` is its path
/// inside its crate.
fn is_test(inside: &Path) -> bool {
    let mut parts = inside.iter().map(|part| stem(Path::new(part)));
    parts.any(|part| matches!(part.as_str(), "tests" | "benches" | "examples"))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The name of a file or folder without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns all Rust files below a folder, sorted, except those in build folders.
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
