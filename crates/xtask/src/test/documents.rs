//! The documentation of all members, checked from the build.
//!
//! `cargo doc` analyses each dependency again, because it takes no metadata from a build. But
//! `cargo test --doc` gives rustdoc the libraries of the build. So the step lets cargo start this
//! program instead of rustdoc, and this program starts rustdoc with the same arguments, but for
//! `--test`. For example, cargo wants the examples of `store` to be tested, and rustdoc checks the
//! documentation of `store`.
//!
//! Rustdoc only checks: it finds each wrong link and writes no pages. The option is unstable, so it
//! needs a variable.
//!
//! Cargo does that for libraries. This program adds the other targets of the package: programs and
//! examples.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::steps::{Run, StepOutcome};

/// The variable by which the step tells this program to act as rustdoc.
const IS_RUSTDOC: &str = "ASHLAR_XTASK_RUSTDOC";

/// The variable and the arguments with which rustdoc checks documentation and writes no pages.
const UNSTABLE: (&str, &str) = ("RUSTC_BOOTSTRAP", "1");
const CHECK: [&str; 3] = ["-Z", "unstable-options", "--check"];

/// The arguments by which cargo names the test of examples, each with the number of its values.
/// They do not fit documentation.
const OF_TESTS: [(&str, usize); 2] = [("--test", 0), ("--test-run-directory", 1)];

/// Checks the documentation of all members, with their private items. A warning, such as one of a
/// link that leads nowhere, is a failure.
pub(super) fn step(run: &Run<'_>) -> Result<StepOutcome> {
    let mut command = run.linting_cargo();
    command
        .args(["test", "--workspace", "--doc", "--no-fail-fast"])
        .env("RUSTDOC", std::env::current_exe().context("this program has a path")?)
        .env("RUSTDOCFLAGS", "-D warnings --document-private-items")
        .env(IS_RUSTDOC, "1");
    run.watch(command, "doc")
}

/// One call of this program by cargo as rustdoc.
#[derive(Debug)]
pub(crate) struct Documents {
    arguments: Vec<OsString>,
}

impl Documents {
    /// Returns the call, if cargo has started this program as rustdoc.
    pub(crate) fn of_cargo() -> Option<Self> {
        std::env::var_os(IS_RUSTDOC)?;
        Some(Self { arguments: std::env::args_os().skip(1).collect() })
    }

    /// Checks a library, and the programs and examples of its package. Returns false if rustdoc
    /// finds faults.
    pub(crate) fn check(&self) -> Result<bool> {
        let arguments = without(&self.arguments, &OF_TESTS);
        let Some(folder) = std::env::var_os("CARGO_MANIFEST_DIR") else {
            // Cargo asks for the version of rustdoc without a package.
            return rustdoc(&arguments, &[]);
        };
        let mut passed = rustdoc(&arguments, &CHECK)?;
        for path in programs(Path::new(&folder))? {
            passed &= rustdoc(&of_program(&arguments, &path)?, &CHECK)?;
        }
        Ok(passed)
    }
}

/// Starts rustdoc. Returns false if it finds faults.
fn rustdoc(arguments: &[OsString], more: &[&str]) -> Result<bool> {
    let mut command = Command::new("rustdoc");
    command.args(arguments).args(more).env(UNSTABLE.0, UNSTABLE.1);
    Ok(command.status().context("cannot start rustdoc")?.success())
}

/// Returns the arguments without some, and without the values of these.
fn without(arguments: &[OsString], unwanted: &[(&str, usize)]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match unwanted.iter().find(|(name, _)| argument == name) {
            Some((_, values)) => rest.by_ref().take(*values).for_each(drop),
            None => kept.push(argument.clone()),
        }
    }
    kept
}

/// Returns the arguments for a program at `path`, from those of the library of its package.
fn of_program(arguments: &[OsString], path: &Path) -> Result<Vec<OsString>> {
    let Some(root) = arguments.iter().position(is_source) else {
        bail!("cargo names no source of the library beside {}", path.display());
    };
    let mut changed = arguments.to_vec();
    changed[root] = path.into();
    let name = name_of_program(path).context("a program has a name")?;
    for (option, value) in [("--crate-type", "bin"), ("--crate-name", &name)] {
        let place = changed.iter().position(|argument| argument == option);
        let place = place.with_context(|| format!("cargo gives no {option}"))?;
        *changed.get_mut(place + 1).context("an option has a value")? = value.into();
    }
    Ok(changed)
}

/// Returns the crate name of a program: that of an example, or for example `server_program`,
/// because the library is `server`.
fn name_of_program(path: &Path) -> Option<String> {
    let folder = path.parent()?;
    let name = |path: &Path| Some(path.file_stem()?.to_str()?.replace('-', "_"));
    match (path.ends_with("src/main.rs"), path.ends_with("main.rs")) {
        (true, _) => Some(format!("{}_program", name(folder.parent()?)?)),
        (false, true) => name(folder),
        (false, false) => name(path),
    }
}

fn is_source(argument: &OsString) -> bool {
    Path::new(argument).extension().is_some_and(|extension| extension == "rs")
}

/// Returns the sources of the programs and examples of the package in `folder`, sorted.
fn programs(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![folder.join("src/main.rs")];
    let examples = folder.join("examples");
    if examples.is_dir() {
        for entry in std::fs::read_dir(examples).context("cannot list the examples")? {
            let path = entry?.path();
            found.push(if path.is_dir() { path.join("main.rs") } else { path });
        }
    }
    found.retain(|path| path.is_file() && is_source(&path.clone().into()));
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
