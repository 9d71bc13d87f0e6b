//! A copy of a fleet's metadata store at one moment, and its restore.

use std::path::PathBuf;
use std::process::Command;

use databases::Past;
use rustix::process::Signal;
use tempfile::TempDir;

use super::*;

/// The copy.
#[derive(Debug)]
pub(super) enum Moment {
    Server(Past),
    /// The files of the database and of its log.
    Files(TempDir),
}

/// The files of SQLite's database. The third one, shared memory, is not needed.
const FILES: [&str; 2] = ["meta.db", "meta.db-wal"];

fn copy(from: PathBuf, to: PathBuf) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(status.success(), "a file cannot be copied: {status}");
}

/// Copies the store while it is paused.
pub(super) fn remember(fleet: &Fleet, gateways: &[Gateway], times: &Times) -> Moment {
    times.frozen.set(Instant::now()).expect("once a round");
    let moment = match &fleet.database {
        Some(database) => Moment::Server(database.remember()),
        None => {
            let folder = tempfile::tempdir().expect("a folder for a copy");
            gateways[0].child.signal(Signal::STOP);
            std::thread::sleep(Duration::from_millis(20));
            for file in FILES {
                copy(fleet.first.folder.join("data").join(file), folder.path().join(file));
            }
            gateways[0].child.signal(Signal::CONT);
            Moment::Files(folder)
        }
    };
    times.thawed.set(Instant::now()).expect("once a round");
    moment
}

/// Kills the store and restores the copy. Kills the gateways too, unless `lives`.
pub(super) fn put_back(
    fleet: &mut Fleet,
    gateways: &mut Vec<Gateway>,
    moment: &Moment,
    lives: bool,
    times: &Times,
) {
    times.killed.set(Instant::now()).expect("once a round");
    if !lives {
        for mut gateway in gateways.drain(..) {
            gateway.child.kill();
        }
    }
    match (moment, &mut fleet.database) {
        (Moment::Server(past), Some(database)) => {
            database.kill();
            times.gone.set(Instant::now()).expect("once a round");
            database.restore(past);
        }
        (Moment::Files(folder), _) => {
            times.gone.set(Instant::now()).expect("once a round");
            let data = fleet.first.folder.join("data");
            let _ = std::fs::remove_file(data.join("meta.db-shm"));
            for file in FILES {
                std::fs::remove_file(data.join(file)).expect("it was there");
                copy(folder.path().join(file), data.join(file));
            }
        }
        (Moment::Server(_), None) => unreachable!("a server's past is of a server"),
    }
}
