//! The planted faults: the behaviour of a gateway that does not decide a request in one commit.

use super::asking::tag_request;
use super::*;

/// The delay between the parts of one change.
const LATE: Duration = Duration::from_millis(5);

impl Turn<'_> {
    /// Reads an object.
    pub(super) fn take(&mut self, path: &str) -> Option<Answer> {
        self.line.send(&Request::new("GET", path)).ok().filter(|answer| answer.status == 200)
    }

    /// Writes an object that was read before, without a condition.
    pub(super) fn put_back(&mut self, path: &str, before: &Answer, note: Option<Value>) -> bool {
        let old = before.header("x-amz-meta-note").to_owned();
        let note = note.map_or(old, |note| note.to_string());
        let put = Request::new("PUT", path).header("x-amz-meta-note", &note);
        let put = put.body(before.body.clone());
        std::thread::sleep(LATE);
        self.line.send(&put).is_ok_and(|answer| answer.status == 200)
    }

    /// A copy that consists of a read and a later write.
    pub(super) fn copy_by_hand(&mut self, at: usize, copying: Copying) {
        let path = self.path(at, copying.from);
        let began = self.now();
        let Some(before) = self.take(&path).filter(|before| {
            // This copy would drop tags and the `ETag` of an upload in parts, which would reveal
            // the fault too easily.
            !before.header("etag").contains('-') && before.header("x-amz-tagging-count").is_empty()
        }) else {
            return;
        };
        if self.put_back(&path, &before, copying.note) {
            let response = Response::Copied(tag(before.header("etag")));
            let operation = Operation { invocation: Invocation::Copy(copying), response };
            let ended = self.now();
            self.worker.calls.push((at, Call { operation, began, ended }));
        }
    }

    /// Adds the tags of a write in a later request.
    pub(super) fn tag_late(&mut self, path: &str, tags: Value) {
        std::thread::sleep(LATE);
        let _ = self.line.send(&tag_request(path, tags));
    }
}
