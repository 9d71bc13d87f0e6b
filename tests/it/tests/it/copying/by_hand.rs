//! The planted faults: what a gateway would do that does not decide everything in one commit.

use super::asking::tag_request;
use super::*;

/// How long after its bytes what belongs to them comes.
const LATE: Duration = Duration::from_millis(5);

impl Turn<'_> {
    /// An object as it is at this moment.
    pub(super) fn take(&mut self, path: &str) -> Option<Answer> {
        self.line.send(&Request::new("GET", path)).ok().filter(|answer| answer.status == 200)
    }

    /// Writes what was read before, whatever has come meanwhile.
    pub(super) fn put_back(&mut self, path: &str, before: &Answer, note: Option<Value>) -> bool {
        let old = before.header("x-amz-meta-note").to_owned();
        let note = note.map_or(old, |note| note.to_string());
        let put = Request::new("PUT", path).header("x-amz-meta-note", &note);
        let put = put.body(before.body.clone());
        std::thread::sleep(LATE);
        self.line.send(&put).is_ok_and(|answer| answer.status == 200)
    }

    /// A copy that is a read and a later write.
    pub(super) fn copy_by_hand(&mut self, at: usize, copying: Copying) {
        let path = self.path(at, copying.from);
        let began = self.now();
        let Some(before) = self.take(&path).filter(|before| {
            // Tags and the tag of parts would not survive this, and give it away too soon.
            !before.header("etag").contains('-') && before.header("x-amz-tagging-count").is_empty()
        }) else {
            return;
        };
        if self.put_back(&path, &before, copying.note) {
            let told = Told::Copied(tag(before.header("etag")));
            let deed = Asked { ask: Ask::Copy(copying), told };
            let ended = self.now();
            self.worker.calls.push((at, Call { deed, began, ended }));
        }
    }

    /// Adds the tags that a write was to bring along.
    pub(super) fn tag_late(&mut self, path: &str, tags: Value) {
        std::thread::sleep(LATE);
        let _ = self.line.send(&tag_request(path, tags));
    }
}
