//! Notifications to the kernel. Each entry is cached for an hour here, so a new value is visible
//! only because of a notification.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::sync::mpsc::channel;
use std::time::Duration;

use fuse::{NodeId, Notice, NoticeRefused, Notifier};

use crate::stage::{LONG, Stage};

const ROOT: u64 = NodeId::ROOT.0;

impl Stage {
    /// Changes a file as another client would, unknown to the kernel. Time and size stay the same,
    /// because a change of these would reveal it.
    fn replace_content(&self, name: &str, content: &[u8]) -> NodeId {
        let mut tree = self.files.write();
        let number = tree.lookup(ROOT, OsStr::new(name)).unwrap();
        assert_eq!(tree.content(number).unwrap().len(), content.len() as u64);
        tree.content(number).unwrap().write(0, content);
        NodeId(number)
    }

    /// Renames a file in the same way.
    fn rename(&self, from: &str, to: &str) {
        let (from, to) = ((ROOT, OsStr::new(from)), (ROOT, OsStr::new(to)));
        self.files.write().rename(from, to, 0).unwrap();
    }

    fn notifier(&self) -> Notifier {
        self.session().notifier()
    }
}

#[test]
fn new_content_is_visible_after_invalidation() {
    let stage = Stage::new(LONG);
    let path = stage.path("file");
    fs::write(&path, "old content").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old content");
    let node = stage.replace_content("file", b"new content");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old content", "it is remembered");
    stage.notifier().inval_inode(node, 0, 0).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new content");
}

#[test]
fn name_is_looked_up_again_after_invalidation_or_expiry() {
    let stage = Stage::new(LONG);
    let name = OsStr::new("name");
    for expire in [false, true] {
        fs::write(stage.path("name"), "").unwrap();
        stage.rename("name", "other");
        assert!(stage.path("name").exists(), "it is remembered");
        let notifier = stage.notifier();
        let forget = if expire { Notifier::expire_entry } else { Notifier::inval_entry };
        forget(&notifier, NodeId::ROOT, name).unwrap();
        let gone = fs::metadata(stage.path("name")).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
        // The kernel also caches that the name does not exist.
        stage.rename("other", "name");
        assert!(!stage.path("name").exists());
        notifier.inval_entry(NodeId::ROOT, name).unwrap();
        fs::remove_file(stage.path("name")).unwrap();
    }
}

#[test]
fn every_name_is_looked_up_again_in_a_new_epoch() {
    let stage = Stage::new(LONG);
    for name in ["one", "two"] {
        fs::write(stage.path(name), name).unwrap();
    }
    stage.rename("one", "three");
    stage.rename("two", "one");
    assert_eq!(fs::read_to_string(stage.path("one")).unwrap(), "one", "it is remembered");
    stage.notifier().increase_epoch().unwrap();
    assert_eq!(fs::read_to_string(stage.path("one")).unwrap(), "two");
    assert!(!stage.path("two").exists());
}

#[test]
fn removal_notification_reaches_watchers() {
    let stage = Stage::new(LONG);
    fs::write(stage.path("file"), "").unwrap();
    let node = NodeId(stage.files.write().lookup(ROOT, OsStr::new("file")).unwrap());
    stage.rename("file", "elsewhere");
    stage.notifier().delete(NodeId::ROOT, node, OsStr::new("file")).unwrap();
    assert!(!stage.path("file").exists());
}

#[test]
fn notification_of_an_uncached_entry_is_no_error() {
    let stage = Stage::new(LONG);
    let notifier = stage.notifier();
    notifier.inval_inode(NodeId(99), 0, 0).unwrap();
    notifier.inval_entry(NodeId::ROOT, OsStr::new("nothing")).unwrap();
    notifier.inval_entry(NodeId(99), OsStr::new("nothing")).unwrap();
    notifier.delete(NodeId(99), NodeId(98), OsStr::new("nothing")).unwrap();
}

#[test]
fn notice_queue_sends_in_order_and_calls_back() {
    let stage = Stage::new(LONG);
    fs::write(stage.path("file"), "old").unwrap();
    assert_eq!(fs::read(stage.path("file")).unwrap(), b"old");
    let node = stage.replace_content("file", b"new");
    let (queue, thread) = stage.session().notice_queue().unwrap();
    let (sender, done) = channel();
    let again = sender.clone();
    let notice = Notice::InvalInode { node, offset: 0, length: 0 };
    queue.push_with(notice, move |sent| sender.send((1, sent)).unwrap()).unwrap();
    queue.push_with(Notice::IncreaseEpoch, move |sent| again.send((2, sent)).unwrap()).unwrap();
    let patience = Duration::from_secs(20);
    assert_eq!(done.recv_timeout(patience), Ok((1, Ok(()))));
    assert_eq!(fs::read(stage.path("file")).unwrap(), b"new");
    assert_eq!(done.recv_timeout(patience), Ok((2, Ok(()))));
    drop(queue);
    thread.join().unwrap();
}

#[test]
fn notice_queue_is_bounded() {
    let stage = Stage::new(LONG);
    let (queue, _thread) = stage.session().notice_queue().unwrap();
    let (sender, blocked) = channel::<()>();
    // The sending thread is blocked in a callback.
    let hold = move |_| assert!(blocked.recv().is_err(), "nothing is sent");
    queue.push_with(Notice::IncreaseEpoch, hold).unwrap();
    let notice = || Notice::ExpireEntry { parent: NodeId::ROOT, name: OsString::from("name") };
    let refused = (0..=2 * fuse::NOTICES_WAITING_MAX).find_map(|_| queue.push(notice()).err());
    assert_eq!(refused, Some(NoticeRefused::Full));
    drop(sender);
    queue.push_and_wait(notice()).unwrap();
}
