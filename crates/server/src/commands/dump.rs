//! `ashlar dump` and `ashlar load`: copy the metadata of a volume to a file, and from there into
//! another database.
//!
//! `dump` writes a temporary file, and renames it when all of it is on disk. Only its owner can
//! read the file, and it replaces an existing file only with `--force`. `load` writes the volume
//! record last, so a store that is loaded only in part is not a volume. For example, `ashlar dump -
//! | ashlar load - --meta postgres://…` moves a volume from SQLite to PostgreSQL.

use std::fs::File;
use std::io::{self, IsTerminal, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::dump::{DumpError, DumpSize, Keystone, Phase, Summary};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use record::key::{self, space};
use record::{DecodeError, VolumeRecord};
use store::{MetaStore, Read, ReadResult};
use tempfile::NamedTempFile;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{MetaPlace, ServerKind, VolumeSettings};
use crate::engines::{self, Use};
use crate::outcome::Outcome;
use crate::output::say;
use crate::table::{Cell, Printing, Properties, object, print_properties};
use crate::{credentials, founding};
use problem::Problem;

/// The file name that means standard input or output.
const STANDARD: &str = "-";

/// The limit up to which open sessions are counted.
const SESSIONS_COUNTED: u32 = 1_000;

#[derive(Debug, Args)]
pub(crate) struct Dump {
    /// The file to write; - writes to standard output
    file: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    printing: Printing,
}

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// The file to read; - reads standard input
    file: PathBuf,
    /// Verify the dump, and write nothing
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    printing: Printing,
}

/// Writes the metadata of a volume to a file. Gateways may be serving the volume.
pub(crate) async fn dump(settings: VolumeSettings, command: Dump) -> Result<Outcome, Problem> {
    let doing = "dump the volume";
    let problem = |error: DumpError| Problem::new(doing, error);
    // The output comes first, so that a wrong path fails before the store is opened.
    let out = DumpOutput::open(&command)?;
    let (meta, volume) = existing(&settings, doing).await?;
    let bar = Bar::new(None);
    let dumping = async {
        let sessions = sessions(&*meta).await.map_err(|error| problem(error.into()))?;
        let summary = out.dump(&*meta, &volume.id, &bar).await?;
        Ok((summary, sessions))
    };
    // A signal drops the output, which deletes the temporary file. On standard output there is no
    // file to delete, so the default action of the signal applies.
    let dumped = tokio::select! {
        dumped = dumping => dumped,
        () = interrupted(), if !is_standard(&command.file) => Err(Problem::new(doing, "it was interrupted")),
    };
    bar.0.finish_and_clear();
    meta.close().await;
    let (summary, sessions) = dumped?;
    // If the dump goes to standard output, messages must not.
    let report = |line: String| {
        if is_standard(&command.file) { eprintln!("{line}") } else { say(format_args!("{line}")) }
    };
    if command.printing.is_json() {
        report(format!("{:#}", object(&in_numbers(&summary, sessions))));
        return Ok(Outcome::Success);
    }
    report(format!("dumped {}", InWords(&summary)));
    if sessions > 0 {
        report(format!(
            "open sessions: {sessions}; later changes are not in the dump, and gateways may delete \
             blocks that it references: to move the volume, stop them first"
        ));
    }
    Ok(Outcome::Success)
}

/// Fills an empty metadata store from a dump.
pub(crate) async fn load(settings: VolumeSettings, command: Load) -> Result<Outcome, Problem> {
    let doing = || format!("load {}", command.file.display());
    let mut input = input(&command.file)?;
    let length = input.metadata().ok().map(|metadata| metadata.len());
    let bar = Bar::new(length);
    // A check reads the file only, so no metadata store is opened.
    if command.check {
        let summary = ::dump::verify(&mut input, &bar);
        bar.0.finish_and_clear();
        let summary = summary.map_err(|error| Problem::new(doing(), error))?;
        if command.printing.is_json() {
            print_properties(&in_numbers(&summary, 0), command.printing);
            return Ok(Outcome::Success);
        }
        say(format_args!("the dump is complete: {}", InWords(&summary)));
        return Ok(Outcome::Success);
    }
    let meta = target(&settings, &doing()).await?;
    let mut name = [0; 16];
    credentials::random(&mut name)?;
    let keystone = Keystone::new(key::volume(), name);
    let loaded = ::dump::load(&*meta, &mut input, &keystone, &bar).await;
    bar.0.finish_and_clear();
    let loaded = match loaded {
        Ok(summary) => Ok((summary, sessions(&*meta).await.unwrap_or_default())),
        Err(error) => Err(refusal(&doing(), &settings.meta, &error)),
    };
    meta.close().await;
    let (summary, sessions) = loaded?;
    if command.printing.is_json() {
        print_properties(&in_numbers(&summary, sessions), command.printing);
        return Ok(Outcome::Success);
    }
    say(format_args!("loaded {} into {}", InWords(&summary), settings.meta));
    if sessions > 0 {
        say(format_args!(
            "open sessions in the dump: {sessions}; stop those gateways before one starts on this \
             store: it ends their sessions, and deletes blocks that they wrote after the dump"
        ));
    }
    say(format_args!(
        "the blocks are not moved, and belong to this store now: never serve the source of the \
         dump again, or each of the two deletes blocks of the other"
    ));
    Ok(Outcome::Success)
}

/// Opens the metadata store of an existing volume, which gateways may be serving.
async fn existing(
    settings: &VolumeSettings,
    doing: &str,
) -> Result<(Arc<dyn MetaStore>, VolumeRecord), Problem> {
    let absent = || founding::no_volume(settings, doing);
    if settings.meta == MetaPlace::Memory {
        return Err(absent());
    }
    // Opening a database file that does not exist would create it.
    founding::check_present(settings, doing).await?;
    let meta = engines::meta(settings, Use::Administer).await?;
    let at = key::volume();
    let reads = [Read::Record { key: at.clone(), follow: None }];
    let found = meta.read(&reads).await.map_err(|error| Problem::new(doing, error))?;
    let Some(ReadResult::Record(Some(entry))) = found.into_iter().next() else {
        return Err(absent());
    };
    // An interrupted load leaves a placeholder in place of the volume record. Such a store is not
    // complete and must not be dumped.
    if Keystone::is_unfinished(&entry.value) {
        return Err(refusal(doing, &settings.meta, &DumpError::Unfinished));
    }
    let volume = VolumeRecord::decode(&at, &entry.value).map_err(|error: DecodeError| {
        Problem::new(doing, format!("the volume's record cannot be read: {error}"))
    })?;
    Ok((meta, volume))
}

/// Opens the metadata store to fill. SQLite ensures that no other process uses it; the other
/// engines cannot.
async fn target(settings: &VolumeSettings, doing: &str) -> Result<Arc<dyn MetaStore>, Problem> {
    match &settings.meta {
        MetaPlace::Memory => {
            let wrong = "memory: ends with this command";
            return Err(Problem::new(doing, wrong).remedy("give a database with --meta"));
        }
        MetaPlace::Sqlite(path) => {
            if let Some(folder) = path.parent().filter(|folder| *folder == settings.data_dir) {
                credentials::make_data_dir(folder)?;
            }
        }
        MetaPlace::Server(_) => {}
    }
    engines::meta(settings, Use::Serve).await
}

/// Returns the problem of a store that was not filled, with a remedy for its cause.
fn refusal(doing: &str, place: &MetaPlace, error: &DumpError) -> Problem {
    let empty = match place {
        MetaPlace::Memory => "use a database".to_owned(),
        MetaPlace::Sqlite(path) => {
            let path = path.display();
            format!("remove {path} and {path}-…, or give another file")
        }
        MetaPlace::Server(server) => match server.kind {
            ServerKind::Postgres | ServerKind::Mysql => {
                "drop the database and create it again, or give another one".to_owned()
            }
            ServerKind::Redis => {
                "delete the keys with its prefix, or give another prefix".to_owned()
            }
            ServerKind::Etcd => {
                "delete the keys that begin with its name (etcdctl del --prefix NAME/), or give \
                 another name"
                    .to_owned()
            }
        },
    };
    let problem = Problem::new(doing, error);
    match error {
        DumpError::NotEmpty(_) => problem.remedy(format!(
            "a dump is loaded into an empty store only: if its content is no longer needed, {empty}"
        )),
        DumpError::Unfinished => problem
            .remedy(format!("if the other load does not run any more, {empty}, and load again")),
        DumpError::Contested | DumpError::Changed | DumpError::Store(_) => problem.remedy(format!(
            "the store is not a volume; if records were written to it, {empty}, and load again"
        )),
        DumpError::Cut(_) | DumpError::Damaged { .. } => {
            problem.remedy("nothing was written; use another dump")
        }
        _ => problem,
    }
}

/// Returns the number of open sessions in the store, at most [`SESSIONS_COUNTED`].
async fn sessions(meta: &dyn MetaStore) -> Result<usize, store::StoreError> {
    let (start, end) = key::partition(space::SESSION, 0);
    let limit = SESSIONS_COUNTED.min(meta.limits().range_records);
    let found = meta.read(&[Read::Range { start, end, limit, follow: None }]).await?;
    match found.first() {
        Some(ReadResult::Range(entries)) => Ok(entries.len()),
        _ => Ok(0),
    }
}

/// Returns true if the file name means standard input or output.
fn is_standard(file: &Path) -> bool {
    file.as_os_str() == STANDARD
}

/// Returns at SIGINT or SIGTERM, so that the command can clean up. Never returns if the signals
/// cannot be caught.
pub(super) async fn interrupted() {
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        _ => std::future::pending().await,
    }
}

/// The destination of a dump.
enum DumpOutput {
    Standard,
    /// A temporary file in the directory of `file`. It is renamed to `file` when the dump is
    /// complete, and deleted otherwise.
    File {
        part: NamedTempFile,
        file: PathBuf,
        force: bool,
    },
}

impl DumpOutput {
    fn open(command: &Dump) -> Result<DumpOutput, Problem> {
        let file = &command.file;
        if is_standard(file) {
            if io::stdout().is_terminal() {
                let wrong = "standard output is a terminal, and a dump is binary";
                return Err(Problem::new("dump the volume", wrong)
                    .remedy("give a file, or redirect the output"));
            }
            return Ok(DumpOutput::Standard);
        }
        let doing = || format!("write {}", file.display());
        if !command.force && file.symlink_metadata().is_ok() {
            return Err(Problem::new(doing(), "the file exists").remedy(REPLACE));
        }
        let Some(name) = file.file_name() else {
            return Err(Problem::new(doing(), "it is not the name of a file"));
        };
        let mut prefix = name.to_owned();
        prefix.push(".");
        // tempfile creates the file with mode 0600.
        let part = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".part")
            .tempfile_in(folder(file))
            .map_err(|error| {
                Problem::new(doing(), error).remedy("the directory must exist and be writable")
            })?;
        Ok(DumpOutput::File { part, file: file.clone(), force: command.force })
    }

    /// Writes the dump, and renames the file when it is on disk.
    async fn dump(self, meta: &dyn MetaStore, label: &[u8], bar: &Bar) -> Result<Summary, Problem> {
        let problem = |error: DumpError| Problem::new("dump the volume", error);
        match self {
            DumpOutput::Standard => {
                ::dump::dump(meta, label, &mut io::stdout(), bar).await.map_err(problem)
            }
            DumpOutput::File { mut part, file, force } => {
                let dumped = ::dump::dump(meta, label, part.as_file_mut(), bar).await;
                let summary = dumped.map_err(problem)?;
                keep(part, &file, force)?;
                Ok(summary)
            }
        }
    }
}

/// The remedy if the file exists.
const REPLACE: &str = "give another file, or replace it with --force";

/// Returns the directory of a file, `.` for a bare name.
fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Renames a complete dump to `file`, and syncs the file and its directory.
fn keep(part: NamedTempFile, file: &Path, force: bool) -> Result<(), Problem> {
    let problem = |error: io::Error| {
        let there = error.kind() == io::ErrorKind::AlreadyExists;
        let problem = Problem::new(format!("write {}", file.display()), error);
        if there { problem.remedy(REPLACE) } else { problem }
    };
    // The content before the name: after a crash the name never leads to an incomplete dump.
    part.as_file().sync_all().map_err(problem)?;
    let kept = if force { part.persist(file) } else { part.persist_noclobber(file) };
    kept.map_err(|error| problem(error.error))?;
    File::open(folder(file)).and_then(|folder| folder.sync_all()).map_err(problem)
}

/// Opens a dump for two passes: one verifies it, one loads it. A pipe is copied to a temporary file
/// first, because it can be read only once.
fn input(file: &Path) -> Result<File, Problem> {
    let problem = |error| Problem::new(format!("read {}", file.display()), error);
    let spool = |from: &mut dyn io::Read| {
        let mut spooled = tempfile::tempfile()?;
        io::copy(from, &mut spooled)?;
        spooled.rewind()?;
        Ok(spooled)
    };
    if is_standard(file) {
        if io::stdin().is_terminal() {
            return Err(Problem::new("load a dump", "standard input is a terminal")
                .remedy("give a file, or redirect a dump to the input"));
        }
        return spool(&mut io::stdin().lock()).map_err(problem);
    }
    let mut opened = File::open(file).map_err(problem)?;
    if opened.metadata().map_err(problem)?.is_file() {
        return Ok(opened);
    }
    spool(&mut opened).map_err(problem)
}

/// Returns the content of a dump, and the number of sessions that were open.
fn in_numbers(summary: &Summary, sessions: usize) -> Properties {
    let DumpSize { records, counters, bytes } = summary.counts;
    vec![
        ("volume", Cell::text(&hex::encode(&summary.label))),
        ("records", Cell::Count(records)),
        ("counters", Cell::Count(counters)),
        ("bytes", Cell::Bytes(bytes)),
        ("open_sessions", Cell::Count(sessions as u64)),
    ]
}

/// The content of a dump, as a phrase for output.
struct InWords<'a>(&'a Summary);

impl std::fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DumpSize { records, counters, bytes } = self.0.counts;
        let volume = hex::encode(&self.0.label);
        write!(f, "volume {volume}, {records} records and {counters} counters in {bytes} bytes")
    }
}

/// A progress bar. It is shown only if standard error is a terminal.
struct Bar(ProgressBar);

impl Bar {
    /// Returns a progress bar for a dump of `length` bytes, or a spinner if the length is unknown.
    fn new(length: Option<u64>) -> Bar {
        let (bar, template) = match length {
            Some(length) => (
                ProgressBar::new(length),
                "{msg} {wide_bar} {percent}% {binary_bytes} of {binary_total_bytes}, \
                 {binary_bytes_per_sec}",
            ),
            None => (
                ProgressBar::new_spinner(),
                "{spinner} {msg}, {binary_bytes}, {binary_bytes_per_sec}",
            ),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Bar(bar)
    }
}

impl ::dump::Watcher for Bar {
    fn passed(&self, step: Phase, counts: DumpSize) {
        let items = counts.records + counts.counters;
        self.0.set_message(match step {
            Phase::Dump => format!("{items} records"),
            Phase::Verify => format!("verifying: {items} records"),
            Phase::Fill => format!("loading: {items} records"),
        });
        self.0.set_position(counts.bytes);
    }
}

#[cfg(test)]
mod tests;
