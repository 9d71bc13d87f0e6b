//! The next worker replays the changes of open files to the state that programs have seen.

use files::{HandleId, NodeStat, SetNode};
use record::{Ino, Timestamp};
use volume::{AttributeChange, SetTime};

use super::takeover::Kept;
use super::{WRITES, bytes};

impl Kept {
    /// Puts the object `o` with the content `object`, opens it and writes `O` to its beginning,
    /// which stays dirty. Returns its inode number and the handle.
    pub(super) async fn edited_object(&mut self) -> (Ino, HandleId) {
        self.bench.put("o", b"object").await;
        let ino = self.bench.files.look_up(self.bench.bucket, b"o").await.unwrap().ino;
        let handle = self.asked().open(ino, WRITES).await.unwrap().handle;
        self.asked().write(handle, 0, b"O", false, false).await.unwrap();
        (ino, handle)
    }
}

/// A change of an open file.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u64, usize),
    /// An append that clears the set-user-ID and set-group-ID bits.
    Append(usize),
    Resize(u64),
    Extend(u64),
    Set(AttributeChange),
}

/// Makes a change, as the request of a program does.
async fn make(kept: &mut Kept, (ino, handle): (Ino, HandleId), step: Step) {
    let files = kept.asked();
    match step {
        Step::Write(at, length) => {
            files.write(handle, at, &bytes(length, 1), false, false).await.unwrap();
        }
        Step::Append(length) => {
            files.write(handle, 0, &bytes(length, 2), true, true).await.unwrap();
        }
        Step::Resize(size) => {
            let size = SetNode { size: Some(size), ..SetNode::default() };
            files.set(ino, Some(handle), size).await.unwrap();
        }
        Step::Extend(end) => files.allocate(handle, end, false).await.unwrap(),
        Step::Set(attributes) => {
            let change = SetNode { attributes, size: None };
            files.set(ino, Some(handle), change).await.unwrap();
        }
    }
}

/// Returns the attributes and the content of a file as programs see them. The time of the last read
/// is left out: it does not survive a worker.
async fn seen(kept: &Kept, (ino, handle): (Ino, HandleId)) -> (NodeStat, Vec<u8>) {
    let stat = kept.bench.files.attributes(ino).await.unwrap();
    let content = kept.bench.files.read(handle, 0, 1 << 20).await.unwrap().concat();
    (NodeStat { accessed: Timestamp(0), ..stat }, content)
}

#[tokio::test]
async fn each_change_looks_the_same_after_its_replay() {
    let nothing = AttributeChange::default();
    let past = SetTime::At(Timestamp(1_000_000_007));
    let modified = |time| Step::Set(AttributeChange { modified: Some(time), ..nothing });
    let owner = AttributeChange { mode: Some(0o6755), uid: Some(5), gid: Some(6), ..nothing };
    let steps = [
        Step::Write(1_000, 5_000),
        modified(past),
        // The time of the extension replaces the time that was set.
        Step::Extend(9_000),
        Step::Set(owner),
        modified(SetTime::Now),
        Step::Append(100),
        modified(past),
        Step::Resize(3_000),
        Step::Extend(2_000),
        Step::Append(7),
        Step::Resize(20_000),
        modified(past),
    ];
    let mut kept = Kept::new().await;
    let ino = kept.bench.write("f", &bytes(4_000, 3)).await;
    let handle = kept.asked().open(ino, WRITES).await.unwrap().handle;
    for step in steps {
        make(&mut kept, (ino, handle), step).await;
        let before = seen(&kept, (ino, handle)).await;
        kept = kept.killed().await;
        assert_eq!(seen(&kept, (ino, handle)).await, before, "after {step:?}");
    }
    let (last, content) = seen(&kept, (ino, handle)).await;
    kept.bench.close(handle).await;
    let committed = kept.bench.files.attributes(ino).await.unwrap();
    let attributes = |stat: &NodeStat| (stat.mode, stat.uid, stat.gid, stat.modified, stat.size);
    assert_eq!(attributes(&committed), attributes(&last));
    assert_eq!(kept.bench.cat("f").await.unwrap(), content);
    kept.bench.check("after a worker was killed at each change").await;
    kept.check_empty();
}

#[tokio::test]
async fn extension_after_a_replay_is_committed_with_its_own_time() {
    let mut kept = Kept::new().await;
    let ino = kept.bench.write("f", b"content").await;
    let handle = kept.asked().open(ino, WRITES).await.unwrap().handle;
    let past = Timestamp(1_000_000_007);
    let modified = Some(SetTime::At(past));
    let set = Step::Set(AttributeChange { modified, ..AttributeChange::default() });
    for step in [Step::Write(0, 10), set, Step::Extend(100)] {
        make(&mut kept, (ino, handle), step).await;
    }
    let kept = kept.killed().await;
    kept.bench.close(handle).await;
    assert!(kept.bench.files.attributes(ino).await.unwrap().modified > past);
}

#[tokio::test]
async fn deleted_file_can_be_written_after_its_replay() {
    let mut kept = Kept::new().await;
    let bucket = kept.bench.bucket;
    // The record of a small object is deleted with its name.
    let (ino, handle) = kept.edited_object().await;
    kept.asked().unlink(bucket, b"o").await.unwrap();
    kept = kept.killed().await;
    assert_eq!(kept.asked().write(handle, 6, b"s", false, false).await, Ok(1));
    let (stat, content) = seen(&kept, (ino, handle)).await;
    assert_eq!((stat.links, &content[..]), (0, &b"Objects"[..]));
    kept.bench.close(handle).await;
    kept.check_empty();
}
