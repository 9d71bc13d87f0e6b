//! Stores that stop under programs on a mount. The programs wait without an error, and continue
//! once the stores do.

use std::path::Path;
use std::time::{Duration, Instant};

use databases::Database;
use rustix::process::Signal;

use crate::client::{Client, Request};
use crate::content::bytes;
use crate::fleet::{BlockKind, Engine, Fleet, on_the_drawn_server};
use crate::killed::programs::{Notes, Running};
use crate::mounted::{Mount, can_mount};
use crate::scale;
use crate::servers::{Minio, wait_for};

on_the_drawn_server!(programs_wait_for_stores_that_stop);

/// Number of programs on the mount.
const PROGRAMS: usize = 4;

/// The time for replies to requests from before the stop, and for calls in flight in the kernel.
const SETTLED: Duration = Duration::from_millis(500);

/// The time limit until programs continue. A killed store is retried after a pause, and the machine
/// may be busy.
const RECOVERY: Duration = Duration::from_secs(90);

/// Length of a body that needs a block, in bytes.
const LARGE: usize = 400_000;

/// Longer outages are those of the full proof.
const FEW_UNTIL: Duration = Duration::from_secs(5);

/// The fault of the stores.
#[derive(Clone, Copy, Debug)]
enum Fault {
    DatabaseFrozen,
    BlocksFrozen,
    BothFrozen,
    DatabaseKilled,
    BlocksKilled,
    BothKilled,
}

impl Fault {
    /// Each run injects the first ones, the full proof all of them.
    const ALL: [Fault; 6] = [
        Fault::DatabaseFrozen,
        Fault::BlocksFrozen,
        Fault::BothKilled,
        Fault::DatabaseKilled,
        Fault::BlocksKilled,
        Fault::BothFrozen,
    ];

    const FEW: usize = 3;

    fn database(self) -> bool {
        !matches!(self, Fault::BlocksFrozen | Fault::BlocksKilled)
    }

    fn blocks(self) -> bool {
        !matches!(self, Fault::DatabaseFrozen | Fault::DatabaseKilled)
    }

    fn kills(self) -> bool {
        matches!(self, Fault::DatabaseKilled | Fault::BlocksKilled | Fault::BothKilled)
    }

    fn begin(self, fleet: &mut Fleet) {
        let database = fleet.database.as_mut().filter(|_| self.database());
        let minio = fleet.minio.as_mut().filter(|_| self.blocks());
        if self.kills() {
            database.into_iter().for_each(Database::kill);
            minio.into_iter().for_each(|minio| minio.child.kill());
        } else {
            database.into_iter().for_each(|database| database.freeze(true));
            minio.into_iter().for_each(|minio| minio.child.signal(Signal::STOP));
        }
    }

    fn end(self, fleet: &mut Fleet) {
        let database = fleet.database.as_mut().filter(|_| self.database());
        let minio = fleet.minio.as_mut().filter(|_| self.blocks());
        if self.kills() {
            database.into_iter().for_each(Database::restart);
            minio.into_iter().for_each(Minio::restart);
        } else {
            database.into_iter().for_each(|database| database.freeze(false));
            minio.into_iter().for_each(|minio| minio.child.signal(Signal::CONT));
        }
    }
}

fn programs_wait_for_stores_that_stop(engine: Engine) {
    if !can_mount() {
        return;
    }
    let Some(mut fleet) = Fleet::new(engine, BlockKind::Bucket) else { return };
    let folder = fleet.first.folder.join("mount");
    let mount = Mount::start(&fleet.first, &folder);
    mount.gateway().client.put("/box", b"").expect(200);
    let place = folder.join("box/programs");
    std::fs::create_dir(&place).expect("a directory");
    let mut notes: Vec<Notes> = (0..PROGRAMS).map(Notes::new).collect();
    let mut running: Vec<Running> =
        notes.iter().map(|notes| Running::start(&place, notes, 0)).collect();
    let mut slowest = Duration::ZERO;
    let faults = if scale::outage() > FEW_UNTIL { Fault::ALL.len() } else { Fault::FEW };
    for fault in &Fault::ALL[..faults] {
        goes_on(&mut running, &format!("before {fault:?}"));
        stops(*fault, &mut fleet, &running, &mount.gateway().client);
        slowest = slowest.max(goes_on(&mut running, &format!("after {fault:?}")));
    }
    for (running, notes) in running.into_iter().zip(&mut notes) {
        running.stop(notes);
    }
    for notes in &mut notes {
        // Checks both views.
        notes.check(&place, &mount.gateway().client, 0);
        notes.check(&place, &mount.gateway().client, 1);
    }
    eprintln!(
        "{}: {faults} outages of {:?}; all programs continued within {slowest:?}",
        engine.name(),
        scale::outage()
    );
    tidy(&fleet, mount, &place);
}

/// Stops stores for a while. Fails if an operation that needs one of them is acknowledged
/// meanwhile.
fn stops(fault: Fault, fleet: &mut Fleet, running: &[Running], client: &Client) {
    fault.begin(fleet);
    std::thread::sleep(SETTLED);
    let then = completed(running);
    let put = || {
        let put = Request::new("PUT", "/box/large").body(bytes(1, LARGE));
        let answer = client.try_send(&put);
        (answer.map_or(0, |answer| answer.status), Instant::now())
    };
    let ((status, answered), ended) = std::thread::scope(|scope| {
        let put = scope.spawn(put);
        std::thread::sleep(scale::outage());
        let during: usize =
            completed(running).iter().zip(&then).map(|(now, then)| now - then).sum();
        // Without MinIO, operations that need no block continue until a program needs one.
        if fault.database() {
            assert_eq!(during, 0, "{fault:?}: {during} calls are acknowledged without a database");
        }
        let ended = Instant::now();
        fault.end(fleet);
        (put.join().expect("it is answered"), ended)
    });
    assert!(status != 200 || answered > ended, "{fault:?}: a store was there that was stopped");
}

fn tidy(fleet: &Fleet, mount: Mount, place: &Path) {
    std::fs::remove_dir_all(place).expect("all can be removed");
    mount.stop();
    fleet.stop_and_check(Vec::new());
}

/// Returns the number of completed operations of each program.
fn completed(running: &[Running]) -> Vec<usize> {
    running.iter().map(Running::completed).collect()
}

/// Waits until every program has completed further operations. Returns the elapsed time.
#[track_caller]
fn goes_on(running: &mut [Running], when: &str) -> Duration {
    let (began, then) = (Instant::now(), completed(running));
    let go_on = || {
        running.iter_mut().for_each(|program| program.is_alive(when));
        completed(running).iter().zip(&then).all(|(now, then)| *now > then + 1)
    };
    assert!(wait_for(RECOVERY, go_on), "{when}: not all programs go on");
    began.elapsed()
}
