//! The documentation of all members, made from the build.
//!
//! `cargo doc` analyses each dependency again, because it takes no metadata from a build. But
//! `cargo test --doc` gives rustdoc the libraries of the build. So the step lets cargo start this
//! program instead of rustdoc, and this program starts rustdoc with the same arguments, but for
//! `--test`. For example, cargo wants the examples of `store` to be tested, and gets the pages of
//! `store`.
//!
//! Cargo does that for libraries. This program adds the other targets of the package: programs and
//! examples.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::steps::{Run, StepOutcome};

/// The variable by which the step tells this program to act as rustdoc. Its value is the folder of
/// the pages.
const PAGES: &str = "ASHLAR_XTASK_PAGES";

/// The arguments by which cargo names the test of examples, each with the number of its values.
/// They do not fit documentation.
const OF_TESTS: [(&str, usize); 2] = [("--test", 0), ("--test-run-directory", 1)];

/// Makes the pages of all members, with their private items. A warning, such as one of a link that
/// leads nowhere, is a failure.
pub(super) fn step(run: &Run<'_>) -> Result<StepOutcome> {
    let mut command = run.linting_cargo();
    command
        .args(["test", "--workspace", "--doc", "--no-fail-fast"])
        .env("RUSTDOC", std::env::current_exe().context("this program has a path")?)
        .env("RUSTDOCFLAGS", "-D warnings --document-private-items")
        .env(PAGES, run.workspace.target.join("doc"));
    run.watch(command, "doc")
}

/// One call of this program by cargo as rustdoc.
#[derive(Debug)]
pub(crate) struct Documents {
    pages: PathBuf,
    arguments: Vec<OsString>,
}

impl Documents {
    /// Returns the call, if cargo has started this program as rustdoc.
    pub(crate) fn of_cargo() -> Option<Self> {
        let pages = std::env::var_os(PAGES)?;
        Some(Self { pages: pages.into(), arguments: std::env::args_os().skip(1).collect() })
    }

    /// Makes the pages of a library, and of the programs and examples of its package. Returns false
    /// if rustdoc finds faults.
    pub(crate) fn make(&self) -> Result<bool> {
        let arguments = without(&self.arguments, &OF_TESTS);
        let mut passed = self.rustdoc(&arguments)?;
        let Some(folder) = std::env::var_os("CARGO_MANIFEST_DIR") else {
            // Cargo asks for the version of rustdoc without a package.
            return Ok(passed);
        };
        for path in programs(Path::new(&folder))? {
            passed &= self.rustdoc(&of_program(&arguments, &path)?)?;
        }
        Ok(passed)
    }

    fn rustdoc(&self, arguments: &[OsString]) -> Result<bool> {
        let mut command = Command::new("rustdoc");
        command.args(arguments).arg("--out-dir").arg(&self.pages);
        Ok(command.status().context("cannot start rustdoc")?.success())
    }
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
    let name = name_of_pages(path).context("a program has a name")?;
    for (option, value) in [("--crate-type", "bin"), ("--crate-name", &name)] {
        let place = changed.iter().position(|argument| argument == option);
        let place = place.with_context(|| format!("cargo gives no {option}"))?;
        *changed.get_mut(place + 1).context("an option has a value")? = value.into();
    }
    Ok(changed)
}

/// Returns the name of the pages of a program: that of an example, or for example `server_program`,
/// because the library has the pages `server`.
fn name_of_pages(path: &Path) -> Option<String> {
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
