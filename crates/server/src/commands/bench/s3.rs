//! `ashlar bench s3`: rounds of requests to one endpoint, or to two in turn.

#![expect(clippy::doc_markdown, reason = "the texts are shown on terminals, as they are")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use load::{KeyPair, Runner, TargetBucket, Trouble, Verb, Workload};
use serde_json::json;

use super::live::{Live, watched};
use super::table::{self, Row};
use crate::config::Size;
use crate::credentials;
use crate::environment::{first_secret, variable};
use problem::Problem;

/// The variable with the access key, if neither the flag nor `ASHLAR_BENCH_ACCESS_KEY` is given.
const ACCESS_KEY: &str = "AWS_ACCESS_KEY_ID";

/// The variables with the secrets, in the order of precedence.
const SECRET_KEYS: [&str; 2] = ["ASHLAR_BENCH_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"];
const SESSION_TOKENS: [&str; 2] = ["ASHLAR_BENCH_SESSION_TOKEN", "AWS_SESSION_TOKEN"];

/// The paragraph about secrets at the end of `--help`.
const SECRETS: &str = "Secrets come from the environment: ASHLAR_BENCH_SECRET_KEY or \
    AWS_SECRET_ACCESS_KEY, and ASHLAR_BENCH_COMPARE_SECRET_KEY for the other endpoint. With \
    the suffix _FILE, a variable names a file with the secret. Without credentials of its own, the \
    other endpoint gets those of the first.";

#[derive(Debug, Args)]
#[command(after_help = SECRETS)]
pub(crate) struct S3 {
    /// The endpoint, such as http://127.0.0.1:9700
    #[arg(long, value_name = "URL")]
    endpoint: String,
    /// The access key [default: the variable AWS_ACCESS_KEY_ID]
    #[arg(long, value_name = "KEY", env = "ASHLAR_BENCH_ACCESS_KEY", hide_env_values = true)]
    access_key: Option<String>,
    /// The region to sign with
    #[arg(long, value_name = "NAME", default_value = "us-east-1")]
    region: String,
    /// The bucket; it is created if it does not exist. The objects get a new prefix in it
    #[arg(long, value_name = "NAME", default_value = "ashlar-bench")]
    bucket: String,
    /// The workloads, in order: put, get, head, list, delete, delete-batch, mixed, multipart, range
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "put,get,head,list,delete"
    )]
    workload: Vec<Verb>,
    /// The size of objects, or several sizes separated by commas
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "4KiB")]
    size: Vec<Size>,
    /// The size of ranges [default: 128KiB]
    #[arg(long, value_name = "SIZE")]
    range_size: Option<Size>,
    /// The size of parts, at least 5MiB [default: 8MiB]
    #[arg(long, value_name = "SIZE")]
    part_size: Option<Size>,
    /// The number of objects to read, list or start with [default: by workload and size]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    objects: Option<u32>,
    /// The number of concurrent clients, each with one connection
    #[arg(long, value_name = "COUNT", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    clients: u16,
    /// The length of a round in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 8,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// The number of rounds of each workload. The table shows their medians
    #[arg(long, value_name = "COUNT", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// The number of threads of the load. More than one helps only if the endpoint is on another
    /// machine
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Another endpoint, to measure in turn with the first and to compare
    #[arg(long, value_name = "URL")]
    compare: Option<String>,
    /// The access key of the other endpoint
    #[arg(
        long,
        value_name = "KEY",
        env = "ASHLAR_BENCH_COMPARE_ACCESS_KEY",
        hide_env_values = true,
        requires = "compare"
    )]
    compare_access_key: Option<String>,
    /// A file of certificates in PEM to trust, in addition to those that this machine trusts
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Send bodies unsigned, so that the endpoint does not verify their SHA-256
    #[arg(long)]
    unsigned: bool,
    /// Write the figures of every round to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the objects
    #[arg(long)]
    keep: bool,
}

/// One of the endpoints that are measured, with the load generator for its bucket.
struct Side {
    endpoint: String,
    runner: Runner,
}

/// Measures, prints the table, and deletes the objects unless `--keep` is given. Fails if any
/// request failed.
pub(super) async fn run(options: S3) -> Result<(), Problem> {
    let targets = options.targets()?;
    let random = credentials::random_u64()?;
    watched(move |live| measure(&options, &targets, random, &live)).await
}

/// Creates the buckets, runs the workloads, deletes the objects, and writes the JSON.
fn measure(
    options: &S3,
    targets: &[TargetBucket],
    random: u64,
    live: &Live,
) -> Result<(), Problem> {
    let prefix = format!("ashlar-bench-{random:016x}/");
    let mut sides = Vec::new();
    // All endpoints are checked before the first round, so that wrong credentials of the second one
    // do not cost the time of a measurement.
    for target in targets {
        let doing = || format!("measure {}", target.endpoint);
        let made = Runner::new(target, &prefix, random, usize::from(options.threads));
        let runner = made.map_err(|trouble| Problem::new(doing(), trouble))?;
        let made = runner.make_bucket().map_err(|trouble| {
            Problem::new(
                format!("use the bucket {} of {}", target.bucket, target.endpoint),
                trouble,
            )
            .remedy("make sure that the endpoint, the region and the credentials belong together")
        })?;
        if made {
            live.say(format_args!("made the bucket {} at {}", target.bucket, target.endpoint));
        }
        sides.push(Side { endpoint: target.endpoint.clone(), runner });
    }
    let rows = rows(options, &mut sides, live);
    // The objects are deleted also if a workload failed.
    if options.keep {
        live.say(format_args!("the objects are kept below {}/{prefix}", options.bucket));
    } else {
        clean(&mut sides, live)?;
    }
    let rows = rows?;
    if let Some(file) = &options.json {
        write_json(file, options, &sides, &rows)?;
    }
    verdict(&sides, &rows)
}

/// Runs all workloads. Prints the lines of each workload when it ends.
fn rows(options: &S3, sides: &mut [Side], live: &Live) -> Result<Vec<Row>, Problem> {
    let endpoints: Vec<String> = sides.iter().map(|side| side.endpoint.clone()).collect();
    for (name, endpoint) in table::NAMES.iter().zip(&endpoints).filter(|_| endpoints.len() > 1) {
        live.say(format_args!("{name} is {endpoint}"));
    }
    live.say(format_args!("{}", table::titles(endpoints.len())));
    let mut rows = Vec::new();
    for workload in options.workloads() {
        let mut row = Row { workload, sides: vec![Vec::new(); sides.len()] };
        for number in 0..options.rounds {
            let mut order: Vec<usize> = (0..sides.len()).collect();
            // The endpoints alternate at the start of rounds, so that the warm machine does not
            // always favour the same one.
            order.rotate_left(usize::from(number % 2 == 1).min(sides.len() - 1));
            for place in order {
                let (side, rounds) = (&mut sides[place], &mut row.sides[place]);
                let doing = || format!("measure {} at {}", workload.verb, side.endpoint);
                let named = doing();
                let wrong = |trouble: Trouble| Problem::new(named.clone(), trouble);
                live.step(format!("{}, preparing", doing()));
                side.runner.prepare(&workload, &live.gauge).map_err(wrong)?;
                live.step(format!("{}, round {} of {}", doing(), number + 1, options.rounds));
                rounds.push(side.runner.round(&workload, &live.gauge).map_err(wrong)?);
            }
        }
        for line in table::lines(&row) {
            live.say(format_args!("{line}"));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Deletes the objects of all endpoints.
fn clean(sides: &mut [Side], live: &Live) -> Result<(), Problem> {
    for side in sides {
        let doing = format!("delete the objects at {}", side.endpoint);
        live.step(doing.clone());
        side.runner.clean().map_err(|trouble| Problem::new(doing, trouble))?;
    }
    Ok(())
}

/// Fails if any request failed, because the rate of failing requests has no meaning.
fn verdict(sides: &[Side], rows: &[Row]) -> Result<(), Problem> {
    for (place, side) in sides.iter().enumerate() {
        let all = || rows.iter().flat_map(|row| &row.sides[place]);
        let errors: u64 = all().map(|round| round.errors).sum();
        if errors > 0 {
            let mut samples: Vec<&str> = all().flat_map(|it| &it.samples).map(|it| &**it).collect();
            samples.dedup();
            samples.truncate(5);
            let wrong = format!("{errors} requests failed: {}", samples.join("; "));
            return Err(Problem::new(format!("trust the figures of {}", side.endpoint), wrong));
        }
    }
    Ok(())
}

/// Writes the figures of all rounds to a file.
fn write_json(file: &Path, options: &S3, sides: &[Side], rows: &[Row]) -> Result<(), Problem> {
    let rows: Vec<_> = rows.iter().map(table::json).collect();
    let endpoints: Vec<&str> = sides.iter().map(|side| side.endpoint.as_str()).collect();
    let all = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "endpoints": endpoints,
        "unsigned": options.unsigned,
        "workloads": rows,
    });
    let text = format!("{all:#}\n");
    std::fs::write(file, text)
        .map_err(|error| Problem::new(format!("write {}", file.display()), error))
}

impl S3 {
    /// Returns the workloads of all sizes, in the order of the options.
    fn workloads(&self) -> Vec<Workload> {
        let time = Duration::from_secs(self.seconds);
        let one = |bytes: u64, verb: Verb| {
            let mut workload = Workload::new(verb, bytes, usize::from(self.clients), time);
            if let Some(Size(bytes)) = self.range_size {
                workload.range_bytes = bytes;
            }
            if let Some(Size(bytes)) = self.part_size {
                workload.part_bytes = bytes;
            }
            if let Some(count) = self.objects {
                workload.objects = usize::try_from(count).unwrap_or(usize::MAX);
            }
            workload
        };
        let mut all = Vec::new();
        for size in &self.size {
            all.extend(self.workload.iter().map(|verb| one(size.0, *verb)));
        }
        all
    }

    /// Returns the endpoints with their credentials, one or two.
    fn targets(&self) -> Result<Vec<TargetBucket>, Problem> {
        let own = credentials(self.access_key.clone(), ACCESS_KEY, &SECRET_KEYS, &SESSION_TOKENS)?
            .ok_or_else(|| {
                Problem::new("measure", "there are no credentials")
                    .remedy("set ASHLAR_BENCH_ACCESS_KEY and ASHLAR_BENCH_SECRET_KEY")
            })?;
        let target = |endpoint: &str, credentials| TargetBucket {
            endpoint: endpoint.to_owned(),
            bucket: self.bucket.clone(),
            region: self.region.clone(),
            credentials,
            authority: self.ca_file.clone(),
            unsigned: self.unsigned,
        };
        let mut targets = vec![target(&self.endpoint, own.clone())];
        if let Some(endpoint) = &self.compare {
            let names = ["ASHLAR_BENCH_COMPARE_SECRET_KEY"];
            let key = self.compare_access_key.clone();
            let other = credentials(key, "ASHLAR_BENCH_COMPARE_ACCESS_KEY", &names, &[])?;
            targets.push(target(endpoint, other.unwrap_or(own)));
        }
        Ok(targets)
    }
}

/// Returns an access key, from the command line or a variable, and its secret. Returns `None` if
/// both are missing, and fails if only one is.
fn credentials(
    access_key: Option<String>,
    variable_name: &str,
    secrets: &[&str],
    tokens: &[&str],
) -> Result<Option<KeyPair>, Problem> {
    let access_key = match access_key {
        Some(key) => Some(key),
        None => variable(variable_name)?,
    };
    let session_token = first_secret(tokens)?.map(|token| token.expose().to_owned());
    match (access_key, first_secret(secrets)?) {
        (None, None) => Ok(None),
        (Some(access_key), Some(secret)) => {
            let secret_key = secret.expose().to_owned();
            Ok(Some(KeyPair { access_key, secret_key, session_token }))
        }
        (Some(_), None) => {
            let wrong = "the access key has no secret";
            Err(Problem::new("measure", wrong).remedy(format!("set {}", secrets.join(" or "))))
        }
        (None, Some(_)) => {
            let wrong = "the secret has no access key";
            Err(Problem::new("measure", wrong).remedy(format!("set {variable_name}")))
        }
    }
}

const _: () = assert!(table::NAMES.len() == 2, "one endpoint, and one to compare it with");
