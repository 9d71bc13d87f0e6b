//! The job `dump`: writes the metadata to a file in the data directory of the gateway.
//!
//! The file is named only when it is complete and on disk. For example,
//! `dumps/2027-01-02T03-04-05Z.dump` is loaded with `ashlar load`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use time::macros::format_description;

use super::parts::{Completed, JobFailure, JobParts};
use super::progress::JobProgress;

/// The limit of dumps in the folder. An operator removes old ones, so that no sequence of jobs
/// fills the disk.
const DUMPS_MAX: usize = 16;

/// The bytes that are written to the file at once.
const BUFFER_BYTES: usize = 1 << 20;

pub(super) async fn run(parts: &JobParts, progress: &JobProgress) -> Result<Completed, JobFailure> {
    let failed = |error: &dyn std::fmt::Display| JobFailure::of("write the dump", error);
    let folder = &parts.dumps;
    let unfinished = tokio::task::block_in_place(|| Unfinished::create(folder));
    let mut unfinished = unfinished.map_err(|error| match error {
        Refused::Full => JobFailure(format!(
            "The folder {} has {DUMPS_MAX} dumps. Remove old ones, then start the job again.",
            folder.display()
        )),
        Refused::Io(error) => failed(&error),
    })?;
    let label = parts.volume.record().id;
    let summary = ::dump::dump(&*parts.meta, &label, &mut unfinished, progress).await;
    let summary = summary.map_err(|error| failed(&error))?;
    let path =
        tokio::task::block_in_place(|| unfinished.finish()).map_err(|error| failed(&error))?;
    Ok(Completed::with(format!(
        "{} records, {} bytes, in the file {} on this gateway's machine.",
        summary.counts.records,
        summary.counts.bytes,
        path.display()
    )))
}

/// The reason why no file is created.
enum Refused {
    /// There are [`DUMPS_MAX`] dumps.
    Full,
    Io(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Io(error)
    }
}

/// A dump that is not complete. Dropping it removes its file.
struct Unfinished {
    out: BufWriter<File>,
    part: PathBuf,
    file: PathBuf,
    is_finished: bool,
}

impl Unfinished {
    fn create(folder: &Path) -> Result<Unfinished, Refused> {
        // A dump has sealed secrets and names of all objects.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut dumps = 0;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("dump") => dumps += 1,
                // One dump runs at a time, so this one was left by a process that was killed.
                Some("part") => fs::remove_file(path)?,
                Some(_) | None => {}
            }
        }
        if dumps >= DUMPS_MAX {
            return Err(Refused::Full);
        }
        let form = format_description!("[year]-[month]-[day]T[hour]-[minute]-[second]Z");
        let now = OffsetDateTime::now_utc().format(form).map_err(io::Error::other)?;
        let file = folder.join(format!("{now}.dump"));
        let part = folder.join(format!("{now}.part"));
        let opened = File::options().write(true).create_new(true).mode(0o600).open(&part)?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, opened);
        Ok(Unfinished { out, part, file, is_finished: false })
    }

    /// Names the file when all of it is on disk. Returns its path.
    fn finish(mut self) -> io::Result<PathBuf> {
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        fs::rename(&self.part, &self.file)?;
        self.is_finished = true;
        if let Some(folder) = self.file.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(self.file.clone())
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full buffer goes to a file, which can block.
        if self.out.buffer().len() + bytes.len() > self.out.capacity() {
            return tokio::task::block_in_place(|| self.out.write(bytes));
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        tokio::task::block_in_place(|| self.out.flush())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_finished {
            let _removed = fs::remove_file(&self.part);
        }
    }
}
