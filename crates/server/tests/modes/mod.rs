//! The permissions of a gateway's files: other users of the machine read none.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::running::{Folder, Gateway};

/// The options of a gateway with a disk cache of the smallest size.
const CACHED: [&str; 4] = ["--cache-disk", "64MiB", "--cache-memory", "1MiB"];

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

fn chmod(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
}

/// Returns all paths below a directory.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(below(&path));
        }
        found.push(path);
    }
    found
}

/// Returns the paths below a directory that other users can access, with their modes.
fn open_to_others(folder: &Path) -> Vec<(PathBuf, u32)> {
    let modes = below(folder).into_iter().map(|path| (path.clone(), mode(path)));
    modes.filter(|(_, mode)| mode & 0o077 != 0).collect()
}

fn fill(gateway: &Gateway) {
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    gateway.sign("PUT", "/bucket/key", &vec![b'x'; 300_000]).send_all().expect_status(200);
}

fn check(gateway: &Gateway) {
    let got = gateway.sign("GET", "/bucket/key", &[]).send_all();
    assert!(got.text.ends_with(&"x".repeat(300_000)), "it is served");
}

#[test]
fn files_that_a_gateway_creates_are_private_to_its_user() {
    let folder = Folder::new();
    let data = PathBuf::from(folder.path("data"));
    fs::create_dir(&data).expect("made");
    chmod(&data, 0o755);
    folder.write("data/notes", "somebody else's");
    chmod(data.join("notes"), 0o644);
    fs::write(folder.path("mask"), "").expect("written");
    assert_ne!(mode(folder.path("mask")) & 0o044, 0, "files are made for others to read here");
    let gateway = Gateway::start(&folder, &CACHED, &[]);
    fill(&gateway);
    check(&gateway);
    let names = [
        "meta.db",
        "meta.db-wal",
        "meta.db-shm",
        "meta.db-reserve",
        "meta.db.lock",
        "master.key",
        "cache",
    ];
    for name in names {
        assert!(data.join(name).exists(), "{name} is not there");
    }
    let kinds = |part: &str| {
        below(&data).iter().filter(|path| path.to_string_lossy().contains(part)).count()
    };
    assert!(kinds("blocks/") > 3 && kinds("cache/") > 60, "blocks and cache are on the disk");
    assert_eq!(open_to_others(&data), [(data.join("notes"), 0o644)]);
    assert_eq!(mode(&data), 0o755, "others may need the folder");
    let done = gateway.stop();
    assert!(done.log.contains("other users can list the directory"), "{}", done.log);
    assert_eq!(open_to_others(&data), [(data.join("notes"), 0o644)]);
}

#[test]
fn open_permissions_of_existing_files_are_removed_and_logged() {
    let folder = Folder::new();
    let data = PathBuf::from(folder.path("data"));
    let gateway = Gateway::start(&folder, &CACHED, &[]);
    fill(&gateway);
    gateway.stop();
    for path in below(&data) {
        chmod(&path, if path.is_dir() { 0o755 } else { 0o644 });
    }
    chmod(&data, 0o755);
    assert!(open_to_others(&data).len() > 60, "all of it is open");
    let gateway = Gateway::start(&folder, &CACHED, &[]);
    check(&gateway);
    assert_eq!(mode(&data), 0o700);
    // The mode of a block has no effect if the directory of its session is private.
    let session = |path: &Path| path.parent() == Some(&data.join("blocks")) && path.is_dir();
    let sessions: Vec<PathBuf> = below(&data).into_iter().filter(|path| session(path)).collect();
    assert!(sessions.len() > 1, "tmp and a session");
    let inside = |path: &Path| sessions.iter().any(|it| path != it && path.starts_with(it));
    let mut open = open_to_others(&data);
    open.retain(|(path, _)| !inside(path));
    assert_eq!(open, []);
    let done = gateway.stop();
    for told in [
        "removed the permissions of other users from the directory",
        "others could read blocks",
        "others could read the metadata store",
        "other users could read this secret",
    ] {
        assert!(done.log.contains(told), "{told:?} is not in {}", done.log);
    }
    let again = Gateway::start(&folder, &CACHED, &[]).stop();
    assert!(!again.log.contains("other users"), "nothing is left to tell: {}", again.log);
}

#[test]
fn a_world_writable_directory_is_refused_with_the_reason() {
    let folder = Folder::new();
    let data = PathBuf::from(folder.path("data"));
    fs::create_dir(&data).expect("made");
    folder.write("data/notes", "somebody else's");
    chmod(&data, 0o777);
    let done = folder.run(&["serve", "--listen", "127.0.0.1:0"], &[]);
    assert_eq!(done.code, Some(1), "{}", done.log);
    assert!(done.log.contains("any user can write there; run chmod 700"), "{}", done.log);
    assert!(!data.join("master.key").exists(), "nothing was made");
    chmod(&data, 0o700);
    Gateway::start(&folder, &[], &[]).stop();
}

#[test]
fn a_world_readable_tls_key_is_closed_and_logged() {
    let folder = Folder::new();
    let names = vec!["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    folder.write("cert.pem", &made.cert.pem());
    folder.write("key.pem", &made.signing_key.serialize_pem());
    let (cert, key) = (folder.path("cert.pem"), folder.path("key.pem"));
    for (before, after, told) in [(0o644, 0o640, true), (0o640, 0o640, false)] {
        chmod(&key, before);
        let tls = ["--tls-cert", &cert, "--tls-key", &key];
        let done = Gateway::start(&folder, &tls, &[]).stop();
        assert_eq!(mode(&key), after, "the owner's group may have its reasons");
        assert_eq!(done.log.contains("other users could read this secret"), told, "{}", done.log);
    }
}
