//! The kernel of a mount caches names, missing names and attributes under leases, and shows each
//! change of another session at once.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use super::CONNECTED;
use super::company::Company;
use crate::fleet::{Engine, on_each_server};
use crate::servers::wait_for;

on_each_server!(the_kernel_shows_each_change_of_another_session);

/// Changes by each of the six ways.
const ROUNDS: usize = 5;

/// Calls of `stat` before each change, so that the kernel has the answer in its caches.
const CALLS: usize = 40;

/// The time for which a directory that the mount has changed counts as changed, and a bit.
const CHANGED_FOR: Duration = Duration::from_millis(2_100);

/// The length in bytes and the permissions of the file; `None` if it is missing.
type Seen = Option<(u64, u32)>;

fn seen(path: &Path) -> Seen {
    match fs::symlink_metadata(path) {
        Ok(found) => Some((found.len(), found.mode() & 0o777)),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// Two places of one file: on the mount whose kernel is asked, and on the one that changes it.
struct Scene {
    company: Company,
    /// Calls of `stat` that were made, and the reads that the session of the mount answered.
    calls: usize,
    leased: usize,
}

impl Scene {
    fn path(&self, mount: usize, name: &str) -> std::path::PathBuf {
        self.company.mounts[mount].folder.join("box/aside").join(name)
    }

    /// Looks at both names often, makes a change, and looks again.
    #[track_caller]
    fn changes(&mut self, what: &str, change: impl FnOnce(&Scene), expected: [Seen; 2]) {
        let paths = ["file", "other"].map(|name| self.path(0, name));
        for _ in 0..CALLS {
            let _seen = paths.each_ref().map(|path| seen(path));
        }
        self.calls += 2 * CALLS;
        self.leased += usize::from(self.company.reads()[2].is_leased);
        change(self);
        let found = paths.each_ref().map(|path| seen(path));
        assert_eq!(found, expected, "after {what}");
    }
}

fn the_kernel_shows_each_change_of_another_session(engine: Engine) {
    let Some(company) = Company::start(engine) else { return };
    let mut scene = Scene { company, calls: 0, leased: 0 };
    let watched = scene.path(0, "file");
    let leased = || {
        for _ in 0..CALLS {
            let _seen = seen(&watched);
        }
        scene.company.reads()[2].is_leased
    };
    assert!(wait_for(CONNECTED, leased), "the mount has no lease");
    // The mount has made the directory. While a peer changes it, too, its names are not cached.
    std::thread::sleep(CHANGED_FOR);
    let before = scene.company.reads()[2].from_cache;
    for round in 0..ROUNDS {
        a_round(&mut scene, round);
    }
    let answered = scene.company.reads()[2].from_cache - before;
    let (calls, leased, changes) = (scene.calls, scene.leased, 6 * ROUNDS);
    eprintln!("{}: {calls} calls, {answered} reads, {leased} leased", engine.name());
    assert!(leased * 2 > changes, "only {leased} of {changes} changes were made beside a lease");
    let answered = usize::try_from(answered).expect("few reads");
    assert!(answered * 2 < calls, "the kernel cached little: {answered} reads for {calls} calls");
    fs::remove_file(scene.path(1, "file")).expect("it is there");
    scene.company.stop_and_check();
}

fn a_round(scene: &mut Scene, round: usize) {
    let gateway = |scene: &Scene, length: usize| {
        let content = vec![b'a'; length];
        scene.company.gateways[0].client.put("/box/aside/file", &content).expect(200);
    };
    let length = 10 + round;
    let at = |length: usize, mode: u32| Some((length as u64, mode));
    let put = |scene: &Scene| gateway(scene, length);
    let mode = |scene: &Scene| fs::metadata(scene.path(1, "file")).expect("it is there").mode();
    scene.changes("a PUT", put, [at(length, 0o644), None]);
    let chmod = |scene: &Scene| {
        assert_ne!(mode(scene) & 0o777, 0o600);
        fs::set_permissions(scene.path(1, "file"), Permissions::from_mode(0o600)).expect("a chmod");
    };
    scene.changes("chmod", chmod, [at(length, 0o600), None]);
    let append = |scene: &Scene| {
        let file = OpenOptions::new().append(true).open(scene.path(1, "file"));
        file.expect("it is there").write_all(b"more").expect("a write");
    };
    scene.changes("an append", append, [at(length + 4, 0o600), None]);
    let rename = |scene: &Scene| {
        fs::rename(scene.path(1, "file"), scene.path(1, "other")).expect("a rename");
    };
    scene.changes("a rename", rename, [None, at(length + 4, 0o600)]);
    let back = |scene: &Scene| {
        fs::rename(scene.path(1, "other"), scene.path(1, "file")).expect("a rename");
    };
    scene.changes("a rename back", back, [at(length + 4, 0o600), None]);
    let delete = |scene: &Scene| {
        scene.company.gateways[1].client.delete("/box/aside/file").expect(204);
    };
    scene.changes("a DELETE", delete, [None, None]);
    // A missing name is cached, too.
    put(scene);
    assert_eq!(seen(&scene.path(0, "file")), at(length, 0o644), "after the next PUT");
}
