//! SIGKILL of a process that serves both views, under programs on its mount and clients of its
//! gateway. Data that was closed, synced, renamed or acknowledged is complete afterwards, and locks
//! of the dead process are released.
//!
//! Each program has its own names and reports each operation before and after it. So each name has
//! one or two allowed states afterwards.

pub(crate) mod programs;
mod quota;
mod versions;

use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::durability::{Work, Worker};
use crate::fleet::{BlockKind, Engine, Fleet};
use crate::mounted::{Mount, can_mount};
use crate::scale;
use crate::servers::wait_for;
use programs::{Notes, Running};

/// Number of clients of the gateway.
const CLIENTS: usize = 6;

/// Number of programs on the mount.
const PROGRAMS: usize = 4;

/// The least number of completed operations of programs in a round before the kill.
const ENOUGH: usize = 30;

/// The time limit for that, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// The time limit until a lock of a dead process is released: 30 seconds until its session is
/// ended, and some more on a busy machine.
const LOCKED: Duration = Duration::from_mins(1);

/// A Python program that waits for a lock.
const LOCKER: &str = r"
import fcntl, os, sys
for path in sys.argv[1:]:
    file = os.open(path, os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.lockf(file, fcntl.LOCK_EX)
";

#[test]
fn acknowledged_data_survives_a_killed_mount_sqlite() {
    survives_kills(Engine::Sqlite, BlockKind::Folder);
}

#[test]
fn acknowledged_data_survives_a_killed_mount_redis() {
    survives_kills(Engine::Redis, BlockKind::Bucket);
}

fn survives_kills(engine: Engine, block_kind: BlockKind) {
    if !can_mount() {
        return;
    }
    let Some(fleet) = Fleet::new(engine, block_kind) else { return };
    let folder = fleet.first.folder.join("mount");
    let mut mount = Mount::start(&fleet.first, &folder);
    mount.gateway().client.put("/box", b"").expect(200);
    std::fs::create_dir(folder.join("box/programs")).expect("a directory");
    let mut workers: Vec<Worker> = (0..CLIENTS).map(Worker::new).collect();
    let mut notes: Vec<Notes> = (0..PROGRAMS).map(Notes::new).collect();
    let (mut completed, mut answered) = (0, 0);
    for round in 0..scale::kills() {
        let client = mount.gateway().client.clone();
        let work = Work::default();
        let counts = std::thread::scope(|scope| {
            for worker in &mut workers {
                let (client, work) = (&client, &work);
                scope.spawn(move || worker.work(client, work));
            }
            let start = |notes| Running::start(&folder.join("box/programs"), notes, round);
            let running: Vec<Running> = notes.iter().map(start).collect();
            let busy = || {
                let completed: usize = running.iter().map(Running::completed).sum();
                let all = running.iter().all(|program| program.completed() > 0);
                all && completed >= ENOUGH && work.acknowledged.load(Ordering::SeqCst) > CLIENTS
            };
            let is_busy = wait_for(PATIENCE, busy);
            assert!(is_busy, "round {round}: the load is too small: {work:?}");
            // The moment differs in each round.
            std::thread::sleep(Duration::from_millis(round * 173 % 1_000));
            mount.kill();
            let end = |(running, notes): (Running, &mut Notes)| running.end(notes);
            running.into_iter().zip(&mut notes).map(end).collect::<Vec<_>>()
        });
        let in_flight = counts.iter().filter(|count| count.in_flight).count();
        completed += counts.iter().map(|count| count.completed).sum::<usize>();
        answered += work.acknowledged.into_inner();
        let cut_off = work.cut_off.into_inner();
        assert!(in_flight > 0 && cut_off > 0, "round {round}: nothing was under way at the kill");
        mount = Mount::start(&fleet.first, &folder);
        for worker in &mut workers {
            worker.check(&mount.gateway().client);
        }
        for notes in &mut notes {
            notes.check(&folder.join("box/programs"), &mount.gateway().client, round);
        }
    }
    eprintln!(
        "{}: {} kills; {completed} calls of programs and {answered} requests were acknowledged",
        engine.name(),
        scale::kills()
    );
    let free = locks_are_free(&folder, &notes);
    eprintln!("{}: locks of the dead were free after {free:?}", engine.name());
    std::fs::remove_dir_all(folder.join("box/programs")).expect("all can be removed");
    mount.stop();
    fleet.stop_and_check(Vec::new());
}

/// Returns the time until the locks of the killed programs can be taken.
fn locks_are_free(folder: &std::path::Path, notes: &[Notes]) -> Duration {
    let began = Instant::now();
    let files = notes.iter().map(|notes| folder.join("box/programs").join(notes.lock()));
    let mut command = Command::new("python3");
    let mut locker = command.args(["-c", LOCKER]).args(files).stdin(Stdio::null());
    locker = locker.stdout(Stdio::null());
    let mut locker = locker.spawn().expect("python3 runs");
    let ended = wait_for(LOCKED, || locker.try_wait().expect("a child can be asked").is_some());
    let _gone = locker.kill();
    let status = locker.wait().expect("a child can be waited for");
    assert!(ended && status.success(), "locks of dead programs stay for {LOCKED:?}: {status}");
    began.elapsed()
}
