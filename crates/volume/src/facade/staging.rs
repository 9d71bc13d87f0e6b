//! Staging of records ahead of a plan that would be too large.
//!
//! For example, a completed upload of 10,000 parts has many map pages and pages of checksums. They
//! are committed in plans of their own, together with a mark that names the session. The publishing
//! plan deletes the mark. If the process is killed in between, the sweeper finds the mark and
//! deletes the records.

use content::StagedContent;
use namespace::{Assumption, Stage, Unstage, add_pack_shares, build_content, staged_inline_mark};
use record::{Content, Ino, key};
use store::{Plan, Write};
use tracing::warn;

use crate::{Volume, VolumeError};

/// Most writes that a plan which publishes a file carries in addition to its own. More are
/// committed ahead of it, in plans of their own.
const WRITES_WITH_PUBLISH: usize = 512;

/// Most bytes of writes that a plan which publishes a file carries in addition to its own. More are
/// committed ahead of it.
const BYTES_WITH_PUBLISH: usize = 512 * 1024;

/// The additional writes of a plan that publishes a file: those that it carries itself, and those
/// that were committed ahead of it because they would make it too large.
#[derive(Debug)]
pub(super) struct Staged {
    ino: Ino,
    /// The writes that were committed ahead, by plan.
    ahead: Vec<Vec<Write>>,
    /// The writes that the publishing plan carries.
    with: Vec<Write>,
}

impl Staged {
    /// Returns the writes that the publishing plan must carry.
    pub(super) fn writes(&self) -> &[Write] {
        &self.with
    }
}

impl Volume {
    /// Commits records ahead of the plan that publishes the file `ino`, if they would make that
    /// plan too large. Each of these commits guards the assumptions. The caller passes the result
    /// to the publishing plan, or to `Volume::unstage` if that plan is not committed.
    pub(super) async fn stage(
        &self,
        ino: Ino,
        assumptions: &[Assumption],
        writes: Vec<Write>,
    ) -> Result<Staged, VolumeError> {
        let chunks = chunks(&writes);
        // Most files fit into one plan, and nothing is staged.
        if chunks.len() <= 1 {
            return Ok(Staged { ino, ahead: Vec::new(), with: writes });
        }
        // The publishing plan deletes the mark. Until then the mark lets the sweeper find the
        // staged records.
        let mark = Write::Delete(key::staged(self.session.env().session, ino));
        let mut staged = Staged { ino, ahead: Vec::new(), with: vec![mark] };
        for writes in chunks {
            if let Err(error) = self.session.run(&Stage { ino, assumptions, writes }).await {
                self.unstage(staged, &error).await;
                return Err(error);
            }
            staged.ahead.push(writes.to_vec());
        }
        Ok(staged)
    }

    /// Deletes the records that were committed ahead of a plan that failed with the error `why`.
    /// Does nothing if the outcome of the plan is unknown. If a deletion fails, the sweeper deletes
    /// the rest after the session's end.
    ///
    /// The last plan is undone first. If the process is killed halfway, the remaining pages still
    /// show which parts of each pack (a block of several files) must be released.
    pub(super) async fn unstage(&self, staged: Staged, why: &VolumeError) {
        // With an unknown outcome the plan may have committed, and its records may be in use.
        if staged.ahead.is_empty() || matches!(why, VolumeError::Unknown(_)) {
            return;
        }
        for (index, writes) in staged.ahead.iter().enumerate().rev() {
            let last = index == 0;
            if let Err(error) = self.session.run(&Unstage { ino: staged.ino, writes, last }).await {
                warn!(ino = staged.ino.0, %error, "cannot delete staged records: the sweeper deletes them after the session's end");
                return;
            }
        }
    }
}

/// Returns the content of the new file `ino` with this body, and the writes that go with it: map
/// pages, share records of packs (blocks of several files), and the mark of content that is staged
/// inline (kept in the inode's record for a while).
pub(super) fn file_content(body: &StagedContent, ino: Ino) -> (Content, Vec<Write>) {
    match body.content() {
        Content::Slices(slices) => {
            let (content, mut extra_writes) = build_content(ino, slices.clone());
            extra_writes.extend(add_pack_shares(slices, ino));
            (content, extra_writes)
        }
        inline => (inline.clone(), staged_inline_mark(inline, ino).into_iter().collect()),
    }
}

/// Divides writes into plans. A change of a counter goes into the plan of the record before it,
/// which it counts.
fn chunks(writes: &[Write]) -> Vec<&[Write]> {
    let (mut chunks, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, write) in writes.iter().enumerate() {
        let size = Plan { guards: Vec::new(), writes: vec![write.clone()] }.bytes();
        let full = index - start >= WRITES_WITH_PUBLISH || bytes + size > BYTES_WITH_PUBLISH;
        if full && index > start && !matches!(write, Write::Add(..)) {
            chunks.push(&writes[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += size;
    }
    if start < writes.len() {
        chunks.push(&writes[start..]);
    }
    chunks
}
