//! `ashlar version`, `ashlar completion` and `ashlar manual`: texts about this program itself.
//!
//! For example, `ashlar completion bash` prints a script for bash, and `ashlar manual DIR` writes a
//! page for `man ashlar-serve`. Both follow from the command line's own description.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum as _};
use clap_complete::Shell;
use serde::Serialize;

use crate::build::{self, COMMIT, VERSION};
use crate::output::say;
use problem::Problem;

#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Print version, commit, features and metadata engines as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// The shell
    shell: Shell,
    /// Write the file with the usual name for this shell to a directory, instead of printing it
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// The directory for the pages, such as ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// The build of this program, as JSON shows it.
#[derive(Serialize)]
struct About {
    version: &'static str,
    commit: Option<&'static str>,
    features: Vec<&'static str>,
    engines: Vec<&'static str>,
}

impl Version {
    /// Prints the version.
    pub(crate) fn run(&self) -> Result<(), Problem> {
        if !self.json {
            say(format_args!("ashlar {VERSION}"));
            return Ok(());
        }
        let (features, engines) = (build::features(), build::engines());
        let about = About { version: VERSION, commit: COMMIT, features, engines };
        let text = serde_json::to_string(&about)
            .map_err(|error| Problem::new("print the version", error))?;
        say(format_args!("{text}"));
        Ok(())
    }
}

impl Completion {
    /// Prints or writes the completion of `program`, the description of the whole command line.
    pub(crate) fn run(&self, mut program: clap::Command) -> Result<(), Problem> {
        let doing = || {
            format!(
                "write the completion of {}",
                self.shell
                    .to_possible_value()
                    .map_or_else(String::new, |it| it.get_name().to_owned())
            )
        };
        if let Some(dir) = &self.dir {
            let written = clap_complete::generate_to(self.shell, &mut program, "ashlar", dir);
            return written.map(drop).map_err(|error| Problem::new(doing(), error));
        }
        // In memory first: the generator panics if a pipe is closed.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "ashlar", &mut script);
        let _gone = std::io::stdout().lock().write_all(&script);
        Ok(())
    }
}

impl Manual {
    /// Writes a page for `program`, the description of the whole command line, and one for each
    /// command.
    pub(crate) fn run(&self, program: clap::Command) -> Result<(), Problem> {
        write_pages(program, &self.folder).map_err(|error| {
            let doing = format!("write the manual to {}", self.folder.display());
            Problem::new(doing, error).remedy("give an existing directory")
        })
    }
}

fn write_pages(program: clap::Command, folder: &Path) -> std::io::Result<()> {
    // The pages of commands that users do not type are left out by clap.
    clap_mangen::generate_to(program, folder)
}
