//! Restores a server to an earlier state, as a restored snapshot of its disk or a failover to a
//! delayed replica does.
//!
//! The copy is made while all processes of the server are paused. So it equals the state after a
//! crash at that moment, and the server recovers from it as from a crash.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::database::Database;
use crate::engine::Engine;
use crate::program::run;

/// The time in which the kernel finishes the writes of a paused process.
const SETTLED: Duration = Duration::from_millis(20);

/// The files of a server as they were at one moment.
#[derive(Debug)]
pub struct Past {
    folder: TempDir,
}

impl Database {
    /// Copies all files of the server. The server is paused meanwhile.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn remember(&self) -> Past {
        let folder = TempDir::with_prefix("ashlar-past-").expect("a folder for a copy");
        self.freeze(true);
        std::thread::sleep(SETTLED);
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(self.folder().join(".")).arg(folder.path());
        run(copy);
        self.freeze(false);
        Past { folder }
    }

    /// Replaces the files by those of the copy, and starts the server.
    ///
    /// # Panics
    ///
    /// If it runs, or does not start with these files.
    pub fn restore(&mut self, past: &Past) {
        assert!(self.processes().is_empty(), "it is killed before");
        for entry in std::fs::read_dir(self.folder()).expect("its folder").flatten() {
            if entry.file_name() != "log" {
                remove(&entry.path());
            }
        }
        for entry in std::fs::read_dir(past.folder.path()).expect("the copy").flatten() {
            if entry.file_name() != "log" {
                let mut copy = Command::new("cp");
                copy.arg("-a").arg(entry.path()).arg(self.folder());
                run(copy);
            }
        }
        if self.engine() == Engine::Postgres {
            // This file contains the id of the paused process, which another process may have by
            // now.
            remove(&self.folder().join("data/postmaster.pid"));
        }
        self.restart();
    }
}

fn remove(path: &Path) {
    let mut command = Command::new("rm");
    command.arg("-rf").arg(path);
    run(command);
}
