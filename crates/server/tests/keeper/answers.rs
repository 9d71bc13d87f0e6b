//! Changes that are committed while their worker is killed: the next worker replies without a
//! second execution.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use databases::Database;
use proxy::{Cut, Proxy};
use rustix::fs::{FileType, Mode, RenameFlags, XattrFlags};

use crate::kept::{Kept, can_mount, eventually, redis};

/// The log line of a worker that replies to a request which an earlier one has executed.
const ANSWERED: &str = "an earlier worker has executed";

/// The limit of time until a session knows that it is alone and answers from its record cache.
const ALONE: Duration = Duration::from_secs(3);

/// A change: bytes that only its commit contains, and the call that makes it.
type Change = (&'static str, fn(&Path) -> io::Result<()>);

fn make_node(folder: &Path) -> io::Result<()> {
    let (mode, kind) = (Mode::from_raw_mode(0o600), FileType::Fifo);
    Ok(rustix::fs::mknodat(rustix::fs::CWD, folder.join("made-fifo"), kind, mode, 0)?)
}

fn make_file(folder: &Path) -> io::Result<()> {
    let (mode, kind) = (Mode::from_raw_mode(0o600), FileType::RegularFile);
    Ok(rustix::fs::mknodat(rustix::fs::CWD, folder.join("made-file"), kind, mode, 0)?)
}

/// Creates a file whose name and content are one commit.
fn create(folder: &Path) -> io::Result<()> {
    let path = folder.join("made-with-content");
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    io::Write::write_all(&mut &file, b"content")?;
    drop(file);
    assert_eq!(fs::read(&path)?, b"content");
    Ok(())
}

fn move_without_replacing(folder: &Path) -> io::Result<()> {
    let cwd = rustix::fs::CWD;
    let (from, to) = (folder.join("to-move"), folder.join("moved-there"));
    Ok(rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE)?)
}

fn set_attribute(folder: &Path) -> io::Result<()> {
    let (path, name) = (folder.join("plain"), "user.an-attribute");
    Ok(rustix::fs::setxattr(path, name, b"value", XattrFlags::CREATE)?)
}

fn remove_attribute(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::removexattr(folder.join("with-attribute"), "user.going")?)
}

const CHANGES: [Change; 9] = [
    ("made-directory", |folder| fs::create_dir(folder.join("made-directory"))),
    ("made-link", |folder| symlink("there", folder.join("made-link"))),
    ("made-name", |folder| fs::hard_link(folder.join("plain"), folder.join("made-name"))),
    ("made-fifo", make_node),
    ("made-file", make_file),
    ("moved-there", move_without_replacing),
    ("to-unlink", |folder| fs::remove_file(folder.join("to-unlink"))),
    ("user.an-attribute", set_attribute),
    ("said-by-its-record", remove_attribute),
];

/// Reads the state before each change, so that it is cached.
fn look(folder: &Path) {
    let names = ["made-directory", "made-link", "made-name", "made-fifo", "made-file"];
    let there = ["plain", "to-move", "to-unlink", "with-attribute", "moved-there"];
    for name in names.into_iter().chain(there) {
        let _there_or_not = fs::symlink_metadata(folder.join(name));
    }
}

/// A mount whose metadata goes through a proxy.
struct Held {
    kept: Kept,
    proxy: Proxy,
    folder: PathBuf,
    cuts: u64,
    answered: usize,
}

impl Held {
    /// Makes a change, and kills the worker before the database's response to the commit arrives.
    /// Returns true if that worker has executed the change, so that the next one only replies.
    fn lose(&mut self, needle: &[u8], change: fn(&Path) -> io::Result<()>) -> bool {
        thread::sleep(ALONE);
        look(&self.folder);
        self.proxy.cut(Cut::HoldReply, needle, 1);
        let at = self.folder.clone();
        let changing = thread::Builder::new().spawn(move || change(&at)).unwrap();
        self.cuts += 1;
        eventually("the answer is held", || self.proxy.cuts() == self.cuts);
        thread::sleep(Duration::from_millis(100));
        self.kept.kill_worker();
        self.proxy.hold(false);
        changing.join().unwrap().expect("the change is made once, by any process");
        let before =
            std::mem::replace(&mut self.answered, self.kept.log().matches(ANSWERED).count());
        self.answered == before + 1
    }
}

#[test]
fn a_committed_change_whose_reply_was_lost_succeeds_once() {
    if !can_mount() {
        return;
    }
    let Some(redis) = redis() else { return };
    let proxy = Proxy::start(redis.address()).unwrap();
    let url = Database::through(&redis.url(), redis.address(), proxy.address());
    let kept = Kept::new(Some(&url));
    let folder = kept.path("bucket");
    fs::create_dir(&folder).unwrap();
    for name in ["plain", "to-move", "to-unlink", "with-attribute"] {
        File::create_new(folder.join(name)).unwrap();
    }
    let attribute = XattrFlags::empty();
    rustix::fs::setxattr(
        folder.join("with-attribute"),
        "user.going",
        b"said-by-its-record",
        attribute,
    )
    .unwrap();
    let mut held = Held { kept, proxy, folder, cuts: 0, answered: 0 };
    for (needle, change) in CHANGES {
        assert!(held.lose(needle.as_bytes(), change), "{needle} was committed, and not done again");
    }
    // The commit of a new file belongs to its close, which the next worker finds in the log.
    assert!(!held.lose(b"made-with-content", create), "the creation itself needs no commit");
    let made = held.folder.join("made-with-content");
    assert_eq!(fs::read(&made).unwrap(), b"content");
    assert_eq!(held.kept.workers(), usize::try_from(held.cuts).unwrap() + 1);
    assert!(!held.kept.log().contains("fenced"), "the file was created twice");
}
