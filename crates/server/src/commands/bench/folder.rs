//! `ashlar bench fs`: rounds of system calls in a directory.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use load::{FileLoad, FileVerb, Folder, Round};
use serde_json::json;

use super::live::{Live, watched};
use super::table;
use crate::config::Size;
use crate::credentials;
use problem::Problem;

#[derive(Debug, Args)]
pub(crate) struct Fs {
    /// The directory. The files are created in a new subdirectory
    dir: PathBuf,
    /// The size of the large file
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    size: Size,
    /// The number of concurrent threads, for workloads that allow more than one
    #[arg(long, value_name = "COUNT", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// The length of a round in seconds. Reads and writes of the large file end with the file
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// The number of rounds. The table shows their medians
    #[arg(long, value_name = "COUNT", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Write the figures of every round to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the files
    #[arg(long)]
    keep: bool,
}

/// Measures, prints the table, and deletes the files unless `--keep` is given.
pub(super) async fn run(options: Fs) -> Result<(), Problem> {
    let random = credentials::random_u64()?;
    watched(move |live| measure(&options, random, &live)).await
}

/// Creates the files, runs the rounds, deletes the files, and writes the JSON.
fn measure(options: &Fs, random: u64, live: &Live) -> Result<(), Problem> {
    let doing = format!("measure {}", options.dir.display());
    let problem = |trouble| Problem::new(doing.clone(), trouble);
    let path = options.dir.join(format!("ashlar-bench-{random:016x}"));
    let mut folder = Folder::make(&path, random).map_err(|trouble| {
        problem(trouble).remedy("give a directory that exists and that this user can write")
    })?;
    let rows = rows(options, &mut folder, live);
    // The files are deleted also if a workload failed.
    if options.keep {
        live.say(format_args!("the files are kept in {}", path.display()));
    } else {
        folder.clean().map_err(problem)?;
    }
    let rows = rows.map_err(problem)?;
    let Some(file) = &options.json else { return Ok(()) };
    let all: Vec<_> = rows
        .iter()
        .map(|(verb, rounds)| json!({ "workload": verb, "side": table::side(rounds) }))
        .collect();
    let all = json!({ "version": env!("CARGO_PKG_VERSION"), "workloads": all });
    std::fs::write(file, format!("{all:#}\n"))
        .map_err(|error| Problem::new(format!("write {}", file.display()), error))
}

/// Runs the rounds, and prints the table. Returns the rounds of each workload.
fn rows(
    options: &Fs,
    folder: &mut Folder,
    live: &Live,
) -> Result<Vec<(FileVerb, Vec<Round>)>, load::Trouble> {
    let load = FileLoad {
        file_bytes: options.size.0,
        clients: usize::from(options.clients),
        time: Duration::from_secs(options.seconds),
    };
    live.say(format_args!("{}", table::file_titles()));
    let mut rows: Vec<_> = FileVerb::ALL.map(|verb| (verb, Vec::new())).into();
    // Each round runs all workloads, because later ones need the files that earlier ones create.
    for number in 0..options.rounds {
        for (verb, rounds) in &mut rows {
            live.step(format!("{verb}, round {} of {}", number + 1, options.rounds));
            rounds.push(folder.round(*verb, load, &live.gauge)?);
        }
    }
    for (verb, rounds) in &rows {
        live.say(format_args!("{}", table::file_line(*verb, rounds)));
    }
    Ok(rows)
}
