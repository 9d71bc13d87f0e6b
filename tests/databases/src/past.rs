//! A server put back to an earlier moment, as a restored snapshot of its disk or a failover to a copy
//! that is behind would.
//!
//! The copy is made while all processes of the server are stopped where they are, so it is what a
//! crash at that moment would have left, and the server recovers from it as from a crash.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::database::Database;
use crate::engine::Engine;
use crate::program::run;

/// What the kernel still writes for a process that was stopped is written by then.
const SETTLED: Duration = Duration::from_millis(20);

/// The files of a server as they were at one moment.
#[derive(Debug)]
pub struct Past {
    folder: TempDir,
}

impl Database {
    /// Copies all that the server has on disk at this moment. It serves nobody meanwhile.
    ///
    /// # Panics
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

    /// Puts the files of that moment in the place of those that are there, and starts the server.
    ///
    /// # Panics
    /// If it runs, or does not start from them.
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
            // It names the process that was stopped, and another one may have that number.
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
